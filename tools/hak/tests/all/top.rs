// SPDX-License-Identifier: MIT
//! `hak top` without a screen: its figures are those that the process has of itself.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::heaps::{NOBODY, Running, heap_program, preloaded};
use crate::common::{BINARY, cc, hak, interrupt, library};
use predicates::str::contains;
use serde_json::Value;

fn quiet(directory: &Path) -> (Running, Value) {
    let program = heap_program(directory, &["-ldl"]);
    let mut command = preloaded(&program, &library(), "quiet");
    let mut running = Running::start(command.env("HAKMEM_SOFT_LIMIT", "1G"));
    let inside = running.json();
    (running, inside)
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The line that begins with these words, behind some line.
fn row<'a>(text: &'a str, start: &[&str]) -> Vec<&'a str> {
    let found = text.lines().map(words).find(|words| words.starts_with(start));
    found.unwrap_or_else(|| panic!("no {start:?}:\n{text}"))
}

fn mib(inside: &Value, name: &str) -> String {
    format!("{:.2}", inside[name].as_f64().unwrap() / f64::from(1 << 20))
}

fn printed(arguments: &[&str]) -> String {
    let output = hak().arg("top").args(arguments).env_remove("COLUMNS").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stderr, b"");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_process_is_shown_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let (mut running, inside) = quiet(directory.path());
    let text = printed(&[&running.pid(), "--batch", "--count", "2", "--every", "50ms"]);
    let blocks: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(blocks.len(), 2, "{text}");
    for block in &blocks {
        assert!(block.starts_with(&format!("process {}, heap_program, under hakmem ", running.pid())), "{block}");
        for (name, resident, mapped) in [
            ("live", "resident_live", "live"),
            ("cached", "resident_cached", "cached"),
            ("outboxes", "resident_outboxes", "outboxes"),
            ("dirty", "resident_dirty", "dirty_free"),
            ("metadata", "resident_metadata", "metadata"),
        ] {
            assert_eq!(row(block, &[name])[1..3], [mib(&inside, resident), mib(&inside, mapped)], "{name}");
        }
        assert_eq!(row(block, &["in", "all"])[2..4], [mib(&inside, "resident"), mib(&inside, "mapped")]);
        assert_eq!(row(block, &["soft"])[1..3], ["1024.00".to_owned(), mib(&inside, "charged")]);
        for class in inside["classes"].as_array().unwrap().iter().filter(|class| class["slab_count"] != 0) {
            let figure = |name: &str| class[name].as_u64().unwrap();
            let all = ["live_count", "cached_count", "outbox_count", "free_count"].map(figure).iter().sum::<u64>();
            let share = format!("{:.1}", figure("live_count") as f64 * 100.0 / all as f64);
            let block_bytes = figure("block_bytes").to_string();
            let expected = [figure("slab_count").to_string(), figure("live_count").to_string(), share];
            assert_eq!(row(block, &[&block_bytes])[1..4], expected, "{block}");
        }
        for name in ["worker 0 (", "worker 1 (", "worker 2 (", "heap_program ("] {
            assert!(block.lines().any(|line| line.trim_start().starts_with(name)), "{name}: {block}");
        }
    }
    // What was given back: in all, and in a second since the look before.
    assert_eq!(row(blocks[0], &["purged_trimmed"])[1..3], ["-".to_owned(), mib(&inside, "purged_trimmed")]);
    assert_eq!(row(blocks[1], &["purged_trimmed"])[1..3], ["0.00".to_owned(), mib(&inside, "purged_trimmed")]);
    running.go_on();
    let inside = running.json();
    let text = printed(&[&running.pid(), "--batch", "--count", "1"]);
    assert!(inside["purged_trimmed"].as_u64().unwrap() > 1 << 20);
    assert_eq!(row(&text, &["purged_trimmed"])[2], mib(&inside, "purged_trimmed"));
}

/// Until it has given more back, which the next looks show as a rate.
#[test]
fn rates_are_of_what_has_happened_in_between() {
    let directory = tempfile::tempdir().unwrap();
    let (mut running, _) = quiet(directory.path());
    let mut top = watching(&[&running.pid(), "--every", "50ms"]);
    let mut rates = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
    let is_trimmed = |line: &String| words(line).first() == Some(&"purged_trimmed");
    assert!(rates.by_ref().filter(is_trimmed).nth(1).is_some());
    running.go_on();
    let more = rates.by_ref().filter(is_trimmed).find(|line| words(line)[1] != "0.00").unwrap();
    assert!(words(&more)[1].parse::<f64>().unwrap() > 0.0, "{more}");
    top.kill().unwrap();
    top.wait().unwrap();
}

#[test]
fn all_processes_are_listed_the_largest_first() {
    let directory = tempfile::tempdir().unwrap();
    let (small, inside) = quiet(directory.path());
    let (mut large, _) = quiet(directory.path());
    large.go_on();
    let larger = large.json();
    assert!(larger["resident"].as_u64() > inside["resident"].as_u64());
    let text = printed(&["--batch", "--count", "1"]);
    for (running, inside) in [(&small, &inside), (&large, &larger)] {
        let row = row(&text, &[&running.pid()]);
        let one_digit = |name: &str| format!("{:.1}", inside[name].as_f64().unwrap() / f64::from(1 << 20));
        assert_eq!(row[1..3], [one_digit("resident"), one_digit("resident_live")], "{text}");
        let figure = |name: &str| inside[name].as_f64().unwrap();
        assert_eq!(row[3], format!("{:.1}", figure("resident_live") * 100.0 / figure("resident")));
        let kept = figure("resident") - figure("resident_live");
        assert_eq!(row[4..6], [format!("{:.1}", kept / f64::from(1 << 20)), one_digit("mapped")], "{text}");
        assert_eq!(row[6..], ["-", "4", "heap_program"]);
    }
    let place = |pid: &str| text.lines().position(|line| words(line).first() == Some(&pid)).unwrap();
    assert!(place(&large.pid()) < place(&small.pid()), "{text}");
    assert!(!text.lines().any(|line| words(line).first() == Some(&std::process::id().to_string().as_str())), "{text}");
}

