// SPDX-License-Identifier: MIT
//! `hak dump`: to the file that the process itself would write to.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::heaps::{NOBODY, Running, assert_same, heap_program, is_root_here, preloaded};
use crate::common::{hak, library};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

#[test]
fn a_dump_goes_where_the_process_says() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut command = preloaded(&program, &library(), "quiet");
    // Relative to where the process is, not to where the tool is.
    let mut running = Running::start(command.env("HAKMEM_STATS_FILE", "heap-%p.json").current_dir(directory.path()));
    let inside = running.json();
    hak().args(["dump", &running.pid()]).assert().success().stdout("").stderr("");
    let file = directory.path().join(format!("heap-{}.json", running.pid()));
    let dumped: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_same(&inside, &dumped);
    hak().args(["diff", file.to_str().unwrap(), file.to_str().unwrap()]).assert().success().stdout(contains("Nothing"));

    // The one that it writes itself at the end takes the place of that.
    running.go_on();
    running.json();
    assert_eq!(running.end(), Some(0));
    let last: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert!(last["inspect"].is_null(), "that is still a dump");
}

#[test]
fn dumps_go_on_until_the_process_ends() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let file = directory.path().join("dump.json");
    let mut running = Running::start(&mut preloaded(&program, &library(), "quiet"));
    running.json();
    let (pid, to) = (running.pid(), file.to_str().unwrap().to_owned());
    let dumping =
        std::thread::spawn(move || hak().args(["dump", &pid, "--to", &to, "--every", "10ms"]).assert().success());
    let taken = || -> Option<String> {
        let seen: Value = serde_json::from_str(&fs::read_to_string(&file).ok()?).unwrap();
        Some(seen["inspect"]["taken"].to_string())
    };
    let mut times = std::collections::BTreeSet::new();
    while times.len() < 3 {
        times.extend(taken());
    }
    drop(running);
    dumping.join().unwrap();
}

#[test]
fn a_dump_that_has_no_place_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut running = Running::start(&mut preloaded(&program, &library(), "quiet"));
    running.json();
    let refused = |pid: &str, why: &str| {
        let end = contains(": say where to write with --to\n");
        hak().args(["dump", pid]).assert().code(2).stdout("").stderr(contains(why.to_owned()).and(end));
    };
    refused(&running.pid(), "was started without HAKMEM_STATS_FILE");
    hak().args(["dump", &running.pid(), "--to", "-"]).assert().success().stdout(contains("\"version\"")).stderr("");
    hak().args(["dump", &running.pid(), "--to", "/dev/full"]).assert().code(1).stderr(contains("No space left"));
    // A directory that is not there is known before. The program goes on after either.
    let nowhere = directory.path().join("nowhere/dump.json");
    let again = ["dump", &running.pid(), "--to", nowhere.to_str().unwrap(), "--every", "10ms"];
    hak().args(again).assert().code(2).stderr(contains("No such file"));
    running.go_on();
    running.json();

    // Another user's process had better not say what root overwrites.
    if !is_root_here() {
        return;
    }
    let all = Permissions::from_mode(0o755);
    fs::set_permissions(directory.path(), all).unwrap();
    let mut command = preloaded(&program, &library(), "quiet");
    let mut others = Running::start(command.env("HAKMEM_STATS_FILE", "/tmp/x-%p.json").uid(NOBODY).gid(NOBODY));
    others.json();
    refused(&others.pid(), "is another user's");
    assert!(!Path::new(&format!("/tmp/x-{}.json", others.pid())).exists());

    // Nor what it overwrites here by a name that leads elsewhere there.
    if Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--"]).arg(&program).arg("quiet").env("LD_PRELOAD", library());
        let elsewhere = directory.path().join("elsewhere.json");
        let mut inside = Running::start(command.env("HAKMEM_STATS_FILE", &elsewhere));
        inside.json();
        refused(&inside.pid(), "sees other files than hak, as in a container");
        assert!(!elsewhere.exists());
    }
}
