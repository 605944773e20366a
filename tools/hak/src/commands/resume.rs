// SPDX-License-Identifier: MIT
//! Whether an interrupted run of the suite can go on: with the same work, under the same allocators, on the
//! same machine. Anything else would be two measurements in one file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::allocators::{self, Allocator};
use crate::failure::{BAD_INPUT, failure};
use crate::fingerprint;
use crate::machine::Machine;
use crate::results::{self, Kind, Results, State};
use crate::suite::{Placeholders, Row};

pub fn load(path: &Path) -> Result<Results> {
    let results = Results::load(path)?;
    let bad = |reason: String| Err(failure(BAD_INPUT, format!("{}: {reason}", path.display())));
    if results.kind != Kind::Bench {
        return bad("it is of hak compare; only a run of hak bench can go on".into());
    }
    if results.state == State::Complete {
        return bad("its run is complete; there is nothing to go on with".into());
    }
    if results.plan.is_none() {
        return bad("written by an older hak, which did not keep what it takes to go on".into());
    }
    if let Some(process) = results.process.filter(|process| results.state == State::Running && is_hak(*process)) {
        return bad(format!("process {process} is measuring for it"));
    }
    Ok(results)
}

/// As this process is called.
fn is_hak(process: u32) -> bool {
    let name = |process: &str| fs::read_to_string(format!("/proc/{process}/comm")).ok();
    process != std::process::id() && name(&process.to_string()).is_some_and(|its| Some(its) == name("self"))
}

/// In the order of the file.
pub fn rows(results: &Results, suite: &[Row]) -> Vec<Row> {
    let by_name: BTreeMap<&str, &Row> = suite.iter().map(|row| (row.name.as_str(), row)).collect();
    let probe = |row: &results::Row| {
        let point = row.sweep.as_ref().filter(|point| point.is_probe)?;
        let points = suite.iter().filter_map(|row| row.point.as_ref());
        let (sweep, _) = points.into_iter().find(|(_, other)| other.is_on_curve_of(point))?;
        Some(sweep.row(point.x, point.line.as_ref().map(|(_, value)| *value), true))
    };
    let of_suite = |row: &results::Row| by_name.get(row.name.as_str()).map(|row| (*row).clone());
    results.rows.iter().filter_map(|row| of_suite(row).or_else(|| probe(row))).collect()
}

pub fn check(results: &Results, rows: &[Row], suite: &Path, places: &Placeholders) -> Result<()> {
    let mut reasons = Machine::read().differences(&results.machine);
    if results.tool_version != env!("CARGO_PKG_VERSION") {
        reasons.push(format!("hak: {} then, {} now", results.tool_version, env!("CARGO_PKG_VERSION")));
    }
    if rows.len() != results.rows.len() || results.suite != fingerprint::of(suite).ok() {
        reasons.push(format!("the suite has changed: {}", suite.display()));
    }
    let work: BTreeMap<String, String> = rows.iter().flat_map(|row| row.work(places)).collect();
    let changed = results.work.iter().filter(|(name, was)| work.get(*name) != Some(*was));
    reasons.extend(changed.map(|(name, _)| format!("{name} is not the same file as then")));
    reasons.extend(results.allocators.iter().filter_map(has_changed));
    if reasons.is_empty() {
        return Ok(());
    }
    let file = results.file.as_deref().unwrap_or(Path::new("")).display();
    Err(failure(BAD_INPUT, format!("{file}: it cannot go on: {}", reasons.join("; "))))
}

fn has_changed(allocator: &Allocator) -> Option<String> {
    let name = &allocator.name;
    let Some(library) = &allocator.library else {
        let now = allocators::system().version;
        return (allocator.version != now).then(|| format!("{name}: {} then, {now} now", allocator.version));
    };
    let now = fingerprint::of(library);
    match now {
        Ok(now) if Some(&now) == allocator.fingerprint.as_ref() => None,
        Ok(_) => Some(format!("{name}: {} is not the same file as then", library.display())),
        Err(error) => Some(format!("{name}: {}: {error}", library.display())),
    }
}

pub fn begin(results: &mut Results) {
    results.state = State::Running;
    results.ended = None;
    results.process = Some(std::process::id());
    results.resumed.push(results::now());
}
