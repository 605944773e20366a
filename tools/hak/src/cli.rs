// SPDX-License-Identifier: MIT
//! The command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::install::arguments::{Install, Uninstall};
use crate::limits::Limit;
use crate::profile::arguments::Profile;
use crate::trace::arguments::{Explain, Replay, Trace};

/// Runs, compares and measures programs under hakmem and other memory allocators, and looks into running ones.
#[derive(Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "\
Exit codes: 0 done; 1 something that was asked for failed, the rest was done; 2 bad input; 3 a limit of \
--fail-if is exceeded; 126 the program cannot be run under a preloaded allocator; 127 no such program; \
130 interrupted, with all that was measured kept. `hak run`, `hak trace` and `hak profile -- CMD` have the exit code of \
the program."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Run(Run),
    Compare(Box<Compare>),
    Peers(Peers),
    Bench(Bench),
    Report(Report),
    Inspect(Inspect),
    Dump(Dump),
    Profile(Profile),
    Trace(Trace),
    Replay(Replay),
    Explain(Explain),
    Top(Top),
    Diff(Diff),
    Install(Box<Install>),
    Uninstall(Uninstall),
}

/// Runs a program under hakmem
///
/// hak becomes the program: there is no process between, so signals, the terminal and the exit code
/// are the program's own; but standard input, output or error that is closed is /dev/null to it. With --stats
/// hak waits for the program and for what it leaves running, hands signals on to it, and ends as it ended.
/// A program that is linked with libhakmem.a runs as it is. What LD_PRELOAD names already is loaded behind hakmem, but for
/// another hakmem, of a session or of what hak install has made.
///
/// Refused, with the reason, are programs that nothing can be preloaded into: static ones, set-uid
/// ones of another user, those of another C library or architecture, and those with a malloc of their own, also a
/// sanitizer's. For a script, that holds for its interpreter. One that may be executed but not read is started unseen.
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
    #[arg(long, value_name = "NAME=VALUE", value_parser = OsStringValueParser::new().try_map(assignment))]
    pub env: Vec<(OsString, OsString)>,
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

/// Files to write. `-` stands for standard output; what is for people then goes to standard error.
#[derive(Args)]
pub struct Exports {
    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write tables in Markdown to this file
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write the curves of sweeps as SVG files to this directory, and show them in the document in Markdown
    #[arg(long, value_name = "DIR")]
    pub pictures: Option<PathBuf>,
    /// Write every sample as a line of CSV to this file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the form that the name ends in, .json, .html, .md or .csv; may be repeated
    #[arg(long, value_name = "FILE")]
    pub export: Vec<PathBuf>,
    /// Compare with the best allocator of each row instead of the baseline, in what is shown and written
    #[arg(long)]
    pub best: bool,
}

/// Runs a program under several allocators in turn and shows what each one costs
///
/// After a warm-up under each allocator, in which hak proves that the allocator serves the program,
/// the rounds are interleaved: in each one the program runs once under every allocator, and the next
/// round starts with another one. The answer comes first: how much faster or slower hakmem is than what
/// there is today, and how much more or less memory it takes, or how many more rounds would tell. Then
/// wall time, processor time and its two parts (user and system), peak resident memory and its course,
/// page faults, and the system calls for memory (these with strace, in one more run, which may take ten
/// seconds and twenty times as long as the slowest round).
///
/// A program that brings its own allocator as a library, as redis-server brings jemalloc, also runs as
/// it is ("as shipped"), and for glibc the C library is preloaded. One that has its allocator in its own
/// executable, also because it is static, is measured only as it is, since nothing that is preloaded would
/// serve it; hak says so, and its exit code is 1.
///
/// The program's output is not shown. Standard input is given to every run, whole: a file is read anew,
/// and what comes through a pipe is read once and kept. A terminal is not read. What the program leaves
/// running when it ends is killed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak compare -- python3 script.py
  hak compare --allocators glibc,hakmem --rounds 15 --html report.html -- jq . large.json
  hak compare --allocator mine=./libmine.so --same-output --input input -- ./program
  hak compare --parameter-list size 1000,100000 --prepare 'rm -rf out' -- ./program --size {size} out
  hak compare --until-sure --allocators glibc,hakmem -- ./program
  hak compare --command 'jq . large.json' --command 'python3 -m json.tool large.json'
  hak compare --allocators glibc,hakmem --fail-if 'time>1.05' --json - -- ./program | jq .rows

