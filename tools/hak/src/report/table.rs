// SPDX-License-Identifier: MIT
//! Plain text tables, and rows that tables of any form share.

use comfy_table::{CellAlignment, Table};

use crate::analysis;
use crate::report::format;
use crate::results::Results;

/// The first column is text; numbers, to the right, follow.
pub fn new(headers: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(headers);
    table
}

pub fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// A row for every allocator, the fastest first: name, version, relative time and in how many rows,
/// relative memory and in how many rows, failures.
pub fn mean_rows(results: &Results) -> Vec<[String; 7]> {
    let mut means = analysis::means(results);
    means.sort_by(|a, b| a.time.unwrap_or(f64::MAX).total_cmp(&b.time.unwrap_or(f64::MAX)));
    let row = |mean: analysis::Mean| {
        let allocator = results.allocators.iter().find(|allocator| allocator.name == mean.allocator);
        let version = allocator.map(|allocator| allocator.version.clone()).unwrap_or_default();
        [
            mean.allocator,
            version,
            format::mean(mean.time),
            mean.time_rows.to_string(),
            format::mean(mean.memory),
            mean.memory_rows.to_string(),
            mean.failures.to_string(),
        ]
    };
    means.into_iter().map(row).collect()
}
