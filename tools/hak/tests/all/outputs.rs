// SPDX-License-Identifier: MIT
//! Where files are written, and what happens when they cannot be.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::common::{BINARY, hak, json};
use predicates::prelude::*;
use predicates::str::contains;

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/data/bench.json")
}

/// A comparison of one allocator, so that it is short; its temporary files are in a directory that can be looked at.
fn compare(temporary: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.env_remove("LD_PRELOAD").env("TMPDIR", temporary).stdin(Stdio::null());
    command.args(["compare", "--allocators", "glibc", "--rounds", "2"]);
    command
}

fn files_in(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The writing end of a pipe that nobody reads.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A node of its own for root, who could replace that of the system if the tool were wrong.
fn full_device(directory: &Path) -> PathBuf {
    let node = directory.join("node");
    let made = Command::new("mknod").arg(&node).args(["c", "1", "7"]).stderr(Stdio::null()).status().unwrap();
    if made.success() && File::options().write(true).open(&node).is_ok() {
        return node;
    }
    let _ = fs::remove_file(&node);
    "/dev/full".into()
}

#[test]
fn a_limit_of_the_size_of_files_is_said_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 1; exec \"$0\" report \"$1\" --html \"$2\""]).arg(BINARY).arg(results());
    let output = command.arg(directory.path().join("page.html")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("page.html: File too large"), "{}", text(&output.stderr));
    assert_eq!(files_in(directory.path()), 0);
}

/// Two are enough; more come until it has ended.
fn expect_end_by_two_signals(child: &mut Child) {
    let ended = (0..200).any(|_| {
        let _ = Command::new("kill").arg(child.id().to_string()).stderr(Stdio::null()).status();
        std::thread::sleep(Duration::from_millis(20));
        child.try_wait().unwrap().is_some()
    });
    assert!(ended, "two signals did not end it");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Where one can be mounted.
#[test]
fn a_temporary_directory_without_programs_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o noexec none \"$TMPDIR\" || exit 77; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", BINARY, "compare"]);
    command.args(["--allocators", "glibc", "--", "true"]).env("TMPDIR", directory.path()).env_remove("LD_PRELOAD");
    let Ok(output) = command.output() else { return };
    let said = text(&output.stderr);
    if said.contains("unshare") || said.contains("mount:") {
        return eprintln!("skipped: {said}");
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    let named = format!("cannot start {}/hak-", directory.path().display());
    assert!(said.contains(&named) && said.contains("/launch: ") && said.contains("set TMPDIR to"), "{said}");
}

#[test]
fn devices_and_the_links_to_them_stay_and_their_errors_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let node = full_device(directory.path());
    let link = directory.path().join("link");
    symlink(&node, &link).unwrap();
    let files = files_in(directory.path());
    for (option, name) in [("--html", &node), ("--html", &link), ("--markdown", &link), ("--csv", &link)] {
        hak()
            .arg("report")
            .arg(option)
            .arg(name)
            .arg(results())
            .assert()
            .code(1)
            .stderr(contains("cannot write").and(contains("No space left on device")));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::symlink_metadata(&node).unwrap().file_type().is_char_device());
    }
    assert_eq!(files_in(directory.path()), files);
}

#[test]
fn a_fifo_is_written_once_to_whom_it_leads() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = Command::new("cat").arg(&fifo).stdout(Stdio::piped()).spawn().unwrap();
    let mut command = compare(directory.path());
    let output = command.arg("--json").arg(&fifo).args(["--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = reader.wait_with_output().unwrap().stdout;
    let results: serde_json::Value = serde_json::from_slice(&read).expect("one result file and nothing else");
    assert_eq!(results["state"], "complete");
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
}

#[test]
fn standard_output_takes_any_form_and_the_text_for_people_goes_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["-", "/dev/stdout"] {
        let output = compare(directory.path()).args(["--json", name, "--", "true"]).output().unwrap();
        let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
        assert_eq!(results["kind"], "compare");
        assert!(text(&output.stderr).contains("wall time"));
    }
    for (option, begin) in [("--html", "<!DOCTYPE html>"), ("--markdown", "<!-- Generated"), ("--csv", "family,row,")] {
        let assert = hak().args(["report", option, "-"]).arg(results()).assert().success();
        assert!(text(&assert.get_output().stdout).starts_with(begin), "{option}");
    }
    let output = compare(directory.path()).args(["--json", "-", "--csv", "-", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("only one file can be standard output"));
}

/// By whatever name: what is read would be gone, or one of two would be.
#[test]
fn an_output_takes_no_other_files_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::copy(results(), path("a.json")).unwrap();
    fs::copy(results(), path("b.json")).unwrap();
    symlink("a.json", path("link")).unwrap();
    fs::copy("/bin/true", path("program")).unwrap();
    let run = |words: &str| {
        let mut command = hak();
        command.args(words.split(' ')).current_dir(directory.path()).assert().code(2)
    };
    for words in [
        "report a.json --html a.json",
        "report b.json a.json --csv link",
        "report b.json --against a.json --markdown ./a.json",
        "compare --rounds 1 --allocators glibc --input a.json --json link -- cat",
        "compare --rounds 1 --allocators glibc --json program -- ./program",
        "explain a.json --json link",
        "replay a.json --json a.json",
        "trace -o program -- ./program",
        "profile --html program -- ./program",
    ] {
        run(words).stderr(contains("it is what is read, or run"));
    }
    let own = std::process::id();
    for words in [
        "report a.json --html new --csv new",
        "compare --rounds 1 --allocators glibc --json new --html ./new -- true",
        &format!("inspect {own} --json new --html new"),
        "profile --pprof new --svg new -- true",
    ] {
        run(words).stderr(contains("only one file can be "));
    }
    assert!(!path("new").exists());
    assert!(fs::read(path("a.json")).unwrap() == fs::read(results()).unwrap());
    assert!(fs::read(path("program")).unwrap() == fs::read("/bin/true").unwrap());
    // Nor is anything run if there is nothing to read.
    let missing = run("compare --rounds 1 --allocators glibc --input missing -- cat");
    missing.stdout("").stderr(contains("cannot read missing: No such file"));
}

