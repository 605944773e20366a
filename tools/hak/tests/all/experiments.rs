// SPDX-License-Identifier: MIT
//! `hak compare` as an experiment: inputs, commands around the runs, parameters, limits, and programs of many kinds.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::{cc, column, hak, hakmem, json, samples, write_script};
use assert_cmd::assert::Assert;
use predicates::str::contains;
use serde_json::Value;

const INPUT_IS_WHOLE: &str = "die unless join('', <STDIN>) eq \"b\\n\" x 100_000";

fn compare(options: &[&str], command: &[&str]) -> assert_cmd::Command {
    let mut hak = hak();
    hak.args(["compare", "--rounds", "4", "--allocators", "glibc,hakmem", "--allocator"]).arg(hakmem()).args(options);
    if !command.is_empty() {
        hak.arg("--").args(command);
    }
    hak
}

/// The results, beside what was shown.
fn measured(options: &[&str], command: &[&str]) -> (Assert, Value) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.json");
    let mut hak = compare(&[&["--json", file.to_str().unwrap()], options].concat(), command);
    let assert = hak.assert();
    (assert, json(&file))
}

fn stdout(assert: &Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
}

#[test]
fn what_comes_through_a_pipe_is_given_to_every_run() {
    compare(&[], &["perl", "-e", INPUT_IS_WHOLE]).write_stdin("b\n".repeat(100_000)).assert().success();
}

#[test]
fn a_file_is_given_to_every_run_from_its_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("input");
    fs::write(&file, "b\n".repeat(100_000)).unwrap();
    compare(&["--input", file.to_str().unwrap()], &["perl", "-e", INPUT_IS_WHOLE]).assert().success();
    compare(&["--input", "/no/input"], &["true"]).assert().code(2).stderr(contains("cannot read /no/input"));
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (name, reason) in [(directory.path(), "is a directory"), (&fifo, "give it as standard input")] {
        compare(&["--input", name.to_str().unwrap()], &["cat"]).assert().code(2).stderr(contains(reason));
    }
    // Of each value its own, which is not written to either.
    let place = |name: &str| directory.path().join(name).display().to_string();
    for value in ["1", "2"] {
        fs::copy(&file, place(value)).unwrap();
    }
    let filled = place("{n}");
    let options = ["--parameter-list", "n", "1,2", "--input", &filled];
    compare(&options, &["perl", "-e", INPUT_IS_WHOLE]).assert().success();
    let json = place("2");
    let taken = compare(&[&options[..], &["--json", &json]].concat(), &["cat"]).assert().code(2);
    taken.stderr(contains("it is what is read, or run"));
    let missing = ["--parameter-list", "n", "1,3", "--input", &filled];
    compare(&missing, &["cat"]).assert().code(2).stderr(contains("/3: No such file"));

    // Deleted, as a shell's here-document is.
    let open = fs::File::open(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let mut command = std::process::Command::new(crate::common::BINARY);
    command.args(["compare", "--rounds", "1", "--allocators", "glibc", "--", "perl", "-e", INPUT_IS_WHOLE]);
    assert!(command.stdin(open).output().unwrap().status.success());
}

/// Each of four processes holds 24 MiB until all of them do, and then for long enough to be seen.
#[test]
fn the_memory_of_all_processes_is_summed_up() {
    let directory = tempfile::tempdir().unwrap();
    let script = "my ($n, $d) = (24 << 20, shift);
        for my $i (1..4) {
          next if fork;
          my $x = chr(65 + $i) x $n;
          open F, '>', qq($d/$i) and close F;
          select undef, undef, undef, 0.01 until 4 == grep { -e qq($d/$_) } 1..4;
          select undef, undef, undef, 0.5;
          exit;
        }
        1 while wait > 0;
        unlink map { qq($d/$_) } 1..4;";
    let place = directory.path().to_str().unwrap();
    let (assert, results) = measured(&[], &["perl", "-e", script, place]);
    assert.success();
    for allocator in ["glibc", "hakmem"] {
        let sample = &column(&results, allocator)["samples"][0];
        let (tree, largest) = (&sample["peak_tree_kib"], &sample["usage"]["peak_kib"]);
        assert!(tree.as_u64().unwrap() >= 4 * 24 * 1024, "{tree}");
        assert!(largest.as_u64().unwrap() * 3 / 2 < tree.as_u64().unwrap(), "{largest} of {tree}");
        let course = sample["memory_over_time"].as_array().unwrap();
        assert!((2..=200).contains(&course.len()), "{} points", course.len());
        let times: Vec<u64> = course.iter().map(|point| point[0].as_u64().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert!(course.iter().any(|point| point[1].as_u64().unwrap() >= 4 * 24 * 1024));
    }
}

/// A malloc that is not the C library's.
const OWN: &str = "#include <stddef.h>
    void *__libc_malloc(size_t); void __libc_free(void *); void *__libc_calloc(size_t, size_t);
    void *__libc_realloc(void *, size_t);
    void *malloc(size_t n) { return __libc_malloc(n); }
    void free(void *p) { __libc_free(p); }
    void *calloc(size_t n, size_t size) { return __libc_calloc(n, size); }
    void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }\n";

