// SPDX-License-Identifier: MIT
//! Programs that nothing can be preloaded into are refused, with the reason.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::heaps::{NOBODY, is_root_here};
use crate::common::{cc, hak, library, write_script};
use predicates::prelude::*;
use predicates::str::contains;
use tempfile::TempDir;

fn assert_refused(program: &Path, reason: &str) {
    hak()
        .args(["run", "--library"])
        .arg(library())
        .arg("--")
        .arg(program)
        .assert()
        .code(126)
        .stdout("")
        .stderr(contains("cannot serve").and(contains(reason)));
}

/// A copy of a real program in which some bytes are others.
fn patched(directory: &TempDir, patch: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let path = directory.path().join("program");
    let mut bytes = fs::read("/bin/true").unwrap();
    patch(&mut bytes);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

fn for_another_machine(bytes: &mut [u8]) {
    const E_MACHINE: usize = 18;
    bytes[E_MACHINE] = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
}

fn with_loader(bytes: &mut [u8], loader: &str) {
    let start = bytes.windows(4).position(|window| window == b"/lib").unwrap();
    let length = bytes[start..].iter().position(|&byte| byte == 0).unwrap();
    let mut name = loader.as_bytes().to_vec();
    assert!(name.len() <= length);
    name.resize(length, 0);
    bytes[start..start + length].copy_from_slice(&name);
}

#[test]
fn static_programs() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    cc(&program, "int main(void) { return 0; }", &["-static"]);
    assert_refused(&program, "statically linked");
    cc(&program, "int main(void) { return 0; }", &["-static-pie"]);
    assert_refused(&program, "statically linked");
}

#[test]
fn programs_of_another_architecture() {
    let directory = tempfile::tempdir().unwrap();
    let program = patched(&directory, |bytes| for_another_machine(bytes));
    assert_refused(&program, if cfg!(target_arch = "aarch64") { "64-bit x86_64" } else { "64-bit aarch64" });
}

#[test]
fn programs_of_another_c_library() {
    let directory = tempfile::tempdir().unwrap();
    let program = patched(&directory, |bytes| with_loader(bytes, "/lib/ld-musl.so.1"));
    assert_refused(&program, "built for musl");
    let program = patched(&directory, |bytes| with_loader(bytes, "/lib/other"));
    assert_refused(&program, "built for another C library");
    let program = patched(&directory, |bytes| with_loader(bytes, "/lib/ld-linux-none.so"));
    assert_refused(&program, "its loader /lib/ld-linux-none.so is missing");
}

#[test]
fn programs_that_gain_rights() {
    let directory = tempfile::tempdir().unwrap();
    let program = patched(&directory, |_| {});
    if chown(&program, Some(65534), Some(65534)).is_err() {
        // Not root: a set-uid program of the system serves as well.
        return assert_refused(Path::new("/bin/su"), "set-uid to another user");
    }
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    assert_refused(&program, "set-uid to another user");
    fs::set_permissions(&program, Permissions::from_mode(0o2755)).unwrap();
    assert_refused(&program, "set-gid to another group");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    hak().args(["run", "--library"]).arg(library()).arg("--").arg(&program).assert().success();
}

#[test]
fn programs_with_a_malloc_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let source = "#include <stddef.h>\nvoid *malloc(size_t n) { (void)n; return 0; } int main(void) { return 0; }";
    cc(&program, source, &["-rdynamic"]);
    assert_refused(&program, "its own malloc");
}

/// Such programs export an address for the malloc that they import.
#[test]
fn programs_at_fixed_addresses_are_not_taken_for_those() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let source = "#include <stdlib.h>\nvoid *(*volatile f)(size_t) = malloc; int main(void) { free(f(9)); return 0; }";
    cc(&program, source, &["-no-pie", "-fno-pie"]);
    hak().args(["run", "--library"]).arg(library()).arg("--").arg(&program).assert().success();
    hak()
        .args(["compare", "--rounds", "1", "--allocators", "glibc,hakmem", "--allocator"])
        .arg(crate::common::hakmem())
        .arg("--")
        .arg(&program)
        .assert()
        .success();
}

