// SPDX-License-Identifier: MIT
//! Counts a program's system calls for memory, with strace, in a run of its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use crate::allocators::Allocator;
use crate::helpers::Helpers;
use crate::measure;
use crate::process::{self, End, Job};
use crate::results::SystemCalls;

pub const CALLS: [&str; 6] = ["mmap", "munmap", "madvise", "mprotect", "brk", "mremap"];

/// Each call of the program takes longer under strace, and what does something else where it is traced may never end, as
/// LeakSanitizer does. So it has this and so many times the `slowest` run.
const LEAST: Duration = Duration::from_secs(10);
const SLOWER: u32 = 20;

pub fn limit(slowest: Duration) -> Duration {
    LEAST + slowest * SLOWER
}

/// `job` is the program without anything preloaded.
pub fn count(helpers: &Helpers, mut job: Job, allocator: &Allocator, keep: &[&std::path::Path]) -> SystemCalls {
    let Ok(strace) = which::which("strace") else {
        return SystemCalls::Unknown("strace is not installed".into());
    };
    let output = helpers.directory().join("strace");
    let mut preload = OsString::from("LD_PRELOAD");
    if let Some(list) = allocator.preload(keep) {
        preload.push("=");
        preload.push(list);
    }
    let mut command: Vec<OsString> = vec![strace.into()];
    command.extend(["-f", "-c", "--seccomp-bpf", "-e"].map(OsString::from));
    command.push(format!("trace={}", CALLS.join(",")).into());
    command.push("-o".into());
    command.push(output.clone().into());
    command.extend([OsString::from("-E"), preload, "--".into()]);
    command.append(&mut job.command);
    job.command = command;
    measure::add_environment(&mut job, allocator);
    match process::run(helpers, &job) {
        Ok(End::Done { stderr, .. }) => match fs::read_to_string(&output) {
            Ok(text) if text.contains("syscall") || text.is_empty() => SystemCalls::Counted(parse(&text)),
            _ => SystemCalls::Unknown(format!("strace failed: {}", process::tail(&stderr))),
        },
        Ok(End::TimedOut) => SystemCalls::Unknown("timed out under strace".into()),
        Ok(End::Interrupted) => SystemCalls::Unknown("interrupted".into()),
        Err(error) => SystemCalls::Unknown(error.to_string()),
    }
}

/// A line of `strace -c`: `% time, seconds, usecs/call, calls, [errors,] syscall`.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = CALLS.iter().map(|&name| (name.into(), 0)).collect();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let (Some(name), Some(calls)) = (words.last(), words.get(3))
            && let (Some(count), Ok(calls)) = (counts.get_mut(*name), calls.parse())
        {
            *count = calls;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn a_program_has_time_under_strace() {
        let seconds = Duration::from_secs;
        assert_eq!([0, 1, 60].map(|slowest| super::limit(seconds(slowest))), [10, 30, 1210].map(seconds));
    }

    #[test]
    fn a_table_of_strace_is_read() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n \
                    54.13    0.001075           2       363           brk\n  \
                    5.39    0.000107           3        34         2 mmap\n\
                    100.00    0.001986           4       406           total\n";
        let counts = super::parse(text);
        assert_eq!((counts["brk"], counts["mmap"], counts["madvise"]), (363, 34, 0));
    }
}