const PROGRAM: &str = "#include <stdlib.h>
    int main(void) {
      void *volatile blocks[1000];
      for (int i = 0; i < 1000; i++) blocks[i] = malloc(100);
      for (int i = 0; i < 1000; i++) free(blocks[i]);
    }\n";

/// A library that the program is linked with serves it, as redis-server's does.
#[test]
fn a_program_with_an_allocator_of_its_own_is_measured_as_shipped() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    cc(&path("libown.so"), OWN, &["-shared", "-fPIC"]);
    let (place, rpath) =
        (format!("-L{}", directory.path().display()), format!("-Wl,-rpath,{}", directory.path().display()));
    cc(&path("program"), PROGRAM, &[&place, &rpath, "-Wl,--no-as-needed", "-lown"]);

    let program = path("program");
    let (assert, results) = measured(&[], &[program.to_str().unwrap()]);
    let assert = assert.success();
    for (allocator, library) in [("as shipped", "libown.so"), ("glibc", "libc.so.6"), ("hakmem", "libhakmem.so")] {
        assert_eq!(samples(column(&results, allocator)), 4, "{allocator}");
        let served_by = column(&results, allocator)["proof"]["answered_by"].as_str().unwrap();
        assert!(served_by.contains(library), "{allocator}: {served_by}");
    }
    assert_eq!(results["allocators"][0]["name"], "as shipped");
    assert!(stdout(&assert).contains("as shipped"));
    let page = path("page.html");
    compare(&["--html", page.to_str().unwrap()], &[program.to_str().unwrap()]).assert().success();
    assert!(fs::read_to_string(page).unwrap().contains("as shipped"));
}

/// Nothing that is preloaded goes before what is in the executable: there is nothing to compare with.
#[test]
fn a_program_with_an_allocator_in_its_executable_is_measured_only_as_shipped() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (own, fixed, script) = (path("own"), path("static"), path("script"));
    cc(&own, &(OWN.to_owned() + PROGRAM), &["-rdynamic"]);
    cc(&fixed, PROGRAM, &["-static"]);
    write_script(&script, &format!("#!{}\n", own.display()));
    let (mallocs, statics) = ("brings its own malloc, which goes", "is statically linked, so nothing");
    for (program, reason, served_by) in [
        (&own, format!("{} {mallocs}", own.display()), "own"),
        (&fixed, format!("{} {statics}", fixed.display()), "the program itself"),
        (&script, format!("(as the interpreter of {}: {}) {mallocs}", script.display(), own.display()), "own"),
    ] {
        let (markdown, page) = (path("shown.md"), path("shown.html"));
        let files = ["--markdown", markdown.to_str().unwrap(), "--html", page.to_str().unwrap()];
        let (assert, results) = measured(&files, &[program.to_str().unwrap()]);
        let columns = results["rows"][0]["columns"].as_array().unwrap();
        assert_eq!(columns.len(), 1, "{columns:?}");
        let shipped = column(&results, "as shipped");
        assert_eq!((samples(shipped), &shipped["failure"]), (4, &Value::Null));
        assert!(shipped["proof"]["answered_by"].as_str().unwrap().ends_with(served_by), "{shipped}");
        assert_eq!(results["allocators"].as_array().unwrap().len(), 1, "who served nothing is not named");
        let out = stdout(&assert.code(1));
        assert!(out.contains("wall time") && !out.contains("FAILED") && !out.contains("hakmem:"), "{out}");
        for shown in [out, fs::read_to_string(markdown).unwrap(), fs::read_to_string(page).unwrap()] {
            let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(shown.contains(&reason), "{reason}\n{shown}");
            assert!(shown.contains(": it is measured only as shipped. Linked "), "{shown}");
        }
    }
    // What another program starts is found as it runs.
    let (assert, results) = measured(&[], &["sh", "-c", &format!("cd {} && ./own", directory.path().display())]);
    assert.code(1).stdout(contains(format!("FAILED: not proven: {} {mallocs}", own.display())));
    assert_eq!(["as shipped", "glibc", "hakmem"].map(|name| samples(column(&results, name))), [4, 0, 0]);
    // Others beside it are compared; no limit can be judged, and a program that is only made by then is looked at.
    let program = path("made").display().to_string();
    let setup = format!("cp {} {program}", fixed.display());
    let options = ["--fail-if", "time>9999", "--setup", &setup, "--command", "true"];
    let (assert, results) = measured(&options, &[&program]);
    assert.code(1).stderr(contains(format!("hak: {program}: time>9999 cannot be told: there is no value of hakmem")));
    let rows = results["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["columns"].as_array().unwrap().len()).collect::<Vec<_>>(), [1, 2]);
    assert!(rows[0]["alone"].as_str().unwrap().contains(statics) && rows[1]["alone"].is_null());
    assert_eq!(samples(&rows[1]["columns"][1]), 4);
}

