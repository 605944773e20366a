// SPDX-License-Identifier: MIT
//! Plain text tables.

use comfy_table::{CellAlignment, Table};

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
