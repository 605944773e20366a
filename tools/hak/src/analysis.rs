// SPDX-License-Identifier: MIT
//! What the samples say: who is best at a row, who is behind, by how much, and is it noise.

use std::collections::{HashMap, HashSet};

use crate::results::{Column, Results, Row, Sample};
use crate::stats::{self, Difference, geometric_mean};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Time,
    /// The time of single calls at their worst.
    Latency,
    Memory,
}

impl Measure {
    pub const ALL: [Measure; 3] = [Measure::Time, Measure::Latency, Measure::Memory];
    /// Those that have means over all rows. The worst of a million calls scatters too much and differs
    /// between allocators by too many orders of magnitude to be added up with anything.
    pub const WITH_MEANS: [Measure; 2] = [Measure::Time, Measure::Memory];

    pub fn name(self) -> &'static str {
        match self {
            Measure::Time => "time",
            Measure::Latency => "latency",
            Measure::Memory => "memory",
        }
    }

    fn samples(self, row: &Row, column: &Column) -> Vec<f64> {
        column.values(|sample: &Sample| match self {
            Measure::Time => sample.figure.filter(|_| !row.is_latency()),
            Measure::Latency => sample.figure.filter(|_| row.is_latency()),
            Measure::Memory => Some(sample.memory_mib),
        })
    }

    /// What the row's values are.
    pub fn figure(self, row: &Row) -> Option<String> {
        let key = || row.figure.as_ref().map(|figure| figure.key.clone());
        match self {
            Measure::Time => key().filter(|_| !row.is_latency()),
            Measure::Latency => key().filter(|_| row.is_latency()),
            Measure::Memory => Some(format!("{}, MiB", row.memory)),
        }
    }

    fn more_is_better(self, row: &Row) -> bool {
        self == Measure::Time && row.figure.as_ref().is_some_and(|figure| figure.more_is_better)
    }
}

/// How allocators' values are put into one number, for the reports.
pub const DEFINITIONS: &str = "\
A row's value is the geometric mean of the better half of its rounds. Row by row, relative time is how many \
times worse an allocator's value is than the best allocator's, so 1.00 is the best. Over all rows, it is the \
geometric mean of the values relative to each row's mean over the allocators: 1.00 is the average of them, and \
an allocator with 0.50 takes half as long as one with 1.00. Relative memory likewise. Only rows in which every \
allocator has a value count here; one that lacks more than a tenth of the rows has no mean and takes none of its \
rows from the others.";

/// One allocator in one row.
#[derive(Debug, Clone)]
pub struct Standing {
    pub allocator: String,
    pub value: f64,
    pub samples: Vec<f64>,
    /// 1 for the best, more for the others.
    pub relative: f64,
    /// From the best; `None` for the best itself.
    pub difference: Option<Difference>,
}

/// Of those that have a value, best first.
pub fn standings(row: &Row, measure: Measure) -> Vec<Standing> {
    let more_is_better = measure.more_is_better(row);
    let mut standings: Vec<Standing> = row
        .columns
        .iter()
        .filter(|column| column.counts())
        .filter_map(|column| {
            let samples = measure.samples(row, column);
            let value = value_of(&samples, more_is_better)?;
            (value > 0.0).then(|| Standing {
                allocator: column.allocator.clone(),
                value,
                samples,
                relative: 1.0,
                difference: None,
            })
        })
        .collect();
    let cost = |standing: &Standing| if more_is_better { 1.0 / standing.value } else { standing.value };
    standings.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    if let Some((best, others)) = standings.split_first_mut() {
        for standing in others {
            standing.relative = cost(standing) / cost(best);
            standing.difference = Some(stats::difference(&standing.samples, &best.samples));
        }
    }
    standings
}

pub fn value_of(samples: &[f64], more_is_better: bool) -> Option<f64> {
    geometric_mean(&better_half(samples, more_is_better))
}

/// Other work on the machine makes a round slower, never faster: the worse rounds say more about it
/// than about the allocator.
fn better_half(samples: &[f64], more_is_better: bool) -> Vec<f64> {
    let mut best_first = samples.to_vec();
    best_first.sort_by(|a, b| if more_is_better { b.total_cmp(a) } else { a.total_cmp(b) });
    best_first.truncate(samples.len().div_ceil(2));
    best_first
}

/// hakmem beside the best of all others in one row.
#[derive(Debug, Clone)]
pub struct Duel {
    pub peer: String,
    pub hakmem_value: f64,
    pub peer_value: f64,
    /// Above 1, hakmem is that many times better; below, worse.
    pub advantage: f64,
    pub difference: Difference,
}

pub fn duel(row: &Row, measure: Measure) -> Option<Duel> {
    let standings = standings(row, measure);
    let is_hakmem = |standing: &&Standing| standing.allocator == crate::allocators::HAKMEM;
    let hakmem = standings.iter().find(is_hakmem)?;
    let peer = standings.iter().find(|standing| !is_hakmem(standing))?;
    Some(Duel {
        peer: peer.allocator.clone(),
        hakmem_value: hakmem.value,
        peer_value: peer.value,
        advantage: peer.relative / hakmem.relative,
        difference: stats::difference(&hakmem.samples, &peer.samples),
    })
}

/// An allocator over all rows.
#[derive(Debug, Clone)]
pub struct Mean {
    pub allocator: String,
    pub time: Option<f64>,
    pub time_rows: usize,
    pub memory: Option<f64>,
    pub memory_rows: usize,
    pub failures: usize,
}

