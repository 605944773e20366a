// SPDX-License-Identifier: MIT
//! A run of the suite: round by round, row by row, and kept after each of them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::allocators::{self, Allocator};
use crate::commands::plan::Plan;
use crate::commands::rows;
use crate::crossover::{self, Crossover};
use crate::failure::{INTERRUPTED, SOMETHING_FAILED};
use crate::figure;
use crate::helpers::Helpers;
use crate::huge_pages::Control;
use crate::interrupt;
use crate::machine;
use crate::measure::{self, Ran, Stop};
use crate::output::{self, Output, say};
use crate::process::{self, Job};
use crate::progress::Progress;
use crate::proof::Server;
use crate::report;
use crate::results::{Column, Results, Sample, State};
use crate::stats::MIN_ROUNDS;
use crate::suite::{Kind as RowKind, Placeholders, Row};
use crate::trace::plan as trace_plan;
use crate::trace::read;
use crate::trace::replay::{Stage, Touch};
use crate::warm;

/// Of so many rounds the memory over time is kept.
const COURSES: u32 = 1;

/// Of the time that there is, what is kept for the crossovers of sweeps.
const SHARE_OF_PROBES: f64 = 0.05;

/// Of a value that lies beside a crossover.
const PROBE_ROUNDS: u32 = MIN_ROUNDS as u32;

/// The lines of all samples are written at least this far apart, but after each round in any case.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

fn runs_of_round(results: &Results) -> u64 {
    results.rows.iter().map(|row| row.columns.len() as u64).sum()
}

pub struct Benchmark {
    rows: Vec<Row>,
    allocators: Vec<Allocator>,
    helpers: Helpers,
    places: Placeholders,
    /// By row: the plan of its replay, and of how many calls that is.
    replays: HashMap<usize, (PathBuf, u64)>,
    tuning: Vec<OsString>,
    progress: Progress,
    results: Results,
    preparation_failed: bool,
    plan: Plan,
    /// Before a run that was interrupted goes on, it has measured for so long.
    spent: Duration,
    start: Instant,
    json: Output,
    csv: Output,
    saving_failed: bool,
    last_save: Instant,
}

impl Benchmark {
    /// `results` may have rounds and rows already: those are not measured again.
    pub fn new(
        rows: Vec<Row>,
        places: Placeholders,
        results: Results,
        plan: Plan,
        json: Output,
        csv: Output,
    ) -> Result<Benchmark> {
        let steps = runs_of_round(&results) * u64::from(plan.least);
        Ok(Benchmark {
            rows,
            allocators: results.allocators.clone(),
            helpers: Helpers::unpack()?,
            places,
            replays: HashMap::new(),
            tuning: allocators::tuning_variables(),
            progress: Progress::new(steps),
            spent: Duration::try_from_secs_f64(results.spent_seconds).unwrap_or_default(),
            results,
            preparation_failed: false,
            plan,
            start: Instant::now(),
            json,
            csv,
            saving_failed: false,
            last_save: Instant::now(),
        })
    }

    /// The exit code.
    pub fn run(mut self, best: bool, against: Option<&Results>) -> u8 {
        let interrupted = self.measure();
        self.results.end(if interrupted { State::Interrupted } else { State::Complete });
        self.show(interrupted, best, against)
    }

    fn elapsed(&self) -> Duration {
        self.spent + self.start.elapsed()
    }

    /// Whether it was interrupted.
    fn measure(&mut self) -> bool {
        for index in 0..self.rows.len() {
            if interrupt::requested() {
                return true;
            }
            self.prepare(index);
        }
        let rounds = if self.results.is_probing { 0 } else { self.plan.most };
        for round in self.results.rounds + 1..=rounds {
            if self.round(round) {
                return true;
            }
            self.results.rounds = round;
            self.last_save = Instant::now() - SAVE_INTERVAL;
            self.keep();
            if let Some(budget) = self.plan.budget {
                let (rounds, end) = self.foresee(budget, round, self.elapsed());
                if rounds == round {
                    break;
                }
                self.announce(rounds, end);
            }
        }
        self.results.is_probing = true;
        self.look_for_crossovers()
    }

