// SPDX-License-Identifier: MIT
//! `hak bench`: rows that work, rows that do not, and ends before the end.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::suites::{Suite, row, row_named};
use crate::common::{BINARY, column, hak, interrupt, json, samples, write_script};
use predicates::prelude::*;
use predicates::str::contains;

#[test]
fn every_sample_is_kept_and_summed_up() {
    let rows = row("fast", "command=['work','x']")
        + &row("memory", "command=['work','x','resident_mib']\nmax_rounds=1")
        + "[[row]]\nname='prog'\nfamily='test'\nkind='program'\ncommand=['perl','-e','open F,\">\",\"here\" or die; print F 1']\nquick=true\n"
        + "[[row]]\nname='driver'\nfamily='test'\nkind='driver'\ncommand=['sh','-c','test -d {scratch} && echo s=2 metric=s malloc_from=${HAK_BENCH_PRELOAD:-libc.so.6}']\n";
    let suite = Suite::new(&rows);
    let assert = hak().args(suite.arguments()).args(["--rounds", "4"]).assert().success();
    assert.stdout(
        contains("4 of 4 rows ran under 2 allocators in 4 rounds; 0 not run; 0 failures")
            .and(contains("geometric"))
            .and(contains("fast")),
    );
    let results = json(&suite.results());
    assert_eq!((&results["state"], &results["rounds"]), (&"complete".into(), &4.into()));
    assert_eq!(samples(column(&results, "hakmem")), 4);
    assert_eq!(column(&results, "glibc")["samples"][0]["memory_mib"], 12.5);
    assert_eq!(row_named(&results, "memory")["columns"][0]["samples"].as_array().unwrap().len(), 1);
    assert!(row_named(&results, "memory")["figure"].is_null());
    let evidence = &row_named(&results, "prog")["columns"][1]["proof"]["evidence"];
    assert!(evidence.as_str().unwrap().contains("refills"), "{evidence}");
    assert_eq!(row_named(&results, "driver")["figure"]["key"], "s");
    assert!(results["machine"]["cpu"].is_string() && results["machine"]["kernel"].is_string());
    assert_eq!(results["allocators"][1]["name"], "hakmem");

    let mut csv = csv::Reader::from_path(suite.results().with_extension("csv")).unwrap();
    let lines: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert_eq!(lines.len(), 4 * 2 + 2 + 4 * 2 + 4 * 2);
    assert!(lines.iter().all(|line| line.get(4) == Some("glibc") || line.get(17).unwrap().contains("libhakmem.so")));
}

/// With proof, all calls, and the memory that came on top of the replayer's own; what is no whole trace is not run.
#[test]
fn a_trace_is_a_row() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/traces").canonicalize().unwrap();
    let replay =
        |name: &str, file: &str| format!("[[row]]\nname='{name}'\nfamily='test'\nkind='replay'\ncommand=['{file}']\n");
    let suite = Suite::new(&replay("calls", &format!("{}/redis.trace", traces.display())));
    hak().args(suite.arguments()).args(["--rounds", "1"]).assert().success();
    let results = json(&suite.results());
    assert_eq!(
        (&results["rows"][0]["kind"], &results["rows"][0]["memory"]),
        (&"replay".into(), &"peak memory of the calls".into())
    );
    assert_eq!(results["rows"][0]["figure"], serde_json::json!({"key": "calls_per_s", "more_is_better": true}));
    for name in ["glibc", "hakmem"] {
        let column = column(&results, name);
        let by = column["proof"]["answered_by"].as_str().unwrap();
        assert!(by.contains(if name == "glibc" { "libc.so" } else { "libhakmem" }), "{by}");
        let sample = &column["samples"][0];
        // The program has 6.4 MiB live at its peak, and the replayer as much again for itself.
        assert!((6.0..15.0).contains(&sample["memory_mib"].as_f64().unwrap()), "{sample}");
        assert!(sample["figure"].as_f64().unwrap() > 1000.0, "{sample}");
    }
    let whole = fs::read(traces.join("redis.trace")).unwrap();
    let suite = Suite::new(&(replay("cut", "{traces}/cut.trace") + &replay("none", "{traces}/none.trace")));
    fs::create_dir(suite.directory.path().join("traces")).unwrap();
    fs::write(suite.directory.path().join("traces/cut.trace"), &whole[..whole.len() / 2]).unwrap();
    let assert = hak().args(suite.arguments()).args(["--rounds", "1"]).assert().code(1);
    assert.stderr(
        contains("cut: not run: preparing it failed")
            .and(contains("damaged or cut off"))
            .and(contains("none: not run: preparing it failed: cannot read")),
    );
}

