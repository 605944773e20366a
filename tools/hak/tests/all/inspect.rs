// SPDX-License-Identifier: MIT
//! `hak inspect` and `hak diff`: what they say of a process is what the process knows of itself.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::heaps::{NOBODY, Running, assert_same, heap_program, is_root_here, look, preloaded};
use crate::common::{cc, hak, library};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

#[test]
fn figures_from_outside_are_those_from_inside() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut running = Running::start(&mut preloaded(&program, &library(), "quiet"));
    let inside = running.json();
    let outside = look(&running.pid());
    assert_same(&inside, &outside);
    // Of each kind there is something, or the comparison says little.
    let kinds = ["live", "cached", "outboxes", "free_in_slabs", "slab_tails", "dirty", "metadata"];
    for kind in kinds {
        assert!(outside[format!("resident_{kind}")].as_u64().unwrap() > 0, "{kind}");
    }
    assert_eq!(outside["is_measured"], true);
    assert_eq!(outside["inspect"]["moving_superslab_count"], 0);
    assert_eq!(outside["inspect"]["moving_heap_count"], 0);

    // By thread: the sums are the account's, and the names those that the system has.
    let heaps = outside["heaps"].as_array().unwrap();
    let sum = |field: &str| heaps.iter().map(|heap| heap[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("cached"), outside["cached"].as_u64().unwrap());
    let in_depot = outside["outboxes"].as_u64().unwrap() - sum("outboxes");
    assert!(in_depot > 0, "what lies in the depot is no thread's");
    assert_eq!(sum("free_in_slabs"), outside["free_in_slabs"].as_u64().unwrap());
    for name in ["heap_program", "worker 0", "worker 1", "worker 2"] {
        let its = heaps.iter().find(|heap| heap["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(its["cached"].as_u64().unwrap() > 0, "{name}");
    }
    assert!(heaps.iter().any(|heap| heap["state"] == "pooled"), "of the thread that has ended");

    running.go_on();
    assert_same(&running.json(), &look(&running.pid()));
    assert_eq!(running.end(), Some(0));
}

/// Blocks in caches of such heaps would count as held: the program has sent them home.
#[test]
fn heaps_of_the_programs_own_are_met() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut running = Running::start(&mut preloaded(&program, &library(), "regions"));
    let inside = running.json();
    let outside = look(&running.pid());
    assert_same(&inside, &outside);
    assert!(outside["live"].as_u64().unwrap() > 9_200_000, "blocks of 100 bytes, 150 kB and 9 MB");
    assert!(outside["huge_bytes"].as_u64().unwrap() > 9_200_000, "lone blocks count as huge ones");
    running.go_on();
    assert_eq!(running.end(), Some(0));
}

/// Its heaps still say that they are threads' of the parent.
#[test]
fn a_forked_child_has_one_thread() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut running = Running::start(&mut preloaded(&program, &library(), "child"));
    let child = running.line().trim().to_owned();
    let states = |seen: &Value| {
        let heaps = seen["heaps"].as_array().unwrap();
        heaps.iter().map(|heap| (heap["state"].clone(), heap["name"].clone())).collect::<Vec<_>>()
    };
    let attached = (Value::from("attached"), Value::from("the child"));
    assert_eq!(states(&look(&child)), [attached.clone(), ("abandoned".into(), Value::Null)]);
    assert_eq!(states(&look(&running.pid()))[1], ("attached".into(), "worker 0".into()));
    // From now on they say whose they are.
    running.go_on();
    let inside = running.json();
    let outside = look(&child);
    assert_same(&inside, &outside);
    assert_eq!(states(&outside), [attached, ("pooled".into(), Value::Null)]);
    running.go_on();
    assert_eq!(running.end(), Some(0));
}

