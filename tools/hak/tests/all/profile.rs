// SPDX-License-Identifier: MIT
//! `hak profile`: what it says of programs that allocate known amounts at known places.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{cc, hak, library, write_script};
use flate2::read::GzDecoder;
use predicates::str::contains;

const PROGRAM: &str = include_str!("data/profile_program.c");

fn program(directory: &Path, flags: &[&str]) -> PathBuf {
    let program = directory.join("profile_program");
    cc(&program, PROGRAM, &[&["-O1", "-g", "-pthread"], flags].concat());
    program
}

/// Bytes by the innermost function.
fn by_site(folded: &str) -> HashMap<String, f64> {
    let mut sums = HashMap::new();
    for line in folded.lines() {
        let (stack, bytes) = line.rsplit_once(' ').unwrap();
        *sums.entry(stack.rsplit(';').next().unwrap().to_owned()).or_default() += bytes.parse::<f64>().unwrap();
    }
    sums
}

/// Where the reader came late a sample has no stack: on a machine with fifty others at work three of four.
fn assert_near(sums: &HashMap<String, f64>, site: &str, bytes: f64) {
    let of = |name: &str| sums.get(name).copied().unwrap_or(0.0);
    let (seen, unknown) = (of(site), of("[no stack]"));
    assert!(seen > bytes * 0.1 && seen < bytes * 1.1 && seen + unknown > bytes * 0.9, "{site}: of {bytes}: {sums:?}");
}

/// The program's own account: see its main. A site has some thousand samples, so a tenth is more than three standard
/// deviations of the site with the fewest.
#[test]
fn a_program_is_profiled_from_its_first_allocation_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), &[]);
    let path = |name: &str| directory.path().join(name);
    for (value, sites) in [
        ("allocated", [("keeps", 40000.0 * 1024.0), ("comes_and_goes", 2e6 * 96.0)]),
        ("live", [("keeps", 40000.0 * 1024.0), ("comes_and_goes", 0.0)]),
    ] {
        let mut command = hak();
        command.args(["profile", "--every", "16K", "--value", value, "--library"]).arg(library());
        command.arg("--folded").arg(path("folded")).arg("--pprof").arg(path("pprof"));
        command.arg("--svg").arg(path("svg")).arg("--html").arg(path("html"));
        command.arg("--").arg(&program).arg("work").assert().code(7).stdout("done\n").stderr(contains("Never freed"));
        let sums = by_site(&fs::read_to_string(path("folded")).unwrap());
        for (site, bytes) in sites {
            if bytes > 0.0 {
                assert_near(&sums, site, bytes);
            } else {
                assert!(sums.get(site).copied().unwrap_or(0.0) < 1e6, "{site}: {sums:?}");
            }
        }
    }
    let mut proto = Vec::new();
    GzDecoder::new(&*fs::read(path("pprof")).unwrap()).read_to_end(&mut proto).unwrap();
    for text in ["keeps", "comes_and_goes", "peak_space", "profile_program.c", "worker"] {
        assert!(proto.windows(text.len()).any(|window| window == text.as_bytes()), "{text}");
    }
    let svg = fs::read_to_string(path("svg")).unwrap();
    assert!(svg.contains("<svg") && svg.contains("keeps"));
    let html = fs::read_to_string(path("html")).unwrap();
    crate::common::assert_self_contained(&html);
    for text in ["Live at the peak", "Never freed", "Growth", "Allocated", "By thread", "worker", "comes_and_goes"] {
        assert!(html.contains(text), "{text}");
    }
}

