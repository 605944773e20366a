// SPDX-License-Identifier: MIT
//! What the samples of a suite say: how much more or less than another each allocator takes, row by
//! row, and is it noise.

use crate::allocators::HAKMEM;
use crate::baseline;
use crate::results::{Column, Results, Row, Sample};
use crate::stats::{Difference, Ratios, geometric_mean};
use crate::trace::text;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Time,
    /// The time of single calls at their worst.
    Latency,
    Memory,
    /// The time in a sweep, which has no part in any mean: it is the same work at many sizes.
    Sweep,
    /// The time where hakmem is in the program itself. It is the same work a second time, and has no part in any mean.
    Beside,
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
            Measure::Sweep => "sweeps",
            Measure::Beside => "beside others",
        }
    }

    fn of(self, row: &Row, sample: &Sample) -> Option<f64> {
        match self {
            Measure::Sweep => sample.figure.filter(|_| row.sweep.is_some()),
            Measure::Beside => sample.figure,
            _ if row.sweep.is_some() || row.beside.is_some() => None,
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
            Measure::Sweep | Measure::Beside => key(),
            Measure::Memory => Some(format!("{}, MiB", row.memory)),
        }
    }

    fn more_is_better(self, row: &Row) -> bool {
        matches!(self, Measure::Time | Measure::Sweep | Measure::Beside)
            && row.figure.as_ref().is_some_and(|figure| figure.more_is_better)
    }

    /// What a value costs: less is better. Of operations per second, the time of one.
    fn cost(self, row: &Row, value: f64) -> f64 {
        if self.more_is_better(row) { 1.0 / value } else { value }
    }

    /// The value that costs as much.
    pub fn value(self, row: &Row, cost: f64) -> f64 {
        if self.more_is_better(row) { 1.0 / cost } else { cost }
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
    pub cost: f64,
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
        "of {}, hakmem is ahead of {} in {ahead}, behind in {}, within the noise in {noise}{remark}",
        text::count(duels.len() as u64, "row"),
        against.peer(),
        duels.len() - ahead - noise
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::row_of;
    use crate::results::Figure;
    use crate::stats::Evidence;

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