/// A program that is linked with libhakmem.a; also one without symbols, which its mark gives away.
#[test]
fn linked_programs_are_inspected() {
    let archive = library().with_file_name("libhakmem.a");
    let directory = tempfile::tempdir().unwrap();
    for flags in [&[][..], &["-s"], &["-static"], &["-static", "-s"], &["-static-pie", "-s", "-Wl,--gc-sections"]] {
        let all = [&["-DLINKED", archive.to_str().unwrap(), "-pthread"], flags].concat();
        let program = heap_program(directory.path(), &all);
        let mut running =
            Running::start(Command::new(&program).arg("quiet").env("HAKMEM_INT", "off").env("HAKMEM_HARD_LIMIT", "1G"));
        let inside = running.json();
        let outside = look(&running.pid());
        assert_same(&inside, &outside);
        assert_eq!(outside["hard_limit"], 1 << 30);
        hak().args(["inspect", &running.pid()]).assert().stdout(contains("Of the hard limit, 1024.00 MiB, "));
        let remarks = outside["inspect"]["remarks"].to_string();
        assert_eq!(remarks.contains("found by their mark"), flags.contains(&"-s"), "{flags:?}: {remarks}");
        assert_eq!(running.end(), Some(0));
    }
}

/// Deleted, or replaced by another file, since the process began: inspected all the same, by whoever owns it.
#[test]
fn libraries_whose_files_are_gone() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let copy = directory.path().join("libhakmem.so");
    // Root may open files that have no name any more.
    let is_root = is_root_here();
    for replaced in [false, true] {
        fs::copy(library(), &copy).unwrap();
        let mut command = preloaded(&program, &copy, "quiet");
        if is_root {
            command.uid(NOBODY);
        }
        let mut running = Running::start(&mut command);
        let inside = running.json();
        fs::remove_file(&copy).unwrap();
        if replaced {
            fs::write(&copy, "something else").unwrap();
        }
        assert_same(&inside, &look(&running.pid()));
        let mut as_owner = Command::new(crate::common::BINARY);
        as_owner.args(["inspect", &running.pid(), "--json", "-"]);
        if is_root {
            as_owner.uid(NOBODY);
        }
        let output = as_owner.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let outside: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_same(&inside, &outside);
        let remarks = outside["inspect"]["remarks"].to_string();
        assert!(remarks.contains("deleted or replaced"), "{remarks}");
    }
}

#[test]
fn a_program_that_never_rests_is_looked_at_a_hundred_times() {
    const HELD: i64 = 3 * 20000;
    /// MAX_CAPACITY, in as many threads.
    const MAGAZINES: i64 = 3 * 8191;
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut running = Running::start(Command::new(&program).arg("churn").env("LD_PRELOAD", library()));
    assert_eq!(running.line(), "ready\n");
    for _ in 0..100 {
        let seen = look(&running.pid());
        let figure = |name: &str| seen[name].as_i64().unwrap();
        // In the middle of a look, threads may fill or empty their magazines.
        let held = seen["classes"].as_array().unwrap().iter().find(|class| class["block_bytes"] == 64).unwrap();
        let (rounding, held) = (held["rounding_most_bytes"].as_i64().unwrap(), held["live_count"].as_i64().unwrap());
        assert!((held - HELD).abs() <= MAGAZINES, "{held} blocks are held, of {HELD}");
        assert_eq!(rounding, held * 15, "of 49 bytes to 64");
        // Units are of one kind each, but those that are just being taken or given, or purged: 2 MiB a thread.
        let blocks = figure("slab_bytes") + figure("large_bytes") + figure("huge_bytes");
        let known = blocks + figure("slab_tails") + figure("dirty_free") + figure("clean_free");
        assert!((known - figure("committed")).abs() <= 10 << 20, "{known} of {}", figure("committed"));
        assert!(figure("resident") <= figure("mapped") && figure("resident") > HELD * 64);
    }
    // It has noticed nothing: all blocks are as they were.
    assert_eq!(running.end(), Some(0));
}