/// A linked allocator's own functions are left out, however it was called; the first thread of a static program has a heap before
/// anything is known of samples.
#[test]
fn programs_that_are_linked_with_it_are_profiled() {
    let directory = tempfile::tempdir().unwrap();
    let archive = library().with_file_name("libhakmem.a");
    for flags in [&[][..], &["-static"], &["-static-pie"]] {
        let program = program(directory.path(), &[&["-fno-builtin", archive.to_str().unwrap()], flags].concat());
        let mut command = hak();
        command.args(["profile", "--every", "16K", "--folded", "-", "--library"]).arg(library());
        let output = command.arg("--").arg(&program).arg("ways").output();
        let sums = by_site(&String::from_utf8(output.unwrap().stdout).unwrap());
        for (site, bytes) in [("mallocs", 4e6), ("callocs", 4e6), ("aligneds", 4e6), ("grown", 4e8)] {
            assert!(sums.get(site).copied().unwrap_or(0.0) > bytes * 0.3, "{flags:?}: {site}: {sums:?}");
        }
        let sites = ["mallocs", "larges", "huges", "callocs", "huge_callocs", "aligneds", "huge_aligneds", "grown"];
        let is_known = |site: &str| sites.contains(&site) || site == "[no stack]";
        let others: f64 = sums.iter().filter(|(site, _)| !is_known(site)).map(|(_, bytes)| bytes).sum();
        assert!(others < 2e5, "{flags:?}: {sums:?}"); // of libc's
    }
}

/// Started without a thought of it, and not stopped; stripped, it shows by its file. Afterwards it samples no more.
#[test]
fn a_running_process_is_profiled() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), &["-s"]);
    let mut child = Command::new(&program)
        .arg("forever")
        .env("LD_PRELOAD", library())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let mut said = String::new();
    for _ in 0..2 {
        // It may not have begun.
        for _ in 0..500 {
            let output = hak().args(["profile", &pid, "--for", "300ms", "--every", "64K"]).output().unwrap();
            said = String::from_utf8(output.stdout).unwrap();
            if output.status.success() && said.contains("profile_program+0x") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(said.contains("profile_program+0x"), "{said}");
    }
    assert!(said.contains("What was allocated before the profile began"), "{said}");
    assert!(said.lines().next().unwrap().ends_with("one in 64 KiB"), "{said}");
    let every = hak().args(["profile", &pid, "--for", "10ms", "--every", "100"]).output().unwrap();
    let said = String::from_utf8(every.stdout).unwrap();
    assert!(said.lines().next().unwrap().ends_with("one in 100 B"), "{said}");
    hak().args(["inspect", &pid]).assert().success();
    drop(child.stdin.take());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// It does nothing, so its own clock stands still.
#[test]
fn a_profile_lasts_as_long_as_it_was_told_to() {
    let mut child = Command::new("sleep").arg("600").env("LD_PRELOAD", library()).spawn().unwrap();
    let pid = child.id().to_string();
    let said = (0..500).find_map(|_| {
        let output = hak().args(["profile", &pid, "--for", "300ms"]).output().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10)); // it may not have begun
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    });
    let said = said.unwrap();
    assert!(said.contains(" samples in 0.") && !said.contains(" in 0.0 s"), "{said}");
    let late = hak().args(["profile", &pid, "--for", "1s", "--growth", "1s,2s"]).assert().code(2);
    late.stderr(contains("--growth has a moment after --for"));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Stripped, with its symbols and DWARF in a file apart, as distributions have them: the build id leads there. To another's