    /// Halves the distance on a curve between a value at which hakmem is ahead and one at which it is behind, until
    /// they are near, or the time is over. Whether it was interrupted.
    fn look_for_crossovers(&mut self) -> bool {
        let mut of_one = Duration::ZERO;
        loop {
            if let Some(index) = (0..self.rows.len()).find(|index| !self.is_probed(*index)) {
                let start = Instant::now();
                for round in 1..=PROBE_ROUNDS {
                    if self.row_in_round(round, index) {
                        return true;
                    }
                }
                of_one = start.elapsed();
            }
            let is_over = self.plan.budget.is_some_and(|budget| self.elapsed() + of_one > budget);
            let next = crossover::widest(&self.results, |one| self.between(one).is_none()).filter(|_| !is_over);
            let Some(row) = next.and_then(|one| self.between(&one)) else { return false };
            self.progress.part(&format!("  between two values: {}", row.name));
            self.results.rows.push(rows::begun(&row, &self.allocators));
            self.rows.push(row);
        }
    }

    /// The row between the ends of a crossover, if there is one that has not been tried.
    fn between(&self, crossover: &Crossover) -> Option<Row> {
        let on_curve = |row: &&Row| row.point.as_ref().is_some_and(|(_, its)| its.is_on_curve_of(&crossover.point));
        let (sweep, point) = self.rows.iter().find(on_curve)?.point.as_ref()?;
        let x = sweep.between(crossover.low, crossover.high)?;
        let row = sweep.row(x, point.line.as_ref().map(|(_, value)| *value), true);
        self.rows.iter().all(|other| other.name != row.name).then_some(row)
    }

    fn is_probed(&self, index: usize) -> bool {
        let is_probe = self.results.rows[index].sweep.as_ref().is_some_and(|point| point.is_probe);
        !is_probe || (1..=PROBE_ROUNDS).all(|round| self.is_measured(round, index))
    }

    /// From what its rows took the last time.
    fn time_of_round(&self, round: u32) -> Duration {
        let rows = (0..self.rows.len()).filter(|index| self.runs_in(round, *index));
        let seconds = rows.filter_map(|index| self.results.rows[index].took_seconds);
        Duration::try_from_secs_f64(seconds.sum()).unwrap_or(Duration::MAX)
    }

    /// How many rounds there will be, and when they end; the first takes longest, since it proves.
    fn foresee(&self, budget: Duration, done: u32, elapsed: Duration) -> (u32, Duration) {
        let plan = &self.plan;
        let has_sweeps = self.rows.iter().any(|row| row.point.is_some());
        let budget = if has_sweeps { budget.mul_f64(1.0 - SHARE_OF_PROBES) } else { budget };
        let mut rounds = done;
        let mut end = elapsed;
        // Every row may have had all its rounds before.
        while rounds < plan.most && (0..self.rows.len()).any(|index| self.runs_in(rounds + 1, index)) {
            let next = self.time_of_round(rounds + 1);
            if rounds >= plan.least && end + next > budget {
                break;
            }
            rounds += 1;
            end += next;
        }
        (rounds, end)
    }

    fn announce(&self, rounds: u32, end: Duration) {
        let minutes = end.as_secs_f64() / 60.0;
        self.progress.say(&format!("  about {rounds} rounds in all, {minutes:.1} minutes"));
        self.progress.set_steps(runs_of_round(&self.results) * u64::from(rounds));
    }

    /// Every allocator that has not failed has had its run.
    fn is_measured(&self, round: u32, index: usize) -> bool {
        let has_run = |column: &Column| column.samples.iter().any(|sample| sample.round == round);
        self.results.rows[index].columns.iter().all(|column| column.failure.is_some() || has_run(column))
    }

    fn runs_in(&self, round: u32, index: usize) -> bool {
        self.results.rows[index].not_run.is_none() && self.rows[index].max_rounds.is_none_or(|most| round <= most)
    }

