// SPDX-License-Identifier: MIT
//! `hak compare`: what counts, what fails, what is kept.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{
    BINARY, assert_self_contained, cc, column, hak, hakmem, interrupt, json, samples, strace_works, write_script,
};
use assert_cmd::assert::Assert;
use predicates::prelude::*;
use predicates::str::contains;

/// Compares glibc, hakmem, and a library made of `source`, on a program that prints and allocates.
fn with_fake(directory: &Path, source: &str, options: &[&str]) -> (Assert, serde_json::Value) {
    let fake = directory.join("fake.so");
    cc(&fake, source, &["-shared", "-fPIC"]);
    let results = directory.join("results.json");
    let assert = hak()
        .args(["compare", "--rounds", "2", "--allocators", "glibc,hakmem", "--allocator"])
        .arg(hakmem())
        .arg("--allocator")
        .arg(format!("fake={}", fake.display()))
        .arg("--json")
        .arg(&results)
        .args(options)
        .args(["--", "ls", "/proc/self/fd/0"])
        .assert();
    let results = json(&results);
    for allocator in ["glibc", "hakmem"] {
        assert_eq!(samples(column(&results, allocator)), 2, "{allocator} was measured");
        assert!(column(&results, allocator)["proof"]["answered_by"].is_string());
    }
    assert_eq!(samples(column(&results, "fake")), 0);
    (assert, results)
}

#[test]
fn a_library_that_serves_nothing_is_not_measured() {
    let directory = tempfile::tempdir().unwrap();
    let (assert, results) = with_fake(directory.path(), "int fake;", &[]);
    let reason = column(&results, "fake")["failure"].as_str().unwrap().to_owned();
    assert!(reason.contains("not proven: malloc of") && reason.contains("libc.so.6"), "{reason}");
    assert.code(1).stdout(contains("FAILED: not proven"));
}

/// It forwards to the C library, so that everything works but nothing is its own.
#[test]
fn a_library_that_only_serves_malloc_is_not_measured() {
    let directory = tempfile::tempdir().unwrap();
    let source =
        "#include <stddef.h>\nvoid *__libc_malloc(size_t); void *malloc(size_t n) { return __libc_malloc(n); }";
    let (assert, results) = with_fake(directory.path(), source, &[]);
    let reason = column(&results, "fake")["failure"].as_str().unwrap().to_owned();
    assert!(reason.contains("not proven: free of"), "{reason}");
    assert.code(1);
}

#[test]
fn a_program_may_have_any_name() {
    let directory = tempfile::tempdir().unwrap();
    for name in [&b"a b"[..], b"a\nb\tmalloc=c", b"a\xff\x1b[2J;\"'"] {
        let program = directory.path().join(OsStr::from_bytes(name));
        fs::copy("/bin/true", &program).unwrap();
        let mut command = hak();
        command.args(["compare", "--rounds", "1", "--allocators", "glibc,hakmem", "--allocator"]).arg(hakmem());
        command.arg("--").arg(&program).assert().success().stdout(contains("\x1b").not());
    }
}

#[test]
fn a_crash_under_one_allocator_is_its_failure_alone() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\n__attribute__((constructor)) static void start(void) { abort(); }";
    let (assert, _) = with_fake(directory.path(), source, &[]);
    assert.code(1).stdout(contains("FAILED: killed by signal 6 (SIGABRT)"));
}

#[test]
fn exit_codes_have_to_be_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <unistd.h>\n__attribute__((constructor)) static void start(void) { _exit(3); }";
    let (assert, _) = with_fake(directory.path(), source, &[]);
    assert.code(1).stdout(contains("exit code 3, but exit code 0 under glibc"));
}

#[test]
fn outputs_have_to_be_the_same_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let source =
        "#include <unistd.h>\n__attribute__((constructor)) static void start(void) { (void)!write(1, \"x\", 1); }";
    let (assert, _) = with_fake(directory.path(), source, &["--same-output"]);
    assert.code(1).stdout(contains("standard output is not the same as under glibc"));
}