/// A program with hakmem in itself runs for hakmem alone, with nothing preloaded, and is shown beside its like.
#[test]
fn a_program_with_the_library_in_itself_is_hakmems_alone() {
    let beside = |name: &str, program: &str| row(name, &format!("command=['{program}']\nbeside='plain'"));
    let rows = row("plain", "command=['work']") + &beside("own", "own") + &beside("not built", "none");
    let suite = Suite::new(&rows);
    let own = "#!/bin/sh\n[ -z \"$LD_PRELOAD\" ] || exit 7\n\
               echo \"ops_per_s=800 metric=ops_per_s malloc_from=$(readlink -f \"$0\")\"\n";
    write_script(&suite.directory.path().join("bench/own"), own);
    let assert = hak().args(suite.arguments()).args(["--rounds", "4"]).env("COLUMNS", "200").assert().success();
    let of_table = "The library in the program";
    assert.stdout(
        contains(of_table)
            .and(contains("1.25x"))
            .and(contains("time: of 1 row"))
            .and(contains("in the geometric mean of 1 row for the time and 1 row for the memory"))
            .and(contains("not run: not built: ").and(contains("is not built, for which it takes cargo"))),
    );
    let results = json(&suite.results());
    let columns = row_named(&results, "own")["columns"].as_array().unwrap();
    assert_eq!((columns.len(), &columns[0]["allocator"], samples(&columns[0])), (1, &"hakmem".into(), 4));
    assert!(columns[0]["proof"]["answered_by"].as_str().unwrap().ends_with("/bench/own"), "{columns:?}");
    assert_eq!(row_named(&results, "plain")["columns"].as_array().unwrap().len(), 2);

    let lying = Suite::new(&(row("plain", "command=['work']") + &beside("lying", "work")));
    let assert = hak().args(lying.arguments()).args(["--rounds", "1"]).assert().code(1);
    assert.stdout(contains("FAILED: lying, hakmem: round 1: it was served by libc.so.6").and(contains(of_table).not()));
    let arguments =
        suite.arguments().into_iter().map(|word| if word == "glibc,hakmem" { "glibc".into() } else { word });
    let without = arguments.filter(|word| word != "--allocator" && !word.to_string_lossy().contains("libhakmem"));
    hak().args(without).args(["--rounds", "1", "--filter", "own"]).assert().code(2).stderr(contains("hakmem alone"));
}

#[test]
fn the_directory_of_the_results_is_made() {
    let suite = Suite::new(&row("fast", "command=['work','x']"));
    let directory = suite.directory.path();
    let to = |place: &str| {
        let mut arguments = suite.arguments();
        *arguments.last_mut().unwrap() = directory.join(place).into();
        hak().args(arguments).args(["--rounds", "1"]).assert()
    };
    to("new/results").success();
    assert_eq!(fs::read_dir(directory.join("new/results")).unwrap().count(), 2);
    to("suite.toml/results")
        .code(2)
        .stderr(contains("cannot make ").and(contains("suite.toml/results: Not a directory")));
}

#[test]
fn the_first_run_of_a_row_in_a_round_does_not_count() {
    let row = "[[row]]\nname='logged'\nfamily='test'\nkind='driver'\ncommand=['sh','-c','echo \"${HAK_BENCH_PRELOAD:-libc.so.6}\" >> {suite}/runs; echo s=2 metric=s malloc_from=${HAK_BENCH_PRELOAD:-libc.so.6}']\n";
    let directory = tempfile::tempdir().unwrap();
    let suite = Suite::new(&row.replace("{suite}", directory.path().to_str().unwrap()));
    hak().args(suite.arguments()).args(["--rounds", "2"]).assert().success();
    assert_eq!(samples(column(&json(&suite.results()), "glibc")), 2);
    let runs = fs::read_to_string(directory.path().join("runs")).unwrap();
    let runs: Vec<bool> = runs.lines().map(|line| line.contains("libhakmem.so")).collect();
    assert_eq!(runs, [true, true, false, false, false, true], "each round starts with another allocator, twice");
}