    /// What a row needs before it can run at all.
    fn prepare(&mut self, index: usize) {
        let row = &self.rows[index];
        let name = row.name.clone();
        self.progress.step(&format!("{name}: preparing"));
        let missing = row.needs.iter().find(|command| which::which(command).is_err());
        let missing = missing.map(|command| format!("no {command}"));
        let not_built = || row.beside.as_ref().and_then(|_| self.places.missing_workload(row));
        let refused = || row.huge_pages.and_then(|setting| Control::of_system().refuses(setting));
        let no_room = || {
            let lacks = machine::available_bytes() >> 20 < row.memory_mib;
            lacks.then(|| format!("it needs {} MiB of free memory", row.memory_mib))
        };
        let reason = match missing.or_else(not_built).or_else(refused).or_else(no_room) {
            Some(reason) => Some(reason),
            None => match self.run_preparation(row).and_then(|()| self.plan_replay(index)) {
                Err(_) if interrupt::requested() => None, // Ctrl-C ended it as well
                Err(error) => {
                    self.preparation_failed = true;
                    Some(format!("preparing it failed: {error:#}"))
                }
                Ok(()) => None,
            },
        };
        if let Some(reason) = reason {
            self.progress.say(&format!("{name}: not run: {reason}"));
            self.results.rows[index].not_run = Some(reason);
        }
    }

    fn run_preparation(&self, row: &Row) -> Result<()> {
        let Some(command) = &row.prepare else {
            return Ok(());
        };
        std::fs::create_dir_all(self.places.inputs())?;
        let scratch = self.scratch()?;
        let words: Vec<OsString> = command.iter().map(|word| self.places.fill(word, scratch.path())).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(scratch.path()).env_remove("LD_PRELOAD");
        for variable in &self.tuning {
            command.env_remove(variable);
        }
        let ran = process::run_beside(&mut command).with_context(|| format!("cannot start {}", words[0].display()))?;
        let (status, stderr) = ran.context("interrupted")?;
        anyhow::ensure!(status.success(), "{}: {}", process::describe(status), process::tail(&stderr));
        Ok(())
    }

    /// Of a row that replays a trace.
    fn plan_replay(&mut self, index: usize) -> Result<()> {
        let row = &self.rows[index];
        if row.kind == RowKind::Replay {
            let trace = self.places.fill(&row.command[0], Path::new(""));
            let file = self.helpers.directory().join(format!("plan-{index}"));
            let plan = trace_plan::make(&read::whole(Path::new(&trace))?, &file)?;
            anyhow::ensure!(plan.damage.is_none(), "{}", plan.damage.unwrap_or_default());
            self.replays.insert(index, (file, plan.events));
        }
        Ok(())
    }

    fn scratch(&self) -> Result<TempDir> {
        tempfile::tempdir_in(self.helpers.directory()).context("cannot make a scratch directory")
    }

    /// Whether it was interrupted.
    fn round(&mut self, round: u32) -> bool {
        self.progress.part(&format!("round {round}"));
        for index in 0..self.rows.len() {
            if !self.runs_in(round, index) {
                self.progress.done(self.results.rows[index].columns.len() as u64);
                continue;
            }
            if round == 1 && !self.is_measured(round, index) {
                let row = &self.rows[index];
                self.progress.part(&format!("  {}/{} {}", index + 1, self.rows.len(), row.name));
            }
            if self.row_in_round(round, index) {
                return true;
            }
        }
        false
    }

    /// A row under all allocators, unless that is done. Whether it was interrupted.
    fn row_in_round(&mut self, round: u32, index: usize) -> bool {
        let count = self.results.rows[index].columns.len();
        if self.is_measured(round, index) {
            self.progress.done(count as u64);
            return false;
        }
        let row_start = Instant::now();
        // Those of a row in a round meet the same minute of the machine: what was interrupted there begins anew.
        for column in &mut self.results.rows[index].columns {
            column.samples.retain(|sample| sample.round != round);
        }
        let first = (round as usize + index) % count;
        // The first run after another row's meets files, caches and memory that are colder than
        // for those after it: it does not count.
        let _ = self.one(round, index, first);
        for which in (first..count).chain(0..first) {
            if let Some(sample) = self.one(round, index, which) {
                self.results.rows[index].columns[which].samples.push(sample);
            }
            if interrupt::requested() {
                return true;
            }
            self.progress.done(1);
        }
        self.results.rows[index].took_seconds = Some(row_start.elapsed().as_secs_f64());
        self.keep();
        false
    }

