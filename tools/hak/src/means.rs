// SPDX-License-Identifier: MIT
//! An allocator over all rows of a suite.

use std::collections::{HashMap, HashSet};

use crate::analysis::{Against, Measure, standings};
use crate::resampling::MeanRatio;
use crate::results::{Results, Row};
use crate::stats::{self, geometric_mean};

#[derive(Debug, Clone)]
pub struct Mean {
    pub allocator: String,
    pub time: Option<f64>,
    pub time_rows: usize,
    pub memory: Option<f64>,
    pub memory_rows: usize,
    pub failures: usize,
}

/// What everybody's costs are in one row.
type Costs = HashMap<String, f64>;

/// In the order of the results.
pub fn of_all(results: &Results, against: Against) -> Vec<Mean> {
    let [time, memory] = Measure::WITH_MEANS.map(|measure| costs(results, measure).1);
    let names = || results.allocators.iter().map(|allocator| allocator.name.as_str());
    let base = |rows: &[Costs]| match against {
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

/// The same figure of one allocator, and how sure it is.
pub fn ratio(results: &Results, measure: Measure, allocator: &str, base: &str) -> Option<MeanRatio> {
    let (rows, costs) = costs(results, measure);
    let ratio = mean_of(allocator, &costs)? / mean_of(base, &costs)?;
    let of = |row: &Row, name: &str| row.column(name).map_or_else(Vec::new, |column| measure.costs(row, column));
    let pairs = |index: usize| stats::pairs(&of(rows[index], allocator), &of(rows[index], base));
    Some(MeanRatio::of(ratio, &common(&costs).into_iter().map(pairs).collect::<Vec<_>>()))
}

/// The rows in which anybody has a value.
fn costs(results: &Results, measure: Measure) -> (Vec<&Row>, Vec<Costs>) {
    let rows = results.rows.iter().map(|row| {
        let standings = standings(row, measure, Against::Best).into_iter();
        (row, standings.map(|standing| (standing.allocator, standing.cost)).collect::<Costs>())
    });
    rows.filter(|(_, costs)| !costs.is_empty()).unzip()
}

fn rows_of(name: &str, rows: &[Costs]) -> usize {
    rows.iter().filter(|row| row.contains_key(name)).count()
}

fn has_most(name: &str, rows: &[Costs]) -> bool {
    rows_of(name, rows) * 10 >= rows.len() * 9
}

/// The places of the rows that count: the same for all, since means of different rows could not be compared.
fn common(rows: &[Costs]) -> Vec<usize> {
    let names: HashSet<&str> = rows.iter().flat_map(HashMap::keys).map(String::as_str).collect();
    let with_most: Vec<&str> = names.into_iter().filter(|name| has_most(name, rows)).collect();
    let counts = |index: &usize| with_most.iter().all(|name| rows[*index].contains_key(*name));
    (0..rows.len()).filter(counts).collect()
}

/// Only the ratios of these means have a meaning: that of two allocators is the mean of their ratios in the rows.
fn mean_of(name: &str, rows: &[Costs]) -> Option<f64> {
    if !has_most(name, rows) {
        return None;
    }
    geometric_mean(&common(rows).into_iter().map(|index| rows[index][name]).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[&[(&str, f64)]]) -> Vec<Costs> {
        text.iter().map(|row| row.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()).collect()
    }

    fn near(value: Option<f64>, expected: f64) -> bool {
        (value.unwrap() - expected).abs() < 1e-12
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
        let ratio = |rows: &[Costs]| mean_of("b", rows).unwrap() / mean_of("a", rows).unwrap();
        assert!(near(Some(ratio(&all)), 32f64.sqrt()));
        // The scale of a row does not matter.
        let scaled = rows(&[&[("a", 1.0), ("b", 2.0)], &[("a", 9.0), ("b", 144.0)]]);
        assert!(near(Some(ratio(&scaled)), 32f64.sqrt()));
    }
}