#[test]
fn what_fails_is_named_and_the_rest_is_measured() {
    let rows = row("good", "command=['work']")
        + &row("failing", "command=['work','fail']")
        + &row("hanging", "command=['work','hang']\ntimeout_seconds=0.5")
        + &row("lying", "command=['work','lie']")
        + &row("crashing", "command=['work','crash']")
        + &row("needy", "command=['work']\nneeds=['no-such-command']")
        + &row("unprepared", "command=['work']\nprepare=['sh','-c','echo no input >&2; exit 4']");
    let suite = Suite::new(&rows);
    hak().args(suite.arguments()).args(["--rounds", "2"]).assert().code(1).stdout(
        contains("FAILED: failing, hakmem: round 1: exit code 1: it broke")
            .and(contains("FAILED: hanging, glibc: round 1: timed out after 0.5 s"))
            .and(contains("FAILED: lying, glibc: round 1: it was served by libother.so"))
            .and(contains("FAILED: crashing, hakmem: round 1: killed by signal 11 (SIGSEGV)"))
            .and(contains("FAILED: crashing, glibc").not())
            .and(contains("not run: needy: no no-such-command"))
            .and(contains("not run: unprepared: preparing it failed: exit code 4: no input"))
            .and(contains("5 of 7 rows ran")),
    );
    let results = json(&suite.results());
    assert_eq!(samples(column(&results, "hakmem")), 2);
    assert_eq!(results["rows"].as_array().unwrap().len(), 7, "no row is dropped");
}

/// Both ways: by the system's switch, where this test may throw it, and for single processes.
#[test]
fn a_row_runs_under_the_huge_pages_that_it_asks_for() {
    const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let Ok(before) = fs::read_to_string(SWITCH) else {
        eprintln!("skipped: this kernel has no transparent huge pages");
        return;
    };
    let rows =
        row("wide", "command=['look']\nhuge_pages='always'") + &row("narrow", "command=['look']\nhuge_pages='never'");
    let suite = Suite::new(&(rows + &row("plain", "command=['look']")));
    let look = format!(
        "#!/bin/sh\ngrep -q '\\[always' {SWITCH}; always=$((2 - $?))\n\
         allowed=$(sed -n 's/^THP_enabled:[^0-9]*//p' /proc/self/status)\n\
         echo \"always=$always s=$((1 + ${{allowed:-0}})) metric=s memory=always malloc_from=$(basename \"${{LD_PRELOAD:-libc.so.6}}\")\"\n"
    );
    write_script(&suite.directory.path().join("bench/look"), &look);
    hak().args(suite.arguments()).args(["--rounds", "1"]).assert().success();
    assert_eq!(fs::read_to_string(SWITCH).unwrap(), before, "the setting is as it was");

    let results = json(&suite.results());
    let sample = |name: &str| row_named(&results, name)["columns"][0]["samples"][0].clone();
    let may = fs::OpenOptions::new().write(true).open(SWITCH).is_ok();
    if may || before.contains("[always]") {
        assert_eq!(sample("wide")["memory_mib"], 2.0);
    } else {
        let reason = row_named(&results, "wide")["not_run"].as_str().unwrap();
        assert!(reason.contains("cannot be set to always: Permission denied"), "{reason}");
    }
    assert_eq!(sample("narrow")["figure"], 1.0, "they are disabled");
    assert_eq!(row_named(&results, "narrow")["huge_pages"], "never");
    let ours = row_named(&results, "plain")["huge_pages"].as_str().unwrap();
    assert!(before.contains(&format!("[{ours}]")), "{ours}: {before}");
    let own = fs::read_to_string("/proc/self/status").unwrap();
    if let Some(allowed) = own.lines().find_map(|line| line.strip_prefix("THP_enabled:")) {
        let expected = 1.0 + allowed.trim().parse::<f64>().unwrap();
        assert_eq!(sample("plain")["figure"], expected, "only that one process was changed");
    }
}

#[test]
fn rows_about_memory_alone_tell_all_sizes_and_no_time() {
    let sizes =
        "echo start_mib=1 at_once_mib=4 resident_mib=2 metric=resident_mib malloc_from=${HAK_BENCH_PRELOAD:-libc.so.6}";
    let rows = row("comes back", &format!("command=['sh','-c','{sizes}']")).replace("workload", "driver")
        + &row("start", "command=['true']\nmemory_only=true").replace("workload", "program")
        + &row("other", "command=['work']");
    let suite = Suite::new(&rows);
    hak().args(suite.arguments()).args(["--rounds", "2"]).assert().success();
    let results = json(&suite.results());
    let sample = |name| &row_named(&results, name)["columns"][1]["samples"][1];
    assert_eq!(sample("comes back")["memories"]["at_once_mib"], 4.0);
    assert!(row_named(&results, "start")["figure"].is_null() && sample("start")["figure"].is_null());
    assert!(sample("start")["memory_mib"].as_f64().unwrap() > 0.1, "{}", sample("start"));
    let csv = fs::read_to_string(suite.results().with_extension("csv")).unwrap();
    assert!(csv.contains("at_once_mib=4 resident_mib=2 start_mib=1"), "{csv}");
    for (option, shown) in [("--markdown", "| **hakmem** | 2.00 | 4.00 | 1.00 |"), ("--html", "<h3>comes back</h3>")] {
        let file = suite.directory.path().join("shown");
        hak().arg("report").arg(suite.results()).arg(option).arg(&file).assert().success();
        let page = fs::read_to_string(file).unwrap();
        assert!(page.contains(shown), "{page}");
        assert!(page.contains("Memory that comes back") && !page.contains("Single calls"), "{page}");
    }
}

