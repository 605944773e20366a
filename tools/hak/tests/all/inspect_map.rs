// SPDX-License-Identifier: MIT
//! The picture that `hak inspect` draws: in the terminal, and as a page, of one moment and of several.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::heaps::{Running, heap_program, preloaded};
use crate::common::{BINARY, assert_self_contained, hak, interrupt, json, library};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use tempfile::TempDir;

const UNIT: u64 = 64 << 10;

fn quiet(directory: &TempDir) -> Running {
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut running = Running::start(&mut preloaded(&program, &library(), "quiet"));
    running.json();
    running
}

/// How many cells of each kind there have to be, by the figures.
fn assert_cells(seen: &Value, count: impl Fn(char) -> usize) {
    let units = |names: &[&str]| names.iter().map(|name| seen[name].as_u64().unwrap()).sum::<u64>() / UNIT;
    let expected = [
        ("tm", units(&["slab_bytes", "slab_tails"])),
        ("l", units(&["large_bytes"])),
        ("h", units(&["huge_bytes"])),
        ("d", units(&["dirty_free"])),
        ("c", units(&["clean_free"])),
        ("x", 0),
        ("tmlhdcx", units(&["committed"])),
    ];
    for (letters, expected) in expected {
        let counted: usize = letters.chars().map(&count).sum();
        assert_eq!(counted as u64, expected, "cells of {letters}");
        assert!(expected > 0 || letters == "x", "there are none of {letters}");
    }
}

fn cells(page: &str, letter: char) -> usize {
    let (_, map) = page.split_once("class=\"map\"").unwrap();
    map.matches(&format!("<i class=\"{letter}")).count()
}

#[test]
fn the_page_has_a_cell_for_each_unit() {
    let directory = tempfile::tempdir().unwrap();
    let running = quiet(&directory);
    let (page, figures) = (directory.path().join("map.html"), directory.path().join("map.json"));
    hak().args(["inspect", &running.pid(), "--html"]).arg(&page).arg("--json").arg(&figures).assert().success();
    let (page, seen) = (fs::read_to_string(&page).unwrap(), json(&figures));
    assert_self_contained(&page);
    assert_cells(&seen, |letter| cells(&page, letter));
    for words in
        ["blocks of 496 bytes each, ", "worker 1 (", "huge block of 5120 KiB; 64 of 64 KiB resident", "free, kept"]
    {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn the_terminal_has_a_letter_for_each_unit() {
    let directory = tempfile::tempdir().unwrap();
    let running = quiet(&directory);
    let figures = directory.path().join("map.json");
    let output = hak().args(["inspect", &running.pid(), "--map", "--json"]).arg(&figures).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\x1b'), "no colours where there is no terminal");
    let mut letters = String::new();
    let mut last = "";
    for line in text.lines() {
        if let Some((address, row)) = line.split_once(' ').filter(|(address, _)| address.starts_with("0x")) {
            assert_eq!((address.len(), row.len()), (14, 32), "{line}");
            letters += row;
            last = row;
        } else if let Some(count) = line.strip_suffix(" more like this one") {
            letters += &last.repeat(count.trim().parse().unwrap());
        }
    }
    let count = |letter: char| letters.chars().filter(|its| its.to_ascii_lowercase() == letter).count();
    assert_cells(&json(&figures), |letter| count(if letter == 'c' { '.' } else { letter }));
}

fn moments(page: &Path) -> Vec<Value> {
    let page = fs::read_to_string(page).unwrap();
    let (_, script) = page.split_once("type=\"application/json\">").expect("there are several moments");
    let (text, _) = script.split_once("</script>").unwrap();
    let mut moments: Vec<Value> = serde_json::from_str(text).unwrap();
    // Each has what is other than in the one before.
    for next in 1..moments.len() {
        let mut all = moments[next - 1]["superslabs"].as_object().unwrap().clone();
        all.extend(moments[next]["superslabs"].as_object().unwrap().clone());
        moments[next]["superslabs"] = Value::Object(all);
    }
    assert!(page.contains(&format!("max=\"{}\"", moments.len() - 1)));
    moments
}

#[test]
fn moments_follow_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let mut running = quiet(&directory);
    let page = directory.path().join("map.html");
    let mut hak = watching(&running.pid(), &page);
    let mut lines = BufReader::new(hak.stdout.take().unwrap()).lines().map(Result::unwrap);
    // 20 MiB more, after the first look; it goes on looking until it has seen them.
    let counts = |line: &String, blocks: &str| line.split_whitespace().eq(["huge", blocks]);
    assert!(lines.any(|line| counts(&line, "2")));
    running.go_on();
    assert!(lines.any(|line| counts(&line, "3")));
    interrupt(&hak);
    let _ = lines.count();
    assert_eq!(said(hak), (Some(130), String::new()));
    let moments = moments(&page);
    let last = moments.len() - 1;
    let units = |moment: &Value| {
        let rows = moment["superslabs"].as_object().unwrap().values();
        rows.map(|row| row["looks"].as_str().unwrap().matches('h').count()).sum::<usize>()
    };
    assert_eq!(units(&moments[last]) - units(&moments[0]), (20 << 20) / UNIT as usize);
    look_in_browser(&page, &moments);
}

/// The script shows another moment: as many cells of huge blocks as that has.
fn look_in_browser(page: &Path, moments: &[Value]) {
    let Some(browser) =
        ["chromium", "chromium-browser", "google-chrome"].iter().find_map(|name| which::which(name).ok())
    else {
        // Not eprintln, which the test runner would keep to itself.
        let mut errors = std::io::stderr();
        writeln!(errors, "SKIPPED: no chromium, so the page was not looked at").unwrap();
        return;
    };
    let profile = tempfile::tempdir().unwrap();
    let last = moments.len() - 1;
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}#{last}", page.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let looks = |letter: char| {
        let rows = moments[last]["superslabs"].as_object().unwrap().values();
        rows.map(|row| row["looks"].as_str().unwrap().matches(letter).count()).sum::<usize>()
    };
    for letter in ['t', 'm', 'l', 'h', 'd', 'c'] {
        assert_eq!(cells(&dom, letter), looks(letter), "{letter}");
    }
    assert!(dom.contains(&format!("id=\"taken\">{}", moments[last]["taken"].as_str().unwrap())));
}

