// SPDX-License-Identifier: MIT
//! `hak report`: pages and tables from result files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{assert_self_contained, hak, json, made};
use predicates::prelude::*;
use predicates::str::contains;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/data").join(name)
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
    // The day on which somebody looked what upstream has is another one after each look.
    let without_day = |text: String| {
        let lines = text.lines().filter(|line| !line.starts_with("Newest upstream: "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let made = without_day(markdown(&[data("bench.json")]));
    let golden = without_day(fs::read_to_string(data("bench.md")).unwrap());
    assert_eq!(made, golden, "tests/all/data/bench.md differs from:\n{made}");
}

/// Whoever has made a file may have written anything into it.
#[test]
fn what_a_file_says_moves_no_cursor_and_fills_no_axis() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.json");
    let mut results = json(&data("bench.json"));
    for place in ["/machine/cpu", "/rows/0/name", "/allocators/0/version"] {
        *results.pointer_mut(place).unwrap() = "\u{1b}]0;title\u{7}\u{1b}[31mred".into();
    }
    fs::write(&file, results.to_string()).unwrap();
    let shown = hak().arg("report").arg(&file).output().unwrap();
    assert!(shown.status.success());
    assert!(!shown.stdout.contains(&0x1b) && !shown.stdout.contains(&7), "{}", String::from_utf8_lossy(&shown.stdout));
    results["kind"] = "\u{1b}[31mred".into();
    fs::write(&file, results.to_string()).unwrap();
    let refused = hak().arg("report").arg(&file).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(!refused.stderr.contains(&0x1b), "{}", String::from_utf8_lossy(&refused.stderr));

    let mut results = json(&data("bench.json"));
    *results.pointer_mut("/rows/0/columns/0/samples/0/memory_mib").unwrap() = 1e308.into();
    fs::write(&file, results.to_string()).unwrap();
    let page = directory.path().join("page.html");
    let damaged = hak().arg("report").arg(&file).arg("--html").arg(&page).assert().code(2);
    damaged.stderr(contains("damaged: 1e+308 is no measured value"));
}

#[test]
fn several_sets_can_stand_in_one_document_each_in_full() {
    let directory = tempfile::tempdir().unwrap();
    let mut quick = json(&data("bench.json"));
    quick["quick"] = true.into();
    quick["allocators"][2]["name"] = "mimalloc3".into();
    let mut full = json(&data("older.json"));
    full["quick"] = false.into();
    let files = [("quick.json", &quick), ("full.json", &full)].map(|(name, results)| {
        let file = directory.path().join(name);
        fs::write(&file, results.to_string()).unwrap();
        file
    });
    let output = directory.path().join("out.md");
    hak().args(["report", "--each"]).args(&files).arg("--markdown").arg(&output).assert().success();
    let made = fs::read_to_string(output).unwrap();
    let headings: Vec<&str> = made.lines().filter(|line| line.starts_with("# ") || line.starts_with("## ")).collect();
    assert_eq!(headings, ["# Measurements", "## The quick set, 5 rows", "## The full set, 5 rows"]);
    assert_eq!(made.matches("\n### Over all rows\n").count(), 2, "{made}");
    let (first, second) = made.split_once("## The full set").unwrap();
    assert!(first.contains("2026-02-01T12:00:00Z") && second.contains("2026-01-01T12:00:00Z"), "{made}");
    assert!(first.contains("| mimalloc3 | 3.3.2 | ") && first.contains(" is out |"), "{first}");
    hak().args(["report", "--each"]).args(&files).assert().code(2).stderr(contains("--markdown"));
}

#[test]
fn several_files_are_shown_side_by_side_in_the_order_of_their_dates() {
    let made = markdown(&[data("bench.json"), data("older.json")]);
    let heading =
        "| row | figure | older.json, 2026-01-01 12:00, aaaaaaa | bench.json, 2026-02-01 12:00, bbbbbbb | change |";
    assert!(made.contains(heading), "{made}");
    assert!(made.contains("| small blocks | ops_per_s | 99.6 M | 119 M | +20.0 % |"), "{made}");
    let page = html(&[data("bench.json"), data("older.json")]);
    assert!(page.contains("Several measurements") && page.contains("older.json, 2026-01-01 12:00, aaaaaaa"));
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
    // One chart with axes, for three widths, and four sets of bars.
    assert!(page.matches("<svg").count() == 3 && page.ends_with("</html>"));
    assert!(page.matches("class=\"bars\"").count() == 2 && page.matches("class=\"leads\"").count() == 2);
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
        .stdout(contains("small blocks").and(contains("0.51x")).and(contains("FAILED: large | blocks, other")));
}

fn printed(arguments: &[&std::ffi::OsStr], columns: &str) -> String {
    let assert = hak().arg("report").args(arguments).env("COLUMNS", columns).assert().success();
    String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
}

#[test]
fn the_verdict_of_a_suite_has_its_interval_everywhere() {
    let file = data("bench.json");
    let (answer, footing) =
        ("hakmem: 24 % faster (± 1 %), 22.7 % more memory (± 0.7 %)", "over 4 rounds; ± is the 95 %");
    let text = printed(&[file.as_os_str()], "200");
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[0], answer);
    let prose = lines[1..3].join(" ");
    assert!(
        prose.starts_with("Against glibc, in the geometric mean of 3 rows for the time and 4")
            && prose.contains(footing)
    );
    let made = markdown(std::slice::from_ref(&file));
    let (first, table) = (made.find(&format!("**{answer}.**")).unwrap(), made.find("| allocator |").unwrap());
    assert!(first < table && made.replace('\n', " ").contains(footing), "{made}");
    let page = html(std::slice::from_ref(&file));
    let first = page.find(&answer.replace(" %", "\u{a0}%").replace("± ", "±\u{a0}")).unwrap();
    assert!(first < page.find("<figure").unwrap() && page.contains(footing), "before everything else");
    // Where the rounds disagree there is no figure to believe.
    let directory = tempfile::tempdir().unwrap();
    let mut results = json(&file);
    for row in results["rows"].as_array_mut().unwrap() {
        for (round, sample) in row["columns"][1]["samples"].as_array_mut().unwrap().iter_mut().enumerate() {
            if let Some(figure) = sample["figure"].as_f64() {
                sample["figure"] = (figure * [0.2, 4.0, 1.0, 0.5][round % 4]).into();
            }
        }
    }
    let noisy = directory.path().join("noisy.json");
    fs::write(&noisy, results.to_string()).unwrap();
    let text = printed(&[noisy.as_os_str()], "200");
    assert!(text.contains("hakmem: not enough rounds for the time: ") && !text.contains("faster (±"), "{text}");
}