#[test]
fn latencies_are_shown_beside_each_other_and_have_no_part_in_the_means() {
    let calls = "echo p99_9_us=0.5 p50_us=0.02 worst_us=700 wait_us=0 metric=worst_us malloc_from=${HAK_BENCH_PRELOAD:-libc.so.6}";
    let rows = row("quick calls", &format!("command=['sh','-c','{calls}']")).replace("workload", "driver");
    let suite = Suite::new(&(rows + &row("other", "command=['work']")));
    let assert = hak().args(suite.arguments()).args(["--rounds", "2"]).assert().success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(text.contains("latency: rows, worst first"), "{text}");
    let heading = ["quick calls", "p50", "p99.9", "worst", "wait"];
    let words =
        |line: &str| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).map(String::from).collect();
    let lines: Vec<Vec<String>> = text.lines().map(words).collect();
    let at = lines.iter().position(|line| *line == heading).unwrap_or_else(|| panic!("no table of latencies: {text}"));
    for (line, name) in lines[at + 1..].iter().zip(["glibc", "hakmem"]) {
        assert_eq!(*line, [name, "0.0200", "0.500", "700", "0"]);
    }
    assert!(
        lines.iter().any(
            |line| line.first().is_some_and(|name| name == "hakmem") && line.get(4).is_some_and(|rows| rows == "1")
        )
    );
    let results = json(&suite.results());
    assert_eq!(row_named(&results, "quick calls")["columns"][1]["samples"][1]["latency"]["p99_9_us"], 0.5);
    let csv = fs::read_to_string(suite.results().with_extension("csv")).unwrap();
    assert!(csv.contains("p50_us=0.02 p99_9_us=0.5 wait_us=0 worst_us=700"), "{csv}");
    for (option, shown) in [("--markdown", "| glibc | 0.0200 | 0.500 | 700 | 0 |"), ("--html", "<h3>quick calls</h3>")]
    {
        let file = suite.directory.path().join("shown");
        hak().arg("report").arg(suite.results()).arg(option).arg(&file).assert().success();
        let page = fs::read_to_string(file).unwrap();
        assert!(page.contains(shown), "{page}");
    }
}

#[test]
fn a_library_that_is_replaced_meanwhile_is_named() {
    let suite = Suite::new(&row("a", "command=['replace']"));
    let own = suite.directory.path().join("libown.so");
    fs::copy(crate::common::library(), &own).unwrap();
    let script = format!(
        "#!/bin/sh\nprintf x >> {}\n\
         echo s=1 metric=s malloc_from=$(basename \"${{LD_PRELOAD:-libc.so.6}}\")\n",
        own.display()
    );
    write_script(&suite.directory.path().join("bench/replace"), &script);
    let mut bench = hak();
    bench.args(suite.arguments()).args(["--rounds", "1", "--allocator"]).arg(format!("own={}", own.display()));
    bench.assert().code(1).stderr(contains("replaced during the measurement, which has both: own\n"));
}

