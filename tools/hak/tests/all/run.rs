// SPDX-License-Identifier: MIT
//! `hak run`: what it starts, and how that ends.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{BINARY, cc, hak, library, write_script};
use predicates::prelude::*;
use predicates::str::contains;

#[test]
fn the_program_runs_under_hakmem_with_its_arguments_and_exit_code() {
    hak()
        .args(["run", "--env", "NAME=a=b", "--library"])
        .arg(library())
        .args([
            "--",
            "sh",
            "-c",
            "echo \"$LD_PRELOAD $NAME $1\"; grep -c libhakmem /proc/$$/maps; exit 7",
            "sh",
            "--stats",
        ])
        .assert()
        .code(7)
        .stdout(contains(format!("{} a=b --stats", library().display())).and(contains("\n0").not()));
}

/// The dynamic linker would look for another file.
#[test]
fn a_path_that_is_expanded_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let odd = directory.path().join("a$LIB");
    fs::create_dir(&odd).unwrap();
    let copy = odd.join("libhakmem.so");
    fs::copy(library(), &copy).unwrap();
    let refused = hak().args(["run", "--library"]).arg(&copy).args(["--", "true"]).assert().code(2);
    refused.stderr(contains("a path with a space, a colon or a $ cannot be preloaded"));
    let mut command = hak();
    command.args(["compare", "--allocators", "glibc", "--", "true"]).env("TMPDIR", &odd);
    command.assert().code(2).stderr(contains("cannot be preloaded; set TMPDIR to a path without space, colon and $"));
}

#[test]
fn statistics_that_could_not_be_written_are_said_to_be() {
    let mut command = hak();
    command.args(["run", "--stats", "--library"]).arg(library());
    command.args(["--", "sh", "-c", "rm -r \"${HAKMEM_STATS_FILE%/*}\""]);
    command.assert().success().stderr(contains("left no statistics").and(contains("or could not write its file (see")));
}

#[test]
fn a_variable_may_have_any_bytes() {
    let mut command = hak();
    command.args(["run", "--library"]).arg(library()).arg("--env").arg(OsStr::from_bytes(b"A=\xff=b"));
    command.args(["--", "sh", "-c", "printf %s \"$A\" | od -An -tx1"]).assert().success().stdout(" ff 3d 62\n");
}

/// What is looked at is what is started.
#[test]
fn the_program_is_looked_for_along_its_own_path() {
    let directory = tempfile::tempdir().unwrap();
    let run = |path: &str, name: &str| {
        let mut command = hak();
        command.args(["run", "--env", &format!("PATH={path}"), "--library"]).arg(library()).args(["--", name]).assert()
    };
    let own = directory.path().to_str().unwrap();
    write_script(&directory.path().join("its-name"), "#!/bin/sh\necho \"$LD_PRELOAD\"\n");
    run(own, "its-name").success().stdout(contains("libhakmem"));
    run(own, "ls").code(127).stderr("hak: no such program: ls\n");
    run(own, "").code(127).stderr("hak: the name of the program is empty\n");
    cc(&directory.path().join("ls"), "int main(void) { return 0; }", &["-static"]);
    run(&format!("{own}:/bin"), "ls").code(126).stderr(contains("ls: it is statically linked"));
    write_script(&directory.path().join("by-env"), "#!/usr/bin/env ls\n");
    run(own, "by-env").code(126).stderr(contains("it is statically linked"));
    // Without one, where execvp looks.
    let mut command = hak();
    command.env_remove("PATH").args(["run", "--library"]).arg(library()).args(["--", "true"]).assert().success();
}

/// The kernel takes neither for a script, and execvp then lets the shell read the first; the other it does not find.
#[test]
fn a_first_line_without_an_interpreter_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    let run = |text: &str| {
        write_script(&script, text);
        hak().args(["run", "--library"]).arg(library()).arg("--").arg(&script).assert()
    };
    run("#! \t\necho \"$LD_PRELOAD\"\n").success().stdout(contains("libhakmem"));
    run("#!/bin/sh\r\necho\n").code(126).stderr(contains("its interpreter /bin/sh? is missing"));
}

#[test]
fn no_process_stays_between() {
    let output = Command::new(BINARY)
        .args(["run", "--library"])
        .arg(library())
        .args(["--", "sh", "-c", "echo $PPID"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), std::process::id().to_string());
}

