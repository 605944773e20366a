// SPDX-License-Identifier: MIT
//! What the samples of a suite say: how much more or less than another each allocator takes, row by
//! row and over all rows, and is it noise.

use std::collections::{HashMap, HashSet};

use crate::allocators::HAKMEM;
use crate::baseline;
use crate::report::format;
use crate::results::{Column, Results, Row, Sample};
use crate::stats::{Difference, Estimate, Ratios, geometric_mean};

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

    fn of(self, row: &Row, sample: &Sample) -> Option<f64> {
        match self {
            Measure::Time => sample.figure.filter(|_| !row.is_latency()),
            Measure::Latency => sample.figure.filter(|_| row.is_latency()),
            Measure::Memory => Some(sample.memory_mib),
        }
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

    /// What a value costs: less is better. Of operations per second, the time of one.
    fn cost(self, row: &Row, value: f64) -> f64 {
        if self.more_is_better(row) { 1.0 / value } else { value }
    }

    /// Round by round, what it cost.
    pub fn costs(self, row: &Row, column: &Column) -> Vec<(u32, f64)> {
        let values = column.samples.iter().filter_map(|sample| Some((sample.round, self.of(row, sample)?)));
        values.map(|(round, value)| (round, self.cost(row, value))).collect()
    }

    /// Of two allocators that both have values in this row.
    pub fn ratios(self, row: &Row, allocator: &str, base: &str) -> Option<Ratios> {
        let costs =
            |name: &str| row.column(name).filter(|column| column.counts()).map(|column| self.costs(row, column));
        Ratios::paired(&costs(allocator)?, &costs(base)?)
    }
}

/// What ratios are to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against<'a> {
    One(&'a str),
    /// In each row another one. Of eleven allocators the luckiest is ahead of itself.
    Best,
}

impl Against<'_> {
    /// The baseline, or the best where that was asked for or there is no baseline.
    pub fn of(rows: &[Row], best: bool) -> Against<'_> {
        baseline::of(rows).filter(|_| !best).map_or(Against::Best, Against::One)
    }

    pub fn name(&self) -> &str {
        match self {
            Against::One(name) => name,
            Against::Best => "the best",
        }
    }

    /// hakmem's opponent.
    fn peer(&self) -> &str {
        match self {
            Against::One(name) => name,
            Against::Best => "the best peer",
        }
    }
}

/// How allocators' values are put into one number, for the reports.
pub fn definitions(against: Against) -> String {
    format!(
        "A row's value is the geometric mean of the better half of its rounds. A ratio is how many times as much as \
         {} an allocator takes: 1.00 is as much, 0.50 half the time or memory, and less is better. Over all rows, \
         relative time and memory are the geometric means of these ratios. Only rows in which every allocator has a \
         value count there; one that lacks more than a tenth of the rows has no mean and takes none of its rows from \
         the others.",
        against.name()
    )
}

/// One allocator in one row.
#[derive(Debug, Clone)]
pub struct Standing {
    pub allocator: String,
    pub value: f64,
    costs: Vec<(u32, f64)>,
    cost: f64,
    /// How many times as much as the one that it is compared with; `None` where that has no value.
    pub ratio: Option<f64>,
    /// From the one that it is compared with; `None` for that one itself.
    pub difference: Option<Difference>,
}

/// Of those that have a value, best first.
pub fn standings(row: &Row, measure: Measure, against: Against) -> Vec<Standing> {
    let standing = |column: &Column| {
        let values = column.values(|sample| measure.of(row, sample));
        let value = value_of(&values, measure.more_is_better(row)).filter(|value| *value > 0.0)?;
        Some(Standing {
            allocator: column.allocator.clone(),
            value,
            costs: measure.costs(row, column),
            cost: measure.cost(row, value),
            ratio: None,
            difference: None,
        })
    };
    let mut standings: Vec<Standing> =
        row.columns.iter().filter(|column| column.counts()).filter_map(standing).collect();
    standings.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let base = match against {
        Against::One(name) => standings.iter().find(|standing| standing.allocator == name).cloned(),
        Against::Best => standings.first().cloned(),
    };
    if let Some(base) = base {
        for standing in &mut standings {
            standing.ratio = Some(standing.cost / base.cost);
            standing.difference = (standing.allocator != base.allocator).then(|| difference(standing, &base));
        }
    }
    standings
}