#[test]
fn an_interrupted_run_keeps_what_was_measured() {
    let rows = row("good", "command=['work']") + &row("endless", "command=['work','hang']");
    let suite = Suite::new(&rows);
    let mut child = Command::new(BINARY)
        .args(suite.arguments())
        .args(["--rounds", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let second_row = lines.by_ref().map(Result::unwrap).find(|line| line.contains("2/2 endless"));
    assert!(second_row.is_some());
    std::thread::sleep(std::time::Duration::from_millis(200));
    interrupt(&child);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(rest.iter().any(|line| line.contains("interrupted")), "{rest:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("The measurement was interrupted."));

    let results = json(&suite.results());
    assert_eq!(results["state"], "interrupted");
    assert_eq!(samples(column(&results, "glibc")), 1);
    assert!(fs::read_to_string(suite.results().with_extension("csv")).unwrap().contains("good"));
    hak().arg("report").arg(suite.results()).assert().success().stdout(contains("interrupted"));
}

#[test]
fn rows_are_listed_and_chosen() {
    let slow = row("slow", "command=['work']").replace("quick=true", "");
    let suite = Suite::new(&(row("Alpha", "command=['work']") + &row("beta", "command=['work']") + &slow));
    let list = |options: &[&str]| {
        let assert = hak().args(suite.arguments()).arg("--list").args(options).assert().success();
        String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
    };
    assert!(list(&[]).contains("3 rows under 2 allocators, 1 round, and up to 5 where they fit into 175 minutes"));
    assert!(list(&["--quick"]).contains("2 rows"));
    assert!(list(&["--filter", "ALPHA"]).contains("1 row under"));
    hak().args(suite.arguments()).args(["--filter", "gamma"]).assert().code(2).stderr(contains("no row of the suite"));
    // What is named wrongly, and what is only not there.
    let listed = |words: &[&str]| {
        let mut command = hak();
        command.args(["bench", "--list", "--suite"]).arg(suite.directory.path().join("suite.toml")).args(words).assert()
    };
    listed(&["--allocators", "glibc,nosuch"]).code(2).stderr(contains("no allocator is called 'nosuch'"));
    listed(&["--allocator", "x=/nosuch"]).code(2).stderr(contains("/nosuch: No such file or directory"));
    listed(&["--build", "/nosuch"]).code(2).stderr(contains("--build /nosuch: there is no such directory"));
    let empty = tempfile::tempdir().unwrap();
    listed(&["--build", empty.path().to_str().unwrap(), "--allocators", "glibc,snmalloc"])
        .success()
        .stdout(contains("3 rows under 1 allocator, 1 round"))
        .stderr(contains("hak: the time is without one: allocator 'snmalloc' is not there: "));
    assert!(list(&["--rounds", "3"]).contains("3 rows under 2 allocators, 3 rounds: about 5 seconds"));
    assert_eq!(fs::read_dir(suite.directory.path().join("results")).unwrap().count(), 0);
}

/// Texts in single quotes, or single words, behind --filter; and what else a line offers ("also 'a', 'b'").
fn filters_in(line: &str) -> Vec<String> {
    let Some((_, rest)) = line.split_once("--filter ") else { return Vec::new() };
    let quoted = rest.split('\'').skip(1).step_by(2).map(String::from);
    let word = (!rest.starts_with('\'')).then(|| rest.split([' ', '`', ')', ',', '\n']).next().unwrap().to_owned());
    word.into_iter().chain(quoted).collect()
}

#[test]
fn every_filter_that_the_documents_name_chooses_rows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let documents =
        fs::read_dir(root.join("docs")).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let others = ["README.md", "bench/README.md", "bench/peers/README.md", "tools/hak/src/cli.rs", "Makefile"];
    let mut found = 0;
    for file in documents.chain(others.iter().map(|name| root.join(name))) {
        let text = fs::read_to_string(&file).unwrap().replace("--filter\n", "--filter ");
        for line in text.lines().filter(|line| line.contains("hak bench")) {
            for filter in filters_in(line) {
                found += 1;
                let mut list = hak();
                list.args(["bench", "--list", "--filter", &filter, "--suite"]).arg(root.join("bench/suite.toml"));
                list.assert().success();
            }
        }
    }
    assert!(found >= 8, "only {found} filters were found");
}

#[test]
fn bad_suites_are_named() {
    for (text, reason) in
        [("[[row]]\nname='x'", "missing field"), ("row = 1", "invalid type"), ("", "there are no rows")]
    {
        let suite = Suite::new(text);
        hak().args(suite.arguments()).assert().code(2).stderr(contains("suite.toml").and(contains(reason)));
    }
    hak().args(["bench", "--suite", "/no/suite.toml"]).assert().code(2).stderr(contains("/no/suite.toml"));
    let suite = Suite::new(&row("a", "command=['work']"));
    fs::remove_dir_all(suite.directory.path().join("bench")).unwrap();
    hak().args(suite.arguments()).assert().code(2).stderr(contains("no workloads in"));
}

/// The suite of this project is one that the tool reads.
#[test]
fn the_projects_own_suite_is_read() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/suite.toml");
    let assert = hak().args(["bench", "--list", "--quick", "--suite"]).arg(suite).assert().success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    for family in ["reports", "literature", "programs"] {
        assert!(text.contains(family), "{text}");
    }
}
