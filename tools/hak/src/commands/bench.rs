// SPDX-License-Identifier: MIT
//! `hak bench`

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::allocators::{self, Allocator};
use crate::cli::Bench;
use crate::commands::plan::Plan;
use crate::commands::rows;
use crate::failure::{BAD_INPUT, INTERRUPTED, SOMETHING_FAILED, failure};
use crate::figure;
use crate::helpers::Helpers;
use crate::huge_pages::Control;
use crate::interrupt;
use crate::measure::{self, Ran, Stop};
use crate::output::{self, Output, say};
use crate::places::{self, Build};
use crate::process::{self, Job};
use crate::progress::Progress;
use crate::report;
use crate::results::{Kind, Results, Sample, State};
use crate::suite::{self, Kind as RowKind, Placeholders, Row};
use crate::warm;

/// Of so many rounds the memory over time is kept.
const COURSES: u32 = 1;

/// Files are written at least this far apart, but after each round in any case.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

struct Benchmark {
    rows: Vec<Row>,
    allocators: Vec<Allocator>,
    helpers: Helpers,
    places: Placeholders,
    tuning: Vec<OsString>,
    progress: Progress,
    results: Results,
    preparation_failed: bool,
    /// How long each row took in its latest round, under all allocators.
    row_times: Vec<Duration>,
    json: Output,
    csv: Output,
    saving_failed: bool,
    last_save: Instant,
}

pub fn run(arguments: Bench) -> Result<u8> {
    let file = arguments.suite.clone().unwrap_or_else(suite::default_file);
    let against = arguments.against.as_deref().map(Results::load_suite).transpose()?;
    let suite = suite::read(&file)?;
    let suite_rows = suite.len();
    let rows = rows::chosen(&arguments, against.as_ref(), suite)?;
    if arguments.list {
        rows::list(&rows, &Plan::of(&arguments, against.as_ref()), &arguments.choice)?;
        return Ok(0);
    }
    let mut allocators = allocators::choose(&arguments.choice)?;
    if let Some(then) = &against {
        rows::only_those_of(then, &arguments.choice, &mut allocators)?;
    }
    let allocators: Vec<Allocator> = allocators.into_iter().map(Allocator::identified).collect();
    let build = Build::find(arguments.choice.build.as_deref());
    if !build.workloads().is_dir() && rows.iter().any(|row| row.kind == RowKind::Workload) {
        let message = format!("no workloads in {}; build them with -DHAKMEM_BENCH=ON", build.workloads().display());
        return Err(failure(BAD_INPUT, message));
    }
    let directory = arguments.results.clone().unwrap_or_else(|| places::source().join("bench/results"));
    let plan = Plan::of(&arguments, against.as_ref());

    interrupt::watch()?;
    let mut results = Results::new(Kind::Bench, allocators.clone(), 0);
    results.quick = rows::is_quick(&arguments, against.as_ref());
    let what = match results.quick {
        _ if arguments.filter.is_some() => "part",
        true => "quick",
        false if rows.len() < suite_rows => "part",
        false => "full",
    };
    let stem = format!("{}-{what}", results.started.replace(':', ""));
    let json = directory.join(format!("{stem}.json"));
    let (json, csv) = (Output::of(&json)?, Output::of(&json.with_extension("csv"))?);
    let places = Placeholders::new(&file, &build);
    results.work = rows.iter().flat_map(|row| row.work(&places)).collect();
    results.rows = rows.iter().map(|row| rows::begun(row, &allocators)).collect();
    if let Some(warning) = results.machine.busy() {
        say(format_args!("hak: {warning}"));
    }
    let names: Vec<&str> = allocators.iter().map(|allocator| allocator.name.as_str()).collect();
    say(plan.describe(&rows, names.len()));
    say(format_args!("allocators: {}", names.join(", ")));
    say(format_args!("results: {json} (and .csv)"));

    let steps = rows.len() as u64 * allocators.len() as u64 * u64::from(plan.least);
    let mut benchmark = Benchmark {
        places,
        row_times: vec![Duration::ZERO; rows.len()],
        rows,
        allocators,
        helpers: Helpers::unpack()?,
        tuning: allocators::tuning_variables(),
        progress: Progress::new(steps),
        results,
        preparation_failed: false,
        json,
        csv,
        saving_failed: false,
        last_save: Instant::now(),
    };
    let interrupted = benchmark.measure(&plan);
    benchmark.results.end(if interrupted { State::Interrupted } else { State::Complete });
    Ok(benchmark.show(interrupted, arguments.best, against.as_ref()))
}

impl Benchmark {
    /// Whether it was interrupted.
    fn measure(&mut self, plan: &Plan) -> bool {
        for index in 0..self.rows.len() {
            if interrupt::requested() {
                return true;
            }
            self.prepare(index);
        }
        let start = Instant::now();
        for round in 1..=plan.most {
            if self.round(round) {
                return true;
            }
            self.results.rounds = round;
            self.keep();
            if let Some(budget) = plan.budget {
                let (rounds, end) = self.foresee(plan, budget, round, start.elapsed());
                if rounds == round {
                    break;
                }
                self.announce(rounds, end);
            }
        }
        false
    }

    /// From what its rows took the last time.
    fn time_of_round(&self, round: u32) -> Duration {
        let rows = (0..self.rows.len()).filter(|index| self.runs_in(round, *index));
        rows.map(|index| self.row_times[index]).sum()
    }

