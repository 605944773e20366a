// SPDX-License-Identifier: MIT
//! `hak trace` and `hak explain`: of programs that allocate known amounts, nothing is missing and nothing is twice.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{BINARY, cc, hak, library};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

const PROGRAM: &str = include_str!("data/trace_program.c");

struct Bench {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("trace_program");
        cc(&program, PROGRAM, &["-O1", "-fno-builtin", "-pthread"]);
        Bench { directory, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, output: &Path, what: &str) -> assert_cmd::Command {
        let mut command = hak();
        command.args(["trace", "--library"]).arg(library()).arg("--output").arg(output);
        command.arg("--").arg(&self.program).arg(what);
        command
    }

    fn traced(&self, what: &str) -> PathBuf {
        let trace = self.path(what);
        self.command(&trace, what).assert().success();
        trace
    }

    /// All figures of a trace of that.
    fn facts(&self, what: &str) -> Value {
        explained(&self.traced(what))
    }

    /// Beyond what every program does.
    fn more(&self, what: &str, figure: &str) -> i64 {
        let number = |what: &str| self.facts(what)[figure].as_i64().unwrap();
        number(what) - number("none")
    }
}

fn explained(trace: &Path) -> Value {
    let output = hak().arg("explain").arg(trace).args(["--json", "-"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// If one event were missing, or in another place than it was, a free would concern a block that is not known, or an
/// address would be given out twice.
#[test]
fn the_order_between_threads_is_kept() {
    let bench = Bench::new();
    let (none, facts) = (bench.facts("none"), bench.facts("threads"));
    let more = |figure: &str| facts[figure].as_i64().unwrap() - none[figure].as_i64().unwrap();
    let blocks = 4 * 20_000;
    assert_eq!(more("reallocations"), 2 * blocks / 10);
    assert_eq!(more("frees_by_others"), blocks);
    // The C library allocates for each thread that it starts.
    let all = blocks + 4 * 5000;
    assert!((all..all + 20).contains(&more("allocations")), "{facts}");
    assert!((all..all + 20).contains(&more("frees")), "{facts}");
    for figure in ["lost", "unknown", "implied"] {
        assert_eq!((&facts[figure], &none[figure]), (&0.into(), &0.into()), "{figure}");
    }
    assert_eq!(facts["threads"], 5);
}

#[test]
fn threads_that_end_leave_nothing_out() {
    let bench = Bench::new();
    let none = bench.facts("none");
    let facts = bench.facts("ends");
    let of = |facts: &Value, up_to: u64| -> u64 {
        let bands = facts["bands"].as_array().unwrap();
        bands.iter().find(|band| band["up_to"] == up_to).map_or(0, |band| band["allocations"].as_u64().unwrap())
    };
    assert_eq!(of(&facts, 128 << 10) - of(&none, 128 << 10), 100);
    assert_eq!(of(&facts, 64) - of(&none, 64), 100);
    assert_eq!((&facts["lost"], &facts["unknown"], &facts["implied"]), (&0.into(), &0.into(), &0.into()));
}

/// If what comes before an event for its sake were left out, `realloc` to nothing would be a free, and the block unknown.
#[test]
fn numbers_that_are_too_large_for_an_event_are_whole() {
    let bench = Bench::new();
    let (none, facts) = (bench.facts("none"), bench.facts("long"));
    let more = |figure: &str| facts[figure].as_i64().unwrap() - none[figure].as_i64().unwrap();
    let counts = ["allocations", "aligned", "refused", "frees"].map(more);
    assert_eq!(counts, [2000, 1000, 1000, 2000], "{facts}");
    assert_eq!(facts["largest_alignment"], 4 << 20);
    for figure in ["lost", "unknown", "implied"] {
        assert_eq!(facts[figure], 0, "{figure}");
    }
    // A block that was just freed is foretold, so what is freed and allocated again and again hardly takes a byte.
    let bytes = fs::metadata(bench.path("long")).unwrap().len();
    assert!(bytes < 5000, "{bytes} bytes for {} events", facts["events"]);
}

/// Memory is shared with a child of fork, but not what the parent records; a program that it starts has the
/// variables, but hak is not its parent.
#[test]
fn children_are_not_in_it() {
    let bench = Bench::new();
    let allocations = bench.more("fork", "allocations");
    assert!((1..20).contains(&allocations), "{allocations}");
}

#[test]
fn what_a_program_becomes_is_in_it() {
    let bench = Bench::new();
    let none = bench.facts("none");
    let facts = bench.facts("exec");
    // Twice the start of a program, and what was live before is gone.
    assert_eq!(facts["allocations"].as_u64().unwrap(), 1 + 2 * none["allocations"].as_u64().unwrap(), "{facts}");
    assert!(facts["peak_bytes"].as_u64().unwrap() >= 1 << 20);
    assert_eq!(facts["end_bytes"], none["end_bytes"]);
}

/// hak is its parent in the end, and it becomes a program while the first one runs.
#[test]
fn a_process_whose_parent_has_ended_is_not_in_it() {
    let bench = Bench::new();
    let none = bench.facts("none");
    let facts = bench.facts("orphan");
    for figure in ["allocations", "frees", "threads", "lost", "unknown", "implied"] {
        assert_eq!(facts[figure], none[figure], "{figure}: {facts}");
    }
}

/// A process that may not send signals to hak is told so, and goes on to wait for it. Where the system says that there
/// is no hak, the trace ends, and that is said.
#[test]
fn who_may_not_look_for_hak_is_recorded() {
    let bench = Bench::new();
    let none = bench.facts("none");
    let trace = bench.path("filtered");
    let run = |error: i32| bench.command(&trace, "filtered").arg(error.to_string()).assert();
    run(libc::EPERM).success();
    let count = |facts: &Value| facts["allocations"].as_u64().unwrap();
    assert_eq!(count(&explained(&trace)) - count(&none), 1_000_000);
    run(libc::ESRCH).code(1).stderr(contains("the program took hak for gone"));
    assert!(count(&explained(&trace)) < 1_000_000);
}

#[test]
fn what_a_program_becomes_and_cannot_be_recorded_is_said() {
    let bench = Bench::new();
    let trace = bench.path("trace");
    let fixed = bench.path("static_program");
    cc(&fixed, PROGRAM, &["-static", "-pthread"]);
    let run = |script: &str, program: &Path| {
        let mut command = hak();
        command.args(["trace", "--library"]).arg(library()).arg("-o").arg(&trace);
        command.args(["--", "sh", "-c", script, "sh"]).arg(program).arg("ends").assert()
    };
    run("exec \"$@\"", &bench.program).success();
    run("\"$@\"; exit 0", &fixed).success();
    let unrecorded = "what the program became by exec is not recorded: ";
    for script in ["exec env -i \"$@\"", "LD_PRELOAD= exec \"$@\""] {
        run(script, &bench.program)
            .code(1)
            .stderr(contains(unrecorded).and(contains("was not loaded, or could not open")));
    }
    run("exec \"$@\"", &fixed).code(1).stderr(contains(unrecorded));
    let limited = run("ulimit -v 400000; exec \"$@\"", &bench.program).code(1);
    limited.stderr(contains(unrecorded).and(contains("it could not map the memory that it shares with hak")));
}

/// The tracer as it is for 64-bit Arm, in an emulator: its events, from several threads, are read here as they were
/// written there. Behind it is the C library's malloc by hakmem's names.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_is_recorded_on_another_machine_is_read() {
    const ALLOCATOR: &str = "#include <stddef.h>
        void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
        void *__libc_memalign(size_t, size_t), __libc_free(void *);
        void *hak_malloc(size_t bytes) { return __libc_malloc(bytes); }
        void *hak_calloc(size_t count, size_t bytes) { return __libc_calloc(count, bytes); }
        void *hak_realloc(void *block, size_t bytes) { return __libc_realloc(block, bytes); }
        void *hak_aligned_alloc(size_t alignment, size_t bytes) { return __libc_memalign(alignment, bytes); }
        int hak_posix_memalign(void **out, size_t alignment, size_t bytes) {
          *out = __libc_memalign(alignment, bytes);
          return *out == NULL ? 12 : 0;
        }
        void hak_free(void *block) { __libc_free(block); }
        void hak_free_sized(void *block, size_t bytes) { __libc_free(block); }
        void hak_free_aligned_sized(void *block, size_t alignment, size_t bytes) { __libc_free(block); }
        size_t malloc_usable_size(void *);
        size_t hak_usable_size(const void *block) { return malloc_usable_size((void *)block); }";
    let bench = Bench::new();
    let compiled = |name: &str, source: &str, words: &[&str]| {
        let file = bench.path(&format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let helpers = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/helpers");
        let mut command = Command::new("aarch64-linux-gnu-gcc");
        command.args(["-std=gnu17", "-O2", "-fno-builtin", "-pthread", helpers]).args(words).arg(&file);
        command.arg("-o").arg(bench.path(name)).status().is_ok_and(|status| status.success())
    };
    let emulator = ["qemu-aarch64", "aarch64-linux-gnu-gcc"].map(|name| Command::new(name).arg("--version").output());
    if emulator.iter().any(Result::is_err) {
        eprintln!("no compiler or no emulator for 64-bit Arm");
        return;
    }
    let tracer = include_str!("../../helpers/trace.c");
    let shared = ["-shared", "-fPIC", "-fexceptions", "-ftls-model=initial-exec", "-Wl,-Bsymbolic-functions"];
    assert!(compiled("tracer.so", tracer, &shared) && compiled("allocator.so", ALLOCATOR, &["-shared", "-fPIC"]));
    assert!(compiled("program", PROGRAM, &[]));
    let trace = bench.path("trace");
    let script = "LD_PRELOAD= exec qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_PRELOAD=$1/tracer.so:$1/allocator.so \
                  $1/program threads";
    let mut command = hak();
    command.args(["trace", "--library"]).arg(library()).arg("-o").arg(&trace).args(["--", "sh", "-c", script, "sh"]);
    // What signals the emulator catches says nothing of the program, so hak takes it for one that was not recorded.
    command.arg(bench.directory.path()).assert().code(1).stderr(contains("what the program became by exec"));
    let facts = explained(&trace);
    let blocks = 4 * 20_000;
    assert_eq!((&facts["threads"], &facts["frees_by_others"]), (&5.into(), &blocks.into()), "{facts}");
    // Those of the shell beside, which was traced before it became the emulator.
    assert_eq!(facts["reallocations"].as_i64().unwrap() / 100, 2 * blocks / 1000, "{facts}");
    let all = blocks + 4 * 5000;
    assert!((all..all + 500).contains(&facts["allocations"].as_i64().unwrap()), "{facts}");
    for figure in ["lost", "unknown", "implied"] {
        assert_eq!(facts[figure], 0, "{figure}");
    }
}

#[test]
fn a_program_that_is_killed_has_a_whole_trace() {
    let bench = Bench::new();
    let (trace, temporary) = (bench.path("trace"), bench.path("temporary"));
    fs::create_dir(&temporary).unwrap();
    let assert = bench.command(&trace, "killed").env("TMPDIR", &temporary).assert().failure();
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "hak ends by the same signal, and leaves nothing");
    assert!(std::os::unix::process::ExitStatusExt::signal(&assert.get_output().status) == Some(9));
    let facts = explained(&trace);
    assert!(facts["frees"].as_u64().unwrap() >= 50_000, "{facts}");
    assert_eq!(facts["damage"], Value::Null);
}

/// It goes on, and what was written until then can be read.
#[test]
fn a_program_whose_reader_is_killed_goes_on() {
    let bench = Bench::new();
    let (trace, temporary) = (bench.path("trace"), bench.path("temporary"));
    fs::create_dir(&temporary).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["trace", "--library"]).arg(library()).arg("--output").arg(&trace).env("TMPDIR", &temporary);
    command.arg("--").arg(&bench.program).arg("forever").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut begun = [0; 6];
    stdout.read_exact(&mut begun).unwrap();
    while fs::metadata(&trace).unwrap().len() < 500 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Its ring is full by then.
    std::thread::sleep(std::time::Duration::from_millis(50));
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "done\n");
    hak().arg("explain").arg(&trace).assert().code(1).stdout(contains("up to")).stderr(contains("damaged or cut off"));
    // What it could not remove, the next one does.
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 1);
    bench.command(&trace, "none").env("TMPDIR", &temporary).assert().success();
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