/// A file of the comparison that was never run.
fn comparison(directory: &Path) -> PathBuf {
    let file = directory.join("comparison.json");
    fs::write(&file, made::comparison().to_string()).unwrap();
    file
}

#[test]
fn the_verdict_comes_first_and_the_command_can_be_typed() {
    let directory = tempfile::tempdir().unwrap();
    let file = comparison(directory.path());
    let text = printed(&[file.as_os_str()], "80");
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let command = format!("perl -e 'my @a = map {{ \"x$_\" }} 1..200000' {}", made::LONG_WORD);
    assert_eq!(lines[0], command);
    assert_eq!(lines[1], "hakmem: 12 % faster (± 1 %), 4 % more memory");
    assert!(lines[2].starts_with("Against glibc, over 9 rounds"), "{text}");
    let page = html(std::slice::from_ref(&file));
    let answer = page.find("hakmem: 12\u{a0}% faster (±\u{a0}1\u{a0}%), 4\u{a0}% more memory").unwrap();
    assert!(answer < page.find("<figure").unwrap(), "before everything else");
    assert!(page.contains("my @a = map { &quot;x$_&quot; } 1..200000'"), "the command is quoted");
    let made = markdown(&[file]);
    assert!(made.contains("**hakmem: 12 % faster (± 1 %), 4 % more memory.**"), "{made}");
    assert!(made.contains("| **hakmem** | 0.261 | 0.264 | 2.4 % | 0.88x ± 0.01 |  |"), "{made}");
}