The baseline is the allocator that the program was shipped with, or glibc's. Noise is told by the 95 % \
confidence interval of the ratio to it, paired by round; that needs at least 4 rounds.")]
pub struct Compare {
    #[command(flatten)]
    pub choice: Choice,
    /// How many times to run the program under each allocator, after the warm-up
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=10000))]
    pub rounds: u32,
    /// Go on with more rounds until it is sure whether there is a difference, in time and in memory
    ///
    /// Of hakmem to the baseline. That is looked at after --rounds, and then less and less often, at a
    /// confidence of 99 %, since whoever looks often finds a difference by chance. A difference of less than
    /// 2 % counts as none.
    #[arg(long)]
    pub until_sure: bool,
    /// The most rounds that --until-sure makes
    #[arg(long, value_name = "ROUNDS", default_value_t = 100, requires = "until_sure",
        value_parser = clap::value_parser!(u32).range(1..=10000))]
    pub max_rounds: u32,
    /// How many more runs to make under each allocator that do not count, after the one that proves
    #[arg(long, value_name = "RUNS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10000))]
    pub warmup: u32,
    /// Give every run this file as its standard input
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Run this with sh before a command's first run
    #[arg(long, value_name = "SHELL COMMAND")]
    pub setup: Option<String>,
    /// Run this with sh before every single run
    #[arg(long, value_name = "SHELL COMMAND")]
    pub prepare: Option<String>,
    /// Run this with sh after a command's last run
    #[arg(long, value_name = "SHELL COMMAND")]
    pub cleanup: Option<String>,
    /// Measure with each of these values for {NAME}, in the command and the options; may be repeated
    #[arg(long, num_args = 2, value_names = ["NAME", "A,B,…"], allow_hyphen_values = true)]
    pub parameter_list: Vec<String>,
    /// Measure with all numbers from FROM to TO for {NAME}; may be repeated
    #[arg(long, num_args = 3, value_names = ["NAME", "FROM", "TO"], allow_hyphen_values = true)]
    pub parameter_scan: Vec<String>,
    /// The distance of the numbers of --parameter-scan [default: 1]
    #[arg(long, value_name = "STEP", requires = "parameter_scan")]
    pub parameter_step_size: Option<String>,
    /// Measure a program that ends with another exit code than 0, whether or not it is the same every time
    #[arg(short, long)]
    pub ignore_failure: bool,
    /// Fail allocators under which the program prints something else to standard output
    #[arg(long)]
    pub same_output: bool,
    /// End a run that takes longer, and fail that allocator: 90s, 2m, or a number of seconds
    #[arg(long, value_name = "TIME", value_parser = seconds_or_duration)]
    pub timeout: Option<Duration>,
    /// Exit with 3 if hakmem is beyond this ratio to glibc, or to the program as shipped; may be repeated
    ///
    /// METRIC is time (wall), processor (user and system together), user, system, memory (the largest
    /// process), tree (all processes together) or faults. time>1.05 means that hakmem takes more than 5 %
    /// longer. A difference within the noise exceeds no limit; of fewer than four rounds nobody knows the noise, and the
    /// figure alone counts.
    #[arg(long, value_name = "METRIC>RATIO")]
    pub fail_if: Vec<Limit>,
    /// Write every sample to this file, which `hak report` reads; kept up to date after each round
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub exports: Exports,
    /// One more program with its arguments, in quotes; may be repeated
    ///
    /// Words are as in a shell, but no shell runs it: there are no pipes and no redirections.
    #[arg(long = "command", value_name = "COMMAND")]
    pub commands: Vec<String>,
    /// The program and its arguments
    #[arg(required_unless_present = "commands", trailing_var_arg = true, value_name = "CMD")]
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
/// a row needs and the machine lacks, unless no row at all can run. Every sample goes to
/// DIR/<date>-<quick|full|part>.json and .csv, which are kept up to date; Ctrl-C keeps what was measured, and --resume goes on, also after a crash.
///
/// Sweeps run one workload at many values of a parameter, and then between those where hakmem stops being the best,
/// or begins to be, until that is known to a quarter.
///
/// The whole suite takes up to three hours, the quick one fifteen to twenty-five minutes, with fewer allocators less.
/// About how long a choice takes, --list says before anything runs, given the same options: time grows with rows, rounds
/// and allocators.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak bench --quick
  hak bench --filter larson --rounds 9 --allocators glibc,hakmem,mimalloc3
  hak bench --list --filter larson --rounds 9
  hak bench --against bench/results/2026-01-31T120000Z-quick.json")]
