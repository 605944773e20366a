// SPDX-License-Identifier: MIT
//! What runs have told beside the figures that are compared, the allocators beside each other: how long
//! single calls took, and how much memory was resident when.

use std::collections::BTreeMap;

use crate::analysis;
use crate::results::{Column, LATENCY, MEMORY, Results, Row, Sample};

/// What belongs together.
pub struct Topic {
    pub heading: &'static str,
    pub explained: &'static str,
    /// How its keys end.
    suffix: &'static str,
    /// These first, in this order; what else a row tells follows by its name.
    order: &'static [&'static str],
    of: fn(&Sample) -> &BTreeMap<String, f64>,
    concerns: fn(&Row) -> bool,
}

pub const TOPICS: [Topic; 2] = [SINGLE_CALLS, MEMORY_ALONE];

pub const SINGLE_CALLS: Topic = Topic {
    heading: "Single calls",
    explained: "\
Microseconds of single calls. The percentiles and the worst are of a call's processor time; wait is the longest \
that a call took beyond that, for whatever reason, and stall the most processor time and sleep together, without \
what a thread that could run waited for a processor. Each is the geometric mean of the better half of the rounds.",
    suffix: LATENCY,
    order: &["p50_us", "p99_9_us", "p99_999_us", "worst_us", "stall_us", "wait_us"],
    of: |sample| &sample.latency,
    concerns: |_| true,
};

const MEMORY_ALONE: Topic = Topic {
    heading: "Memory that comes back",
    explained: "\
MiB of the rows that are about memory alone, without the tables of the workload itself. Resident is what is \
compared; at once is the same when the last block was freed, or the last thread had begun to wait, and quarter \
after a quarter of the time; occupied are \
the pages that hold at least one byte of a live block, of which nothing can be given back where blocks cannot be \
moved; live are the bytes of live blocks; highest is the peak, and start the process before its first block. Each is \
the geometric mean of the better half of the rounds.",
    suffix: MEMORY,
    order: &["resident_mib", "at_once_mib", "quarter_mib", "occupied_mib", "live_mib", "highest_mib", "start_mib"],
    of: |sample| &sample.memories,
    concerns: |row| row.figure.is_none(),
};

/// Of one row.
pub struct Table<'a> {
    pub row: &'a Row,
    /// Of the columns, in the order of the values.
    pub titles: Vec<String>,
    /// An allocator and its values.
    pub lines: Vec<(String, Vec<Option<f64>>)>,
}

impl Topic {
    pub fn tables<'a>(&self, results: &'a Results) -> Vec<Table<'a>> {
        results.rows.iter().filter(|row| (self.concerns)(row)).filter_map(|row| self.table(row)).collect()
    }

    fn table<'a>(&self, row: &'a Row) -> Option<Table<'a>> {
        let columns: Vec<&Column> = row.columns.iter().filter(|column| column.counts()).collect();
        let samples = columns.iter().flat_map(|column| &column.samples);
        let mut keys: Vec<&String> = samples.flat_map(|sample| (self.of)(sample).keys()).collect();
        let place = |key: &str| self.order.iter().position(|known| *known == key).unwrap_or(self.order.len());
        keys.sort_by_key(|key| (place(key), *key));
        keys.dedup();
        let values = |column: &Column| {
            let of = |key: &&String| column.values(|sample| (self.of)(sample).get(*key).copied());
            keys.iter().map(|key| analysis::value_of(&of(key), false)).collect()
        };
        let lines = columns.iter().map(|column| (column.allocator.clone(), values(column))).collect();
        let titles: Vec<String> = keys.iter().map(|key| self.title(key)).collect();
        // A single one is the figure that is compared.
        (titles.len() > 1).then_some(Table { row, titles, lines })
    }

    /// "p99.9" of p99_9_us, "end worst" of end_worst_us.
    fn title(&self, key: &str) -> String {
        let name = key.strip_suffix(self.suffix).unwrap_or(key);
        if name.starts_with('p') && name.chars().nth(1).is_some_and(|second| second.is_ascii_digit()) {
            return name.replace('_', ".");
        }
        name.replace('_', " ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn titles_are_for_people() {
        let titles = ["p50_us", "p99_999_us", "worst_us", "end_p50_us", "freer_us"].map(|key| SINGLE_CALLS.title(key));
        assert_eq!(titles, ["p50", "p99.999", "worst", "end p50", "freer"]);
        assert_eq!(MEMORY_ALONE.title("at_once_mib"), "at once");
    }

    #[test]
    fn memory_is_told_of_the_rows_that_are_about_it() {
        let mut row = made::row_of(&[("a", &[1.0]), ("b", &[1.0])]);
        for column in &mut row.columns {
            let told = [("start_mib", 2.0), ("resident_mib", 1.0), ("other_mib", 0.0)];
            column.samples[0].memories = told.map(|(key, value)| (key.to_owned(), value)).into();
        }
        assert!(!(MEMORY_ALONE.concerns)(&row));
        row.figure = None;
        assert!((MEMORY_ALONE.concerns)(&row));
        let table = MEMORY_ALONE.table(&row).unwrap();
        assert_eq!(table.titles, ["resident", "start", "other"]);
        assert_eq!(table.lines[1], ("b".to_owned(), vec![Some(1.0), Some(2.0), Some(0.0)]));
        row.columns[1].failure = Some("it broke".into());
        assert_eq!(MEMORY_ALONE.table(&row).unwrap().lines.len(), 1);
        row.columns[0].samples[0].memories = [("resident_mib".to_owned(), 10.0)].into();
        assert!(MEMORY_ALONE.table(&row).is_none(), "that is the figure that is compared");
    }
}
