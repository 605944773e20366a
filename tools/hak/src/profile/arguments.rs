// SPDX-License-Identifier: MIT
//! The command line of `hak profile`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::{duration, number_and_unit, process};
use crate::profile::samples::Value;

/// Shows which call stacks have allocated what, and what of it is live, at its peak and at the end
///
/// Of a program that is started here, or of a process that runs already under hakmem, until it ends, or Ctrl-C or
/// --for. The process samples: of each 512 KiB that are allocated, one byte on average is followed with its stack, so
/// that a stack's share is known to some percent when it has some hundred samples. hak reads them from outside and
/// unwinds there. The process waits for nothing but, when it exits, until all is read, a second at the most. The frees
/// of a process that samples take longer.
///
/// A program that ends before hak has found hakmem in it, as `true` may within a millisecond or two, has no profile: one
/// line says so, no file is written, and the exit code is the program's, but 1 for 0.
///
/// A summary goes to standard output, or to standard error if that is the program's, or a file's. docs/profile.md
/// explains what the figures mean. It needs the right to trace the process, as hak inspect does.
#[derive(Args)]
#[command(
    override_usage = "\
hak profile [OPTIONS] <PID>
       hak profile [OPTIONS] -- <CMD>...",
    after_help = "\
Examples:
  hak profile --html page.html -- python3 script.py
  hak profile 1234 --for 30s --pprof heap.pb.gz && go tool pprof -http : heap.pb.gz
  hak profile 1234 --for 5m --value growth --growth 1m,5m --svg growth.svg"
)]
pub struct Profile {
    /// The process
    #[arg(value_parser = process, value_name = "PID", required_unless_present = "command")]
    pub pid: Option<u32>,
    /// How many bytes are allocated from one sample to the next, on average: 4K, 1M
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "512K")]
    pub every: u64,
    /// For how long a process is profiled, not a command: 500ms, 30s, 2m [default: until it ends, or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "command")]
    pub duration: Option<Duration>,
    /// Write the profile for pprof to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub pprof: Option<PathBuf>,
    /// Write folded stacks to this file, of --value
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Write a flame graph to this file, of --value
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a page with all of it to this file: peak, growth, what was never freed, each thread
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Which bytes --folded and --svg count
    #[arg(long, value_enum, default_value = "peak")]
    pub value: Value,
    /// Between which moments growth is meant, from the start on: 10s,1m [default: from the middle to the end]
    #[arg(long, value_name = "FROM,TO", value_parser = moments)]
    pub growth: Option<(Duration, Duration)>,
    /// Use this libhakmem.so instead of the one that is built or installed beside hak
    #[arg(long, value_name = "FILE", requires = "command")]
    pub library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", conflicts_with = "pid")]
    pub command: Vec<OsString>,
}

/// A number of bytes, or of KiB, MiB or GiB; as HAKMEM_SAMPLE has them.
fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text);
    let shift = match unit {
        "" => Some(0),
        "K" => Some(10),
        "M" => Some(20),
        "G" => Some(30),
        _ => None,
    };
    let number = number.zip(shift).map(|(number, shift)| u64::from(number) << shift);
    number.filter(|bytes| (1..=1 << 30).contains(bytes)).ok_or_else(|| "expected 1 to 1G, as 64K".into())
}

fn moments(text: &str) -> Result<(Duration, Duration), String> {
    let (from, to) = text.split_once(',').ok_or("expected two moments, as 10s,1m")?;
    let is_start = |text: &str| ["0", "0ms", "0s", "0m", "0h"].contains(&text);
    let from = if is_start(from) { Duration::ZERO } else { duration(from)? };
    let to = duration(to)?;
    if from < to { Ok((from, to)) } else { Err("the first moment has to be before the second".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_a_whole() {
        let seconds = |from, to| Ok((Duration::from_secs(from), Duration::from_secs(to)));
        for start in ["0", "0ms", "0s", "0m", "0h"] {
            assert_eq!(moments(&format!("{start},1s")), seconds(0, 1), "{start}");
        }
        assert_eq!(moments("05s,10s"), seconds(5, 10));
        assert_eq!(moments("10s,1m"), seconds(10, 60));
        for text in ["0foo,1s", "00x,1s", "0 s,1s", "05,1m", "1s", "5s,5s", "1m,0"] {
            assert!(moments(text).is_err(), "{text}");
        }
    }
}
