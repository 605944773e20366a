// SPDX-License-Identifier: MIT
//! `hak compare`: the runs. `comparison_end.rs` says what came of them.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Result;

use crate::allocators::{self, Allocator, SHIPPED, SYSTEM};
use crate::cli::Compare;
use crate::commands::comparison_end;
use crate::commands::exports::Exports;
use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};
use crate::helpers::Helpers;
use crate::measure::{self, Ran, Stop};
use crate::process::{self, Job};
use crate::program::{self, Own, Way};
use crate::progress::Progress;
use crate::results::{Column, Figure, Kind, Results, Row, Sample, State, SystemCalls};
use crate::verdict::Looks;
use crate::work::{self, Work};
use crate::{hooks, input, interrupt, library, output, syscalls, warm};

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
    works: Vec<Work>,
    chosen: Vec<Allocator>,
    helpers: Helpers,
    users_preload: Vec<PathBuf>,
    standard_input: Option<PathBuf>,
    progress: Progress,
    exports: Exports,
    keeping_failed: bool,
    cleanup_failed: bool,
    results: Results,
    /// The row that is measured now, its allocators, and how its runs end.
    row: usize,
    allocators: Vec<Allocator>,
    reference: Option<Reference>,
}

pub fn run(arguments: Compare) -> Result<u8> {
    let works = work::all(&arguments)?;
    let chosen = allocators::choose(&arguments.choice)?;
    if arguments.setup.is_none() {
        works.iter().try_for_each(|work| check(work, &chosen).map(|_| ()))?;
    }
    let inputs = || works.iter().filter_map(|work| work.input.as_deref());
    for file in inputs() {
        match input::check(file) {
            // --setup may make it.
            Err(error) if error.kind() != ErrorKind::NotFound || arguments.setup.is_none() => {
                return Err(failure(BAD_INPUT, format!("cannot read {}: {error}", file.display())));
            }
            _ => {}
        }
    }
    let programs = works.iter().map(|work| Path::new(&work.command[0]));
    let read: Vec<&Path> = programs.chain(inputs()).collect();
    let exports = Exports::of(arguments.json.as_deref(), &arguments.exports, None, &read)?;

    interrupt::watch()?;
    let helpers = Helpers::unpack()?;
    let standard_input = if arguments.input.is_some() { None } else { input::standard(helpers.directory())? };
    let mut results = Results::new(Kind::Compare, chosen.clone(), arguments.rounds);
    if let Some(warning) = results.machine.busy() {
        output::say(format_args!("hak: {warning}"));
    }
    results.rows = works.iter().map(|work| new_row(work, &chosen)).collect();
    let steps = works.len() as u64 * chosen.len() as u64 * (u64::from(arguments.rounds + arguments.warmup) + 2);
    let mut comparison = Comparison {
        arguments,
        works,
        helpers,
        users_preload: measure::users_preload(),
        standard_input,
        progress: Progress::new(steps),
        exports,
        keeping_failed: false,
        cleanup_failed: false,
        results,
        row: 0,
        allocators: chosen.clone(),
        chosen,
        reference: None,
    };
    let interrupted = comparison.measure();
    let Comparison { arguments, exports, progress, helpers, cleanup_failed, mut results, .. } = comparison;
    drop((progress, helpers));
    results.allocators.retain(|allocator| results.rows.iter().any(|row| row.column(&allocator.name).is_some()));
    results.end(if interrupted { State::Interrupted } else { State::Complete });
    let code = comparison_end::show(&results, &exports, &arguments.fail_if);
    Ok(if cleanup_failed { code.max(SOMETHING_FAILED) } else { code })
}

/// One library stands for all: they have to be of the machine's architecture anyway.
fn check(work: &Work, allocators: &[Allocator]) -> Result<Way> {
    let any_library = allocators.iter().find_map(|allocator| allocator.library.as_deref());
    let like = library::describe(any_library.unwrap_or(Path::new("/proc/self/exe")))?;
    program::check_for_comparison(&work.command[0], &like)
}

fn new_row(work: &Work, allocators: &[Allocator]) -> Row {
    Row {
        name: work.name(),
        family: "compare".into(),
        kind: "program".into(),
        threads: 1,
        command: work.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        parameters: work.parameters.clone(),
        figure: Some(Figure { key: "wall_seconds".into(), more_is_better: false }),
        memory: "peak resident memory".into(),
        huge_pages: None,
        not_run: None,
        alone: None,
        beside: None,
        sweep: None,
        took_seconds: None,
        columns: allocators.iter().map(|allocator| Column::new(&allocator.name)).collect(),
    }
}

/// For a message.
fn under(allocator: &str) -> String {
    if allocator == SHIPPED { "with its own allocator".into() } else { format!("under {allocator}") }
}

