// SPDX-License-Identifier: MIT
//! The command lines of `hak trace` and of what reads its files.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::trace::replay::Touch;

/// Records every allocation and free of a program, in their order, in a file
///
/// With size, alignment and thread, of the process that hak starts and of what that becomes by exec, but not of the
/// processes that it starts. Nothing is left out: a thread whose events have not been read yet waits for hak. When the
/// file cannot be written any more, as on a full disk, the trace ends there and the program goes on; where it cannot even
/// be begun, the program is not started.
///
/// The exit code is the program's, or 1 if that is 0 and the trace is not whole. docs/trace.md says what is recorded,
/// and what it costs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak trace -- python3 script.py
  hak trace --output sort.trace -- sort --output=sorted words")]
pub struct Trace {
    /// The file to write: none that another hak trace is writing, and not the program's standard output or error
    #[arg(short, long, value_name = "FILE", default_value = "hak.trace")]
    pub output: PathBuf,
    /// Use this libhakmem.so instead of the one that is built or installed beside hak
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Says what a program does with its memory, from a file of `hak trace`
///
/// Sizes and lifetimes of its blocks, the share of frees by other threads, chains of realloc, large blocks that live
/// shortly, blocks of several threads in one cache line, and which sizes keep pages that they do not fill. Of a file
/// that is cut off, what is there is shown, and the exit code is 1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak explain hak.trace
  hak explain hak.trace --settings
  hak explain hak.trace --json - | jq .frees_by_others")]
pub struct Explain {
    /// A file of `hak trace`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write all figures to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also replay the trace under hakmem with other settings, and show what they cost in time and memory
    ///
    /// HAKMEM_PROFILE, HAKMEM_INT, a soft limit of three quarters of what it takes now, and without huge pages.
    #[arg(long)]
    pub settings: bool,
    /// How many times under each setting, after the run that proves
    #[arg(long, default_value_t = 5, requires = "settings", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Use this libhakmem.so instead of the one that is built or installed beside hak
    #[arg(long, value_name = "FILE", requires = "settings")]
    pub library: Option<PathBuf>,
}

/// Makes the calls of a trace again, under several allocators, and shows how long they take and how much memory
///
/// Without the program: by as many threads, in the order in which they were about each block, and nowhere more than
/// some thousand calls apart from the order of all, nor by more than a small part of the peak. The first run under
/// each allocator proves that it was that one and does not count; in each round all have a turn. The time is that of
/// the calls, with what --touch writes; the peak is what was resident beyond what was before the first call, as the
/// replayer's own stacks and buffers are. docs/trace.md says how near that comes to the program.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak replay hak.trace
  hak replay hak.trace --allocators glibc,hakmem --rounds 9 --json replay.json")]
pub struct Replay {
    /// A file of `hak trace`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub choice: crate::cli::Choice,
    /// How many times under each allocator, after the one that proves
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// What is written into the blocks: a trace does not say what the program wrote
    #[arg(long, value_enum, default_value = "all")]
    pub touch: Touch,
    /// Write every round to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