#[test]
fn a_comparison_shows_all_figures_and_writes_them() {
    let directory = tempfile::tempdir().unwrap();
    let (results, page) = (directory.path().join("r.json"), directory.path().join("r.html"));
    let input = directory.path().join("input");
    fs::write(&input, "some text\n").unwrap();
    let assert = hak()
        .args(["compare", "--rounds", "4", "--same-output", "--allocators", "glibc,hakmem", "--allocator"])
        .arg(hakmem())
        .arg("--input")
        .arg(&input)
        .arg("--json")
        .arg(&results)
        .arg("--html")
        .arg(&page)
        .args([
            "--",
            "perl",
            "-e",
            "die unless <STDIN> eq \"some text\\n\"; my @a = map { \"x$_\" } 1..20000; print \"done\"",
        ])
        .assert()
        .success();
    for part in [
        "Against glibc",
        "wall time",
        "processor time",
        "user time",
        "peak memory",
        "minor page faults",
        "noise",
        "refills",
        "perl -e 'die",
    ] {
        let out = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        assert!(out.contains(part), "{part} is missing in {out}");
    }
    let page = fs::read_to_string(page).unwrap();
    assert_self_contained(&page);
    assert!(page.matches("<svg").count() >= 3 && page.matches("class=\"bars\"").count() == 4);

    let results = json(&results);
    assert_eq!(results["state"], "complete");
    for allocator in ["glibc", "hakmem"] {
        let column = column(&results, allocator);
        assert_eq!(samples(column), 4);
        let calls = &column["system_calls"];
        let without_strace = which::which("strace").is_err();
        assert!(without_strace || calls["counted"]["mmap"].as_u64().unwrap() > 0, "{calls}");
    }
}

#[test]
fn a_small_program_has_a_small_peak() {
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().join("r.json");
    hak()
        .args(["compare", "--rounds", "1", "--allocators", "glibc", "--json"])
        .arg(&results)
        .args(["--", "true"])
        .assert()
        .success();
    let results = json(&results);
    let peak = column(&results, "glibc")["samples"][0]["usage"]["peak_kib"].as_u64().unwrap();
    assert!(peak < 4096, "{peak} KiB");
}

/// Only if the user wants that. Then exit codes may even differ.
#[test]
fn a_program_that_does_not_succeed_is_not_measured() {
    let compare = |option: &[&str], script: &str| {
        let mut command = hak();
        command.args(["compare", "--rounds", "1", "--allocators", "glibc,hakmem", "--allocator"]).arg(hakmem());
        command.args(option).args(["--", "sh", "-c", script]).assert()
    };
    compare(&[], "echo no file >&2; exit 2").code(1).stdout("").stderr(
        contains("did not succeed under glibc (exit code 2: no file)").and(contains("--ignore-failure measures it")),
    );
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    cc(&program, "int main(void) { return 2; }", &["-static"]);
    let alone = hak().args(["compare", "--allocators", "glibc", "--"]).arg(&program).assert().code(1);
    alone.stderr(contains("did not succeed with its own allocator (exit code 2)"));
    compare(&["--ignore-failure"], "exit 2").success().stdout(contains("wall time"));
    let differs = "case $LD_PRELOAD in *hakmem*) exit 4;; esac; exit 2";
    compare(&["-i"], differs).success();
    compare(&["-i"], "kill -SEGV $$").code(1).stdout(contains("killed by signal 11"));
}

#[test]
fn a_timeout_fails_and_everything_else_is_kept() {
    for time in ["1", "1s", "1000ms"] {
        hak()
            .args(["compare", "--rounds", "1", "--timeout", time, "--allocators", "glibc", "--", "sleep", "30"])
            .assert()
            .code(1)
            .stdout(contains("FAILED: timed out after 1 s"));
    }
}