#[test]
fn names_are_whole_at_every_width_of_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let (file, suite) = (comparison(directory.path()), data("bench.json"));
    for columns in [40, 60, 80, 120] {
        let text = printed(&[file.as_os_str()], &columns.to_string());
        let tables = text.lines().filter(|line| line.starts_with(' ') && !line.contains("made"));
        for line in tables.clone() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        for (name, ..) in made::ALLOCATORS {
            let whole = tables.clone().filter(|line| line.split_whitespace().next() == Some(name)).count();
            // Time and memory, its course, processor, user and system time, faults, memory of all processes, and calls.
            assert_eq!(whole, 8, "{name} at {columns}\n{text}");
        }
        let text = printed(&[suite.as_os_str()], &columns.to_string());
        for line in text.lines().filter(|line| line.starts_with(' ')) {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        for name in ["small blocks", "large | blocks", "idle threads"] {
            assert!(text.contains(name), "{name} at {columns}\n{text}");
        }
    }
}

/// The terminal, the page, Markdown and CSV: hakmem takes half of what glibc takes, everywhere.
#[test]
fn ratios_have_one_direction_and_unit_everywhere() {
    let text = printed(&[data("bench.json").as_os_str()], "120");
    let line = |text: &str, start: &str| {
        let mut lines = text.lines().filter(|line| line.trim_start().starts_with(start));
        lines.next().unwrap_or_else(|| panic!("no {start} in {text}")).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line(&text, "small blocks"), "small blocks 119 M 61.5 M 0.51x");
    assert_eq!(
        line(&markdown(&[data("bench.json")]), "| small blocks | 1.00"),
        "| small blocks | 1.00 | **0.51** | 0.62 |"
    );
    let page = html(&[data("bench.json")]);
    assert!(page.contains("<span class=\"ratio\">0.51x</span>"), "on the page as well");
    // Compared with the best of the others, where that is asked for.
    let best = printed(&[data("bench.json").as_os_str(), "--best".as_ref()], "120");
    assert_eq!(line(&best, "small blocks"), "small blocks 119 M 99.5 M other 0.83x");
    let directory = tempfile::tempdir().unwrap();
    let best_of_one = printed(&[comparison(directory.path()).as_os_str(), "--best".as_ref()], "120");
    assert!(line(&best_of_one, "hakmem   ").contains("1.00x best 31.2 1.04x"), "{best_of_one}");
    assert!(!text.contains("best peer") && best.contains("best peer"), "{text}");
}

#[test]
fn memory_over_time_is_drawn_for_each_allocator() {
    let directory = tempfile::tempdir().unwrap();
    let file = comparison(directory.path());
    let page = html(std::slice::from_ref(&file));
    assert_self_contained(&page);
    let first = page.find("<figure").unwrap();
    assert!(page[first..].starts_with("<figure class=\"wide\"><figcaption>Memory over time"), "it is the first");
    for (name, ..) in made::ALLOCATORS {
        assert!(page.contains(&format!("<title>{name}: ")), "{name} has values to point at");
    }
    let text = printed(&[file.as_os_str()], "80");
    let line = text.lines().find(|line| line.contains("hakmem") && line.contains('▁')).unwrap();
    assert!(line.contains("▅▅▅") && line.ends_with(" 31.2"), "{line}");
    // Of files from before it was sampled there is nothing to draw.
    let mut old = made::comparison();
    for column in old["rows"][0]["columns"].as_array_mut().unwrap() {
        for sample in column["samples"].as_array_mut().unwrap() {
            sample.as_object_mut().unwrap().retain(|key, _| key != "memory_over_time" && key != "peak_tree_kib");
        }
    }
    fs::write(&file, old.to_string()).unwrap();
    assert!(
        !html(std::slice::from_ref(&file)).contains("Memory over time")
            && !printed(&[file.as_os_str()], "80").contains('▁')
    );
}

#[test]
fn the_page_marks_the_baseline_and_noise_and_folds_its_tables() {
    let directory = tempfile::tempdir().unwrap();
    let page = html(&[comparison(directory.path())]);
    assert!(page.contains("<div class=\"bar base\" title=\"glibc: wall time 0.300 s"), "the baseline is marked");
    assert!(page.contains("<div class=\"bar noise\" title=\"snmalloc: wall time"), "noise is grey");
    assert!(
        page.contains("<div class=\"bar hakmem\" title=\"hakmem: wall time 0.264 s, 0.261 to 0.267"),
        "values to point at"
    );
    assert!(page.contains("noise\"><td>snmalloc"), "rows of tables as well");
    let (tables, folded) = (page.matches("<table").count(), page.split("<details").skip(1));
    let inside = folded.map(|part| part.split("</details").next().unwrap().matches("<table").count()).sum::<usize>();
    assert!(tables >= 4 && inside == tables, "{inside} of {tables} tables are folded");
}

