// SPDX-License-Identifier: MIT
//! Sweeps: rows at many values, their curves, and where another allocator becomes better.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::suites::{Suite, row};
use crate::common::{BINARY, assert_self_contained, hak, interrupt, json, write_script};
use predicates::prelude::*;
use predicates::str::contains;

/// hakmem takes as many ns as the value says, and the C library always 300, or 3000 on the other curve.
const CURVE: &str = r#"#!/bin/sh
served=$(basename "${LD_PRELOAD:-libc.so.6}")
case $served in libc.so.6) cost=$((300 * $2)) ;; *) cost=$1 ;; esac
echo "ops_per_s=$((1000000000 / cost)) metric=ops_per_s malloc_from=$served"
"#;

const SWEEP: &str = "[[sweep]]\nname='size and level'\ncommand=['curve','{size}','{level}']\nmax_rounds=2\n\
                     x={name='bytes',key='size',values=[16,128,1024,8192]}\n\
                     line={name='level',key='level',values=[1,10]}\n";

fn suite() -> Suite {
    let suite = Suite::new(&(row("other", "command=['work']") + SWEEP));
    write_script(&suite.directory.path().join("bench/curve"), CURVE);
    suite
}

#[test]
fn crossovers_are_found_by_halving_and_listed() {
    let suite = suite();
    let assert = hak().args(suite.arguments()).args(["--rounds", "4"]).env("COLUMNS", "150").assert().success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    let results = json(&suite.results());
    let rows = results["rows"].as_array().unwrap();
    // The true place, 300 or 3000, is between the ends, which are near.
    for (curve, place) in [("size and level, level 1", 300.0), ("size and level, level 10", 3000.0)] {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{curve} ")));
        let line = line.unwrap_or_else(|| panic!("no crossover of {curve}: {text}"));
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let (low, high) = (cells[2].parse::<f64>().unwrap(), cells[3].parse::<f64>().unwrap());
        assert!(low < place && place < high && high / low <= 1.25, "{line}");
        assert_eq!(cells[5..], ["hakmem", "glibc"], "{line}");
    }
    let probes: Vec<&serde_json::Value> = rows.iter().filter(|row| row["sweep"]["is_probe"] == true).collect();
    assert!((4..=10).contains(&probes.len()), "{} values were tried", probes.len());
    assert!(probes.iter().all(|row| row["columns"][1]["samples"].as_array().unwrap().len() == 4));
    assert_eq!(rows.len(), 9 + probes.len());
    // No part of the means, nor of the rows that are compared one by one.
    assert!(text.contains("time: of 1 row, hakmem is ahead"), "{text}");
    let mean = text.lines().find(|line| line.trim_start().starts_with("glibc ")).unwrap();
    assert_eq!(mean.split_whitespace().collect::<Vec<_>>()[3..7], ["1.000", "1", "1.000", "1"], "{mean}");
}

#[test]
fn curves_are_drawn_on_pages_and_in_files_that_documents_show() {
    let suite = suite();
    hak().args(suite.arguments()).args(["--rounds", "1"]).assert().success();
    let directory = suite.directory.path();
    let page = directory.join("page.html");
    hak().arg("report").arg(suite.results()).arg("--html").arg(&page).assert().success();
    let page = fs::read_to_string(page).unwrap();
    assert_self_contained(&page);
    assert!(page.contains("size and level, level 10") && page.contains("hakmem: 128 ns per operation at 128 bytes"));

    fs::create_dir(directory.join("images")).unwrap();
    let mut report = hak();
    report.arg("report").arg(suite.results()).arg("--markdown").arg(directory.join("out.md"));
    report.arg("--pictures").arg(directory.join("images")).assert().success();
    let document = fs::read_to_string(directory.join("out.md")).unwrap();
    let picture = "images/sweep-size-and-level-level-10.svg";
    assert!(document.contains(&format!("ns per operation by bytes]({picture})")), "{document}");
    assert!(document.contains("| 128 | 300 | **128** |"), "{document}");
    let svg = fs::read_to_string(directory.join(picture)).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("hakmem"), "{svg}");
    // Of two results each has pictures of its own.
    let both = directory.join("both.md");
    let mut report = hak();
    report.args(["report", "--each"]).arg(suite.results()).arg(suite.results()).arg("--markdown").arg(&both);
    report.arg("--pictures").arg(directory.join("images")).assert().success();
    let document = fs::read_to_string(both).unwrap();
    let second = picture.replace(".svg", "-2.svg");
    assert!(document.contains(&format!("({picture})")) && document.contains(&format!("({second})")), "{document}");
    assert!(directory.join(second).exists());
    // By --export as well, but not without a document.
    let exported = directory.join("exported.md");
    let mut report = hak();
    report.arg("report").arg(suite.results()).arg("--export").arg(&exported);
    report.arg("--pictures").arg(directory.join("images")).assert().success();
    assert!(fs::read_to_string(exported).unwrap().contains("](images/"));
    let none = hak().arg("report").arg(suite.results()).arg("--pictures").arg(directory.join("images")).assert();
    none.code(2).stderr(contains("--markdown FILE is missing"));
    let none = hak().arg("report").arg(suite.results()).args(["--markdown", "-", "--pictures", "/no/folder"]).assert();
    none.code(2).stderr(contains("/no/folder: No such file"));
}

#[test]
fn a_sweep_goes_on_where_it_was_interrupted() {
    let suite = suite();
    let curve = suite.directory.path().join("bench/curve");
    // It waits at a value between the given ones: in the search for the crossover.
    let wait = suite.directory.path().join("wait");
    let waits =
        format!("while test -e {} && test $1 -gt 128 && test $1 -lt 1024; do sleep 0.05; done\n", wait.display());
    write_script(&curve, &CURVE.replacen('\n', &format!("\n{waits}"), 1));
    fs::write(&wait, "").unwrap();
    let mut child = Command::new(BINARY)
        .args(suite.arguments())
        .args(["--rounds", "2"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("between two values")));
    interrupt(&child);
    child.wait().unwrap();
    fs::remove_file(&wait).unwrap();
    let before = json(&suite.results());
    assert_eq!((&before["state"], before["is_probing"].as_bool()), (&"interrupted".into(), Some(true)));
    let mut resume = hak();
    resume.args(["bench", "--resume"]).arg(suite.results()).arg("--build").arg(suite.directory.path());
    resume.arg("--suite").arg(suite.directory.path().join("suite.toml")).assert().success();
    let after = json(&suite.results());
    assert_eq!((&after["state"], &after["rounds"]), (&"complete".into(), &2.into()));
    for row in after["rows"].as_array().unwrap() {
        let expected = if row["sweep"]["is_probe"] == true { 4 } else { 2 };
        assert_eq!(row["columns"][0]["samples"].as_array().unwrap().len(), expected, "{}", row["name"]);
    }
    assert_eq!(after["rows"][0], before["rows"][0], "what was done is as it was");
}

#[test]
fn a_value_that_needs_more_memory_than_there_is_is_left_out() {
    let suite = suite();
    let text = fs::read_to_string(suite.directory.path().join("suite.toml")).unwrap();
    let huge = text.replace("max_rounds=2", "max_rounds=2\nbytes_per_x=1e12");
    fs::write(suite.directory.path().join("suite.toml"), huge).unwrap();
    hak().args(suite.arguments()).args(["--rounds", "1"]).assert().success().stdout(
        contains("not run: size and level, level 1: bytes 16: it needs 15258789 MiB of free memory")
            .and(contains("1 of 9 rows ran")),
    );
}