#[test]
fn a_preload_of_the_user_stays_behind() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("own.so");
    cc(&own, "int its_own;", &["-shared", "-fPIC"]);
    let another = library().with_file_name("libhakmem.so.0");
    let (all, own) = (format!("{} {}", another.display(), own.display()), own.display());
    let preloaded = |words: &[&str]| {
        let mut command = hak();
        command.env("LD_PRELOAD", &all).args(words).arg("--library").arg(library());
        command.args(["--", "sh", "-c", "echo $LD_PRELOAD"]).assert().success()
    };
    preloaded(&["run"]).stdout(format!("{}:{own}\n", library().display()));
    preloaded(&["run", "--env", &format!("LD_PRELOAD={all}")]).stdout(format!("{}:{own}\n", library().display()));
    // In front of both is what records.
    let trace = directory.path().join("trace");
    let traced = preloaded(&["trace", "--output", trace.to_str().unwrap()]);
    traced.stdout(contains(format!("/trace.so:{}:{own}\n", library().display())));
}

/// It would be taken for what the program brings along.
#[test]
fn what_is_compared_is_without_the_sessions_hakmem() {
    let mut command = hak();
    command.env("LD_PRELOAD", library()).args(["compare", "--rounds", "1", "--allocators", "glibc", "--", "true"]);
    command.assert().success().stdout(contains("glibc").and(contains("as shipped").not()));
}

/// ls closes its standard error before it ends, and the shell there has no part in the report.
#[test]
fn statistics_are_shown_even_of_programs_that_close_their_error_output() {
    hak()
        .args(["run", "--stats", "--library"])
        .arg(library())
        .args(["--", "ls", "/"])
        .assert()
        .success()
        .stdout(contains("proc"))
        .stderr(contains("hakmem ").and(contains("committed")).and(contains("refills")));
}

/// A figure that is new in the library is in neither list.
#[test]
fn every_figure_is_shown_as_bytes_or_as_the_count_that_it_is() {
    const COUNTS: &str = "slab_count heap_count heap_pooled_count refills flushes remote_frees adoptions errors
        mmap_calls munmap_calls madvise_calls mremap_calls refused_purges refused_membarriers refused_threads";
    const BYTES: &str = "reserved committed dirty_free clean_free metadata slab_bytes large_bytes huge_bytes live cached
        outboxes free_in_slabs slab_tails peak_in_use purged_aged purged_strained purged_idle purged_trimmed purged_limited
        flushed_unused flushed_stripped flushed_ended hard_limit soft_limit container_limit charged mapped returned
        resident resident_live resident_cached resident_outboxes resident_free_in_slabs resident_slab_tails
        resident_dirty resident_huge_page_slack resident_metadata";
    let mut command = hak();
    command.args(["run", "--stats", "--library"]).arg(library()).args(["--", "true"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let with = |wanted: bool| {
        let figures = said.lines().filter(|line| line.starts_with("  ") && line.ends_with(" KiB") == wanted);
        figures.map(|line| line.split_whitespace().next().unwrap()).collect::<BTreeSet<_>>()
    };
    assert_eq!(with(false), COUNTS.split_whitespace().collect());
    assert_eq!(with(true), BYTES.split_whitespace().collect());
}

#[test]
fn statistics_keep_the_exit_code_and_say_when_there_are_none() {
    hak().args(["run", "--stats", "--library"]).arg(library()).args(["--", "sh", "-c", "exit 9"]).assert().code(9);
    let output = Command::new(BINARY)
        .args(["run", "--stats", "--library"])
        .arg(library())
        .args(["--", "sh", "-c", "kill -KILL $$"])
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(9));
    assert!(String::from_utf8_lossy(&output.stderr).contains("left no statistics (killed by signal 9"));
}

/// `env` makes sure that the signals are not ignored, as they are in the background of a script.
fn run_with_signals(option: &str, script: &str) -> Command {
    let mut command = Command::new("env");
    command
        .arg(option)
        .arg(BINARY)
        .args(["run", "--stats", "--library"])
        .arg(library())
        .args(["--", "sh", "-c", script]);
    command.env_remove("LD_PRELOAD").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

fn wait_for(file: &Path) {
    while !file.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn signals_reach_a_program_that_is_waited_for() {
    for signal in ["INT", "QUIT", "TERM", "HUP", "USR1"] {
        let directory = tempfile::tempdir().unwrap();
        let ready = directory.path().join("ready");
        let script =
            format!("trap 'echo caught; exit 5' {signal}; : > {}; while :; do sleep 0.05; done", ready.display());
        let child = run_with_signals("--default-signal", &script).spawn().unwrap();
        wait_for(&ready);
        send(&format!("-{signal}"), child.id());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(5), &b"caught\n"[..]), "{signal}");
    }
}

/// The terminal sends its signals to all of the group in its foreground. So this program, which leaves that group,
/// gets none, as it would get none without hak.
#[test]
fn keys_of_the_terminal_are_not_handed_on() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let perl = "$| = 1; setpgrp 0, 0; $SIG{INT} = sub { print qq(caught\\n) }; print qq(ready\\n);
                select undef, undef, undef, 0.1 for 1..5; print qq(end\\n)";
    fs::write(&program, perl).unwrap();
    let hak = format!("{BINARY} run --stats --library {}", library().display());
    // The shell gets the key's signal as well, and says itself how hak ended: script(1) is asked for nothing.
    let command = format!("trap : INT; {hak} -- perl {}; echo status $?", program.display());
    let mut terminal = Command::new("script");
    terminal.args(["-qc", &command, "/dev/null"]).env_remove("LD_PRELOAD").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = terminal.spawn().unwrap();
    let mut keys = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("ready")));
    keys.write_all(b"\x03").unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(!rest.iter().any(|line| line.contains("caught")), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("end")), "{rest:?}");
    drop(keys);
    child.wait().unwrap();
    assert!(rest.iter().any(|line| line.contains("status 0")), "{rest:?}");
}