#[test]
fn bad_input_is_named() {
    let compare = |arguments: &[&str]| {
        let mut command = hak();
        command.arg("compare").args(arguments);
        command.assert()
    };
    compare(&["--allocators", "glibc,nomalloc", "--", "true"])
        .code(2)
        .stderr(contains("no allocator is called 'nomalloc'").and(contains("hakmem")));
    compare(&["--allocator", "x", "--", "true"]).code(2).stderr(contains("NAME=/path/lib.so"));
    let (one, shipped) = (
        format!("x={}", crate::common::library().display()),
        format!("as shipped={}", crate::common::library().display()),
    );
    compare(&["--allocator", &one, "--allocator", &one, "--", "true"])
        .code(2)
        .stderr(contains("two libraries are called 'x'"));
    compare(&["--allocator", &shipped, "--", "true"]).code(2).stderr(contains("is what a program comes with"));
    compare(&["--allocator", "x=/no/lib.so", "--", "true"]).code(2).stderr(contains("/no/lib.so"));
    compare(&["--allocator", "x=/etc/passwd", "--", "true"]).code(2).stderr(contains("not a shared library"));
    compare(&["--allocator", "glibc=/etc/passwd", "--", "true"]).code(2).stderr(contains("system's own"));
    compare(&["--timeout", "0", "--", "true"]).code(2).stderr(contains("expected a whole number"));
    compare(&["--timeout", "1.5", "--", "true"]).code(2).stderr(contains("expected a whole number"));
    compare(&["--allocators", "glibc", "--", "no-such-program"]).code(127).stderr(contains("no such program"));
    compare(&["--allocators", "glibc", "--json", "/proc/x.json", "--", "true"])
        .code(2)
        .stderr(contains("cannot write /proc/x.json"));
    compare(&["--rounds", "0", "--", "true"]).code(2);
    let empty = tempfile::tempdir().unwrap();
    let missing: PathBuf = empty.path().into();
    compare(&["--build", missing.to_str().unwrap(), "--allocators", "glibc,snmalloc", "--", "true"])
        .code(2)
        .stderr(contains("'snmalloc' is not there").and(contains("bench/peers/README.md")));
}

#[test]
fn peers_lists_what_is_there_and_how_to_get_the_rest() {
    let empty = tempfile::tempdir().unwrap();
    hak()
        .args(["peers", "--build"])
        .arg(empty.path())
        .assert()
        .success()
        .stdout(contains("glibc").and(contains("missing: mimalloc3")).and(contains("bench/peers/README.md")));
}

#[test]
fn peers_of_a_directory_that_is_not_there_are_none() {
    hak()
        .args(["peers", "--build", "/nonexistent"])
        .assert()
        .code(2)
        .stderr("hak: /nonexistent: No such file or directory (os error 2)\n");
}

/// As nohup does it, for a session that ends.
#[test]
fn a_signal_that_is_ignored_interrupts_nothing() {
    let mut command = Command::new("env");
    command.args(["--ignore-signal=HUP", BINARY, "compare", "--rounds", "3", "--allocators", "glibc"]);
    command.args(["--", "sleep", "0.05"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line == "round 1 of 3"));
    assert!(Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap().success());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_interrupted_comparison_shows_and_keeps_what_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().join("results.json");
    let mut child = Command::new(BINARY)
        .args(["compare", "--rounds", "1000", "--allocators", "glibc", "--json"])
        .arg(&results)
        .args(["--", "sleep", "0.05"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line == "round 3 of 1000"));
    interrupt(&child);
    lines.for_each(drop);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stdout).contains("wall time"));
    let results = json(&results);
    assert_eq!(results["state"], "interrupted");
    assert!(samples(column(&results, "glibc")) >= 2);
}

/// As programs with LeakSanitizer in them do not. It takes the shortest time that such a run is given.
#[test]
fn a_program_that_does_not_end_where_it_is_traced_is_measured() {
    if !strace_works() {
        return eprintln!("skipped: there is no strace, or no right to trace");
    }
    let directory = tempfile::tempdir().unwrap();
    let (script, results) = (directory.path().join("script"), directory.path().join("results.json"));
    write_script(&script, "#!/bin/sh\ngrep -q '^TracerPid:[[:space:]]*0$' /proc/$$/status || exec sleep 1000\n");
    let mut command = hak();
    command.args(["compare", "--rounds", "1", "--allocators", "glibc", "--json"]).arg(&results).arg("--").arg(&script);
    command.assert().success();
    assert_eq!(column(&json(&results), "glibc")["system_calls"]["unknown"], "timed out under strace");
}