/// It is read more than once.
#[test]
fn a_trace_may_come_through_a_pipe() {
    let bench = Bench::new();
    let trace = bench.traced("none");
    let whole = fs::read(&trace).unwrap();
    hak()
        .args(["explain", "/dev/stdin"])
        .write_stdin(whole.clone())
        .assert()
        .success()
        .stdout(contains("1 event of 1 thread"));
    let mut replay = hak();
    replay.args(["replay", "/dev/stdin", "--rounds", "1", "--allocators", "glibc"]).write_stdin(whole);
    replay.assert().success().stdout(contains("calls of"));
    hak().args(["explain", "/dev/null"]).assert().code(2).stderr(contains("cannot read /dev/null: it is a device"));
}

/// As on a full disk: what hak writes to is closed.
#[test]
fn where_nothing_can_be_written_any_more_the_program_goes_on() {
    let bench = Bench::new();
    let pipe = bench.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::File::open(pipe).unwrap().read_exact(&mut [0; 300]))
    };
    let mut command = bench.command(&pipe, "threads");
    command.assert().code(1).stderr(contains("the trace ends here, the program goes on: cannot write"));
    reader.join().unwrap().unwrap();
    let full = bench.command(Path::new("/dev/full"), "none").assert().code(1);
    full.stderr(contains("cannot write /dev/full: No space left on device")).stdout("");
}

