// SPDX-License-Identifier: MIT
//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Runs, compares and measures programs under hakmem and other memory allocators.
#[derive(Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "\
Exit codes: 0 done; 1 something that was asked for failed, the rest was done; 2 bad input; 126 the \
program cannot be run under a preloaded allocator; 127 no such program; 130 interrupted, with all \
that was measured kept. `hak run` has the exit code of the program."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Run(Run),
    Compare(Compare),
    Peers(Peers),
    Bench(Bench),
    Report(Report),
}

/// Runs a program under hakmem
///
/// hak becomes the program: there is no process between, so signals, the terminal and the exit code
/// are the program's own. With --stats hak waits for the program, hands signals on to it, and ends
/// as it ended.
///
/// Refused, with the reason, are programs that nothing can be preloaded into: static ones, set-uid
/// ones, those of another C library or architecture, and those with a malloc of their own. For a
/// script, that holds for its interpreter.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak run -- python3 script.py
  hak run --stats -- git status
  hak run --env HAKMEM_ABORT_ON_ERROR=0 -- ./server")]
pub struct Run {
    /// Print hakmem's statistics to standard error when the program has ended
    ///
    /// Of each process of the program that ended normally; of many, the largest. Their fields are
    /// explained in docs/configuration.md.
    #[arg(long)]
    pub stats: bool,
    /// Set a variable of the program's environment; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub env: Vec<(String, String)>,
    /// Use this libhakmem.so instead of the one that is built or installed beside hak
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Which allocators to run under.
#[derive(Args)]
pub struct Choice {
    /// Only these allocators, by their names in `hak peers`
    #[arg(long, value_delimiter = ',', value_name = "A,B,…")]
    pub allocators: Vec<String>,
    /// One more allocator, or another library for a known name; may be repeated
    #[arg(long, value_name = "NAME=/PATH/LIB.SO")]
    pub allocator: Vec<String>,
    /// The build tree with libhakmem.so, peers and workloads [default: where hak lies]
    #[arg(long, value_name = "DIR")]
    pub build: Option<PathBuf>,
}

/// Runs a program under several allocators in turn and shows what each one costs
///
/// After a warm-up under each allocator, in which hak proves that the allocator serves the program,
/// the rounds are interleaved: in each one the program runs once under every allocator, and the next
/// round starts with another one. Shown are wall, user and system time, peak resident memory, page
/// faults, and the system calls for memory (these with strace, in one more run).
///
/// The program's output is not shown. Standard input is given to every run if it is a file, and empty
/// otherwise. What the program leaves running when it ends is killed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak compare -- python3 script.py
  hak compare --allocators glibc,hakmem --rounds 15 --html report.html -- jq . large.json
  hak compare --allocator mine=./libmine.so --same-output -- ./program <input

The baseline is the allocator that the program was shipped with, or glibc's. Noise is told by the 95 % \
confidence interval of the ratio to it, paired by round; that needs at least 4 rounds.")]
pub struct Compare {
    #[command(flatten)]
    pub choice: Choice,
    /// How many times to run the program under each allocator, after the warm-up
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=10000))]
    pub rounds: u32,
    /// Fail allocators under which the program prints something else to standard output
    #[arg(long)]
    pub same_output: bool,
    /// End a run that takes longer, and fail that allocator
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout: Option<u32>,
    /// Write every sample to this file, which `hak report` reads; kept up to date after each round
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Lists the allocators that hak knows, which of them are here, and how to get the others
#[derive(Args)]
pub struct Peers {
    /// The build tree to look in [default: where hak lies]
    #[arg(long, value_name = "DIR")]
    pub build: Option<PathBuf>,
}

/// Runs hakmem's benchmark suite under every allocator
///
/// In each round every row runs once under each allocator, one after the other; the next round starts
/// with another allocator. Each row proves which allocator served it. Rows that fail or cannot run
/// are reported with the reason, never dropped; only failures make the exit code 1, not commands that
/// a row needs and the machine lacks. Every sample goes to DIR/<date>-<quick|full>.json and
/// .csv, which are kept up to date; Ctrl-C keeps what was measured.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak bench --quick
  hak bench --filter larson --rounds 9 --allocators glibc,hakmem,mimalloc3
  hak bench --list")]
pub struct Bench {
    #[command(flatten)]
    pub choice: Choice,
    /// Only the rows of a quick overview, in at most ten minutes with all allocators
    #[arg(long)]
    pub quick: bool,
    /// Only rows whose name or family contains this, in either case
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// How many rounds [default: 5; with --quick 3 to 7, as many as fit into the time]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Where to write the results [default: bench/results in the source tree]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// The suite to run [default: bench/suite.toml in the source tree]
    #[arg(long, value_name = "FILE")]
    pub suite: Option<PathBuf>,
    /// Print the rows and run nothing
    #[arg(long)]
    pub list: bool,
}

/// Turns result files into a page with charts, or a table in Markdown
///
/// The first file is the one that is reported in full; with several, hakmem's figures are shown side
/// by side, in the order of the files' dates. Without --html and --markdown, the summary is printed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak report bench/results/2026-01-31T120000Z-quick.json
  hak report --html report.html --markdown docs/benchmarks.md new.json old.json")]
pub struct Report {
    /// Result files of `hak bench` or `hak compare --json`
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write tables in Markdown to this file
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Compare with the best allocator of each row instead of the baseline
    #[arg(long)]
    pub best: bool,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("expected NAME=VALUE".into()),
    }
}