    /// How many rounds there will be, and when they end; the first takes longest, since it proves.
    fn foresee(&self, plan: &Plan, budget: Duration, done: u32, elapsed: Duration) -> (u32, Duration) {
        let mut rounds = done;
        let mut end = elapsed;
        while rounds < plan.most {
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
        let runs = self.rows.len() as u64 * self.allocators.len() as u64;
        self.progress.set_steps(runs * u64::from(rounds));
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
        let refused = || row.huge_pages.and_then(|setting| Control::of_system().refuses(setting));
        let reason = match missing.or_else(refused) {
            Some(reason) => Some(reason),
            None => match self.run_preparation(row) {
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
        command.args(&words[1..]).current_dir(scratch.path()).env_remove("LD_PRELOAD").stdin(Stdio::null());
        for variable in &self.tuning {
            command.env_remove(variable);
        }
        let output = command.output().with_context(|| format!("cannot start {}", words[0].display()))?;
        if !output.status.success() {
            anyhow::bail!("{}: {}", process::describe(output.status), process::tail(&output.stderr));
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
                self.progress.done(self.allocators.len() as u64);
                continue;
            }
            if round == 1 {
                let row = &self.rows[index];
                self.progress.part(&format!("  {}/{} {}", index + 1, self.rows.len(), row.name));
            }
            let row_start = Instant::now();
            let count = self.allocators.len();
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
            self.row_times[index] = row_start.elapsed();
            if self.last_save.elapsed() > SAVE_INTERVAL {
                self.keep();
            }
        }
        false
    }

    /// One row under one allocator; no sample if it fails, has failed before, or is interrupted.
    fn one(&mut self, round: u32, index: usize, which: usize) -> Option<Sample> {
        if self.results.rows[index].columns[which].failure.is_some() || interrupt::requested() {
            return None;
        }
        let name = self.allocators[which].name.clone();
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
        let allocator = &self.allocators[which];
        if row.kind == RowKind::Program && self.results.rows[index].columns[which].proof.is_none() {
            let (job, _scratch) = self.job(row)?;
            let proven = measure::prove(&self.helpers, job, allocator, &[])?;
            must_succeed(&proven.ran)?;
            let proof = proven.proof.map_err(|reason| Stop::Failed(format!("not proven: {reason}")))?;
            self.results.rows[index].columns[which].proof = Some(proof);
        }

        let (mut job, _scratch) = self.job(row)?;
        warm::memory(&self.results.rows[index]);
        let huge_pages = row.huge_pages.map(|setting| Control::of_system().hold(setting)).transpose();
        let huge_pages = huge_pages.map_err(Stop::Failed)?;
        let ran = if row.kind == RowKind::Driver {
            let library = allocator.library.clone().unwrap_or_default();
            measure::add_environment(&mut job, allocator);
            job.environment.push(("LD_PRELOAD".into(), None));
            job.environment.push(("HAK_BENCH_PRELOAD".into(), Some(library.into())));
            measure::run_as_it_is(&self.helpers, &job)?
        } else {
            measure::run(&self.helpers, job, allocator, &[])?
        };
        drop(huge_pages);
        must_succeed(&ran)?;
        let measured = if row.kind == RowKind::Program {
            figure::of_program(&ran, row.memory_only)
        } else {
            let (measured, proof) = figure::printed(&ran, allocator).map_err(Stop::Failed)?;
            self.results.rows[index].columns[which].proof = Some(proof);
            measured
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
    fn job(&self, row: &Row) -> Result<(Job, TempDir), Stop> {
        let scratch = self.scratch().map_err(|error| Stop::Failed(error.to_string()))?;
        let directory = row.directory.as_ref().map(|text| self.places.fill(text, scratch.path()));
        let removed = self.tuning.iter().map(|name| (name.clone(), None));
        let set = row
            .environment
            .iter()
            .map(|(name, value)| (OsString::from(name), Some(self.places.fill(value, scratch.path()))));
        let job = Job {
            command: row.command(&self.places, scratch.path()),
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

    /// What is measured so far. That it cannot be kept is told once, and no reason to stop.
    fn keep(&mut self) {
        if let Err(error) = self.save()
            && !std::mem::replace(&mut self.saving_failed, true)
        {
            self.progress.say(&format!("hak: {error:#}"));
        }
        self.last_save = Instant::now();
    }

    fn show(self, interrupted: bool, best: bool, against: Option<&Results>) -> u8 {
        let saved = self.save();
        drop(self.progress);
        let place = saved.as_ref().map_or(String::new(), |()| format!("\nEvery sample: {} and .csv\n", self.json));
        let change = against.map_or(String::new(), |then| {
            report::changes::text(&report::changes::told(then, &self.results), report::table::width())
        });
        let shown = output::print(&(report::terminal_suite::summary(&self.results, best) + &change + &place));
        let errors: Vec<anyhow::Error> = [saved, shown].into_iter().filter_map(Result::err).collect();
        errors.iter().for_each(|error| say(format_args!("hak: {error:#}")));
        if interrupted {
            say("hak: interrupted; what was measured until then is kept");
            return INTERRUPTED;
        }
        let failed = self.preparation_failed || !self.results.failures().is_empty() || !errors.is_empty();
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
