// SPDX-License-Identifier: MIT
//! The command lines of `hak trace` and of what reads its files.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Records every allocation and free of a program, in their order, in a file
///
/// With size, alignment and thread, of the process that hak starts and of what that becomes by exec, but not of the
/// processes that it starts. Nothing is left out: a thread whose events have not been read yet waits for hak. When the
/// file cannot be written any more, as on a full disk, the trace ends there and the program goes on.
///
/// The exit code is the program's, or 1 if that is 0 and the trace is not whole. docs/trace.md says what is recorded,
/// and what it costs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak trace -- python3 script.py
  hak trace --output build.trace -- make")]
pub struct Trace {
    /// The file to write
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
  hak explain hak.trace --json - | jq .frees_by_others")]
pub struct Explain {
    /// A file of `hak trace`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write all figures to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
