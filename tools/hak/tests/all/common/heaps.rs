// SPDX-License-Identifier: MIT
//! Processes for `hak inspect` to look at.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::{cc, hak};

const PROGRAM: &str = include_str!("../data/heap_program.c");
pub const NOBODY: u32 = 65534;

/// A process under test, which ends when it is dropped.
pub struct Running {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Running { child, stdin, stdout }
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the program has ended");
        line
    }

    /// What it says of itself.
    pub fn json(&mut self) -> Value {
        let mut text = String::new();
        loop {
            let line = self.line();
            if line == ".\n" {
                return serde_json::from_str(&text).unwrap();
            }
            text += &line;
        }
    }

    pub fn go_on(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    pub fn end(mut self) -> Option<i32> {
        self.stdin = None;
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn heap_program(directory: &Path, flags: &[&str]) -> PathBuf {
    let program = directory.join("heap_program");
    cc(&program, PROGRAM, &[flags, &["-pthread"]].concat());
    program
}

/// Preloaded, and without the background thread, so that nothing changes by itself.
pub fn preloaded(program: &Path, library: &Path, shape: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(shape).env("LD_PRELOAD", library).env("HAKMEM_INT", "off");
    command
}

pub fn look(pid: &str) -> Value {
    let output = hak().args(["inspect", pid, "--json", "-"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every figure that the process has, by its name, also those of each class.
pub fn assert_same(inside: &Value, outside: &Value) {
    let inside = inside.as_object().unwrap();
    assert!(inside.len() > 45, "{} figures", inside.len());
    for (name, value) in inside.iter().filter(|(name, _)| *name != "classes") {
        assert_eq!(&outside[name], value, "{name}");
    }
    // Of each class a look from outside says one thing more.
    let mut classes = outside["classes"].clone();
    for class in classes.as_array_mut().unwrap() {
        assert!(class.as_object_mut().unwrap().remove("rounding_most_bytes").is_some());
    }
    assert_eq!(classes, inside["classes"]);
}

pub fn is_root_here() -> bool {
    // SAFETY: it has no preconditions.
    unsafe { libc::geteuid() == 0 }
}