pub struct Bench {
    #[command(flatten)]
    pub choice: Choice,
    /// Only the rows of a quick overview: four rounds, and more only where they fit into twelve minutes
    #[arg(long)]
    pub quick: bool,
    /// Only rows whose name or family contains this, in either case
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// How many rounds [default: 1, with --quick 4, and more where they fit into the time: up to 5, with
    /// --quick or --within 12]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// No more rounds than fit into this time, but one in any case: 90m, 3h
    ///
    /// Foretold from what the rows have taken in the rounds before.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub within: Option<Duration>,
    /// Go on with the interrupted run of this result file, from the row on that it was in
    ///
    /// With its rows, allocators and rounds. Refused if the suite, a library, a workload or the machine is not the
    /// one that it was.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "filter", "rounds", "within", "results", "list",
        "allocators", "allocator"])]
    pub resume: Option<PathBuf>,
    /// A directory to write the results to, which is made where there is none [default: bench/results in the source tree]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// The suite to run [default: bench/suite.toml in the source tree]
    #[arg(long, value_name = "FILE")]
    pub suite: Option<PathBuf>,
    /// Compare with the best allocator of each row instead of the baseline
    #[arg(long)]
    pub best: bool,
    /// Run the rows of this earlier result file, and show at the end what has changed for hakmem since then
    ///
    /// Row by row, with the noise, and over all rows. The other allocators of the file run again: those that are
    /// the same tell how fast the machine is today. Without --rounds there are as many rounds as then.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Print the rows and about how long they would take, and run nothing; allocators that are not there are named
    #[arg(long)]
    pub list: bool,
}

/// Turns result files into a page with charts, or a table in Markdown
///
/// The first file is the one that is reported in full; with several, hakmem's figures are shown side
/// by side, in the order of the files' dates. If no file is asked for, the summary is printed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak report bench/results/2026-01-31T120000Z-quick.json
  hak report --html report.html --markdown docs/benchmarks.md new.json old.json
  hak report --each --markdown docs/benchmarks.md --pictures docs/images quick.json full.json
  hak report --against old.json new.json")]
pub struct Report {
    /// Result files of `hak bench` or `hak compare --json`
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Show what has changed for hakmem since this earlier result file of `hak bench`, row by row with the noise
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Report every file in full, one after the other, in --markdown's document
    #[arg(long, requires = "markdown", conflicts_with = "against")]
    pub each: bool,
    #[command(flatten)]
    pub exports: Exports,
}

/// Shows what hakmem keeps in a running process, without stopping it
///
/// hak reads the allocator's tables from outside: nothing runs in the process, and it does not notice. The figures
/// are those of HAKMEM_STATS, with the magazines and slabs of each thread: docs/configuration.md explains them.
/// What changes while it is read is read again; what never holds still is said to be moving.
///
/// It needs the right to trace the process: as root, in a container with the capability CAP_SYS_PTRACE, or as its owner
/// where kernel.yama.ptrace_scope allows it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak inspect 1234
  hak inspect 1234 --json before.json
  hak inspect 1234 --json - | jq .resident_live
  hak inspect 1234 --map
  hak inspect 1234 --html heap.html --every 1s --count 30")]
pub struct Inspect {
    /// The process
    #[arg(value_parser = process, value_name = "PID")]
    pub pid: u32,
    /// Write all figures to this file, which `hak diff` reads; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw the heap: a cell for each 64 KiB, a line for each 2 MiB
    ///
    /// In colours on a terminal, unless NO_COLOR is set, else in letters. What is dense is brighter, or a capital.
    #[arg(long)]
    pub map: bool,
    /// Write the picture as a page to this file, on which each cell says what it is
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Look again and again, so often: 500ms, 1s, 2m, and --count times; the page gets a slider
    ///
    /// If the process ends, or Ctrl-C comes, what was seen until then is written. --json has the last look.
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "count")]
    pub every: Option<Duration>,
    /// How many times to look, 1000 at the most
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: Option<u32>,
}