impl Comparison {
    /// Whether it was interrupted.
    fn measure(&mut self) -> bool {
        for row in 0..self.works.len() {
            self.row = row;
            self.allocators = self.chosen.clone();
            self.reference = None;
            if self.works.len() > 1 {
                self.progress.part(&self.works[row].name());
            }
            let work = self.works[row].clone();
            let outcome = self.set_up(&work).and_then(|()| self.measure_row());
            // In any case, and what was measured counts whether or not it succeeds.
            let cleaned = work.cleanup.as_ref().map_or(Ok(()), |cleanup| hooks::run("cleanup", cleanup));
            if let Err(Stop::Failed(reason)) = &cleaned {
                self.progress.say(&format!("hak: {reason}"));
                self.cleanup_failed = true;
            }
            match outcome {
                Err(Stop::Failed(reason)) => self.not_run(reason),
                Err(Stop::Interrupted) => return true,
                Ok(()) if matches!(cleaned, Err(Stop::Interrupted)) => return true,
                Ok(()) => {}
            }
        }
        false
    }

    fn set_up(&mut self, work: &Work) -> Result<(), Stop> {
        if let Some(setup) = &work.setup {
            hooks::run("setup", setup)?;
        }
        match check(work, &self.chosen).map_err(|error| Stop::Failed(error.to_string()))? {
            Way::Own(own) => self.leave_alone(work, &own),
            Way::Preloaded => {}
        }
        Ok(())
    }

    /// Nothing that is preloaded would serve the program: what can be measured is the program as it is.
    fn leave_alone(&mut self, work: &Work, own: &Own) {
        let arguments = &self.arguments;
        let runs = u64::from(arguments.rounds + arguments.warmup) + 2;
        self.progress.done(runs * (self.allocators.len() as u64 - 1));
        self.allocators.clear();
        let row = &mut self.results.rows[self.row];
        row.alone = Some(own.says());
        row.columns.clear();
        let object = program::find(&work.command[0]).unwrap_or_default();
        self.add_column(0, allocators::shipped(&object));
    }

    fn not_run(&mut self, reason: String) {
        self.progress.say(&format!("hak: {}: {reason}", self.results.rows[self.row].name));
        self.results.rows[self.row].not_run = Some(reason);
    }

    fn measure_row(&mut self) -> Result<(), Stop> {
        self.progress.part("warm-up, with proof of who serves the program");
        let mut index = 0;
        while index < self.allocators.len() {
            self.warm_up(index)?; // may find one more
            index += 1;
        }
        for _ in 0..self.arguments.warmup {
            for index in 0..self.allocators.len() {
                self.run_once(index, "warm-up")?;
                self.progress.done(1);
            }
        }
        let Compare { rounds, max_rounds, until_sure, .. } = self.arguments;
        let mut looks = Looks::new(rounds, if until_sure { max_rounds } else { rounds });
        self.rounds_until(|row, round| looks.are_enough(row, round))?;
        self.progress.part("counting system calls");
        for index in 0..self.allocators.len() {
            self.count_system_calls(index)?;
        }
        Ok(())
    }

    /// Rounds under every allocator until it is enough, which is asked after each.
    fn rounds_until(&mut self, mut enough: impl FnMut(&Row, u32) -> bool) -> Result<(), Stop> {
        for round in 1.. {
            self.progress.part(&format!("round {round} of {}", self.arguments.rounds.max(round)));
            for offset in 0..self.allocators.len() {
                let index = (round as usize + offset) % self.allocators.len();
                self.timed(round, index)?;
                self.progress.done(1);
            }
            self.results.rounds = self.results.rounds.max(round);
            self.keep();
            if enough(&self.results.rows[self.row], round) {
                break;
            }
        }
        Ok(())
    }

    /// What is measured so far is kept; that it cannot be is told once, and no reason to stop.
    fn keep(&mut self) {
        if let Err(error) = self.exports.keep(&self.results)
            && !std::mem::replace(&mut self.keeping_failed, true)
        {
            self.progress.say(&format!("hak: {error:#}"));
        }
    }

    fn job(&self) -> Job {
        let work = &self.works[self.row];
        Job {
            command: work.command.clone(),
            stdin: work.input.clone().or_else(|| self.standard_input.clone()),
            timeout: self.arguments.timeout,
            ..Job::default()
        }
    }

    /// A job whose run may begin now.
    fn prepared(&self) -> Result<Job, Stop> {
        if interrupt::requested() {
            return Err(Stop::Interrupted);
        }
        if let Some(prepare) = &self.works[self.row].prepare {
            hooks::run("prepare", prepare)?;
        }
        Ok(self.job())
    }

    fn last(&self) -> Vec<&Path> {
        self.users_preload.iter().map(PathBuf::as_path).collect()
    }

    fn column(&mut self, index: usize) -> &mut Column {
        &mut self.results.rows[self.row].columns[index]
    }

    fn warm_up(&mut self, index: usize) -> Result<(), Stop> {
        let allocator = self.allocators[index].clone();
        self.progress.step(&format!("{}: warm-up and proof", allocator.name));
        let proven = self.prepared().and_then(|job| measure::prove(&self.helpers, job, &allocator, &self.last()));
        let proven = match proven {
            Err(Stop::Failed(reason)) => {
                self.fail(index, reason);
                self.progress.done(1);
                return Ok(());
            }
            other => other?,
        };
        let is_first_look = allocator.name == SYSTEM && self.results.rows[self.row].column(SHIPPED).is_none();
        if let Some(object) = proven.brought.filter(|_| is_first_look) {
            self.add_shipped(index, &object);
            return self.warm_up(index);
        }
        self.progress.done(1);
        let different = self.differs_from_reference(&proven.ran, &allocator)?;
        match (different, proven.proof) {
            (Some(reason), _) => self.fail(index, reason),
            (None, Err(reason)) => self.fail(index, format!("not proven: {reason}")),
            (None, Ok(proof)) => self.column(index).proof = Some(proof),
        }
        Ok(())
    }

