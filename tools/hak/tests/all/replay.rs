// SPDX-License-Identifier: MIT
//! `hak replay`: a trace is made again, call for call, and takes as much memory as the program took.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{BINARY, cc, hak, interrupt, library, strace_works};
use predicates::str::contains;
use serde_json::Value;

const PROGRAM: &str = include_str!("data/trace_program.c");

fn program(directory: &Path) -> PathBuf {
    let program = directory.join("trace_program");
    cc(&program, PROGRAM, &["-O1", "-fno-builtin", "-pthread"]);
    program
}

fn traced(directory: &Path, words: &[&str]) -> PathBuf {
    let trace = directory.join("trace");
    let mut command = hak();
    command.args(["trace", "--library"]).arg(library()).arg("--output").arg(&trace);
    command.arg("--").arg(program(directory)).args(words).assert().success();
    trace
}

fn hakmem() -> String {
    format!("hakmem={}", library().display())
}

fn replayed(trace: &Path, words: &[&str]) -> Value {
    let mut command = hak();
    command.args(["replay", "--allocator", &hakmem(), "--json", "-"]).arg(trace).args(words);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// In KiB, of the first allocator.
fn peak(replayed: &Value) -> f64 {
    let rounds = replayed["allocators"][0]["rounds"].as_array().unwrap();
    middle(rounds.iter().map(|round| round["peak_kib"].as_f64().unwrap()).collect())
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The program writes all that it allocates, and tells by how much it has grown at its peak, as the replayer does.
#[test]
fn a_replay_has_the_peak_of_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let trace = traced(directory.path(), &["grow", "100"]);
    let real = || -> f64 {
        let mut command = Command::new(directory.path().join("trace_program"));
        let output = command.args(["grow", "100"]).env("LD_PRELOAD", library()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    let real = middle((0..3).map(|_| real()).collect());
    let value = replayed(&trace, &["--allocators", "hakmem", "--rounds", "3"]);
    let peak = peak(&value);
    assert!(real > 100.0 * 1024.0, "{real}");
    assert!((peak / real - 1.0).abs() < 0.03, "{peak} KiB, and the program {real}");
    let less = replayed(&trace, &["--allocators", "hakmem", "--rounds", "1", "--touch", "none"]);
    assert!(less["allocators"][0]["rounds"][0]["peak_kib"].as_f64().unwrap() < peak / 2.0, "{less}");
}

/// Of large blocks, freed ones and such as are there at the end, no more is written than the program has written.
#[test]
fn a_replay_uses_as_much_of_large_blocks_as_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let trace = traced(directory.path(), &["partly"]);
    let mut command = Command::new(directory.path().join("trace_program"));
    let output = command.arg("partly").env("LD_PRELOAD", library()).output().unwrap();
    let real: f64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    let peak = peak(&replayed(&trace, &["--allocators", "hakmem", "--rounds", "3"]));
    assert!((10.0 * 1024.0..40.0 * 1024.0).contains(&real), "{real}");
    assert!((peak / real - 1.0).abs() < 0.03, "{peak} KiB, and the program {real}");
}

/// A compiler, which asks for much more than it uses, and frees little. hakmem decides nothing by time, as the program
/// takes far longer than its replay.
#[test]
fn a_replay_has_the_peak_of_a_compiler() {
    let asked = |question: &str| -> Option<String> {
        let output = Command::new("g++").arg(question).output().ok()?;
        Some(String::from_utf8(output.stdout).unwrap().trim().into())
    };
    let Some(compiler) = asked("-print-prog-name=cc1plus").filter(|name| Path::new(name).is_file()) else {
        return eprintln!("skipped: there is no g++");
    };
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    fs::write(place("templates.cpp"), include_str!("data/templates.cpp")).unwrap();
    let multiarch = asked("-print-multiarch").filter(|machine| !machine.is_empty());
    let mut words: Vec<OsString> = vec![compiler.into(), "-quiet".into()];
    words.extend(multiarch.into_iter().flat_map(|machine| ["-imultiarch".into(), machine.into()]));
    words.extend(["-D_GNU_SOURCE", "-std=c++17", "-O1", "-o", "/dev/null"].map(Into::into));
    words.push(place("templates.cpp").into());

    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    cc(
        &place("heap_peak.so"),
        include_str!("data/heap_peak.c"),
        &["-O1", "-shared", "-fPIC", "-fno-builtin", "-I", include.to_str().unwrap()],
    );
    let mut command = Command::new(&words[0]);
    let preload = format!("{} {}", place("heap_peak.so").display(), library().display());
    let output = command.args(&words[1..]).env("HAKMEM_INT", "off").env("LD_PRELOAD", preload).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let real: f64 = said.trim().parse().unwrap();
    assert!(real > 4.0 * 1024.0, "{real}");

    let trace = place("trace");
    let mut command = hak();
    command.env("HAKMEM_INT", "off").args(["trace", "--library"]).arg(library()).arg("--output").arg(&trace);
    command.arg("--").args(&words).assert().success();
    let mut command = hak();
    command.env("HAKMEM_INT", "off").args(["replay", "--allocator", &hakmem(), "--allocators", "hakmem"]);
    let output = command.args(["--rounds", "3", "--json", "-"]).arg(&trace).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let peak = peak(&serde_json::from_slice(&output.stdout).unwrap());
    assert!((peak / real - 1.0).abs() < 0.03, "{peak} KiB, and the compiler {real}");
}

/// Of a real program, with blocks of many sizes: what its heap has when it has allocated all, as it is seen from outside.
#[test]
fn a_replay_has_the_peak_of_a_python_program() {
    const SCRIPT: &str = "import sys
records = [{'id': i, 'name': 'n%d' % i, 'data': b'x' * (i * 7919 % 8000), 'tags': list(range(i % 20))} for i in range(15000)]
print('grown', flush=True)
sys.stdin.readline()";
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let python = String::from_utf8(python.stdout).unwrap();
    let words = [python.trim(), "-c", SCRIPT];
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let mut command = hak();
    command.env("PYTHONMALLOC", "malloc").env("PYTHONHASHSEED", "0").args(["trace", "--library"]).arg(library());
    command.arg("--output").arg(&trace).arg("--").args(words).assert().success();

    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("PYTHONMALLOC", "malloc").env("PYTHONHASHSEED", "0").env("LD_PRELOAD", library());
    let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut grown = [0; 6];
    program.stdout.as_mut().unwrap().read_exact(&mut grown).unwrap();
    let output = hak().arg("inspect").arg(program.id().to_string()).args(["--json", "-"]).output().unwrap();
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let real = seen["resident"].as_f64().unwrap() / 1024.0;
    assert!(real > 50.0 * 1024.0, "{real}");

    let value = replayed(&trace, &["--allocators", "hakmem", "--rounds", "3"]);
    let peak = peak(&value);
    assert!((peak / real - 1.0).abs() < 0.03, "{peak} KiB, and the program {real}");
}

/// What all threads have at the same time, they have in the replay, whose own stacks and buffers do not count: the
/// second program has little more than that would be.
#[test]
fn a_replay_of_threads_has_the_peak_of_the_program() {
    for (threads, size, tolerance) in [("32", "100000", 0.03), ("200", "3000", 0.15)] {
        let directory = tempfile::tempdir().unwrap();
        let trace = traced(directory.path(), &["hold", threads, size]);
        let real = || -> f64 {
            let mut command = Command::new(directory.path().join("trace_program"));
            let output = command.args(["hold", threads, size]).env("LD_PRELOAD", library()).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
        };
        let real = middle((0..3).map(|_| real()).collect());
        let value = replayed(&trace, &["--allocators", "hakmem", "--rounds", "3"]);
        let peak = peak(&value);
        assert!((peak / real - 1.0).abs() < tolerance, "{threads} threads: {peak} KiB, and the program {real}");
    }
}

/// Those of the suite: they are whole, each call is made again under either allocator, and they name no place of the
/// machine that recorded them. The counts are those of bench/README.md.
#[test]
fn the_traces_of_the_suite_are_replayed_call_by_call() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/traces");
    let names = fs::read_dir(&traces).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".trace")).collect();
    names.sort();
    let expected = [("g++", 903_854, 1), ("python", 1_259_854, 1), ("redis", 538_886, 2)];
    assert_eq!(names, expected.map(|(name, ..)| format!("{name}.trace")));
    for (name, calls, threads) in expected {
        let trace = traces.join(format!("{name}.trace"));
        let output = hak().arg("explain").arg(&trace).args(["--json", "-"]).output().unwrap();
        let facts: Value = serde_json::from_slice(&output.stdout).unwrap();
        for figure in ["lost", "unknown", "implied", "refused"] {
            assert_eq!(facts[figure], 0, "{name}: {figure}");
        }
        assert_eq!(facts["damage"], Value::Null, "{name}");
        let words = facts["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        assert!(words.clone().all(|word| !word.contains('/') || word == "/dev/null"), "{facts}");
        let count = |figure: &str| facts[figure].as_u64().unwrap();
        assert_eq!(count("allocations") + count("reallocations") + count("frees"), calls, "{name}");
        let value = replayed(&trace, &["--allocators", "glibc,hakmem", "--rounds", "1"]);
        assert_eq!((&value["calls"], &value["threads"]), (&calls.into(), &threads.into()), "{name}");
        for one in value["allocators"].as_array().unwrap() {
            assert_eq!((&one["calls"], &one["refused"], &one["failure"]), (&calls.into(), &0.into(), &Value::Null));
        }
    }
}