/// with that name it does not.
#[test]
fn names_that_are_kept_apart_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let build_id = "0123456789abcdef0123456789abcdef01234567";
    let program = program(directory.path(), &[&format!("-Wl,--build-id=0x{build_id}")]);
    let apart = directory.path().join("cache").join(build_id).join("debuginfo");
    fs::create_dir_all(apart.parent().unwrap()).unwrap();
    let objcopy = |flags: &[&str], files: &[&Path]| {
        assert!(Command::new("objcopy").args(flags).args(files).status().unwrap().success());
    };
    objcopy(&["--only-keep-debug"], &[&program, &apart]);
    let other = directory.path().join("other");
    objcopy(&["--remove-section=.note.gnu.build-id"], &[&apart, &other]);
    objcopy(&["--strip-all"], &[&program]);
    let pprof = directory.path().join("pprof");
    let profile = |cache: &str| {
        let mut command = hak();
        command.env("DEBUGINFOD_CACHE_PATH", directory.path().join(cache));
        command.args(["profile", "--every", "64K", "--library"]).arg(library()).arg("--pprof").arg(&pprof);
        command.arg("--").arg(&program).arg("work").assert().code(7);
        let mut proto = Vec::new();
        GzDecoder::new(&*fs::read(&pprof).unwrap()).read_to_end(&mut proto).unwrap();
        String::from_utf8_lossy(&proto).into_owned()
    };
    let found = profile("cache");
    assert!(found.contains("comes_and_goes") && found.contains("profile_program.c"), "{found}");
    assert!(!profile("nowhere").contains("comes_and_goes"));
    fs::rename(other, apart).unwrap();
    assert!(!profile("cache").contains("comes_and_goes"));
}

/// Where symbols are looked for anything may lie. The profile comes out all the same, its places by module and offset.
#[test]
fn what_lies_where_symbols_would_and_has_none_does_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let build_id = "fedcba9876543210fedcba9876543210fedcba98";
    let program = program(directory.path(), &[&format!("-Wl,--build-id=0x{build_id}"), "-Wl,--strip-all"]);
    let apart = directory.path().join(build_id).join("debuginfo");
    fs::create_dir_all(apart.parent().unwrap()).unwrap();
    let whole = fs::read(&program).unwrap();
    let garbage: Vec<u8> = (0..8192u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let profile = |what: &str| {
        let mut command = hak();
        command.env("DEBUGINFOD_CACHE_PATH", directory.path()).args(["profile", "--every", "64K", "--folded", "-"]);
        let said = command.arg("--library").arg(library()).arg("--").arg(&program).arg("work").output().unwrap();
        let error = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(7), "{what}: {error}");
        assert!(!error.contains("panicked"), "{what}: {error}");
        let folded = String::from_utf8_lossy(&said.stdout);
        assert!(folded.contains("profile_program+0x"), "{what}: {folded}");
    };
    let cut = |length: usize| whole[..length].to_vec();
    let with_tail_of_garbage = [&whole[..whole.len() / 2], &garbage[..]].concat();
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("garbage", garbage.clone()),
        ("an ELF file's magic and garbage", [b"\x7fELF\x02\x01\x01", &garbage[..]].concat()),
        ("a part of its header", cut(40)),
        ("its header", cut(64)),
        ("its first half", cut(whole.len() / 2)),
        ("all but its last byte", cut(whole.len() - 1)),
        ("its first half and garbage", with_tail_of_garbage),
        ("another program", fs::read("/bin/true").unwrap()),
    ] {
        fs::write(&apart, bytes).unwrap();
        profile(what);
    }
    fs::remove_file(&apart).unwrap();
    fs::create_dir(&apart).unwrap();
    profile("a directory");
    fs::remove_dir(&apart).unwrap();
    assert!(Command::new("mkfifo").arg(&apart).status().unwrap().success());
    profile("a FIFO");
    fs::remove_file(&apart).unwrap();
    for device in ["/dev/zero", "/dev/tty"] {
        std::os::unix::fs::symlink(device, &apart).unwrap();
        profile(device);
        fs::remove_file(&apart).unwrap();
    }
}

