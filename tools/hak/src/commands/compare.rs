// SPDX-License-Identifier: MIT
//! `hak compare`

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Result;

use crate::allocators::{self, Allocator, SYSTEM};
use crate::cli::Compare;
use crate::failure::{INTERRUPTED, SOMETHING_FAILED};
use crate::helpers::Helpers;
use crate::measure::{self, Ran, Stop};
use crate::process::{self, Job};
use crate::progress::Progress;
use crate::report;
use crate::results::{self, Column, Figure, Kind, Results, Row, Sample, State, SystemCalls};
use crate::{interrupt, library, program, syscalls, warm};

/// Of so many rounds the memory over time is kept.
const COURSES: u32 = 10;

/// What every run must end like.
struct Reference {
    allocator: String,
    status: ExitStatus,
    stdout: Vec<u8>,
}

struct Comparison {
    arguments: Compare,
    allocators: Vec<Allocator>,
    helpers: Helpers,
    users_preload: Vec<PathBuf>,
    stdin: Option<PathBuf>,
    progress: Progress,
    reference: Option<Reference>,
    results: Results,
}

pub fn run(arguments: Compare) -> Result<u8> {
    let allocators = allocators::choose(&arguments.choice)?;
    // One library stands for all: they have to be of the machine's architecture anyway.
    let any_library = allocators.iter().find_map(|allocator| allocator.library.as_deref());
    let like = library::describe(any_library.unwrap_or(Path::new("/proc/self/exe")))?;
    program::check(&arguments.command[0], &like)?;
    for file in [&arguments.json, &arguments.html].into_iter().flatten() {
        results::check_writable(file)?;
    }

    interrupt::watch()?;
    let mut results = Results::new(Kind::Compare, allocators.clone(), arguments.rounds);
    if let Some(warning) = results.machine.busy() {
        eprintln!("hak: {warning}");
    }
    results.rows.push(new_row(&arguments.command, &allocators));
    let steps = allocators.len() as u64 * (u64::from(arguments.rounds) + 2);
    let mut comparison = Comparison {
        arguments,
        allocators,
        helpers: Helpers::unpack()?,
        users_preload: measure::users_preload(),
        stdin: redirected_stdin(),
        progress: Progress::new(steps),
        reference: None,
        results,
    };
    let interrupted = comparison.measure()?;
    comparison.results.end(if interrupted { State::Interrupted } else { State::Complete });
    comparison.save()?;
    comparison.show(interrupted)
}

fn new_row(command: &[OsString], allocators: &[Allocator]) -> Row {
    let command: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Row {
        name: command.join(" "),
        family: "compare".into(),
        kind: "program".into(),
        threads: 1,
        command,
        figure: Some(Figure { key: "wall_seconds".into(), more_is_better: false }),
        memory: "peak resident memory".into(),
        huge_pages: None,
        not_run: None,
        columns: allocators.iter().map(|allocator| Column::new(&allocator.name)).collect(),
    }
}

/// A file can be read again from its start by every run; anything else only once.
fn redirected_stdin() -> Option<PathBuf> {
    let path = PathBuf::from("/proc/self/fd/0").canonicalize().ok()?;
    path.is_file().then_some(path)
}

impl Comparison {
    /// Whether it was interrupted.
    fn measure(&mut self) -> Result<bool> {
        self.progress.part("warm-up, with proof of who serves the program");
        for index in 0..self.allocators.len() {
            if interrupt::requested() || self.warm_up(index) {
                return Ok(true);
            }
        }
        for round in 1..=self.arguments.rounds {
            self.progress.part(&format!("round {round} of {}", self.arguments.rounds));
            for offset in 0..self.allocators.len() {
                let index = (round as usize + offset) % self.allocators.len();
                if interrupt::requested() || self.timed(round, index) {
                    return Ok(true);
                }
            }
            self.save()?;
        }
        self.progress.part("counting system calls");
        for index in 0..self.allocators.len() {
            if interrupt::requested() {
                return Ok(true);
            }
            self.count_system_calls(index);
        }
        Ok(interrupt::requested())
    }

    fn job(&self) -> Job {
        Job {
            command: self.arguments.command.clone(),
            stdin: self.stdin.clone(),
            timeout: self.arguments.timeout.map(|seconds| Duration::from_secs(seconds.into())),
            ..Job::default()
        }
    }

    fn column(&mut self, index: usize) -> &mut Column {
        &mut self.results.rows[0].columns[index]
    }