#[test]
fn names_tell_the_form() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = compare(directory.path());
    for name in ["r.json", "r.html", "r.md", "r.csv"] {
        command.args(["--export", name]);
    }
    let output = command.args(["--", "true"]).current_dir(directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let begin = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    assert!(begin("r.html").starts_with("<!DOCTYPE"));
    assert!(begin("r.md").starts_with("<!-- Generated"));
    assert!(begin("r.csv").starts_with("family,row,"));
    assert_eq!(json(&directory.path().join("r.json"))["state"], "complete");
    let output = compare(directory.path()).args(["--export", "r.txt", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("has to end in .json"));
}

#[test]
fn no_directory_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("no/page.html");
    hak()
        .arg("report")
        .arg("--html")
        .arg(&missing)
        .arg(results())
        .assert()
        .code(2)
        .stderr(contains("no/page.html: No such file or directory"));
    assert_eq!(files_in(directory.path()), 0);
}

#[test]
fn output_that_nobody_reads_is_an_error_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let assert_told = |output: Output, reason: &str| {
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("cannot write standard output") && error.contains(reason), "{error}");
        assert!(!error.contains("panicked"), "{error}");
        assert_eq!(files_in(directory.path()), 0);
    };
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    for arguments in [&["peers"][..], &["--help"], &["bench", "--list"], &["--version"]] {
        let run = |stdout: Stdio| Command::new(BINARY).args(arguments).stdout(stdout).output().unwrap();
        assert_told(run(closed_pipe()), "Broken pipe");
        assert_told(run(full()), "No space left");
    }
    let run = |stdout: Stdio| compare(directory.path()).args(["--", "true"]).stdout(stdout).output().unwrap();
    assert_told(run(closed_pipe()), "Broken pipe");
    assert_told(run(full()), "No space left");
}

/// Not the same as /dev/null, to which what is not wanted goes.
#[test]
fn a_closed_standard_output_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let run = |script: &str, arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", script, BINARY]).args(arguments).env_remove("LD_PRELOAD").env("TMPDIR", directory.path());
        let output = command.output().unwrap();
        assert_eq!(files_in(directory.path()), 0);
        (output.status.code(), text(&output.stderr))
    };
    let reason = "hak: cannot write standard output: Bad file descriptor (os error 9)\n";
    let compare = ["compare", "--allocators", "glibc", "--rounds", "1", "--", "true"];
    for arguments in [&["peers"][..], &["--help"], &["help", "run"], &["--version"], &["top", "--count", "1"]] {
        assert_eq!(run("\"$0\" \"$@\" >&-", arguments), (Some(1), reason.into()), "{arguments:?}");
        assert_eq!(run("\"$0\" \"$@\" >/dev/null", arguments).0, Some(0), "{arguments:?}");
    }
    let (code, said) = run("\"$0\" \"$@\" >&-", &compare);
    assert!(code == Some(1) && said.ends_with(reason), "{code:?}: {said}");
    // What was asked for by name is looked at first, and nothing is run.
    for name in ["-", "/dev/stdout"] {
        let arguments = [&["compare", "--json", name][..], &compare[1..]].concat();
        assert_eq!(run("\"$0\" \"$@\" >&-", &arguments), (Some(2), reason.into()), "{name}");
    }
    // Where nothing is written, nothing is missing.
    assert_eq!(run("\"$0\" \"$@\" >&-", &["peers", "--nothing"]).0, Some(2));
}

#[test]
fn a_closed_error_output_does_not_stop_it() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let mut command = compare(directory.path());
    command.arg("--html").arg(&page).args(["--", "true"]).stdout(Stdio::piped()).stderr(closed_pipe());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("wall time"));
    assert_eq!(files_in(directory.path()), 1, "only the page");
}

/// It waits for somebody to read the FIFO, which no first signal ends.
#[test]
fn an_end_at_once_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut command = compare(temporary.path());
    command.arg("--html").arg(&fifo).args(["--", "true"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line.contains("wall time")));
    assert_eq!(files_in(temporary.path()), 0, "what the runs needed is gone before the files are written");
    expect_end_by_two_signals(&mut child);
    assert_eq!(files_in(directory.path()), 1);
}

/// A shell command of the user's that does not mind Ctrl-C holds it up, in the middle of the runs.
#[test]
fn an_end_at_once_ends_what_runs_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let temporary = tempfile::tempdir().unwrap();
    let prepare = format!("trap '' TERM INT; echo $$ > {0}.new; mv {0}.new {0}; sleep 60", ready.display());
    let mut child = compare(temporary.path()).args(["--prepare", &prepare, "--", "true"]).spawn().unwrap();
    while !ready.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(files_in(temporary.path()), 1);
    expect_end_by_two_signals(&mut child);
    assert_eq!(files_in(temporary.path()), 0);
    let mut pid = String::new();
    File::open(&ready).unwrap().read_to_string(&mut pid).unwrap();
    let gone = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    });
    assert!(gone, "the shell command is still there");
}