/// On a disk that is really full; where one can be made.
#[test]
fn on_a_full_disk_what_was_written_can_be_read() {
    let bench = Bench::new();
    let script = "mount -t tmpfs -o size=16k none \"$1\" || exit 77; shift; dir=$1; shift; \"$@\"; code=$?; \
                  cp disk/trace copied; cat /dev/zero >disk/other 2>/dev/null; \
                  \"$BINARY\" trace --library \"$LIBRARY\" -o disk/none -- echo started; echo \"$?\"; ls disk; exit $code";
    fs::create_dir(bench.path("disk")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", "disk", "x", BINARY, "trace"]);
    command.arg("--library").arg(library()).args(["--output", "disk/trace", "--"]).arg(&bench.program).arg("threads");
    command.env("BINARY", BINARY).env("LIBRARY", library()).env_remove("LD_PRELOAD");
    let Ok(output) = command.current_dir(bench.directory.path()).output() else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(1) || said.contains("unshare") || said.contains("mount:") {
        assert_ne!(output.status.code(), Some(0), "it is not full");
        eprintln!("no disk could be made: {said}");
        return;
    }
    assert!(said.contains("the program goes on: cannot write disk/trace: No space left on device"), "{said}");
    // What cannot be begun is no file, and the program is not started.
    assert_eq!(String::from_utf8_lossy(&output.stdout).rsplit_once("1\n"), Some(("", "other\ntrace\n")), "{output:?}");
    let explain = hak().arg("explain").arg(bench.path("copied")).assert().code(1);
    explain.stderr(contains("it has no end, as of a trace that was ended early"));
}

#[test]
fn a_file_that_is_cut_is_read_as_far_as_it_goes() {
    let bench = Bench::new();
    let trace = bench.traced("threads");
    // Who takes it for another file of hak's hears what it is.
    for command in ["report", "diff"] {
        let what = "it is a trace of hak trace, which hak explain and hak replay read";
        hak().arg(command).args([&trace, &trace]).assert().code(2).stderr(contains(what));
    }
    let whole = fs::read(&trace).unwrap();
    let mut file = fs::File::create(&trace).unwrap();
    file.write_all(&whole[..whole.len() / 2]).unwrap();
    hak().arg("explain").arg(&trace).assert().code(1).stdout(contains("events of")).stderr(contains("cut off"));
    fs::write(&trace, "text").unwrap();
    hak().arg("explain").arg(&trace).assert().code(2).stderr(contains("it is no trace of hak trace"));
    hak().args(["explain", "/nowhere/file"]).assert().code(2).stderr(contains("No such file"));
}

#[test]
fn what_cannot_be_traced_is_refused() {
    let bench = Bench::new();
    let trace = bench.path("trace");
    let mut missing = hak();
    missing.args(["trace", "--library"]).arg(library()).arg("-o").arg(&trace).args(["--", "/no/such/program"]);
    missing.assert().code(127).stderr(contains("no such program"));
    assert!(!trace.exists());
    let standard = bench.command(Path::new("-"), "none").current_dir(bench.directory.path()).assert().code(2);
    standard.stderr(contains("cannot write the trace to standard output, which is the program's"));
    assert!(!bench.path("-").exists());
    let nowhere = bench.command(Path::new("/no/directory/file"), "none").assert().code(2);
    nowhere.stderr(contains("cannot write /no/directory/file: No such file or directory"));
    bench.command(&trace, "none").env("HAK_TRACE", "1:2").assert().code(2).stderr(contains("traced already"));
    let fixed = bench.path("static_program");
    cc(&fixed, PROGRAM, &["-static", "-pthread"]);
    let mut command = hak();
    command.args(["trace", "--library"]).arg(library()).arg("-o").arg(&trace).arg("--").arg(fixed);
    command.assert().code(126).stderr(contains("statically linked"));
    // Too little room to share.
    for (limit, reason) in [
        ("ulimit -v 300000", "cannot map the memory to share"),
        ("ulimit -f 8000", "cannot make memory to share: File too large"),
    ] {
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("{limit}; exec \"$@\""), "sh", BINARY, "trace", "--library"]).arg(library());
        limited.arg("-o").arg(&trace).arg("--").arg(&bench.program).arg("none").env_remove("LD_PRELOAD");
        let output = limited.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(reason), "{output:?}");
    }
}

