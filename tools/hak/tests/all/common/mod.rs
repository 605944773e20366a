// SPDX-License-Identifier: MIT
//! What the tests share. Not every test uses all of it.
#![allow(dead_code)]

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

pub mod heaps;
pub mod made;
pub mod suites;
pub mod terminals;
pub mod trees;

pub const BINARY: &str = env!("CARGO_BIN_EXE_hak");

pub fn hak() -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(BINARY);
    command.env_remove("LD_PRELOAD").timeout(std::time::Duration::from_secs(60));
    command
}

/// The library under test: HAK_TEST_LIBRARY, or that of the source tree's build.
pub fn library() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/libhakmem.so");
    let path = std::env::var_os("HAK_TEST_LIBRARY").map_or(built, PathBuf::from);
    path.canonicalize().unwrap_or_else(|_| panic!("{} is missing: build it, or set HAK_TEST_LIBRARY", path.display()))
}

/// `--allocator hakmem=…`
pub fn hakmem() -> OsString {
    let mut text = OsString::from("hakmem=");
    text.push(library());
    text
}

pub fn write_script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// Whether there is a strace, and the right to trace.
pub fn strace_works() -> bool {
    let mut command = Command::new("strace");
    command.args(["-qq", "-e", "trace=none", "true"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// As Ctrl-C does; SIGINT itself is ignored where the tests are in the background of a script.
pub fn interrupt(hak: &Child) {
    assert!(Command::new("kill").arg(hak.id().to_string()).status().unwrap().success());
}

/// Compiles C.
pub fn cc(output: &Path, source: &str, flags: &[&str]) {
    let file = output.with_extension("c");
    fs::write(&file, source).unwrap();
    let status = Command::new("cc").arg(&file).args(flags).arg("-o").arg(output).status().unwrap();
    assert!(status.success(), "cc failed");
}

pub fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// An allocator's part of the first row.
pub fn column<'a>(results: &'a Value, allocator: &str) -> &'a Value {
    let columns = results["rows"][0]["columns"].as_array().unwrap();
    columns.iter().find(|column| column["allocator"] == allocator).unwrap()
}

pub fn samples(column: &Value) -> usize {
    column["samples"].as_array().unwrap().len()
}

/// Nothing in the page is fetched from elsewhere.
pub fn assert_self_contained(html: &str) {
    for forbidden in ["http:", "https:", "src=", "<link", "url(", "@import", "<script"] {
        assert!(!html.contains(forbidden), "the page contains {forbidden}");
    }
}
