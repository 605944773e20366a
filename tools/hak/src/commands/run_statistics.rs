// SPDX-License-Identifier: MIT
//! What `hak run --stats` prints when the program has ended.

use std::fs;
use std::path::Path;
use std::process::ExitStatus;

use serde_json::{Map, Value};

use crate::output::say;
use crate::process;

/// At most this many processes of a program are reported in full.
const REPORTS: usize = 4;

type Report = Map<String, Value>;

/// Of all processes that wrote a file into the directory; `first` is the one that was started.
pub fn print(directory: &Path, first: u32, status: ExitStatus) {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut reports: Vec<(u32, Report)> = files
        .filter_map(|file| {
            let pid = file.file_name().to_str()?.parse().ok()?;
            Some((pid, serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?))
        })
        .collect();
    let committed = |report: &Report| report.get("committed").and_then(Value::as_u64).unwrap_or(0);
    reports.sort_by_key(|(pid, report)| (*pid != first, std::cmp::Reverse(committed(report))));
    if reports.first().is_none_or(|(pid, _)| *pid != first) {
        let how = process::describe(status);
        let reason = "it did not end by exit or return, had become a program that hakmem does not serve, or could not \
                      write its file (see above)";
        say(format_args!("hak: process {first} left no statistics ({how}): {reason}"));
    }
    for (pid, report) in reports.iter().take(REPORTS) {
        print_report(*pid, report);
    }
    if reports.len() > REPORTS {
        say(format_args!("hak: {} more processes reported; shown are the largest", reports.len() - REPORTS));
    }
}

/// Bytes are all values but those whose names say otherwise (docs/configuration.md).
fn print_report(pid: u32, report: &Report) {
    const EVENTS: [&str; 8] = [
        "refills",
        "flushes",
        "remote_frees",
        "adoptions",
        "errors",
        "refused_purges",
        "refused_membarriers",
        "refused_threads",
    ];
    let version = report.get("version").and_then(Value::as_str).unwrap_or("?");
    say(format_args!("hakmem {version}, process {pid}"));
    for (name, value) in report {
        let Some(number) = value.as_u64() else { continue };
        let counts = name.ends_with("_count") || name.ends_with("_calls") || EVENTS.contains(&name.as_str());
        if counts {
            say(format_args!("  {name:<24} {number:>14}"));
        } else {
            say(format_args!("  {name:<24} {:>14} KiB", number / 1024));
        }
    }
}