/// The first one keeps its trace, and the second does not start its program.
#[test]
fn a_file_is_written_by_one_at_a_time() {
    let bench = Bench::new();
    let trace = bench.path("trace");
    fs::write(&trace, "what was there before").unwrap();
    let mut command = Command::new(BINARY);
    command.args(["trace", "--library"]).arg(library()).arg("--output").arg(&trace).env_remove("LD_PRELOAD");
    command.arg("--").arg(&bench.program).arg("forever").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut first = command.spawn().unwrap();
    let (stdin, mut stdout) = (first.stdin.take().unwrap(), first.stdout.take().unwrap());
    stdout.read_exact(&mut [0; 6]).unwrap();
    let second = bench.command(&trace, "forever").assert().code(2).stdout("");
    second.stderr(contains(format!("cannot write {}: it is being written by another hak trace", trace.display())));
    drop(stdin);
    assert!(first.wait().unwrap().success());
    let facts = explained(&trace);
    assert_eq!(facts["damage"], Value::Null, "{facts}");
    assert!(facts["allocations"].as_u64().unwrap() > 0, "{facts}");
    // Shorter than what is there.
    bench.command(&trace, "none").assert().success();
    assert_eq!(explained(&trace)["damage"], Value::Null);
}

/// By whatever name: the two would write over each other.
#[test]
fn what_is_the_programs_is_not_written() {
    let bench = Bench::new();
    let (output, error) = (bench.path("output"), bench.path("error"));
    let traced = |to: &Path| {
        let mut command = Command::new(BINARY);
        command.args(["trace", "--library"]).arg(library()).arg("-o").arg(to).env_remove("LD_PRELOAD");
        command.args(["--", "echo", "its own"]);
        command.stdout(fs::File::create(&output).unwrap()).stderr(fs::File::create(&error).unwrap());
        command.status().unwrap().code()
    };
    for name in [Path::new("/dev/stdout"), Path::new("/dev/stderr"), Path::new("/proc/self/fd/2"), &output, &error] {
        assert_eq!(traced(name), Some(2), "{}", name.display());
        let said = fs::read_to_string(&error).unwrap();
        let reason = format!("{}: it is the program's standard output or standard error", name.display());
        assert!(said.contains(&reason), "{said}");
        assert_eq!(fs::read_to_string(&output).unwrap(), "");
    }
    assert_eq!(traced(&bench.path("another")), Some(0));
    assert_eq!(fs::read_to_string(&output).unwrap(), "its own\n");
    // Of what both write there, nothing comes.
    let mut both = Command::new(BINARY);
    both.args(["trace", "--library"]).arg(library()).args(["-o", "/dev/null", "--", "echo"]).stdout(Stdio::null());
    assert!(both.env_remove("LD_PRELOAD").stderr(Stdio::null()).status().unwrap().success());
}
