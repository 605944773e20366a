// SPDX-License-Identifier: MIT
//! How long single calls took: all that the runs told of it, the allocators beside each other.

use crate::analysis;
use crate::results::{Column, LATENCY, Results, Row};

pub const EXPLAINED: &str = "\
Microseconds of single calls. The percentiles and the worst are of a call's processor time; wait is the longest \
that a call took beyond that, for whatever reason, and stall the most processor time and sleep together, without \
what a thread that could run waited for a processor. Each is the geometric mean of the better half of the rounds.";

/// Of one row.
pub struct Table<'a> {
    pub row: &'a Row,
    pub keys: Vec<String>,
    /// An allocator and its values, in the order of the keys.
    pub lines: Vec<(String, Vec<Option<f64>>)>,
}

/// These first, in this order; what else a row tells follows by its name.
const ORDER: [&str; 6] = ["p50_us", "p99_9_us", "p99_999_us", "worst_us", "stall_us", "wait_us"];

pub fn tables(results: &Results) -> Vec<Table<'_>> {
    results.rows.iter().filter_map(table).collect()
}

fn table(row: &Row) -> Option<Table<'_>> {
    let columns: Vec<&Column> = row.columns.iter().filter(|column| column.counts()).collect();
    let samples = columns.iter().flat_map(|column| &column.samples);
    let mut keys: Vec<String> = samples.flat_map(|sample| sample.latency.keys().cloned()).collect();
    keys.sort_by_key(|key| (ORDER.iter().position(|known| known == key).unwrap_or(ORDER.len()), key.clone()));
    keys.dedup();
    let values = |column: &Column| {
        let of = |key: &String| analysis::value_of(&column.values(|sample| sample.latency.get(key).copied()), false);
        keys.iter().map(of).collect()
    };
    let lines = columns.into_iter().map(|column| (column.allocator.clone(), values(column))).collect();
    (!keys.is_empty()).then_some(Table { row, keys, lines })
}

/// "p99.9" of p99_9_us, "end worst" of end_worst_us.
pub fn title(key: &str) -> String {
    let name = key.strip_suffix(LATENCY).unwrap_or(key);
    if name.starts_with('p') && name.chars().nth(1).is_some_and(|second| second.is_ascii_digit()) {
        return name.replace('_', ".");
    }
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn titles_are_for_people() {
        let titles = ["p50_us", "p99_999_us", "worst_us", "end_p50_us", "freer_us"].map(title);
        assert_eq!(titles, ["p50", "p99.999", "worst", "end p50", "freer"]);
    }
}