#[test]
fn scripts_are_judged_by_what_interprets_them() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = patched(&directory, |bytes| for_another_machine(bytes));
    let script = directory.path().join("script");
    write_script(&script, &format!("#! {} -x\n", foreign.display()));
    assert_refused(&script, &format!("as the interpreter of {}", script.display()));

    // A script whose interpreter is a script.
    let outer = directory.path().join("outer");
    write_script(&outer, &format!("#!{}\n", script.display()));
    assert_refused(&outer, "64-bit");

    // env hands over to what it finds on the PATH.
    let through_env = directory.path().join("through-env");
    write_script(&through_env, "#!/usr/bin/env -S A=1 program -x\n");
    hak()
        .env("PATH", format!("{}:/usr/bin:/bin", directory.path().display()))
        .args(["run", "--library"])
        .arg(library())
        .arg("--")
        .arg(&through_env)
        .assert()
        .code(126)
        .stderr(contains("cannot serve"));

    write_script(&script, "#!/no/such/interpreter\n");
    hak()
        .args(["run", "--library"])
        .arg(library())
        .arg("--")
        .arg(&script)
        .assert()
        .code(126)
        .stderr(contains("interpreter /no/such/interpreter is missing"));

    let itself = directory.path().join("itself");
    write_script(&itself, &format!("#!{}\n", itself.display()));
    hak()
        .args(["run", "--library"])
        .arg(library())
        .arg("--")
        .arg(&itself)
        .assert()
        .code(126)
        .stderr(contains("too many interpreters"));

    write_script(&script, "#!/bin/sh\necho fine\n");
    hak().args(["run", "--library"]).arg(library()).arg("--").arg(&script).assert().success().stdout("fine\n");
}

#[test]
fn damaged_programs_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let program = patched(&directory, |bytes| bytes.truncate(100));
    hak()
        .args(["run", "--library"])
        .arg(library())
        .arg("--")
        .arg(&program)
        .assert()
        .code(2)
        .stderr(contains("damaged ELF file"));
}

/// As shared libraries, which end the program, or crash, where another one goes before them.
#[test]
fn programs_with_a_sanitizer() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("program.c");
    fs::write(&source, "int main(void) { return 0; }").unwrap();
    let program = source.with_extension("");
    let compiled = |sanitizer: &str| {
        let mut gcc = Command::new("gcc");
        gcc.arg(format!("-fsanitize={sanitizer}")).arg(&source).arg("-o").arg(&program).stderr(Stdio::null());
        gcc.status().is_ok_and(|status| status.success())
    };
    for (sanitizer, library) in [("address", "libasan.so"), ("thread", "libtsan.so"), ("leak", "liblsan.so")] {
        if !compiled(sanitizer) {
            eprintln!("skipped: gcc has no {sanitizer} sanitizer here");
            continue;
        }
        assert_refused(&program, &format!("whose library {library}"));
        let mut compare = hak();
        compare.args(["compare", "--allocators", "glibc", "--"]).arg(&program).assert().code(126).stdout("");
        let mut install = hak();
        install.args(["install", "program"]).arg(&program).arg("--prefix").arg(directory.path().join("prefix"));
        let refused = install.arg("--library").arg(self::library()).assert().code(126);
        refused.stderr(contains("it is built with a sanitizer"));
        assert!(!directory.path().join("prefix").exists());
    }
    if compiled("undefined") {
        hak().args(["run", "--library"]).arg(library()).arg("--").arg(&program).assert().success();
    }
}

/// What may be executed but not read: nobody can tell what it is, and it may well be served.
#[test]
fn programs_that_cannot_be_read_are_started() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("cat");
    fs::copy("/bin/cat", &program).unwrap();
    let run = |mode: u32| {
        fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new(crate::common::BINARY);
        command.args(["run", "--library"]).arg(library()).arg("--").arg(&program).arg("/proc/self/maps");
        if is_root_here() {
            command.uid(NOBODY); // root may read everything
        }
        let output = command.env_remove("LD_PRELOAD").output().unwrap();
        let [out, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        (output.status.code(), out, said)
    };
    let (code, out, said) = run(0o111);
    assert!(said.contains("may not be read, so hak cannot tell whether"), "{said}");
    assert!(code == Some(0) && out.contains("libhakmem"), "{out}{said}");
    if is_root_here() {
        let (code, _, said) = run(0o4711);
        assert!(code == Some(126) && said.contains("set-uid to another user"), "{said}");
    }
}