    /// The place of a column's allocator: a row may have fewer columns than there are.
    fn place(&self, index: usize, which: usize) -> usize {
        let name = &self.results.rows[index].columns[which].allocator;
        self.allocators.iter().position(|allocator| allocator.name == *name).expect("columns are of allocators")
    }

    /// One row under one allocator; no sample if it fails, has failed before, or is interrupted.
    fn one(&mut self, round: u32, index: usize, which: usize) -> Option<Sample> {
        if self.results.rows[index].columns[which].failure.is_some() || interrupt::requested() {
            return None;
        }
        let name = self.results.rows[index].columns[which].allocator.clone();
        self.progress.step(&format!("{}: {name}, round {round}", self.rows[index].name));
        match self.proven_sample(round, index, which) {
            Ok(sample) => Some(sample),
            Err(Stop::Interrupted) => None,
            Err(Stop::Failed(reason)) => {
                self.progress.say(&format!("{}, {name} FAILED in round {round}: {reason}", self.rows[index].name));
                self.results.rows[index].columns[which].failure = Some(format!("round {round}: {reason}"));
                None
            }
        }
    }

    fn proven_sample(&mut self, round: u32, index: usize, which: usize) -> Result<Sample, Stop> {
        let row = &self.rows[index];
        let allocator = &self.allocators[self.place(index, which)];
        if row.needs_proof() && self.results.rows[index].columns[which].proof.is_none() {
            let (job, _scratch) = self.job(index)?;
            let proven = measure::prove(&self.helpers, job, allocator, &[])?;
            must_succeed(&proven.ran)?;
            let proof = proven.proof.map_err(|reason| Stop::Failed(format!("not proven: {reason}")))?;
            self.results.rows[index].columns[which].proof = Some(proof);
        }

        let (mut job, _scratch) = self.job(index)?;
        warm::memory(&self.results.rows[index]);
        let huge_pages = row.huge_pages.map(|setting| Control::of_system().hold(setting)).transpose();
        let huge_pages = huge_pages.map_err(Stop::Failed)?;
        let ran = if row.kind == RowKind::Driver {
            let library = allocator.library.clone().unwrap_or_default();
            measure::add_environment(&mut job, allocator);
            job.environment.push(("LD_PRELOAD".into(), None));
            job.environment.push(("HAK_BENCH_PRELOAD".into(), Some(library.into())));
            measure::run_as_it_is(&self.helpers, &job)?
        } else if row.beside.is_some() {
            job.environment.push(("LD_PRELOAD".into(), None)); // a second heap, for what is not Rust's
            measure::run_as_it_is(&self.helpers, &job)?
        } else {
            measure::run(&self.helpers, job, allocator, &[])?
        };
        drop(huge_pages);
        must_succeed(&ran)?;
        let measured = match row.kind {
            RowKind::Program => figure::of_program(&ran, row.memory_only),
            RowKind::Replay => figure::of_replay(&ran, self.replays[&index].1).map_err(Stop::Failed)?,
            RowKind::Workload | RowKind::Driver => {
                let server = match row.beside {
                    Some(_) => Server::Program(self.places.workload(row)),
                    None => Server::Allocator(allocator),
                };
                let (measured, proof) = figure::printed(&ran, &server).map_err(Stop::Failed)?;
                self.results.rows[index].columns[which].proof = Some(proof);
                measured
            }
        };
        let record = &mut self.results.rows[index];
        if let Some((figure, _)) = &measured.figure {
            record.figure = Some(figure.clone());
        }
        record.memory = measured.memory;
        let figure = measured.figure.map(|(_, value)| value);
        let sample = Sample::new(round, COURSES, &ran, figure, measured.memory_mib);
        Ok(Sample { latency: measured.latency, memories: measured.memories, ..sample })
    }

