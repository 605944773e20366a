// SPDX-License-Identifier: MIT
//! The rows of a run of the suite: which are chosen, their list, and their empty records.

use anyhow::Result;

use crate::allocators::{self, Allocator};
use crate::cli::{Bench, Choice};
use crate::commands::plan::Plan;
use crate::failure::{BAD_INPUT, failure};
use crate::huge_pages;
use crate::output;
use crate::report;
use crate::results::{self, Column};
use crate::suite::Row;

pub fn chosen(arguments: &Bench, mut rows: Vec<Row>) -> Result<Vec<Row>> {
    if arguments.quick {
        rows.retain(|row| row.quick);
    }
    if let Some(filter) = &arguments.filter {
        let filter = filter.to_lowercase();
        let matches = |text: &str| text.to_lowercase().contains(&filter);
        rows.retain(|row| matches(&row.name) || matches(&row.family));
    }
    if rows.is_empty() {
        return Err(failure(BAD_INPUT, "no row of the suite is chosen; see hak bench --list"));
    }
    Ok(rows)
}

/// With the time that they would take.
pub fn list(rows: &[Row], plan: &Plan, choice: &Choice) -> Result<()> {
    let mut table = report::table::new(&["family", "row", "kind", "threads", "quick", "command"]);
    for row in rows {
        table.add_row([
            row.family.clone(),
            row.name.clone(),
            row.kind.name().into(),
            row.threads.to_string(),
            if row.quick { "quick" } else { "" }.into(),
            report::format::command(&row.command),
        ]);
    }
    // Where they are not all there, the list is of use still.
    let allocators = allocators::choose(choice).map_or(1, |chosen| chosen.len());
    output::print(&format!("{table}\n{}\n", plan.describe(rows, allocators)))
}

/// Before anything of it was measured.
pub fn begun(row: &Row, allocators: &[Allocator]) -> results::Row {
    results::Row {
        name: row.name.clone(),
        family: row.family.clone(),
        kind: row.kind.name().into(),
        threads: row.threads,
        command: row.command.clone(),
        parameters: Default::default(),
        figure: None,
        memory: "peak resident memory".into(),
        huge_pages: Some(huge_pages::name_of(row.huge_pages)),
        not_run: None,
        alone: None,
        columns: allocators.iter().map(|allocator| Column::new(&allocator.name)).collect(),
    }
}
