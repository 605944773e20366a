// SPDX-License-Identifier: MIT
//! `hak bench --resume`: a run that ended before its end goes on, and nothing is lost or measured twice.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::suites::{Suite, row};
use crate::common::{BINARY, hak, interrupt, json};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

const ROUNDS: usize = 3;

/// Three rows that write a line for each run; the second waits as long as the file `wait` is there.
struct Stopped {
    suite: Suite,
}

impl Stopped {
    fn new() -> Stopped {
        let suite = Suite::new("");
        let directory = suite.directory.path().display().to_string();
        let driver = |name: &str, wait: &str| {
            let script = format!(
                "{wait}echo \"{name} ${{HAK_BENCH_PRELOAD:-libc.so.6}}\" >> {directory}/runs; \
                 echo ops_per_s=5 metric=ops_per_s malloc_from=${{HAK_BENCH_PRELOAD:-libc.so.6}}"
            );
            format!(
                "[[row]]\nname='{name}'\nfamily='test'\nkind='driver'\ncommand=['sh','-c','''{script}''']\nquick=true\n"
            )
        };
        let wait = format!("while test -e {directory}/wait; do sleep 0.05; done; ");
        let rows = driver("one", "") + &driver("two", &wait) + &driver("three", "") + &row("work", "command=['work']");
        fs::write(suite.directory.path().join("suite.toml"), rows).unwrap();
        Stopped { suite }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.suite.directory.path().join(name)
    }

    /// Runs until the second row waits.
    fn start(&self) -> (Child, impl Iterator<Item = String>) {
        fs::write(self.path("wait"), "").unwrap();
        let mut child = Command::new(BINARY)
            .args(self.suite.arguments())
            .args(["--rounds", &ROUNDS.to_string()])
            .env("TMPDIR", self.suite.directory.path()) // it may be killed, and removes nothing then
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.by_ref().any(|line| line.contains("2/4 two")));
        std::thread::sleep(Duration::from_millis(200));
        (child, lines)
    }

    fn stop(&self, signal: &str) {
        let (mut child, lines) = self.start();
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        child.wait().unwrap();
        if signal != "-KILL" {
            assert!(lines.into_iter().any(|line| line.contains("--resume") && line.contains("goes on")));
        }
        fs::remove_file(self.path("wait")).unwrap();
    }

    fn resume(&self) -> assert_cmd::Command {
        self.resume_of(&self.suite.results())
    }

    fn resume_of(&self, file: &Path) -> assert_cmd::Command {
        let mut command = hak();
        command.args(["bench", "--resume"]).arg(file).arg("--suite").arg(self.path("suite.toml"));
        command.arg("--build").arg(self.suite.directory.path());
        command
    }

    fn runs_of(&self, name: &str) -> usize {
        let runs = fs::read_to_string(self.path("runs")).unwrap();
        runs.lines().filter(|line| line.starts_with(name)).count()
    }
}

fn rounds(results: &Value, row: usize, column: usize) -> Vec<u64> {
    let samples = results["rows"][row]["columns"][column]["samples"].as_array().unwrap();
    samples.iter().map(|sample| sample["round"].as_u64().unwrap()).collect()
}

#[test]
fn it_goes_on_after_ctrl_c_and_after_a_crash() {
    for (signal, state) in [("-TERM", "interrupted"), ("-KILL", "running")] {
        let stopped = Stopped::new();
        stopped.stop(signal);
        let before = json(&stopped.suite.results());
        assert_eq!((&before["state"], rounds(&before, 0, 0).len()), (&state.into(), 1), "the first row is kept");
        // A round of a row is a run under each of the two allocators, and one that does not count.
        assert_eq!(stopped.runs_of("one"), 3, "{signal}");
        stopped.resume().assert().success().stdout(contains("4 of 4 rows ran under 2 allocators in 3 rounds"));

        let after = json(&stopped.suite.results());
        assert_eq!(after["state"], "complete");
        assert_eq!(after["rows"][0]["columns"][0]["samples"][0], before["rows"][0]["columns"][0]["samples"][0]);
        assert_eq!(after["started"], before["started"]);
        assert_eq!(after["resumed"].as_array().unwrap().len(), 1);
        for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)] {
            assert_eq!(rounds(&after, row, column), [1, 2, 3], "{signal}: row {row}, column {column}");
        }
        for name in ["one", "three"] {
            assert_eq!(stopped.runs_of(name), 3 * ROUNDS, "{signal}: {name} is not measured twice");
        }
        let lines = fs::read_to_string(stopped.suite.results().with_extension("csv")).unwrap().lines().count();
        assert_eq!(lines, 1 + 4 * 2 * ROUNDS);
        stopped.resume().assert().code(2).stderr(contains("its run is complete"));
    }
}