/// What `exec` takes along nobody frees in the program, and the replay does: either says how many blocks that are.
#[test]
fn what_exec_takes_along_is_counted_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let trace = traced(directory.path(), &["exec"]);
    let explained = hak().arg("explain").arg(&trace).args(["--json", "-"]).output().unwrap();
    let (facts, text): (Value, _) = (serde_json::from_slice(&explained.stdout).unwrap(), explained.stderr);
    let count = |figure: &str| facts[figure].as_u64().unwrap();
    let taken = count("exec_blocks");
    assert!(taken > 0 && count("exec_bytes") >= 1 << 20, "{facts}");
    assert!(String::from_utf8(text).unwrap().contains("\n  exec took along 1"));
    let lives = |band: &Value| band["lives"].as_array().unwrap().iter().map(|life| life.as_u64().unwrap()).sum::<u64>();
    for band in facts["bands"].as_array().unwrap() {
        assert_eq!(lives(band) + band["kept"].as_u64().unwrap(), band["allocations"].as_u64().unwrap(), "{band}");
    }
    let value = replayed(&trace, &["--allocators", "glibc", "--rounds", "1"]);
    let calls = count("allocations") + count("reallocations") + count("frees") + taken;
    assert_eq!((&value["calls"], &value["exec_frees"]), (&calls.into(), &taken.into()));
    assert_eq!(value["allocators"][0]["calls"], calls);
    let mut command = hak();
    command.args(["replay", "--allocators", "glibc", "--rounds", "1"]).arg(&trace);
    let said = format!("{calls} calls of 1 thread, {taken} of them frees of what exec took along\n");
    command.assert().success().stdout(contains(said));
}

