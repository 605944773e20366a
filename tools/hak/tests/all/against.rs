// SPDX-License-Identifier: MIT
//! `--against`: what a change did, of `hak bench` and `hak report`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::suites::{Suite, row};
use crate::common::{assert_self_contained, hak, json};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/data").join(name)
}

fn report(then: &Path, now: &Path) -> String {
    let mut command = hak();
    command.args(["report", "--against"]).arg(then).arg(now).env("COLUMNS", "200");
    String::from_utf8_lossy(&command.assert().success().get_output().stdout).into_owned()
}

/// The cells of a table's line.
fn line(text: &str, name: &str) -> Vec<String> {
    let of_table = text.rsplit("\nAgainst ").next().unwrap_or_default();
    let found = of_table.lines().find(|line| line.trim_start().starts_with(name));
    let found = found.unwrap_or_else(|| panic!("no line of {name}: {of_table}"));
    found.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(String::from).collect()
}

/// Every figure of an allocator, times a factor.
fn scaled(results: &Value, allocator: Option<&str>, factor: f64) -> Value {
    let mut results = results.clone();
    for row in results["rows"].as_array_mut().unwrap() {
        for column in row["columns"].as_array_mut().unwrap() {
            if allocator.is_some_and(|name| column["allocator"] != name) {
                continue;
            }
            for sample in column["samples"].as_array_mut().unwrap() {
                if let Some(figure) = sample["figure"].as_f64() {
                    sample["figure"] = (figure * factor).into();
                }
            }
        }
    }
    results
}

fn written(directory: &Path, name: &str, results: &Value) -> PathBuf {
    let file = directory.join(name);
    fs::write(&file, results.to_string()).unwrap();
    file
}

#[test]
fn a_change_is_told_row_by_row_and_in_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let then = json(&data("bench.json"));
    // The machine is twice as fast today, and hakmem takes a third less beside that.
    let now = scaled(&scaled(&then, None, 2.0), Some("hakmem"), 1.5);
    let (then, now) = (written(directory.path(), "then.json", &then), written(directory.path(), "now.json", &now));
    let text = report(&then, &now);
    let cells = line(&text, "small blocks");
    assert_eq!(cells[3..5], ["0.50x".to_owned(), "0.67x ± 0.01".into()], "{text}");
    assert_eq!(cells.last().unwrap(), "better");
    // Of seconds, twice as many.
    let cells = line(&text, "perl");
    assert!(cells[4].starts_with("1.50x") && cells.last().unwrap() == "worse", "{text}");
    assert!(text.contains("time: of 3 rows, 2 better, 1 worse, 0 within the noise"), "{text}");
    assert!(text.contains("memory: of 4 rows, 0 better, 0 worse, 4 within the noise"), "{text}");
    assert!(text.contains("no difference in memory beyond the noise (± "), "{text}");
    for (option, shown) in [("--markdown", "## Against then.json"), ("--html", "<h2>Against then.json")] {
        let file = directory.path().join("shown");
        hak().arg("report").arg("--against").arg(&then).arg(&now).arg(option).arg(&file).assert().success();
        let page = fs::read_to_string(file).unwrap();
        assert!(page.contains(shown) && page.contains("0.67x"), "{page}");
        if option == "--html" {
            assert_self_contained(&page);
        }
    }
}

#[test]
fn nothing_changes_from_a_file_to_itself() {
    let text = report(&data("bench.json"), &data("bench.json"));
    assert!(text.contains("no difference in time beyond the noise"), "{text}");
    assert!(text.contains("0 better, 0 worse") && !text.contains(" now: no measure"), "{text}");
}

#[test]
fn one_row_and_one_round_are_no_plural() {
    let directory = tempfile::tempdir().unwrap();
    let mut one = json(&data("bench.json"));
    one["rounds"] = 1.into();
    let rows = one["rows"].as_array_mut().unwrap();
    rows.retain(|row| row["name"].as_str().unwrap().starts_with("small blocks"));
    rows.truncate(1);
    let one = written(directory.path(), "one.json", &one);
    let text = report(&one, &one);
    assert!(text.contains("time: of 1 row, "), "{text}");
    assert!(text.contains(", 1 round then, ") && text.contains(", 1 round now"), "{text}");
}

