// SPDX-License-Identifier: MIT
//! `hak report`: pages and tables from result files.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{assert_self_contained, hak, json};
use predicates::prelude::*;
use predicates::str::contains;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn markdown(files: &[PathBuf]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.md");
    hak().arg("report").args(files).arg("--markdown").arg(&output).assert().success();
    fs::read_to_string(output).unwrap()
}

fn html(files: &[PathBuf]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.html");
    hak().arg("report").args(files).arg("--html").arg(&output).assert().success();
    fs::read_to_string(output).unwrap()
}

/// The file is hak's own output, judged right by a person. If a change of it is wanted, put the new
/// one there.
#[test]
fn the_table_in_markdown_is_as_it_was() {
    let made = markdown(&[data("bench.json")]);
    let golden = fs::read_to_string(data("bench.md")).unwrap();
    assert_eq!(made, golden, "tests/data/bench.md differs from:\n{made}");
}

#[test]
fn several_files_are_shown_side_by_side_in_the_order_of_their_dates() {
    let made = markdown(&[data("bench.json"), data("older.json")]);
    let heading = "| row | figure | 2026-01-01 12:00 aaaaaaa | 2026-02-01 12:00 bbbbbbb | change |";
    assert!(made.contains(heading), "{made}");
    assert!(made.contains("| small blocks | ops_per_s | 99.6 M | 119 M | +20.0 % |"), "{made}");
    let page = html(&[data("bench.json"), data("older.json")]);
    assert!(page.contains("Several measurements") && page.contains("2026-01-01 12:00 aaaaaaa"));
    assert_self_contained(&page);
}

#[test]
fn a_page_shows_every_row_failure_and_reason_and_needs_nothing_else() {
    let page = html(&[data("bench.json")]);
    assert_self_contained(&page);
    for part in
        ["small blocks", "large | blocks", "idle threads", "killed by signal 11", "no z3", "prefers-color-scheme"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.matches("<svg").count() == 5 && page.ends_with("</html>"));
}

#[test]
fn names_cannot_break_out_of_the_page() {
    let directory = tempfile::tempdir().unwrap();
    let mut results = json(&data("bench.json"));
    results["rows"][0]["name"] = "<script>alert(1)</script>".into();
    let file = directory.path().join("results.json");
    fs::write(&file, results.to_string()).unwrap();
    assert!(!html(&[file]).contains("<script"));
}

#[test]
fn without_an_output_the_summary_is_printed() {
    hak()
        .arg("report")
        .arg(data("bench.json"))
        .assert()
        .success()
        .stdout(contains("small blocks").and(contains("1.20x better")).and(contains("FAILED: large | blocks, other")));
}

#[test]
fn files_that_are_no_results_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file.json");
    let report = || {
        let mut command = hak();
        command.arg("report").arg(&file);
        command.assert().code(2)
    };
    report().stderr(contains("file.json").and(contains("No such file")));
    fs::write(&file, "text").unwrap();
    report().stderr(contains("not a result file of hak"));
    fs::write(&file, "{\"format\": \"something\", \"version\": 1}").unwrap();
    report().stderr(contains("not a result file of hak, but 'something'"));
    fs::write(&file, "{\"format\": \"hak results\", \"version\": 99}").unwrap();
    report().stderr(contains("written by a newer hak").and(contains("99")));
    fs::write(&file, "{\"format\": \"hak results\", \"version\": 1}").unwrap();
    report().stderr(contains("damaged"));
    let whole = fs::read_to_string(data("bench.json")).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    report().stderr(contains("not a result file of hak"));
    fs::create_dir(directory.path().join("d")).unwrap();
    hak()
        .arg("report")
        .arg(data("bench.json"))
        .arg("--html")
        .arg(directory.path().join("d"))
        .assert()
        .code(2)
        .stderr(contains("cannot write"));
}