/// Its report goes to a pipe.
fn watching(pid: &str, page: &Path) -> Child {
    let mut command = Command::new(BINARY);
    command.args(["inspect", pid, "--every", "50ms", "--count", "1000", "--html"]).arg(page);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn said(hak: Child) -> (Option<i32>, String) {
    let output = hak.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn what_was_seen_is_kept_when_the_process_ends() {
    let directory = tempfile::tempdir().unwrap();
    for interrupted in [false, true] {
        let running = quiet(&directory);
        let page = directory.path().join(format!("map-{interrupted}.html"));
        let mut hak = watching(&running.pid(), &page);
        let pid = running.pid();
        let mut lines = BufReader::new(hak.stdout.take().unwrap()).lines().map(Result::unwrap);
        for _ in 0..2 {
            assert!(lines.any(|line| line.starts_with("hakmem ")));
        }
        if interrupted {
            interrupt(&hak);
        } else {
            drop(running);
        }
        // Nobody may close the pipe that it writes to.
        let _ = lines.count();
        let (code, text) = said(hak);
        if interrupted {
            assert_eq!((code, text.as_str()), (Some(130), ""));
        } else {
            assert_eq!(code, Some(1));
            assert!(text.contains(&format!("process {pid} has ended while it was being looked at")), "{text}");
        }
        assert!(moments(&page).len() >= 2);
    }
}

#[test]
fn what_cannot_be_drawn_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let running = quiet(&directory);
    let pid = running.pid();
    let inspect = |arguments: &[&str]| hak().args(["inspect", &pid]).args(arguments).assert();
    inspect(&["--html", "/dev/full"])
        .code(1)
        .stdout(contains("held by the program"))
        .stderr(contains("cannot write /dev/full: No space left on device"));
    inspect(&["--html", "/dev/full", "--json", "/dev/full"])
        .code(1)
        .stderr(contains("cannot write /dev/full").count(2));
    inspect(&["--html", "/dev/full", "--every", "10ms", "--count", "2"]).code(1).stderr(contains("No space left"));
    inspect(&["--html", "/no/such/file"]).code(2).stdout("").stderr(contains("/no/such/file"));
    inspect(&["--html", "-", "--json", "-"]).code(2).stderr(contains("only one file can be standard output"));
    inspect(&["--html", "-"])
        .success()
        .stdout(contains("<!DOCTYPE html>").and(contains("held by").not().or(contains("<pre>"))));
    for every in ["1", "s", "0s", "-1s", "1d", "1.5s", "99999999999s"] {
        inspect(&[&format!("--every={every}"), "--count", "2"]).code(2).stderr(contains("--every"));
    }
    inspect(&["--every", "1s"]).code(2).stderr(contains("--count"));
    inspect(&["--count", "2"]).code(2).stderr(contains("--every"));
    inspect(&["--every", "1s", "--count", "0"]).code(2).stderr(contains("--count"));
}
