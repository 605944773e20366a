// SPDX-License-Identifier: MIT
//! What a user sees when something is missing or broken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn build_peers(out: &Path, change: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_build-peers"));
    command.arg("--out").arg(out);
    change(&mut command);
    command.output().expect("build-peers runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(out: &Path) -> Vec<String> {
    let json = fs::read(out.join("peers.json")).expect("peers.json is there");
    let peers: Vec<serde_json::Value> = serde_json::from_slice(&json).expect("it is a list");
    peers
        .iter()
        .map(|peer| peer["name"].as_str().expect("each has a name").to_owned())
        .collect()
}

/// Kept between runs, so that the peers that can be built are built once.
fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn a_broken_compiler_stops_only_those_that_need_it() {
    let out = kept("broken-cxx");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("libtcmalloc.so"), "of an earlier run").unwrap();

    let output = build_peers(&out, |command| {
        command.env("CXX", "false");
    });

    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(names(&out), ["mimalloc3", "rpmalloc"]);
    for name in ["mimalloc3", "rpmalloc"] {
        assert!(out.join(format!("lib{name}.so")).exists(), "{name}");
    }
    for name in ["snmalloc", "jemalloc", "tcmalloc"] {
        let expected = format!("build-peers: {name} was not built: ");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    }
    assert!(stderr(&output).contains("is not able to compile"));
    assert!(
        !out.join("libtcmalloc.so").exists(),
        "a stale library was kept"
    );

    let again = build_peers(&out, |command| {
        command.env("CXX", "no-such-compiler");
    });
    let stdout = String::from_utf8_lossy(&again.stdout);
    assert_eq!(stdout.matches("up to date").count(), 2, "{stdout}");
    assert!(
        stderr(&again)
            .contains("it needs a C++ compiler (no-such-compiler is not on the PATH; Debian: g++)"),
        "{}",
        stderr(&again)
    );
}

#[test]
fn missing_tools_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let cargo = which::which("cargo").unwrap();
    let rustc = which::which("rustc").unwrap();
    for tool in [cargo, rustc] {
        std::os::unix::fs::symlink(&tool, directory.path().join(tool.file_name().unwrap()))
            .unwrap();
    }
    let out = directory.path().join("out");

    let output = build_peers(&out, |command| {
        command.env("PATH", directory.path());
    });

    assert_eq!(output.status.code(), Some(1));
    for expected in [
        "Debian: cmake",
        "Debian: ninja-build",
        "Debian: gcc",
        "Debian: g++",
        "Debian: make",
    ] {
        assert!(
            stderr(&output).contains(expected),
            "{expected}: {}",
            stderr(&output)
        );
    }
    assert!(names(&out).is_empty());
}

#[test]
fn an_output_that_cannot_be_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();

    let output = build_peers(&file, |_| {});

    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("build-peers: cannot create "),
        "{}",
        stderr(&output)
    );
}