fn difference(of: &Standing, from: &Standing) -> Difference {
    Ratios::paired(&of.costs, &from.costs).map_or(Difference::Unknown, |ratios| ratios.difference())
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

/// hakmem beside another one in one row.
#[derive(Debug, Clone)]
pub struct Duel {
    pub peer: String,
    pub hakmem_value: f64,
    pub peer_value: f64,
    /// How many times as much as the peer hakmem takes.
    pub ratio: f64,
    pub difference: Difference,
}

/// The best to be against is the best of the others.
pub fn duel(row: &Row, measure: Measure, against: Against) -> Option<Duel> {
    let standings = standings(row, measure, against);
    let is_hakmem = |standing: &&Standing| standing.allocator == HAKMEM;
    let is_peer = |standing: &&Standing| !is_hakmem(standing) && against_allows(against, &standing.allocator);
    let hakmem = standings.iter().find(is_hakmem)?;
    let peer = standings.iter().find(is_peer)?;
    Some(Duel {
        peer: peer.allocator.clone(),
        hakmem_value: hakmem.value,
        peer_value: peer.value,
        ratio: hakmem.cost / peer.cost,
        difference: difference(hakmem, peer),
    })
}

fn against_allows(against: Against, allocator: &str) -> bool {
    match against {
        Against::One(name) => name == allocator,
        Against::Best => true,
    }
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
pub fn means(results: &Results, against: Against) -> Vec<Mean> {
    let [time, memory] = Measure::WITH_MEANS.map(|measure| values(results, measure));
    let names = || results.allocators.iter().map(|allocator| allocator.name.as_str());
    let base = |rows: &[HashMap<String, f64>]| match against {
        Against::One(name) => mean_of(name, rows),
        Against::Best => names().filter_map(|name| mean_of(name, rows)).min_by(f64::total_cmp),
    };
    let (base_time, base_memory) = (base(&time), base(&memory));
    let ratio = |mean: Option<f64>, base: Option<f64>| mean.zip(base).map(|(mean, base)| mean / base);
    names()
        .map(|name| {
            let columns = results.rows.iter().filter_map(|row| row.column(name));
            Mean {
                allocator: name.into(),
                time: ratio(mean_of(name, &time), base_time),
                time_rows: rows_of(name, &time),
                memory: ratio(mean_of(name, &memory), base_memory),
                memory_rows: rows_of(name, &memory),
                failures: columns.filter(|column| column.failure.is_some()).count(),
            }
        })
        .collect()
}

/// For each row in which anybody has a value, what everybody's costs.
fn values(results: &Results, measure: Measure) -> Vec<HashMap<String, f64>> {
    let rows = results.rows.iter().map(|row| {
        let standings = standings(row, measure, Against::Best).into_iter();
        standings.map(|standing| (standing.allocator, standing.cost)).collect::<HashMap<_, _>>()
    });
    rows.filter(|row| !row.is_empty()).collect()
}

fn rows_of(name: &str, rows: &[HashMap<String, f64>]) -> usize {
    rows.iter().filter(|row| row.contains_key(name)).count()
}

/// Over the same rows for all, since means of different rows could not be compared. Only the ratios of
/// these means have a meaning: that of two allocators is the mean of their ratios in the rows.
fn mean_of(name: &str, rows: &[HashMap<String, f64>]) -> Option<f64> {
    let has_most = |name: &str| rows_of(name, rows) * 10 >= rows.len() * 9;
    if !has_most(name) {
        return None;
    }
    let names: HashSet<&str> = rows.iter().flat_map(HashMap::keys).map(String::as_str).collect();
    let with_most: Vec<&str> = names.into_iter().filter(|name| has_most(name)).collect();
    let common = rows.iter().filter(|row| with_most.iter().all(|name| row.contains_key(*name)));
    geometric_mean(&common.map(|row| row[name]).collect::<Vec<_>>())
}

/// Rows with hakmem's duels, its worst defeat first.
pub fn worst_first<'a>(results: &'a Results, measure: Measure, against: Against) -> Vec<(&'a Row, Duel)> {
    let duels = results.rows.iter().filter_map(|row| Some((row, duel(row, measure, against)?)));
    let mut duels: Vec<(&Row, Duel)> = duels.collect();
    duels.sort_by(|a, b| b.1.ratio.total_cmp(&a.1.ratio));
    duels
}

/// "of 5 rows, hakmem is ahead of glibc in 3, behind in 1, within the noise in 1".
pub fn count(duels: &[(&Row, Duel)], against: Against) -> String {
    let noise = |duel: &Duel| duel.difference == Difference::Noise;
    let ahead = duels.iter().filter(|(_, duel)| !noise(duel) && duel.ratio < 1.0).count();
    let noise = duels.iter().filter(|(_, duel)| noise(duel)).count();
    let untested = duels.iter().filter(|(_, duel)| duel.difference == Difference::Unknown).count();
    let remark = match untested {
        0 => String::new(),
        _ => format!(" ({untested} had too few rounds to be tested for noise)"),
    };
    format!(
        "of {} rows, hakmem is ahead of {} in {ahead}, behind in {}, within the noise in {noise}{remark}",
        duels.len(),
        against.peer(),
        duels.len() - ahead - noise
    )
}

/// "hakmem: 42 % faster, 7 % more memory than glibc, in the geometric mean of the rows".
pub fn verdict(results: &Results) -> Option<String> {
    let against = Against::of(&results.rows, false);
    let means = means(results, against);
    let hakmem = means.iter().find(|mean| mean.allocator == HAKMEM && against != Against::Best)?;
    let exactly = |ratio: f64| Estimate { ratio, low: ratio, high: ratio };
    let time = hakmem.time.map(|ratio| format::time(&exactly(ratio)));
    let memory = hakmem.memory.map(|ratio| format::memory(&exactly(ratio)));
    let parts: Vec<String> = time.into_iter().chain(memory).collect();
    (!parts.is_empty())
        .then(|| format!("{HAKMEM}: {} than {}, in the geometric mean of the rows", parts.join(", "), against.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::row_of;
    use crate::results::Figure;

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
        assert!(near(mean_of("a", &rows(&all)), 1.0));
        assert!(near(mean_of("b", &rows(&all)), 4.0));
        // Lacking two of ten, b has no mean, and takes none from a.
        all[0] = &[("a", 8.0)];
        assert_eq!(mean_of("b", &rows(&all)), None);
        assert!(near(mean_of("a", &rows(&all)), 64f64.powf(0.1)));
        assert_eq!(rows_of("b", &rows(&all)), 8);
    }

    #[test]
    fn only_ratios_of_means_count() {
        let all = rows(&[&[("a", 1.0), ("b", 2.0)], &[("a", 1.0), ("b", 16.0)]]);
        let ratio = |rows: &[HashMap<String, f64>]| mean_of("b", rows).unwrap() / mean_of("a", rows).unwrap();
        assert!(near(Some(ratio(&all)), 32f64.sqrt()));
        // The scale of a row does not matter.
        let scaled = rows(&[&[("a", 1.0), ("b", 2.0)], &[("a", 9.0), ("b", 144.0)]]);
        assert!(near(Some(ratio(&scaled)), 32f64.sqrt()));
    }

    #[test]
    fn ratios_have_one_direction_whatever_the_figure() {
        let rounds = [2.0, 2.02, 1.98, 2.0];
        let halves = rounds.map(|value| value / 2.0);
        let seconds = row_of(&[("glibc", &rounds), ("hakmem", &halves), ("other", &[])]);
        let mut rate = row_of(&[("glibc", &halves), ("hakmem", &rounds)]);
        rate.figure = Some(Figure { key: "ops_per_s".into(), more_is_better: true });
        for row in [&seconds, &rate] {
            let standings = standings(row, Measure::Time, Against::One("glibc"));
            let names: Vec<&str> = standings.iter().map(|standing| standing.allocator.as_str()).collect();
            assert_eq!(names, ["hakmem", "glibc"]);
            assert!(near(standings[0].ratio, 0.5) && near(standings[1].ratio, 1.0), "{standings:?}");
            assert_eq!((standings[0].difference, standings[1].difference), (Some(Difference::Real), None));
            let duel = duel(row, Measure::Time, Against::Best).unwrap();
            assert!(near(Some(duel.ratio), 0.5) && duel.peer == "glibc");
            assert!(near(Some(Measure::Time.ratios(row, "hakmem", "glibc").unwrap().ratio()), 0.5));
        }
        let lacking = standings(&seconds, Measure::Time, Against::One("other"));
        assert!(lacking.iter().all(|standing| standing.ratio.is_none() && standing.difference.is_none()));
        assert!(super::duel(&seconds, Measure::Time, Against::One("other")).is_none());
    }
}