/// A block may reach beyond what was the heap's end when the look began.
#[test]
fn a_heap_that_grows_has_whole_blocks() {
    const BYTES: u64 = 20 << 20;
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    for _ in 0..4 {
        let mut running = Running::start(&mut preloaded(&program, &library(), "grow"));
        assert_eq!(running.line(), "ready\n");
        loop {
            let seen = look(&running.pid());
            let (count, bytes) =
                (seen["inspect"]["huge_count"].as_u64().unwrap(), seen["huge_bytes"].as_u64().unwrap());
            if seen["inspect"]["moving_superslab_count"] == 0 {
                assert_eq!(bytes, count * BYTES);
            }
            if count == 1000 {
                break;
            }
        }
    }
}

/// Counts that cannot belong together: of what never comes to rest it is said that it is moving, and the rest is shown.
#[test]
fn what_is_torn_is_read_again_and_then_said_to_be_moving() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut running = Running::start(&mut preloaded(&program, &library(), "torn"));
    assert_eq!(running.line(), "ready\n");
    let seen = look(&running.pid());
    assert_eq!(seen["inspect"]["moving_superslab_count"], 1);
    assert_eq!(seen["inspect"]["moving_heap_count"], 1);
    hak()
        .args(["inspect", &running.pid()])
        .assert()
        .success()
        .stdout(contains("moving: 1 SuperSlabs and 1 heaps").and(contains("in all")));
}

#[test]
fn what_changed_is_shown_by_kind_and_class() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let (before, after) = (directory.path().join("before.json"), directory.path().join("after.json"));
    let mut running = Running::start(&mut preloaded(&program, &library(), "quiet"));
    let inside = directory.path().join("inside.json");
    fs::write(&inside, running.json().to_string()).unwrap();
    hak().args(["inspect", &running.pid(), "--json"]).arg(&before).assert().success().stdout(contains("in all"));
    running.go_on();
    running.json();
    hak().args(["inspect", &running.pid(), "--json"]).arg(&after).assert().success();
    let diff = |before: &Path, after: &Path| hak().arg("diff").arg(before).arg(after).assert().success();
    // Ten blocks of 3000 bytes, and one of 20 MiB.
    let row = |start: &'static str, words: &'static [&'static str]| {
        let is_it =
            move |line: &str| line.trim_start().starts_with(start) && words.iter().all(|word| line.contains(word));
        predicate::function(move |text: &str| text.lines().any(is_it))
    };
    let note = || contains("note:");
    diff(&before, &after).stdout(row("live", &["+20.03"]).and(row("3072", &["+10 "])).and(note().not()));
    let reversed = contains("note: the second look is the earlier one");
    diff(&after, &before).stdout(row("live", &["-20.03"]).and(row("3072", &["-10 "])).and(reversed));
    // The library's own statistics are as good, but for the time and the process.
    diff(&inside, &before).stdout(contains("Nothing has changed").and(note().not()));
    diff(&inside, &after).stdout(row("3072", &["+10 "]).and(note().not()));
    diff(&after, &inside).stdout(row("3072", &["-10 "]).and(contains("note: counts that never fall are less")));

    let others = directory.path().join("others.json");
    let mut another = Running::start(&mut preloaded(&program, &library(), "quiet"));
    another.json();
    hak().args(["inspect", &another.pid(), "--json"]).arg(&others).assert().success();
    for (one, other) in [(&before, &others), (&others, &before)] {
        diff(one, other).stdout(contains("note: these are two processes"));
    }
}

#[test]
fn what_cannot_be_inspected_is_named() {
    let refused = |pid: &str, code: i32, reason: &str| {
        hak().args(["inspect", pid]).assert().code(code).stdout("").stderr(contains(reason.to_owned()));
    };
    refused("0", 2, "expected the number of a process");
    refused("x", 2, "expected the number of a process");
    refused("4194305", 2, "there is no process 4194305"); // beyond what the kernel counts to
    refused("4294967295", 2, "there is no process");
    refused(&std::process::id().to_string(), 2, "does not run under hakmem");

    let mut ended = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    // Its end of the pipe is closed when it has ended; it is not waited for yet.
    ended.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    while !fs::read_to_string(format!("/proc/{}/stat", ended.id())).unwrap().contains(") Z") {}
    refused(&ended.id().to_string(), 2, "it has ended");
    ended.wait().unwrap();
}