/// Threads that came one after the other are there one after the other: the stacks of all would be 16 GiB.
#[test]
fn short_threads_are_not_there_at_the_same_time() {
    let directory = tempfile::tempdir().unwrap();
    let trace = traced(directory.path(), &["short", "2000"]);
    let mut command = assert_cmd::Command::new("sh");
    command.timeout(std::time::Duration::from_secs(60));
    command.args(["-c", "ulimit -v 4000000 && exec \"$@\"", "sh", BINARY, "replay", "--allocators", "glibc"]);
    command.args(["--rounds", "1"]).arg(&trace);
    command.assert().success().stdout(contains("calls of 2001 threads"));
}

/// Blocks go from thread to thread; each allocator serves every call, and is proven.
#[test]
fn threads_are_replayed_under_other_allocators() {
    let directory = tempfile::tempdir().unwrap();
    let trace = traced(directory.path(), &["threads"]);
    let value = replayed(&trace, &["--allocators", "glibc,hakmem", "--rounds", "1", "--touch", "ends"]);
    assert_eq!(value["threads"], 5);
    let all = value["allocators"].as_array().unwrap();
    assert_eq!(all.len(), 2);
    for one in all {
        assert_eq!((&one["calls"], &one["refused"], &one["failure"]), (&value["calls"], &0.into(), &Value::Null));
        let by = if one["name"] == "glibc" { "libc.so" } else { "libhakmem" };
        assert!(one["proof"]["answered_by"].as_str().unwrap().contains(by), "{one}");
    }
    // 20 000 blocks of each of 4 threads, a tenth of them with two realloc, and 5000 huge ones.
    assert!(value["calls"].as_u64().unwrap() >= 4 * (2 * 20_000 + 4_000 + 2 * 5_000), "{value}");
    let text = "shows=what a replayer that is not served by it is worth";
    let wrong = directory.path().join("none.so");
    cc(&wrong, &format!("const char *text = \"{text}\";"), &["-shared", "-fPIC"]);
    let mut command = hak();
    command.arg("replay").arg(&trace).args(["--allocators", "none", "--allocator"]);
    command.arg(format!("none={}", wrong.display())).args(["--rounds", "1", "--touch", "ends"]);
    command.assert().code(1).stdout(contains("it did not serve the replay"));
}

