// SPDX-License-Identifier: MIT
//! `hak bench`

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::allocators::{self, Allocator};
use crate::cli::Bench;
use crate::commands::benchmark::Benchmark;
use crate::commands::plan::Plan;
use crate::commands::{resume, rows};
use crate::failure::{BAD_INPUT, failure};
use crate::fingerprint;
use crate::interrupt;
use crate::output::{Output, say};
use crate::places::{self, Build};
use crate::results::{Kind, Results};
use crate::suite::{self, Kind as RowKind, Placeholders, Row};
use crate::trace::text::count;

pub fn run(arguments: Bench) -> Result<u8> {
    if let Some(file) = &arguments.resume {
        return go_on(&arguments, file);
    }
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
    let rows = rows::that_any_serves(rows, &allocators)?;
    let build = Build::find(arguments.choice.build.as_deref());
    need_workloads(&build, &rows)?;
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
    let made = fs::create_dir_all(&directory);
    made.map_err(|error| failure(BAD_INPUT, format!("cannot make {}: {error}", directory.display())))?;
    let stem = format!("{}-{what}", results.started.replace(':', ""));
    let json = new_file(&directory, &stem)?;
    let (json, csv) = (Output::of(&json)?, Output::of(&json.with_extension("csv"))?);
    let places = Placeholders::new(&file, &build);
    results.plan = Some(plan.clone());
    results.work = rows.iter().flat_map(|row| row.work(&places)).collect();
    results.suite = fingerprint::of(&file).ok();
    results.rows = rows.iter().map(|row| rows::begun(row, &allocators)).collect();
    if let Some(warning) = results.machine.busy() {
        say(format_args!("hak: {warning}"));
    }
    let names: Vec<&str> = allocators.iter().map(|allocator| allocator.name.as_str()).collect();
    say(plan.describe(&rows, names.len()));
    say(format_args!("allocators: {}", names.join(", ")));
    say(format_args!("results: {json} (and .csv)"));

    Ok(Benchmark::new(rows, places, results, plan, json, csv)?.run(arguments.best, against.as_ref()))
}

/// A result file of its own for each run, also where two begin in the same second.
fn new_file(directory: &Path, stem: &str) -> Result<PathBuf> {
    let mut file = directory.join(format!("{stem}.json"));
    for number in 2.. {
        match File::create_new(&file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                file = directory.join(format!("{stem}-{number}.json"));
            }
            Err(error) => return Err(failure(BAD_INPUT, format!("cannot write {}: {error}", file.display()))),
            Ok(_) => break,
        }
    }
    Ok(file)
}

/// An interrupted run, from the row on that it was in.
fn go_on(arguments: &Bench, json: &Path) -> Result<u8> {
    let mut results = resume::load(json)?;
    let against = arguments.against.as_deref().map(Results::load_suite).transpose()?;
    let file = arguments.suite.clone().unwrap_or_else(suite::default_file);
    let build = Build::find(arguments.choice.build.as_deref());
    let places = Placeholders::new(&file, &build);
    let rows = resume::rows(&results, &suite::read(&file)?);
    need_workloads(&build, &rows)?;
    resume::check(&results, &rows, &file, &places)?;
    let plan = results.plan.clone().expect("it was checked");
    interrupt::watch()?;
    let (json, csv) = (Output::of(json)?, Output::of(&json.with_extension("csv"))?);
    let done = results.rows.iter().filter(|row| row.columns.iter().any(|column| !column.samples.is_empty())).count();
    say(format_args!(
        "going on: {} of {} done, {done} with values, in {:.0} minutes",
        count(results.rounds.into(), "round"),
        count(rows.len() as u64, "row"),
        results.spent_seconds / 60.0
    ));
    say(format_args!("results: {json} (and .csv)"));
    resume::begin(&mut results);
    Ok(Benchmark::new(rows, places, results, plan, json, csv)?.run(arguments.best, against.as_ref()))
}

fn need_workloads(build: &Build, rows: &[Row]) -> Result<()> {
    if !build.workloads().is_dir() && rows.iter().any(|row| row.kind == RowKind::Workload) {
        let message = format!("no workloads in {}; build them with -DHAKMEM_BENCH=ON", build.workloads().display());
        return Err(failure(BAD_INPUT, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_runs_have_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["now-full.json", "now-full-2.json", "now-full-3.json"] {
            assert_eq!(new_file(directory.path(), "now-full").unwrap(), path(name));
            assert!(path(name).exists());
        }
        assert_eq!(new_file(directory.path(), "now-part").unwrap(), path("now-part.json"));
        assert!(new_file(&path("none"), "now").unwrap_err().to_string().contains("cannot write"));
    }
}