#[test]
fn commands_of_the_user_run_around_the_runs() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let write = |text: &str| format!("echo {text} >> {}", log.display());
    let (setup, prepare, cleanup) = (write("setup"), write("prepare"), write("cleanup"));
    let around = ["--setup", &setup, "--prepare", &prepare, "--cleanup", &cleanup];
    let options = [&around[..], &["--allocators", "glibc", "--warmup", "3", "--command", "true"]].concat();
    hak().args(["compare", "--rounds", "2"]).args(&options).assert().success();
    let lines = fs::read_to_string(&log).unwrap();
    // The proof, three warm-ups, two rounds, the count of system calls.
    let expected = ["setup"].into_iter().chain(["prepare"; 1 + 3 + 2 + 1]).chain(["cleanup"]);
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>());

    // What goes on behind them, with what was open, holds up nothing.
    let server = directory.path().join("server").display().to_string();
    let start = format!("sleep 1000 & echo $! > {server}");
    let end = format!("kill $(cat {server})");
    compare(&["--setup", &start, "--cleanup", &end], &["true"]).timeout(Duration::from_secs(200)).assert().success();

    // They make what the program is and needs, and their failures are told.
    let program = directory.path().join("program").display().to_string();
    let make = format!("cp /bin/true {program}");
    compare(&["--setup", &make], &[&program]).assert().success();
    compare(&["--setup", "echo why >&2; exit 3"], &["true"])
        .assert()
        .code(1)
        .stderr(contains("--setup 'echo why >&2; exit 3': exit code 3: why"));
    compare(&["--prepare", "exit 3"], &["true"]).assert().code(1).stderr(contains("--prepare 'exit 3': exit code 3"));
    let (assert, results) = measured(&["--cleanup", "exit 3"], &["true"]);
    assert.code(1).stderr(contains("--cleanup 'exit 3': exit code 3"));
    assert!(results["rows"][0]["not_run"].is_null() && samples(column(&results, "hakmem")) == 4);
}