    /// In a fresh directory, which lives as long as the second value.
    fn job(&self, index: usize) -> Result<(Job, TempDir), Stop> {
        let row = &self.rows[index];
        let scratch = self.scratch().map_err(|error| Stop::Failed(error.to_string()))?;
        let directory = row.directory.as_ref().map(|text| self.places.fill(text, scratch.path()));
        let removed = self.tuning.iter().map(|name| (name.clone(), None));
        let set = row
            .environment
            .iter()
            .map(|(name, value)| (OsString::from(name), Some(self.places.fill(value, scratch.path()))));
        let replay = self.replays.get(&index);
        let replay = replay.map(|(plan, _)| Stage { helpers: &self.helpers, plan, touch: Touch::All }.job().command);
        let job = Job {
            command: replay.unwrap_or_else(|| row.command(&self.places, scratch.path())),
            environment: removed.chain(set).collect(),
            directory: Some(directory.map_or_else(|| scratch.path().to_path_buf(), PathBuf::from)),
            stdin: None,
            timeout: Some(row.timeout()),
        };
        Ok((job, scratch))
    }

    fn save(&self) -> Result<()> {
        self.json.write(self.results.json()?.as_bytes())?;
        self.csv.write(&report::csv::samples(&self.results)?)
    }

    /// Every row that was measured, so that a run that ends at any time can go on from there.
    fn save_what_is_due(&mut self) -> Result<()> {
        self.results.spent_seconds = self.elapsed().as_secs_f64();
        if self.last_save.elapsed() < SAVE_INTERVAL {
            return self.json.write(self.results.json()?.as_bytes());
        }
        self.last_save = Instant::now();
        self.save()
    }

    /// What is measured so far. That it cannot be kept is told once, and no reason to stop.
    fn keep(&mut self) {
        if let Err(error) = self.save_what_is_due()
            && !std::mem::replace(&mut self.saving_failed, true)
        {
            self.progress.say(&format!("hak: {error:#}"));
        }
    }

    fn show(mut self, interrupted: bool, best: bool, against: Option<&Results>) -> u8 {
        self.results.spent_seconds = self.elapsed().as_secs_f64();
        let saved = self.save();
        drop(self.progress);
        let place = saved.as_ref().map_or(String::new(), |()| format!("\nEvery sample: {} and .csv\n", self.json));
        let change = against.map_or(String::new(), |then| {
            report::changes::text(&report::changes::told(then, &self.results), report::table::width())
        });
        let shown = output::print(&(report::terminal_suite::summary(&self.results, best) + &change + &place));
        let errors: Vec<anyhow::Error> = [saved, shown].into_iter().filter_map(Result::err).collect();
        errors.iter().for_each(|error| say(format_args!("hak: {error:#}")));
        let replaced = self.allocators.iter().filter(|allocator| allocator.was_replaced());
        let replaced: Vec<&str> = replaced.map(|allocator| allocator.name.as_str()).collect();
        if !replaced.is_empty() {
            say(format_args!("hak: replaced during the measurement, which has both: {}", replaced.join(", ")));
        }
        if interrupted {
            say(format_args!(
                "hak: interrupted; what was measured until then is kept; hak bench --resume {} goes on",
                self.json
            ));
            return INTERRUPTED;
        }
        let failed = self.preparation_failed
            || !replaced.is_empty()
            || !self.results.failures().is_empty()
            || !errors.is_empty();
        let nothing_ran = self.results.rows.iter().all(|row| row.not_run.is_some());
        if failed || nothing_ran { SOMETHING_FAILED } else { 0 }
    }
}

fn must_succeed(ran: &Ran) -> Result<(), Stop> {
    if ran.status.success() {
        return Ok(());
    }
    Err(Stop::Failed(measure::describe_end(ran)))
}