#[test]
fn several_files_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (directory.path().join("one"), directory.path().join("other"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&other).unwrap();
    let files = [comparison(&one), comparison(&other)];
    let text = printed(&[files[0].as_os_str(), files[1].as_os_str()], "80");
    for file in &files {
        let label = format!("=== {}, 2026-02-01 12:00\n", file.display());
        assert_eq!(text.matches(&label).count(), 1, "{text}");
    }
    assert!(!printed(&[files[0].as_os_str()], "80").contains("==="), "one file needs no name");
    let page = html(&files);
    assert!(page.contains("In full: ") && page.contains("other/comparison.json, 2026-02-01 12:00"), "so on the page");
}

#[test]
fn a_program_that_was_not_run_is_named_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let mut results = made::comparison();
    let mut other = results["rows"][0].clone();
    other["name"] = "other".into();
    other["not_run"] = "its setup failed: exit code 3".into();
    for column in other["columns"].as_array_mut().unwrap() {
        column["samples"] = Vec::<serde_json::Value>::new().into();
    }
    results["rows"].as_array_mut().unwrap().push(other);
    let file = directory.path().join("results.json");
    fs::write(&file, results.to_string()).unwrap();
    let text = printed(&[file.as_os_str()], "80");
    assert!(text.contains("\nother\nnot run: its setup failed: exit code 3\n"), "{text}");
    assert_eq!(text.matches("served by").count(), 1, "there is nothing else to say of it");
    let files = [file];
    for shown in [markdown(&files), html(&files)] {
        assert!(shown.contains("Not run: its setup failed: exit code 3"));
    }
}

/// The baseline is what the program had when it came, if that was measured.
#[test]
fn the_allocator_that_a_program_brings_is_its_baseline() {
    let directory = tempfile::tempdir().unwrap();
    let mut results = made::comparison();
    results["rows"][0]["columns"][5]["allocator"] = "as shipped".into();
    let file = directory.path().join("results.json");
    fs::write(&file, results.to_string()).unwrap();
    let text = printed(&[file.as_os_str()], "80");
    assert!(
        text.contains("hakmem: 15.1 % faster (± 0.1 %), 13 % less memory") && text.contains("Against as shipped"),
        "{text}"
    );
}

#[test]
fn csv_has_the_ratios_to_the_baseline_of_the_same_round() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.csv");
    hak().arg("report").arg(comparison(directory.path())).arg("--csv").arg(&output).assert().success();
    let mut reader = csv::Reader::from_path(output).unwrap();
    let header = reader.headers().unwrap().clone();
    let at = |name: &str| header.iter().position(|title| title == name).unwrap();
    let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let number = |line: &csv::StringRecord, name: &str| line[at(name)].parse::<f64>().unwrap();
    let of = |allocator: &str, round: &str| {
        let found = lines.iter().find(|line| &line[at("allocator")] == allocator && &line[at("round")] == round);
        found.unwrap()
    };
    for round in ["1", "2", "9"] {
        let (base, ours) = (of("glibc", round), of("hakmem", round));
        assert_eq!((&base[at("baseline")], number(base, "time_ratio")), ("glibc", 1.0));
        let expected = number(ours, "wall_seconds") / number(base, "wall_seconds");
        assert!((number(ours, "time_ratio") - expected).abs() < 1e-12 && expected < 0.95, "round {round}");
        assert!((number(ours, "memory_ratio") - 1.04).abs() < 0.001, "round {round}");
    }
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
    fs::write(&file, "{\"version\": \"0.1.0\", \"committed\": 0}").unwrap();
    report().stderr(contains("a look at a heap, which hak diff reads"));
    let results = data("bench.json");
    hak().arg("diff").args([&results, &results]).assert().code(2).stderr(contains("results, which hak report reads"));
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