    /// Each step tells whether it was interrupted.
    fn warm_up(&mut self, index: usize) -> bool {
        let allocator = self.allocators[index].clone();
        self.progress.step(&format!("{}: warm-up and proof", allocator.name));
        let last: Vec<&Path> = self.users_preload.iter().map(PathBuf::as_path).collect();
        let outcome = measure::prove(&self.helpers, self.job(), &allocator, &last);
        self.progress.done(1);
        let failure = match outcome {
            Err(Stop::Interrupted) => return true,
            Err(Stop::Failed(reason)) => Some(reason),
            Ok((ran, proof)) => {
                let different = self.differs_from_reference(&ran, &allocator);
                match proof {
                    Ok(proof) => self.column(index).proof = Some(proof),
                    Err(reason) if different.is_none() => {
                        self.fail(index, format!("not proven: {reason}"));
                        return false;
                    }
                    Err(_) => {}
                }
                different
            }
        };
        if let Some(reason) = failure {
            self.fail(index, reason);
        }
        false
    }

    /// The first program that ends by itself is what the others are compared with.
    fn differs_from_reference(&mut self, ran: &Ran, allocator: &Allocator) -> Option<String> {
        use std::os::unix::process::ExitStatusExt;
        if ran.status.signal().is_some() {
            return Some(measure::describe_end(ran));
        }
        let Some(reference) = &self.reference else {
            self.reference =
                Some(Reference { allocator: allocator.name.clone(), status: ran.status, stdout: ran.stdout.clone() });
            return None;
        };
        if ran.status != reference.status {
            return Some(format!(
                "{}, but {} under {}",
                measure::describe_end(ran),
                process::describe(reference.status),
                reference.allocator
            ));
        }
        if self.arguments.same_output && ran.stdout != reference.stdout {
            return Some(format!("standard output is not the same as under {}", reference.allocator));
        }
        None
    }

    fn timed(&mut self, round: u32, index: usize) -> bool {
        if self.column(index).failure.is_some() {
            self.progress.done(1);
            return false;
        }
        let allocator = self.allocators[index].clone();
        self.progress.step(&format!("{}: round {round}", allocator.name));
        let last: Vec<&Path> = self.users_preload.iter().map(PathBuf::as_path).collect();
        warm::memory(&self.results.rows[0]);
        let outcome = measure::run(&self.helpers, self.job(), &allocator, &last);
        self.progress.done(1);
        match outcome {
            Err(Stop::Interrupted) => return true,
            Err(Stop::Failed(reason)) => self.fail(index, format!("round {round}: {reason}")),
            Ok(ran) => match self.differs_from_reference(&ran, &allocator) {
                Some(reason) => self.fail(index, format!("round {round}: {reason}")),
                None => {
                    let (wall, peak_mib) = (ran.usage.wall_seconds, ran.usage.peak_kib as f64 / 1024.0);
                    self.column(index).samples.push(Sample::new(round, COURSES, &ran, Some(wall), peak_mib));
                }
            },
        }
        false
    }

    fn count_system_calls(&mut self, index: usize) {
        let allocator = self.allocators[index].clone();
        if self.column(index).failure.is_none() {
            self.progress.step(&format!("{}: counting system calls", allocator.name));
            let last: Vec<&Path> = self.users_preload.iter().map(PathBuf::as_path).collect();
            let calls = syscalls::count(&self.helpers, self.job(), &allocator, &last);
            self.column(index).system_calls = Some(calls);
        }
        self.progress.done(1);
    }

    fn fail(&mut self, index: usize, reason: String) {
        let name = self.allocators[index].name.clone();
        self.progress.say(&format!("{name} FAILED: {reason}"));
        self.column(index).failure = Some(reason);
    }

    fn save(&self) -> Result<()> {
        match &self.arguments.json {
            Some(file) => self.results.save(file),
            None => Ok(()),
        }
    }

    fn show(self, interrupted: bool) -> Result<u8> {
        drop(self.progress);
        print!("{}", report::terminal::comparison(&self.results));
        let row = &self.results.rows[0];
        if let Some(SystemCalls::Unknown(reason)) = row.columns.iter().find_map(|column| {
            let unknown = matches!(column.system_calls, Some(SystemCalls::Unknown(_)));
            column.system_calls.as_ref().filter(|_| unknown)
        }) {
            eprintln!("hak: system calls were not counted: {reason}");
        }
        if let Some(reference) = &self.reference
            && !reference.status.success()
        {
            let how = process::describe(reference.status);
            eprintln!("hak: the program itself did not succeed: {how} under {}", reference.allocator);
        }
        if row.columns.iter().any(|column| column.allocator == SYSTEM && column.failure.is_some()) {
            eprintln!("hak: the system's malloc did not serve the program, so there is no base to compare with");
        }
        if let Some(file) = &self.arguments.html {
            results::write_whole(file, report::html::page(&[&self.results])?.as_bytes())?;
            eprintln!("hak: wrote {}", file.display());
        }
        if let Some(file) = &self.arguments.json {
            eprintln!("hak: wrote {}", file.display());
        }
        if interrupted {
            eprintln!("hak: interrupted; shown is what was measured until then");
            return Ok(INTERRUPTED);
        }
        let failed = !self.results.failures().is_empty();
        Ok(if failed { SOMETHING_FAILED } else { 0 })
    }
}