#[test]
fn a_signal_that_the_program_does_not_catch_ends_both() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let script = format!(": > {}; exec sleep 60", ready.display());
    let child = run_with_signals("--default-signal", &script).spawn().unwrap();
    wait_for(&ready);
    send("-QUIT", child.id());
    assert_eq!(child.wait_with_output().unwrap().status.signal(), Some(3));
}

#[test]
fn what_a_killed_one_has_left_the_next_one_removes() {
    let directory = tempfile::tempdir().unwrap();
    let (ready, temporary) = (directory.path().join("ready"), directory.path().join("temporary"));
    fs::create_dir(&temporary).unwrap();
    let script = format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 60", ready.display());
    let mut command = run_with_signals("--default-signal", &script);
    let mut child = command.env("TMPDIR", &temporary).spawn().unwrap();
    wait_for(&ready);
    let left = || fs::read_dir(&temporary).unwrap().count();
    let next = || {
        let mut command = hak();
        command.args(["run", "--stats", "--library"]).arg(library()).args(["--", "true"]).env("TMPDIR", &temporary);
        command.assert().success().stderr(contains("committed"));
    };
    next();
    assert_eq!(left(), 1, "what is in use stays");
    child.kill().unwrap();
    child.wait().unwrap();
    send("-KILL", fs::read_to_string(&ready).unwrap().trim().parse().unwrap());
    assert_eq!(left(), 1);
    next();
    assert_eq!(left(), 0);
}

#[test]
fn what_is_ignored_stays_ignored() {
    const HUP: u64 = 1;
    const PIPE: u64 = 1 << 12;
    const CHLD: u64 = 1 << 16;
    let ignored = |mut command: Command| {
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        u64::from_str_radix(text.trim().split_once('\t').unwrap().1, 16).unwrap() & (HUP | PIPE | CHLD)
    };
    let grep = ["grep", "SigIgn:", "/proc/self/status"];
    // hak ignores SIGPIPE, and its programs should not, unless they would without it.
    for (option, expected) in [("HUP", HUP), ("PIPE", PIPE), ("CHLD", CHLD), ("HUP,PIPE,CHLD", HUP | PIPE | CHLD)] {
        let option = format!("--ignore-signal={option}");
        for waits in [&[][..], &["--stats"]] {
            let mut command = Command::new("env");
            command
                .arg(&option)
                .arg(BINARY)
                .arg("run")
                .args(waits)
                .arg("--library")
                .arg(library())
                .arg("--")
                .args(grep);
            command.env_remove("LD_PRELOAD");
            assert_eq!(ignored(command), expected, "{option} {waits:?}");
        }
    }
}

/// Else nobody could be waited for.
#[test]
fn programs_are_compared_where_the_ends_of_children_are_ignored() {
    let mut command = Command::new("env");
    command.args(["--ignore-signal=CHLD", BINARY, "compare", "--allocators", "glibc", "--rounds", "1", "--", "true"]);
    let output = command.env_remove("LD_PRELOAD").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A program that ends at once and goes on in a session of its own, until `end` is there or the directory is gone.
fn daemon(directory: &Path) -> String {
    let file = |name: &str| directory.join(name).display().to_string();
    let (started, end) = (file("started"), file("end"));
    let perl = format!(
        "open F, q(>), q({started}); close F; select undef, undef, undef, 0.01 until -e q({end}) or not -e q({started})"
    );
    format!(
        "setsid perl -e '{perl}' </dev/null >/dev/null 2>&1 & while ! test -e {started}; do sleep 0.01; done; exit 3"
    )
}

#[test]
fn statistics_of_a_program_that_goes_on_in_the_background_arrive() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = run_with_signals("--default-signal", &daemon(directory.path())).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let waiting = lines.find(|line| line.contains("waiting for what it left running")).unwrap();
    let (_, pid) = waiting.trim_end_matches(" (perl)").rsplit_once(' ').unwrap();
    fs::write(directory.path().join("end"), "").unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.ends_with(&format!(", process {pid}"))), "{waiting}: {rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn the_wait_for_the_background_can_be_ended() {
    let directory = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let mut command = run_with_signals("--default-signal", &daemon(directory.path()));
    let mut child = command.env("TMPDIR", temporary.path()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("waiting for what it left running")));
    send("-INT", child.id());
    assert!(
        lines.any(|line| line.contains("not waited for any longer, without statistics") && line.contains("(perl)"))
    );
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    fs::write(directory.path().join("end"), "").unwrap();
}

