// SPDX-License-Identifier: MIT
//! `hak run`

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::cli::Run;
use crate::failure::{BAD_INPUT, CANNOT_RUN, failure};
use crate::{library, program};

/// At most this many processes of a program are reported in full.
const REPORTS: usize = 4;

pub fn run(arguments: Run) -> Result<u8> {
    let library = library::hakmem(arguments.library.as_deref(), None)?;
    let [name, words @ ..] = arguments.command.as_slice() else {
        unreachable!("clap requires a command");
    };
    program::check(name, &library::describe(&library)?)?;

    let mut command = Command::new(name);
    command.args(words).envs(arguments.env.iter().cloned());
    let given = arguments.env.iter().rev().find(|(name, _)| name == "LD_PRELOAD");
    let given = given.map(|(_, value)| OsString::from(value));
    command.env("LD_PRELOAD", in_front(&library, given.or_else(|| env::var_os("LD_PRELOAD"))));

    if arguments.stats {
        let taken = |name: &str| name == "HAKMEM_STATS_FILE";
        if env::var_os("HAKMEM_STATS_FILE").is_some() || arguments.env.iter().any(|(name, _)| taken(name)) {
            let message = "--stats needs HAKMEM_STATS_FILE for itself, and it is set already";
            return Err(failure(BAD_INPUT, message));
        }
        return with_statistics(command);
    }
    let error = command.exec();
    Err(failure(CANNOT_RUN, format!("cannot start {}: {error}", name.display())))
}

fn in_front(library: &Path, others: Option<OsString>) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// The allocator's own readable report goes to the program's standard error, which many programs,
/// such as those of GNU coreutils, close before they end. So its other form is asked for, the file.
fn with_statistics(mut command: Command) -> Result<u8> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    command.env("HAKMEM_STATS_FILE", directory.path().join("%p"));

    // Before the start, so that none is lost. Those of the keyboard reach the program anyway.
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])?;
    let mut child = command
        .spawn()
        .map_err(|error| failure(CANNOT_RUN, format!("cannot start {}: {error}", command.get_program().display())))?;
    let pid = Pid::from_child(&child);
    let handle = signals.handle();
    let forwarder = std::thread::spawn(move || {
        for signal in signals.forever().filter(|signal| ![SIGINT, SIGQUIT].contains(signal)) {
            if let Some(signal) = Signal::from_named_raw(signal) {
                let _ = kill_process(pid, signal);
            }
        }
    });
    let status = child.wait()?;
    handle.close();
    forwarder.join().expect("the forwarding thread does not panic");

    print_statistics(directory.path(), &child, status);
    drop(directory);
    Ok(end_as(status))
}

fn print_statistics(directory: &Path, child: &Child, status: ExitStatus) {
    let mut reports: Vec<(u32, Map<String, Value>)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| {
            let pid = file.file_name().to_str()?.parse().ok()?;
            Some((pid, serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?))
        })
        .collect();
    let main = child.id();
    let committed = |report: &Map<String, Value>| report.get("committed").and_then(Value::as_u64).unwrap_or(0);
    reports.sort_by_key(|(pid, report)| (*pid != main, std::cmp::Reverse(committed(report))));
    if reports.first().is_none_or(|(pid, _)| *pid != main) {
        let how = crate::process::describe(status);
        eprintln!("hak: process {main} left no statistics ({how}): it did not end by exit or return");
    }
    for (pid, report) in reports.iter().take(REPORTS) {
        print_report(*pid, report);
    }
    if reports.len() > REPORTS {
        eprintln!("hak: {} more processes reported; shown are the largest", reports.len() - REPORTS);
    }
}

/// Bytes are all values but those whose names say otherwise (docs/configuration.md).
fn print_report(pid: u32, report: &Map<String, Value>) {
    const EVENTS: [&str; 5] = ["refills", "flushes", "remote_frees", "adoptions", "errors"];
    let version = report.get("version").and_then(Value::as_str).unwrap_or("?");
    eprintln!("hakmem {version}, process {pid}");
    for (name, value) in report {
        let Some(number) = value.as_u64() else { continue };
        let counts = name.ends_with("_count") || name.ends_with("_calls") || EVENTS.contains(&name.as_str());
        if counts {
            eprintln!("  {name:<18} {number:>14}");
        } else {
            eprintln!("  {name:<18} {:>14} KiB", number / 1024);
        }
    }
}

/// A program that a signal killed should look so to hak's parent too.
fn end_as(status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