/// Writes the statistics of a running process to the file that it would write to at its exit
///
/// That is what the process was started with as HAKMEM_STATS_FILE, if it is one of the user who asks and sees the same
/// files, as in a container it does not; or what --to says. The figures are those of `hak inspect PID --json`, and `hak diff` reads them. Nothing runs in the process.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak dump 1234
  hak dump 1234 --every 10s
  hak dump 1234 --to heap.json --every 1m --count 60")]
pub struct Dump {
    /// The process
    #[arg(value_parser = process, value_name = "PID")]
    pub pid: u32,
    /// Write to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Write again and again, so often: 500ms, 1s, 2m, until the process ends
    ///
    /// The file is replaced each time, in one step. A process that ends writes its own report to the same file; only
    /// if it does so in the moment in which hak replaces it may that be lost.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub every: Option<Duration>,
    /// How many times to write; the process has to be there for all of them
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
}

/// Shows processes that run under hakmem, again and again, without stopping them
///
/// All that may be read, the one with most resident memory first: arrows and Enter choose one. Of one process: what is
/// resident, and what of it is live, over time; where the memory is by kind, thread and size class; what is given
/// back to the system, how fast and why; limits. The key h says which keys there are.
///
/// Where standard output is no terminal, each look is written as a block of text. What it needs, and what cannot be
/// looked at, is as for `hak inspect`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak top
  hak top 1234 --every 500ms
  hak top --batch --count 1
  hak top 1234 --batch --every 10s > memory.log")]
pub struct Top {
    /// This process only; if it ends, so does hak
    #[arg(value_parser = process, value_name = "PID")]
    pub pid: Option<u32>,
    /// Look so often: 500ms, 1s, 2m
    ///
    /// After a look that took long it rests for four times as long.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub every: Duration,
    /// Write blocks of plain text
    #[arg(long)]
    pub batch: bool,
    /// End after so many looks, which are written as with --batch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
}

/// Shows what changed between two looks at a process, by kind and by size class
///
/// The files are of `hak inspect --json`, or of HAKMEM_STATS_FILE and hak_stats_json. Where they are of processes with
/// two numbers, or the second is the earlier one, a note says so; two that had the same number, as in two containers, only
/// show by counts that have fallen.
#[derive(Args)]
#[command(after_help = "\
Example:
  hak inspect 1234 --json before.json; sleep 60; hak inspect 1234 --json after.json; hak diff before.json after.json")]
pub struct Diff {
    /// The earlier look
    #[arg(value_name = "BEFORE.json")]
    pub before: PathBuf,
    /// The later one
    #[arg(value_name = "AFTER.json")]
    pub after: PathBuf,
}

/// A whole number, if there is one, and what follows it.
pub fn number_and_unit(text: &str) -> (Option<u32>, &str) {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    (number.parse().ok(), unit)
}

pub fn process(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected the number of a process, as pgrep NAME prints it".into())
}

pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text);
    let milliseconds = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    match (number.filter(|number| *number > 0), milliseconds) {
        (Some(number), Some(each)) => Ok(Duration::from_millis(u64::from(number) * each)),
        (Some(_), _) => Err("expected a whole number with ms, s, m or h behind it, as 500ms".into()),
        (None, _) => Err(format!("expected a whole number of 1 to {} with ms, s, m or h, as 500ms", u32::MAX)),
    }
}

/// A number alone means seconds.
fn seconds_or_duration(text: &str) -> Result<Duration, String> {
    match number_and_unit(text) {
        (Some(number @ 1..), "") => Ok(Duration::from_secs(number.into())),
        _ => duration(text),
    }
}

/// A value may be any bytes.
fn assignment(text: OsString) -> Result<(OsString, OsString), &'static str> {
    let bytes = text.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(end @ 1..) => Ok((OsStr::from_bytes(&bytes[..end]).into(), OsStr::from_bytes(&bytes[end + 1..]).into())),
        _ => Err("expected NAME=VALUE"),
    }
}