/// Also one without symbols, and one without a dynamic linker.
#[test]
fn a_program_that_is_linked_with_hakmem_runs_as_it_is() {
    let archive = library().with_file_name("libhakmem.a");
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n  void *volatile block = malloc(100);\n  \
                  free(block);\n  puts(getenv(\"LD_PRELOAD\") ? \"preloaded\" : \"alone\");\n  return 4;\n}\n";
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    for flags in [&[][..], &["-s"], &["-static"], &["-static", "-s"]] {
        let archive = archive.to_str().unwrap();
        cc(&program, source, &[&[archive, "-pthread"], flags].concat());
        hak()
            .args(["run", "--stats", "--library"])
            .arg(library())
            .arg("--")
            .arg(&program)
            .assert()
            .code(4)
            .stdout("alone\n")
            .stderr(contains("refills").and(contains("left no statistics").not()));
        hak()
            .args(["compare", "--ignore-failure", "--rounds", "1", "--allocators", "glibc", "--"])
            .arg(&program)
            .assert()
            .code(1)
            .stdout(contains("is linked with libhakmem.a").and(contains(" as shipped")));
    }
}

#[test]
fn the_library_is_found_beside_the_program_and_where_it_is_installed() {
    for place in
        ["bin/libhakmem.so", "lib/libhakmem.so", &format!("lib/{}-linux-gnu/libhakmem.so", std::env::consts::ARCH)]
    {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (program, copy) = (root.join("bin/hak"), root.join(place));
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(BINARY, &program).unwrap();
        fs::copy(library(), &copy).unwrap();
        assert_cmd::Command::new(program)
            .args(["run", "--", "sh", "-c", "echo $LD_PRELOAD"])
            .assert()
            .success()
            .stdout(contains(copy.display().to_string()));
    }
}

#[test]
fn bad_input_is_named() {
    let run = |arguments: &[&str]| {
        let mut command = hak();
        command.arg("run").args(arguments);
        command.assert()
    };
    let lib = library();
    let lib = lib.to_str().unwrap();
    run(&["--library", lib, "--", "no-such-program"]).code(127).stderr(contains("no such program: no-such-program"));
    let folder = tempfile::tempdir().unwrap();
    let circle = folder.path().join("circle");
    symlink("circle", &circle).unwrap();
    run(&["--library", lib, "--", circle.to_str().unwrap()])
        .code(126)
        .stderr(contains("Too many levels of symbolic links"));
    run(&["--library", lib, "--", "/etc/passwd/x"]).code(127).stderr(contains("no such program: /etc/passwd/x"));
    run(&["--library", lib, "--", "/etc/passwd"]).code(126).stderr(contains("not executable"));
    run(&["--library", lib, "--", "/etc"]).code(126).stderr(contains("is a directory"));
    run(&["--library", "/no/lib.so", "--", "true"]).code(2).stderr(contains("/no/lib.so"));
    run(&["--library", "/etc/passwd", "--", "true"]).code(2).stderr(contains("not a shared library"));
    run(&["--library", "/proc/self/exe", "--", "true"]).code(2).stderr(contains("is not hakmem"));
    run(&["--env", "NAME", "--", "true"]).code(2).stderr(contains("NAME=VALUE"));
    run(&[]).code(2).stderr(contains("CMD"));
    hak().args(["help", "run", "--help"]).assert().success().stdout(contains("Runs a program under hakmem"));
    hak().args(["help", "-h"]).assert().success().stdout(contains("Usage: hak <COMMAND>"));
    hak()
        .env("HAKMEM_STATS_FILE", "x")
        .args(["run", "--stats", "--library", lib, "--", "true"])
        .assert()
        .code(2)
        .stderr(contains("HAKMEM_STATS_FILE"));
}