#[test]
fn another_machine_and_other_peers_are_said() {
    let directory = tempfile::tempdir().unwrap();
    let mut then = json(&data("bench.json"));
    then["machine"]["kernel"] = "Linux 5.10".into();
    then["machine"]["cores"] = 64.into();
    then["allocators"][2]["version"] = "3.0".into();
    then["allocators"][1]["compiler"] = "cc 12".into();
    let mut now = json(&data("bench.json"));
    now["allocators"][1]["compiler"] = "cc 14".into();
    now["rows"][0]["command"] = Value::from(vec!["other"]);
    let (then, now) = (written(directory.path(), "then.json", &then), written(directory.path(), "now.json", &now));
    let text = report(&then, &now);
    for said in [
        "cores: 64 then, 2 now",
        "kernel: Linux 5.10 then, Linux 6.1 now",
        "compiler of hakmem: cc 12 then, cc 14 now",
        "other: 3.0 then, 3.3.2 now: no measure",
        "not compared: small blocks: its command is another",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn files_that_cannot_be_compared_with_are_refused_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let mut compare = json(&data("bench.json"));
    compare["kind"] = "compare".into();
    let mut without = json(&data("bench.json"));
    without["rows"].as_array_mut().unwrap().iter_mut().for_each(|row| {
        row["columns"].as_array_mut().unwrap().retain(|column| column["allocator"] != "hakmem");
    });
    let mut newer = json(&data("bench.json"));
    newer["version"] = 99.into();
    let half = json(&data("bench.json")).to_string();
    let cases = [
        ("compare.json", compare.to_string(), "it is of hak compare"),
        ("without.json", without.to_string(), "hakmem was not measured in it"),
        ("newer.json", newer.to_string(), "written by a newer hak"),
        ("half.json", half[..half.len() / 2].into(), "not a result file of hak"),
        ("rows.json", json(&data("bench.json")).to_string(), "the suite has none of its rows any more"),
    ];
    let suite = Suite::new(&row("a", "command=['work']"));
    for (name, text, reason) in cases {
        let file = directory.path().join(name);
        fs::write(&file, text).unwrap();
        let refused = contains(name).and(contains(reason));
        hak().args(suite.arguments()).arg("--against").arg(&file).assert().code(2).stderr(refused);
    }
    hak()
        .args(suite.arguments())
        .args(["--against", "/no/file"])
        .assert()
        .code(2)
        .stderr(contains("/no/file: No such"));
    assert_eq!(fs::read_dir(suite.directory.path().join("results")).unwrap().count(), 0, "nothing ran");
}

#[test]
fn the_rows_and_allocators_of_the_file_run_again() {
    let suite =
        Suite::new(&(row("a", "command=['work']") + &row("b", "command=['work']") + &row("c", "command=['work']")));
    hak().args(suite.arguments()).args(["--filter", "a", "--rounds", "4"]).assert().success();
    let then = suite.directory.path().join("then.json");
    fs::rename(suite.results(), &then).unwrap();
    let again = |more: &[&str]| {
        let mut command = hak();
        command.args(suite.arguments()).arg("--against").arg(&then).args(more).env("COLUMNS", "200");
        String::from_utf8_lossy(&command.assert().success().get_output().stdout).into_owned()
    };
    assert!(again(&["--list"]).contains("1 row under 2 allocators, 4 rounds"));
    let text = again(&[]);
    assert!(text.contains("1 of 1 row ran under 2 allocators in 4 rounds"), "{text}");
    let cells = line(&text, "a ");
    assert_eq!(cells[1..], ["1000", "1000", "1.00x", "1.00x", "noise"].map(String::from), "{text}");
    let results = json(&suite.results());
    assert!(results["work"]["work"].is_string(), "what was run can be told from another: {}", results["work"]);
    assert!(
        results["allocators"][1]["compiler"]
            .as_str()
            .is_some_and(|name| name.contains("GCC") || name.contains("clang"))
    );
    // A workload that was built anew from other sources is named.
    let script = suite.directory.path().join("bench/work");
    fs::write(&script, fs::read_to_string(&script).unwrap() + "# new\n").unwrap();
    assert!(again(&["--rounds", "1"]).contains("work is not the same file as then"));
}