#[test]
fn several_commands_and_parameters_are_rows() {
    let options = ["--parameter-list", "n", "1,2", "--command", "echo {n} 'a b'"];
    let (assert, results) = measured(&options, &["true"]);
    assert.success().stdout(contains("echo 2 'a b'"));
    let rows = results["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["true", "true", "echo 1 'a b'", "echo 2 'a b'"]);
    assert_eq!(rows[3]["command"], serde_json::json!(["echo", "2", "a b"]));
    assert_eq!(rows[3]["parameters"]["n"], "2");
    assert!(rows.iter().all(|row| row["columns"].as_array().unwrap().iter().all(|column| samples(column) == 4)));
}

/// One command that cannot be measured leaves the others alone.
#[test]
fn a_command_that_fails_is_told_beside_the_others() {
    let (assert, results) = measured(&["--command", "true"], &["false"]);
    assert.code(1).stdout(contains("wall time")).stderr(contains("hak: false: the program itself did not succeed"));
    assert!(results["rows"][0]["not_run"].as_str().unwrap().contains("exit code 1"));
    assert_eq!(samples(&results["rows"][1]["columns"][1]), 4);
}

#[test]
fn a_limit_that_is_exceeded_is_the_exit_code() {
    let slow = "select undef, undef, undef, 0.2 if ($ENV{LD_PRELOAD} // '') =~ /hakmem/";
    let judge = |limit: &str| compare(&["--fail-if", limit], &["perl", "-e", slow]).assert();
    judge("time>1.5").code(3).stderr(contains("beyond time>1.5: hakmem has "));
    judge("time>1000").success();
    hak()
        .args(["compare", "--rounds", "1", "--allocators", "glibc", "--fail-if", "time>1", "--", "true"])
        .assert()
        .code(1)
        .stderr(contains("time>1 cannot be told: there is no value of hakmem"));
    compare(&["--fail-if", "speed>1"], &["true"]).assert().code(2).stderr(contains("METRIC is one of"));
}

#[test]
fn manual_pages_and_completions_are_made() {
    let directory = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    hak().arg("generate").arg(directory.path()).assert().success();
    assert!(read("man/man1/hak.1").contains("hak\\-compare(1)"));
    let page = directory.path().join("man/man1/hak-compare.1");
    assert!(fs::read_to_string(&page).unwrap().contains("\\-\\-fail\\-if"));
    // Those of subcommands of subcommands, too.
    for name in ["hak", "hak-top", "hak-install-program"] {
        let page = read(&format!("man/man1/{name}.1"));
        let title = page.lines().find(|line| line.starts_with(".TH")).unwrap();
        let words = shell_words::split(title).unwrap();
        assert_eq!(words.len(), 6, "{title}");
        assert!(words[3].parse::<jiff::civil::Date>().is_ok(), "{title}");
        assert_eq!([&words[1], &words[4]], [name, concat!("hakmem ", env!("CARGO_PKG_VERSION"))], "{title}");
    }
    for (name, shell) in [
        ("bash-completion/completions/hak", "bash"),
        ("zsh/site-functions/_hak", "zsh"),
        ("fish/vendor_completions.d/hak.fish", "fish"),
    ] {
        assert!(read(name).contains("fail-if") && !read(name).contains("generate,"), "{name}");
        check_syntax(shell, &directory.path().join(name));
    }
    check_page(&page);
    for words in [&[][..], &["--help"], &["one", "two"]] {
        hak().arg("generate").args(words).assert().code(2).stderr(contains("hak generate DIR"));
    }
}

fn check_syntax(shell: &str, file: &Path) {
    if which::which(shell).is_ok() {
        assert!(std::process::Command::new(shell).arg("-n").arg(file).status().unwrap().success(), "{shell}");
    }
}

fn check_page(page: &Path) {
    let Ok(groff) = which::which("groff") else {
        eprintln!("skipped: no groff");
        return;
    };
    let output =
        std::process::Command::new(groff).args(["-man", "-ww", "-Kutf8", "-Tutf8", "-z"]).arg(page).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Each run takes a long and a short time in turn, whatever serves it: nothing can be sure of that.
const IN_TURN: &str = r#"#!/bin/sh
runs="${0%/*}/runs"
echo >> "$runs"
[ $(($(wc -l < "$runs") % 2)) = 0 ] && sleep 0.08
exit 0
"#;

fn rounds_until_sure(directory: &Path, script: &str, most: &str) -> usize {
    let program = directory.join("program");
    write_script(&program, script);
    let results = directory.join("results.json");
    hak()
        .args(["compare", "--until-sure", "--rounds", "4", "--max-rounds", most, "--allocators", "glibc,hakmem"])
        .arg("--allocator")
        .arg(hakmem())
        .arg("--json")
        .arg(&results)
        .arg("--")
        .arg(&program)
        .assert()
        .success();
    let results = json(&results);
    assert_eq!(samples(column(&results, "glibc")), samples(column(&results, "hakmem")));
    assert_eq!(results["rounds"], samples(column(&results, "glibc")));
    samples(column(&results, "glibc"))
}

#[test]
fn more_rounds_are_made_until_it_is_sure_or_there_are_enough() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(rounds_until_sure(directory.path(), IN_TURN, "7"), 7);
    let apart = "#!/bin/sh\ncase $LD_PRELOAD in *hakmem*) sleep 0.3 ;; esac\n";
    let rounds = rounds_until_sure(directory.path(), apart, "60");
    assert!(rounds < 60, "ten times as long is soon told: {rounds}");
    hak().args(["compare", "--max-rounds", "9", "--", "true"]).assert().code(2).stderr(contains("--until-sure"));
}