/// A name may be in an encoding that is none of ours, cut off in the middle of a letter, or hold what terminals obey.
#[test]
fn names_may_be_any_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join(OsStr::from_bytes(b"a\xff\x1b[2J\xc3"));
    fs::rename(heap_program(directory.path(), &["-ldl"]), &program).unwrap();
    let stats = directory.path().join("stats.json");
    let mut running = Running::start(preloaded(&program, &library(), "quiet").env("HAKMEM_STATS_FILE", &stats));
    running.json();
    let pid = running.pid();
    let shown = "a\u{fffd}?[2J\u{fffd}";
    let seen = look(&pid);
    assert_eq!(seen["inspect"]["program"], shown);
    assert_eq!(
        (&seen["heaps"][0]["state"], &seen["heaps"][0]["name"]),
        (&Value::from("attached"), &Value::from(shown))
    );
    let named = || contains(shown).and(contains("\x1b").not());
    hak().args(["inspect", &pid]).assert().success().stdout(named());
    hak().args(["top", "--batch", "--count", "1", &pid]).assert().success().stdout(named());
    hak().args(["top", "--batch", "--count", "1"]).assert().success().stdout(named());
    hak().args(["profile", &pid, "--for", "10ms"]).assert().success().stdout(named());
    hak().args(["dump", &pid]).assert().success();
    hak().arg("diff").args([&stats, &stats]).assert().success().stdout(named());
    // Nor does what stands for the library's version.
    let mut without: Value = seen;
    without.as_object_mut().unwrap().remove("inspect");
    without["version"] = "1\x1b[2J\nafter".into();
    fs::write(&stats, without.to_string()).unwrap();
    let shown = contains("before: statistics of hakmem 1?[2J?after\n").and(contains("\x1b").not());
    hak().arg("diff").args([&stats, &stats]).assert().success().stdout(shown);
}

/// Other versions of the library, as far as a tool can see them.
#[test]
fn other_layouts_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let wait = "int main(void) { puts(\"ready\"); fflush(stdout); return getchar() != EOF; }\n";
    let root = |layout: u32, self_: &str| {
        format!(
            "#include <stdio.h>\nconst struct {{ char mark[16]; const void *self; unsigned layout, root, field, \
             groups; char version[16]; }} hak_inspect_root = {{\"hakmem's tables\", {self_}, {layout}, 56, 56, 0, \
             \"9.8.7\"}};\n{wait}"
        )
    };
    let older = format!("#include <stdio.h>\nvoid hak_stats(void) {{}}\n{wait}");
    let cases = [
        (root(99, "&hak_inspect_root"), "hakmem 9.8.7, whose tables have layout 99, and this hak reads layout 1"),
        (root(1, "&hak_inspect_root"), "hakmem 9.8.7 has no field 'unit.bytes'"),
        (root(1, "0"), "does not run under hakmem"),
        (older, "cannot be inspected: it has no symbol hak_inspect_root"),
    ];
    for (source, reason) in cases {
        cc(&program, &source, &["-rdynamic"]);
        let mut running = Running::start(&mut Command::new(&program));
        assert_eq!(running.line(), "ready\n");
        hak().args(["inspect", &running.pid()]).assert().code(2).stderr(contains(reason));
        assert_eq!(running.end(), Some(0));
    }
}

#[test]
fn who_may_not_read_it_is_told_what_to_do() {
    if !is_root_here() {
        hak().args(["inspect", "1"]).assert().code(1).stderr(contains("cannot be read"));
        return;
    }
    let mut sleeping = Running::start(&mut Command::new("cat"));
    let pid = sleeping.pid();
    let output = Command::new(crate::common::BINARY).args(["inspect", &pid]).uid(NOBODY).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot be read") && said.contains("root"), "{said}");
    sleeping.stdin = None;
}

