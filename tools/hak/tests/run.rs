// SPDX-License-Identifier: MIT
//! `hak run`: what it starts, and how that ends.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{BINARY, hak, library};
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
    let preload = library().with_file_name("libhakmem.so.0");
    hak()
        .env("LD_PRELOAD", &preload)
        .args(["run", "--library"])
        .arg(library())
        .args(["--", "sh", "-c", "echo $LD_PRELOAD"])
        .assert()
        .success()
        .stdout(contains(format!("{}:{}", library().display(), preload.display())));
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

#[test]
fn signals_reach_a_program_that_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let script = format!("trap 'echo caught; exit 5' TERM; : > {}; while :; do sleep 0.05; done", ready.display());
    let child = Command::new(BINARY)
        .args(["run", "--stats", "--library"])
        .arg(library())
        .args(["--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !ready.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(5), &b"caught\n"[..]));
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
    run(&["--library", lib, "--", "/etc/passwd"]).code(126).stderr(contains("not executable"));
    run(&["--library", lib, "--", "/etc"]).code(126).stderr(contains("is a directory"));
    run(&["--library", "/no/lib.so", "--", "true"]).code(2).stderr(contains("/no/lib.so"));
    run(&["--library", "/etc/passwd", "--", "true"]).code(2).stderr(contains("not a shared library"));
    run(&["--env", "NAME", "--", "true"]).code(2).stderr(contains("NAME=VALUE"));
    run(&[]).code(2).stderr(contains("CMD"));
    hak()
        .env("HAKMEM_STATS_FILE", "x")
        .args(["run", "--stats", "--library", lib, "--", "true"])
        .assert()
        .code(2)
        .stderr(contains("HAKMEM_STATS_FILE"));
}
