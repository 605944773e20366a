// SPDX-License-Identifier: MIT
//! Several results, in the order of their dates. Each is labelled with its file and date.

use crate::allocators::HAKMEM;
use crate::analysis::{self, Against, Measure};
use crate::means::{self, Mean};
use crate::results::Results;

pub struct History {
    pub labels: Vec<String>,
    /// For each allocator, its geometric means of time and memory in each file, to the baseline.
    pub means: Vec<(String, Vec<[Option<f64>; 2]>)>,
    pub lines: Vec<Line>,
}

/// hakmem's value of one row in each file.
pub struct Line {
    pub row: String,
    pub figure: String,
    pub values: Vec<Option<f64>>,
}

impl Line {
    /// From the first value to the last, in percent.
    pub fn change(&self) -> Option<f64> {
        let mut values = self.values.iter().flatten();
        let first = values.next()?;
        let last = values.next_back()?;
        Some((last / first - 1.0) * 100.0)
    }
}

pub fn of(all: &[&Results]) -> History {
    let mut sorted = all.to_vec();
    sorted.sort_by(|a, b| a.started.cmp(&b.started));

    let mut names: Vec<&str> = Vec::new();
    let mut rows: Vec<&str> = Vec::new();
    for results in &sorted {
        let found = results.allocators.iter().map(|allocator| allocator.name.as_str());
        add_new(&mut names, found);
        add_new(&mut rows, results.rows.iter().map(|row| row.name.as_str()));
    }
    let means: Vec<Vec<Mean>> =
        sorted.iter().map(|results| means::of_all(results, Against::of(&results.rows, false))).collect();
    let means_of = |name: &str| -> Vec<[Option<f64>; 2]> {
        let of_file = |means: &Vec<Mean>| {
            let mean = means.iter().find(|mean| mean.allocator == name);
            mean.map_or([None, None], |mean| [mean.time, mean.memory])
        };
        means.iter().map(of_file).collect()
    };
    let lines = rows.iter().flat_map(|row| Measure::ALL.map(|measure| line(&sorted, row, measure)));
    History {
        labels: labels(&sorted),
        means: names.iter().map(|&name| (name.to_owned(), means_of(name))).collect(),
        lines: lines.filter(|line| line.values.iter().any(Option::is_some)).collect(),
    }
}

fn add_new<'a>(list: &mut Vec<&'a str>, found: impl Iterator<Item = &'a str>) {
    for name in found {
        if !list.contains(&name) {
            list.push(name);
        }
    }
}

/// "older.json, 2026-01-01 12:00, aaaaaaa".
pub fn labels(all: &[&Results]) -> Vec<String> {
    let names: Vec<Option<String>> = all.iter().map(|results| file_name(results)).collect();
    let label = |(results, name): (&&Results, &Option<String>)| {
        // Files of one name in several folders are told apart by their folders.
        let shared = names.iter().filter(|other| *other == name).count() > 1;
        let path = results.file.as_ref().filter(|_| shared).map(|path| path.display().to_string());
        let minute = results.started.get(..16).unwrap_or(&results.started).replace('T', " ");
        let commit = results.commit.as_ref().map(|commit| commit.get(..7).unwrap_or(commit).to_owned());
        let parts = [path.or_else(|| name.clone()), Some(minute), commit];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    all.iter().zip(&names).map(label).collect()
}

fn file_name(results: &Results) -> Option<String> {
    Some(results.file.as_ref()?.file_name()?.to_string_lossy().into_owned())
}

fn line(sorted: &[&Results], name: &str, measure: Measure) -> Line {
    let mut figure = String::new();
    let values = sorted.iter().map(|results| {
        let row = results.rows.iter().find(|row| row.name == name)?;
        figure = measure.figure(row)?;
        let standings = analysis::standings(row, measure, Against::Best);
        standings.iter().find(|standing| standing.allocator == HAKMEM).map(|standing| standing.value)
    });
    let values = values.collect();
    Line { row: name.into(), figure, values }
}