#[test]
fn files_that_make_no_sense_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut running = Running::start(&mut preloaded(&program, &library(), "quiet"));
    running.json();
    let good = directory.path().join("good.json");
    hak().args(["inspect", &running.pid(), "--json"]).arg(&good).assert().success();
    let text = fs::read_to_string(&good).unwrap();
    let file = directory.path().join("bad.json");
    let cases = [
        (text[..text.len() / 2].to_owned(), "cut off"),
        (String::new(), "cut off"),
        ("something else".into(), "no file of hak inspect"),
        ("{\"format\": \"hakmem results\"}".into(), "it has no 'committed'"),
        (text.replace("\"format\": 1", "\"format\": 99"), "written by a newer hak: format 99"),
        (text.replace("\"resident_live\"", "\"resident_other\""), "damaged: missing field `resident_live`"),
        (text.replacen("\"live_count\": ", "\"live_count\": -", 1), "damaged"),
    ];
    for (bad, reason) in cases {
        fs::write(&file, &bad).unwrap();
        for pair in [[&good, &file], [&file, &good]] {
            let reason = contains("bad.json").and(contains(reason));
            hak().arg("diff").args(pair).assert().code(2).stdout("").stderr(reason);
        }
    }
    hak().args(["diff", "/no/file"]).arg(&good).assert().code(2).stderr(contains("/no/file"));

    // A full disk: what was found is shown all the same.
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let shown = contains("held by the program");
    hak()
        .args(["inspect", &running.pid(), "--json", "/dev/full"])
        .assert()
        .code(1)
        .stdout(shown)
        .stderr(contains("cannot write /dev/full: No space left on device"));
    hak()
        .args(["inspect", &running.pid(), "--json", "/no/such/file"])
        .assert()
        .code(2)
        .stderr(contains("/no/such/file"));
    for arguments in [&["inspect", &running.pid()][..], &["diff", good.to_str().unwrap(), good.to_str().unwrap()]] {
        let output = Command::new(crate::common::BINARY).args(arguments).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("No space left on device"));
    }
}

#[test]
fn files_are_written_though_standard_output_fails() {
    let directory = tempfile::tempdir().unwrap();
    let program = heap_program(directory.path(), &["-ldl"]);
    let mut running = Running::start(&mut preloaded(&program, &library(), "quiet"));
    running.json();
    let (json, html) = (directory.path().join("look.json"), directory.path().join("look.html"));
    let mut command = Command::new(crate::common::BINARY);
    command.args(["inspect", &running.pid(), "--json"]).arg(&json).arg("--html").arg(&html).env_remove("LD_PRELOAD");
    let output = command.stdout(fs::File::create("/dev/full").unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write standard output"), "{output:?}");
    assert!(serde_json::from_slice::<Value>(&fs::read(json).unwrap()).unwrap()["live"].is_u64());
    assert!(fs::read_to_string(html).unwrap().contains("</html>"));
}

/// Its new program has hakmem elsewhere.
#[test]
fn a_process_that_becomes_another_program_is_said_to() {
    let script = "echo; read line; exec sleep 1000";
    for (words, shown) in [(&["inspect", "--every", "100ms", "--count", "1000"][..], true), (&["dump"], false)] {
        let directory = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env("LD_PRELOAD", library());
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let mut command = Command::new(crate::common::BINARY);
        command.args(words).arg(shell.id().to_string()).env_remove("LD_PRELOAD");
        let dumped = directory.path().join("dump");
        if !shown {
            command.args(["--every", "100ms", "--to"]).arg(&dumped);
        }
        let mut hak = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if shown {
            hak.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        } else {
            while !dumped.exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let output = hak.wait_with_output().unwrap();
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        let reason = format!("process {} has become another program while it was being looked at", shell.id());
        assert!(said.contains(&reason), "{said}");
    }
}
