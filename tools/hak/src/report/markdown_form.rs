// SPDX-License-Identifier: MIT
//! The parts that documents in Markdown are put together from.

use std::fmt::Write;

use crate::allocators::HAKMEM;
use crate::report::format;

/// A line of a table; what would end a cell is escaped.
pub fn line(out: &mut String, cells: impl IntoIterator<Item = String>) {
    let cells: Vec<String> = cells.into_iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// The first `texts` columns are text; numbers follow.
pub fn head(out: &mut String, texts: usize, names: impl IntoIterator<Item = String>) {
    let names: Vec<String> = names.into_iter().collect();
    let rules = (0..names.len()).map(|index| if index < texts { "---" } else { "---:" });
    let rules: Vec<&str> = rules.collect();
    line(out, names);
    let _ = writeln!(out, "|{}|", rules.join("|"));
}

pub fn mark(allocator: &str, text: String) -> String {
    if allocator == HAKMEM { format!("**{text}**") } else { text }
}

/// As the project's documents are, at 100 columns.
pub fn wrapped(text: &str) -> String {
    format::wrapped(text, 100)
}