    /// The program brings its own allocator: what the user has today is that, and the C library's malloc
    /// needs to be preloaded as the others are.
    fn add_shipped(&mut self, index: usize, object: &Path) {
        self.allocators[index] = allocators::preloaded_system();
        self.add_column(index, allocators::shipped(object));
    }

    fn add_column(&mut self, index: usize, shipped: Allocator) {
        self.allocators.insert(index, shipped.clone());
        self.results.rows[self.row].columns.insert(index, Column::new(&shipped.name));
        if self.results.allocators.iter().all(|allocator| allocator.name != shipped.name) {
            self.results.allocators.insert(index, shipped);
        }
    }

    /// The first program that ends by itself is what the others are compared with. One that does not succeed
    /// is not worth measuring, unless the user says so.
    fn differs_from_reference(&mut self, ran: &Ran, allocator: &Allocator) -> Result<Option<String>, Stop> {
        let ignored = self.arguments.ignore_failure;
        if ran.status.signal().is_some() {
            return Ok(Some(measure::describe_end(ran)));
        }
        let Some(reference) = &self.reference else {
            if !ran.status.success() && !ignored {
                return Err(Stop::Failed(format!(
                    "the program itself did not succeed {} ({}); --ignore-failure measures it all the same",
                    under(&allocator.name),
                    measure::describe_end(ran)
                )));
            }
            self.reference =
                Some(Reference { allocator: allocator.name.clone(), status: ran.status, stdout: ran.stdout.clone() });
            return Ok(None);
        };
        if ran.status != reference.status && !ignored {
            return Ok(Some(format!(
                "{}, but {} {}",
                measure::describe_end(ran),
                process::describe(reference.status),
                under(&reference.allocator)
            )));
        }
        if self.arguments.same_output && ran.stdout != reference.stdout {
            return Ok(Some(format!("standard output is not the same as {}", under(&reference.allocator))));
        }
        Ok(None)
    }

    /// Nothing of an allocator that has failed.
    fn run_once(&mut self, index: usize, when: &str) -> Result<Option<Ran>, Stop> {
        if self.column(index).failure.is_some() {
            return Ok(None);
        }
        let allocator = self.allocators[index].clone();
        self.progress.step(&format!("{}: {when}", allocator.name));
        warm::memory(&self.results.rows[self.row]);
        let ran = self.prepared().and_then(|job| measure::run(&self.helpers, job, &allocator, &self.last()));
        let (ran, different) = match ran {
            Ok(ran) => {
                let different = self.differs_from_reference(&ran, &allocator)?;
                (Some(ran), different)
            }
            Err(Stop::Failed(reason)) => (None, Some(reason)),
            Err(Stop::Interrupted) => return Err(Stop::Interrupted),
        };
        if let Some(reason) = different {
            self.fail(index, format!("{when}: {reason}"));
            return Ok(None);
        }
        Ok(ran)
    }

    fn timed(&mut self, round: u32, index: usize) -> Result<(), Stop> {
        if let Some(ran) = self.run_once(index, &format!("round {round}"))? {
            let (wall, peak_mib) = (ran.usage.wall_seconds, ran.usage.peak_kib as f64 / 1024.0);
            self.column(index).samples.push(Sample::new(round, COURSES, &ran, Some(wall), peak_mib));
        }
        Ok(())
    }

    fn slowest(&self) -> Duration {
        let samples = self.results.rows[self.row].columns.iter().flat_map(|column| &column.samples);
        let seconds = samples.map(|sample| sample.usage.wall_seconds).fold(0.0, f64::max);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    fn count_system_calls(&mut self, index: usize) -> Result<(), Stop> {
        let allocator = self.allocators[index].clone();
        if self.column(index).failure.is_none() {
            self.progress.step(&format!("{}: counting system calls", allocator.name));
            let calls = match self.prepared() {
                Ok(mut job) => {
                    let limit = syscalls::limit(self.slowest());
                    job.timeout = Some(job.timeout.map_or(limit, |given| given.min(limit)));
                    syscalls::count(&self.helpers, job, &allocator, &self.last())
                }
                Err(Stop::Failed(reason)) => SystemCalls::Unknown(reason),
                Err(Stop::Interrupted) => return Err(Stop::Interrupted),
            };
            self.column(index).system_calls = Some(calls);
        }
        self.progress.done(1);
        if interrupt::requested() { Err(Stop::Interrupted) } else { Ok(()) }
    }

    fn fail(&mut self, index: usize, reason: String) {
        let name = self.allocators[index].name.clone();
        self.progress.say(&format!("{name} FAILED: {reason}"));
        self.column(index).failure = Some(reason);
    }
}