/// On a busy machine a thread that yields the processor instead waits for a turn of all others, each time.
#[test]
fn a_thread_that_waits_for_another_one_sleeps() {
    if !strace_works() {
        return eprintln!("skipped: there is no strace, or no right to trace");
    }
    let directory = tempfile::tempdir().unwrap();
    let trace = traced(directory.path(), &["threads"]);
    let calls = directory.path().join("calls");
    let mut strace = assert_cmd::Command::new("strace");
    strace.args(["-f", "-qq", "--seccomp-bpf", "-e", "trace=sched_yield,futex", "-o"]).arg(&calls).arg(BINARY);
    strace.args(["replay", "--allocators", "hakmem", "--rounds", "1", "--allocator", &hakmem()]).arg(&trace);
    strace.assert().success();
    let calls = fs::read_to_string(&calls).unwrap();
    assert!(calls.lines().filter(|line| line.contains("FUTEX_WAIT_PRIVATE")).count() > 100, "{calls}");
    assert_eq!(calls.lines().find(|line| line.contains("sched_yield")), None);
}

#[test]
fn other_settings_are_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let trace = traced(directory.path(), &["grow", "8"]);
    let mut command = hak();
    command.args(["explain", "--settings", "--rounds", "1", "--library"]).arg(library()).arg(&trace);
    let shown = command.assert().success();
    for setting in ["as it is", "HAKMEM_PROFILE=memory", "HAKMEM_INT=off", "HAKMEM_SOFT_LIMIT=", "no huge pages"] {
        shown.get_output().stdout.windows(setting.len()).find(|part| *part == setting.as_bytes()).expect(setting);
    }
}

/// Interrupted once a round has been run: its error output, its standard output, and what it has written. Runs are far
/// shorter than the time after which a waiting tool looks up.
fn interrupted(words: &[&str]) -> (String, String, Value) {
    let directory = tempfile::tempdir().unwrap();
    let trace = traced(directory.path(), &["none"]);
    let (json, temporary) = (directory.path().join("json"), directory.path().join("temporary"));
    fs::create_dir(&temporary).unwrap();
    let mut command = Command::new(BINARY);
    command.args(words).args(["--rounds", "1000", "--json"]).arg(&json).arg(&trace);
    command.env("TMPDIR", &temporary).env_remove("LD_PRELOAD").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut hak = command.spawn().unwrap();
    let has_plan = || fs::read_dir(&temporary).unwrap().any(|made| made.unwrap().path().join("plan").exists());
    let children = format!("/proc/{0}/task/{0}/children", hak.id());
    let mut seen = HashSet::new();
    // With a plan: the proof, the first round, and one more.
    while seen.len() < 3 {
        assert!(hak.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(1));
        if has_plan() {
            seen.extend(fs::read_to_string(&children).unwrap().split_whitespace().map(String::from));
        }
    }
    interrupt(&hak);
    let asked = Instant::now();
    let output = hak.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(asked.elapsed() < Duration::from_secs(2));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stderr), text(output.stdout), crate::common::json(&json))
}

#[test]
fn an_interrupted_replay_shows_and_keeps_what_was_measured() {
    let (said, shown, kept) = interrupted(&["replay", "--allocators", "glibc"]);
    assert!(said.contains("interrupted; shown is what was measured until then"), "{said}");
    assert!(shown.contains("\nglibc "), "{shown}");
    assert!(!kept["allocators"][0]["rounds"].as_array().unwrap().is_empty(), "{kept}");
}

#[test]
fn an_interrupted_explanation_is_shown_and_kept() {
    let library = library();
    let (said, shown, kept) = interrupted(&["explain", "--settings", "--library", library.to_str().unwrap()]);
    assert!(said.contains("interrupted; shown is what was measured until then"), "{said}");
    assert!(shown.contains("1 event of 1 thread") && shown.contains("\nas it is "), "{shown}");
    assert!(kept["events"].as_u64().unwrap() > 0 && kept["settings"][0]["proof"].is_object(), "{kept}");
}

#[test]
fn a_trace_that_is_cut_is_replayed_as_far_as_it_goes() {
    let directory = tempfile::tempdir().unwrap();
    let trace = traced(directory.path(), &["threads"]);
    let whole = fs::read(&trace).unwrap();
    fs::write(&trace, &whole[..whole.len() * 2 / 3]).unwrap();
    let replay = || {
        let mut command = hak();
        command
            .args(["replay", "--allocators", "hakmem", "--rounds", "1", "--touch", "ends", "--allocator", &hakmem()])
            .arg(&trace);
        command
    };
    replay().assert().code(1).stdout(contains("calls of")).stderr(contains("damaged or cut off"));
    fs::write(&trace, "text").unwrap();
    replay().assert().code(2).stderr(contains("it is no trace of hak trace"));
}