/// Of a row in a round either all runs count or none: they are compared with each other.
#[test]
fn a_row_that_was_interrupted_half_way_is_measured_anew() {
    let stopped = Stopped::new();
    stopped.stop("-TERM");
    let file = stopped.suite.results();
    let mut results = json(&file);
    let mut half = results["rows"][0]["columns"][0]["samples"][0].clone();
    half["figure"] = 77.0.into();
    results["rows"][1]["columns"][0]["samples"] = Value::from(vec![half]);
    fs::write(&file, results.to_string()).unwrap();
    stopped.resume().assert().success();
    let after = json(&file);
    assert_eq!(rounds(&after, 1, 0), [1, 2, 3]);
    assert_eq!(after["rows"][1]["columns"][0]["samples"][0]["figure"], 5.0);
}

/// What it has measured before counts.
#[test]
fn the_time_that_there_is_for_it_is_of_all_parts() {
    for (spent, expected) in [(0.0, 4), (1e6, 1)] {
        let stopped = Stopped::new();
        stopped.stop("-TERM");
        let file = stopped.suite.results();
        let mut results = json(&file);
        results["plan"] = serde_json::json!({"least": 1, "most": 4, "budget": {"secs": 3600, "nanos": 0}});
        results["spent_seconds"] = spent.into();
        fs::write(&file, results.to_string()).unwrap();
        stopped.resume().assert().success();
        let after = json(&file);
        assert_eq!((after["rounds"].as_u64(), &after["state"]), (Some(expected), &"complete".into()));
        assert!(after["spent_seconds"].as_f64().unwrap() > spent);
    }
}

/// Rounds in which no row would run are none.
#[test]
fn there_are_no_more_rounds_than_rows_have() {
    let suite = Suite::new(&(row("a", "command=['work']\nmax_rounds=2") + &row("b", "command=['work']\nmax_rounds=3")));
    hak().args(suite.arguments()).args(["--within", "1h"]).assert().success();
    let results = json(&suite.results());
    assert_eq!((results["rounds"].as_u64(), rounds(&results, 1, 0)), (Some(3), vec![1, 2, 3]));
}

#[test]
fn what_has_changed_since_is_a_reason_not_to() {
    let stopped = Stopped::new();
    stopped.stop("-TERM");
    let file = stopped.suite.results();
    let results = json(&file);
    let refused = |change: &dyn Fn(&mut Value), reason: &str| {
        let mut changed = results.clone();
        change(&mut changed);
        let other = stopped.path("other.json");
        fs::write(&other, changed.to_string()).unwrap();
        let said = contains("other.json").and(contains(reason));
        stopped.resume_of(&other).assert().code(2).stderr(said);
        assert_eq!(json(&other), changed, "it is left as it was");
    };
    refused(&|it| it["machine"]["cpu"] = "Another".into(), "processor: Another then,");
    refused(&|it| it["machine"]["kernel"] = "Linux 1".into(), "kernel: Linux 1 then,");
    refused(&|it| it["allocators"][0]["version"] = "1.0".into(), "glibc: 1.0 then,");
    refused(&|it| it["allocators"][1]["fingerprint"] = "1-0".into(), " is not the same file as then");
    refused(&|it| it["allocators"][1]["library"] = "/no/lib.so".into(), "/no/lib.so: No such file");
    refused(&|it| it["work"]["work"] = "1-0".into(), "work is not the same file as then");
    refused(&|it| it["tool_version"] = "0.0.1".into(), "hak: 0.0.1 then");
    refused(&|it| it["kind"] = "compare".into(), "it is of hak compare");
    refused(&|it| drop(it.as_object_mut().unwrap().remove("plan")), "written by an older hak");
    let suite = fs::read_to_string(stopped.path("suite.toml")).unwrap();
    fs::write(stopped.path("suite.toml"), format!("{suite}# a remark\n")).unwrap();
    stopped.resume().assert().code(2).stderr(contains("the suite has changed"));
    fs::write(stopped.path("suite.toml"), suite).unwrap();
    stopped.resume().args(["--rounds", "9"]).assert().code(2).stderr(contains("cannot be used with"));
    stopped.resume().assert().success();
}

#[test]
fn a_file_that_is_still_written_is_left_alone() {
    let stopped = Stopped::new();
    let (mut child, _lines) = stopped.start();
    let said = format!("process {} is measuring for it", child.id());
    stopped.resume().assert().code(2).stderr(contains(said));
    interrupt(&child);
    child.wait().unwrap();
    fs::remove_file(stopped.path("wait")).unwrap();
    stopped.resume().assert().success();
}