/// Which takes some looks, as it is the same process with the same program.
#[test]
fn a_program_that_loads_hakmem_late_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let source = "#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(int argc, char **argv) {\n\
                  puts(\"ready\"), fflush(stdout), getchar();\nvoid *it = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);\n\
                  void *(*get)(size_t) = (void *(*)(size_t))dlsym(it, \"hak_malloc\");\n\
                  if (get == NULL || get(10) == NULL) return 9;\nputs(\"loaded\"), fflush(stdout);\n\
                  return getchar() != EOF;\n}\n";
    cc(&program, source, &["-ldl"]);
    let mut running = Running::start(Command::new(&program).arg(library()));
    assert_eq!(running.line(), "ready\n");
    let mut top = watching(&["--every", "20ms"]);
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("under hakmem")));
    running.go_on();
    assert_eq!(running.line(), "loaded\n");
    let pid = running.pid();
    // What was read before that may still be in the pipe; more looks than these are not needed.
    assert!(lines.take(100_000).any(|line| words(&line).first() == Some(&pid.as_str())));
    top.kill().unwrap();
    top.wait().unwrap();
}

/// One that becomes another program, and one that comes and goes.
#[test]
fn the_list_follows_what_happens() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo ready; read line; exec env LD_PRELOAD=$LIBRARY HAKMEM_INT=off $PROGRAM quiet"]);
    let mut running = Running::start(shell.env("LIBRARY", library()).env("PROGRAM", program));
    assert_eq!(running.line(), "ready\n");
    let mut top = watching(&["--every", "50ms"]);
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pid = running.pid();
    let mut is_in_next_block = || {
        let block: Vec<String> =
            lines.by_ref().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty()).collect();
        assert!(!block.is_empty());
        block.iter().any(|line| words(line).first() == Some(&pid.as_str()))
    };
    assert!(!is_in_next_block());
    running.go_on();
    running.json();
    // What was read before that may still be in the pipe.
    while !is_in_next_block() {}
    drop(running);
    while is_in_next_block() {}
    top.kill().unwrap();
    top.wait().unwrap();
}

fn watching(arguments: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.arg("top").args(arguments).env_remove("LD_PRELOAD");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn it_ends_with_the_process_and_by_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    for interrupted in [false, true] {
        let (running, _) = quiet(directory.path());
        let pid = running.pid();
        let mut top = watching(&[&pid, "--every", "20ms"]);
        let mut lines = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
        for _ in 0..2 {
            assert!(lines.any(|line| line.starts_with("process ")));
        }
        let running = if interrupted {
            interrupt(&top);
            Some(running)
        } else {
            drop(running);
            None
        };
        let _ = lines.count();
        let output = top.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        if interrupted {
            assert_eq!((output.status.code(), said.as_str()), (Some(130), ""));
        } else {
            assert_eq!(output.status.code(), Some(1));
            assert!(said.contains(&format!("process {pid} has ended")), "{said}");
        }
        drop(running);
    }
}

#[test]
fn what_cannot_be_looked_at_is_named() {
    let refused = |arguments: &[&str], code: i32, reason: &str| {
        hak().arg("top").args(arguments).assert().code(code).stdout("").stderr(contains(reason.to_owned()));
    };
    refused(&["0"], 2, "invalid value");
    refused(&["x"], 2, "invalid value");
    refused(&["4194305"], 2, "there is no process 4194305");
    refused(&[&std::process::id().to_string()], 2, "does not run under hakmem");
    refused(&["--every", "0s"], 2, "--every");
    refused(&["--every", "1"], 2, "--every");
    refused(&["--count", "0"], 2, "--count");

    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let source = "#include <stdio.h>\nconst struct { char mark[16]; const void *self; unsigned layout, root, field, \
                  groups; char version[16]; } hak_inspect_root = {\"hakmem's tables\", &hak_inspect_root, 99, 56, 56, \
                  0, \"9.8.7\"};\nint main(void) { puts(\"ready\"); fflush(stdout); return getchar() != EOF; }\n";
    cc(&program, source, &["-rdynamic"]);
    let mut other = Running::start(&mut Command::new(&program));
    assert_eq!(other.line(), "ready\n");
    refused(&[&other.pid()], 2, "whose tables have layout 99, and this hak reads layout 1");
    let listed = printed(&["--count", "1"]);
    let joined = listed.replace('\n', " ");
    assert!(
        joined.contains("process under a hakmem that this hak does not know") || joined.contains("processes under a")
    );
    assert!(!listed.lines().any(|line| words(line).first() == Some(&other.pid().as_str())), "{listed}");

    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(BINARY).arg("top").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left on device"));
}

#[test]
fn who_may_not_read_a_process_is_told() {
    // SAFETY: it has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        hak().args(["top", "1"]).assert().code(1).stderr(contains("cannot be read"));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (running, _) = quiet(directory.path());
    let as_nobody = |arguments: &[&str]| {
        let output = Command::new(BINARY).arg("top").args(arguments).uid(NOBODY).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), text.concat().replace('\n', " "))
    };
    let (code, said) = as_nobody(&[&running.pid()]);
    assert_eq!(code, Some(1));
    assert!(said.contains("cannot be read") && said.contains("root"), "{said}");
    let (code, said) = as_nobody(&["--count", "1"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("processes may not be read") && !said.contains("heap_program"), "{said}");
}