/// While one reads, others are refused; when it was killed, the next one takes its place, though sampling is on.
#[test]
fn a_process_whose_reader_was_killed_is_profiled_again() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), &[]);
    let mut forever = Command::new(&program);
    // Samples without a reader are wanted from the start.
    let mut child = forever.arg("forever").env("LD_PRELOAD", library()).env("HAKMEM_SAMPLE", "64K").spawn().unwrap();
    let pid = child.id().to_string();
    let begin =
        || Command::new(env!("CARGO_BIN_EXE_hak")).args(["profile", &pid]).stdout(Stdio::null()).spawn().unwrap();
    let mut reader = begin();
    let is_refused = (0..500).any(|_| {
        let output = hak().args(["profile", &pid, "--for", "1ms"]).output().unwrap();
        // Of the two, either may have been first, and the program may not have begun.
        if reader.try_wait().unwrap().is_some() {
            reader = begin();
        }
        let refused = format!("is profiled already, by process {}", reader.id());
        output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains(&refused)
    });
    assert!(is_refused);
    reader.kill().unwrap();
    reader.wait().unwrap();
    let mut again = hak();
    again.args(["profile", &pid, "--for", "300ms", "--every", "64K"]);
    again.assert().success().stdout(contains("comes_and_goes"));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A program that becomes another one, as scripts' interpreters do: the last one counts.
#[test]
fn what_a_program_becomes_is_profiled() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), &[]);
    let mut command = hak();
    command
        .args(["profile", "--every", "16K", "--value", "allocated", "--folded"])
        .arg(directory.path().join("folded"));
    command.arg("--library").arg(library()).args(["--", "sh", "-c", "sleep 0.1; exec \"$0\" work"]).arg(&program);
    command.assert().code(7);
    let sums = by_site(&fs::read_to_string(directory.path().join("folded")).unwrap());
    assert_near(&sums, "comes_and_goes", 2e6 * 96.0);
}

/// It is over as soon as it is begun, most times before hak sees more than that.
#[test]
fn a_program_that_was_too_short_is_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let folded = directory.path().join("folded");
    let was_missed = (0..100).any(|_| {
        let mut command = hak();
        command.args(["profile", "--library"]).arg(library()).arg("--folded").arg(&folded);
        let output = command.args(["--", "true"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let is_missed = said == "hak: there is no profile of true: it ended before hak had found hakmem in it\n";
        assert_eq!(output.status.code(), Some(i32::from(is_missed)), "{said}");
        assert_eq!(folded.exists(), !is_missed);
        let _ = fs::remove_file(&folded);
        is_missed
    });
    assert!(was_missed);
}

/// Which sh reads, as after `hak run`.
#[test]
fn a_script_without_a_first_line_is_profiled() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    write_script(&script, "exec \"$@\"\n");
    let mut command = hak();
    command.args(["profile", "--library"]).arg(library()).arg("--").arg(&script);
    command.arg(program(directory.path(), &[])).arg("work").assert().code(7).stderr(contains("comes_and_goes"));
    let mut command = hak();
    command.args(["run", "--stats", "--library"]).arg(library()).arg("--").arg(&script).arg("true");
    command.assert().success().stderr(contains("refills"));
}

#[test]
fn what_cannot_be_profiled_is_refused() {
    hak().args(["profile", "4194304"]).assert().code(2).stderr(contains("there is no process 4194304"));
    let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
    hak().args(["profile", &sleep.id().to_string()]).assert().code(2).stderr(contains("does not run under hakmem"));
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    hak().args(["profile"]).assert().code(2);
    hak().args(["profile", "1", "--every", "2G"]).assert().code(2).stderr(contains("expected 1 to 1G"));
    hak().args(["profile", "1", "--growth", "2s,1s"]).assert().code(2).stderr(contains("before the second"));
    hak().args(["profile", "1", "--html", "/no/such/file"]).assert().code(2).stderr(contains("/no/such/file"));
    let mut taken = hak();
    taken.env("HAKMEM_SAMPLE", "1M").args(["profile", "--", "true"]).assert().code(2).stderr(contains("HAKMEM_SAMPLE"));
}

/// The others are written, and the exit code says that one is not.
#[test]
fn a_full_disk_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), &[]);
    let folded = directory.path().join("folded");
    let mut command = hak();
    command.args(["profile", "--pprof", "/dev/full", "--folded"]).arg(&folded).arg("--library").arg(library());
    command.arg("--").arg(&program).arg("work").assert().code(1).stderr(contains("cannot write /dev/full"));
    assert!(fs::read_to_string(folded).unwrap().contains("keeps"));
}