/// In the order of the results.
pub fn means(results: &Results) -> Vec<Mean> {
    let [time, memory] = Measure::WITH_MEANS.map(|measure| relatives(results, measure));
    let names = results.allocators.iter().map(|allocator| allocator.name.as_str());
    names
        .map(|name| {
            let columns = results.rows.iter().filter_map(|row| row.column(name));
            Mean {
                allocator: name.into(),
                time: mean_of(name, &time),
                time_rows: rows_of(name, &time),
                memory: mean_of(name, &memory),
                memory_rows: rows_of(name, &memory),
                failures: columns.filter(|column| column.failure.is_some()).count(),
            }
        })
        .collect()
}

/// For each row in which anybody has a value, everybody's.
fn relatives(results: &Results, measure: Measure) -> Vec<HashMap<String, f64>> {
    let rows = results.rows.iter().map(|row| {
        let standings = standings(row, measure).into_iter();
        standings.map(|standing| (standing.allocator, standing.relative)).collect::<HashMap<_, _>>()
    });
    rows.filter(|row| !row.is_empty()).collect()
}

fn rows_of(name: &str, rows: &[HashMap<String, f64>]) -> usize {
    rows.iter().filter(|row| row.contains_key(name)).count()
}

/// Over the same rows for all, since means of different rows could not be compared, and relative to
/// each row's mean. Ratios of geometric means do not depend on what the values are relative to
/// (Fleming and Wallace, "How not to lie with statistics", CACM 29(3), 1986), but their noise does:
/// relative to the best, the noise of whoever is best in a row is in everybody's mean.
fn mean_of(name: &str, rows: &[HashMap<String, f64>]) -> Option<f64> {
    let has_most = |name: &str| rows_of(name, rows) * 10 >= rows.len() * 9;
    if !has_most(name) {
        return None;
    }
    let names: HashSet<&str> = rows.iter().flat_map(HashMap::keys).map(String::as_str).collect();
    let with_most: Vec<&str> = names.into_iter().filter(|name| has_most(name)).collect();
    let common = rows.iter().filter(|row| with_most.iter().all(|name| row.contains_key(*name)));
    let of_row = |row: &HashMap<String, f64>| -> Option<f64> {
        let all: Vec<f64> = with_most.iter().map(|name| row[*name]).collect();
        Some(row[name] / geometric_mean(&all)?)
    };
    geometric_mean(&common.filter_map(of_row).collect::<Vec<_>>())
}

/// Rows with hakmem's duels, its worst defeat first.
pub fn worst_first(results: &Results, measure: Measure) -> Vec<(&Row, Duel)> {
    let mut duels: Vec<(&Row, Duel)> = results.rows.iter().filter_map(|row| Some((row, duel(row, measure)?))).collect();
    duels.sort_by(|a, b| a.1.advantage.total_cmp(&b.1.advantage));
    duels
}

/// "hakmem is ahead in 3 of 5 rows, behind in 1; noise in 1".
pub fn count(duels: &[(&Row, Duel)]) -> String {
    let noise = |duel: &Duel| duel.difference == Difference::Noise;
    let ahead = duels.iter().filter(|(_, duel)| !noise(duel) && duel.advantage > 1.0).count();
    let noise = duels.iter().filter(|(_, duel)| noise(duel)).count();
    let untested = duels.iter().filter(|(_, duel)| duel.difference == Difference::Unknown).count();
    let remark = match untested {
        0 => String::new(),
        _ => format!(" ({untested} had too few rounds to be tested for noise)"),
    };
    format!(
        "of {} rows, hakmem is ahead of the best peer in {ahead}, behind in {}, within the noise in {noise}{remark}",
        duels.len(),
        duels.len() - ahead - noise
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[&[(&str, f64)]]) -> Vec<HashMap<String, f64>> {
        text.iter().map(|row| row.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()).collect()
    }

    fn near(value: Option<f64>, expected: f64) -> bool {
        (value.unwrap() - expected).abs() < 1e-12
    }

    #[test]
    fn the_better_half_is_rounded_up() {
        assert_eq!(better_half(&[5.0, 1.0, 3.0], false), [1.0, 3.0]);
        assert_eq!(better_half(&[5.0, 1.0, 3.0, 4.0], true), [5.0, 4.0]);
        assert_eq!(better_half(&[2.0], true), [2.0]);
        assert!(better_half(&[], true).is_empty());
    }

    #[test]
    fn means_are_over_the_same_rows_for_all() {
        let mut all: Vec<&[(&str, f64)]> = vec![&[("a", 1.0), ("b", 4.0)]; 9];
        all.push(&[("a", 8.0)]);
        // The row that b lacks counts for neither of them.
        assert!(near(mean_of("a", &rows(&all)), 0.5));
        assert!(near(mean_of("b", &rows(&all)), 2.0));
        // Lacking two of ten, b has no mean, and a is alone.
        all[0] = &[("a", 8.0)];
        assert_eq!(mean_of("b", &rows(&all)), None);
        assert!(near(mean_of("a", &rows(&all)), 1.0));
        assert_eq!(rows_of("b", &rows(&all)), 8);
    }

    #[test]
    fn means_are_relative_to_the_average_allocator() {
        let all = rows(&[&[("a", 1.0), ("b", 2.0), ("c", 4.0)], &[("a", 1.0), ("b", 16.0), ("c", 4.0)]]);
        let means = ["a", "b", "c"].map(|name| mean_of(name, &all).unwrap());
        assert!(near(Some(means.iter().product()), 1.0));
        assert!(near(Some(means[1] / means[0]), 32f64.sqrt()));
        // The scale of a row does not matter.
        let scaled = rows(&[&[("a", 1.0), ("b", 2.0), ("c", 4.0)], &[("a", 9.0), ("b", 144.0), ("c", 36.0)]]);
        assert!(near(mean_of("b", &scaled), means[1]));
    }
}
