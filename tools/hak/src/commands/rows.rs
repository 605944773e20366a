// SPDX-License-Identifier: MIT
//! The rows of a run of the suite: which are chosen, their list, and their empty records.

use std::path::Path;

use anyhow::Result;

use crate::allocators::{self, Allocator, HAKMEM};
use crate::change;
use crate::cli::{Bench, Choice};
use crate::commands::plan::Plan;
use crate::failure::{BAD_INPUT, failure};
use crate::huge_pages;
use crate::output;
use crate::report;
use crate::results::{self, Column, Results};
use crate::suite::Row;

pub fn chosen(arguments: &Bench, against: Option<&Results>, mut rows: Vec<Row>) -> Result<Vec<Row>> {
    if let Some(then) = against {
        rows.retain(|row| matches!(change::comparable(then, &begun(row, &[])), Ok(Some(_))));
        if rows.is_empty() {
            let file = then.file.as_deref().unwrap_or(Path::new("")).display();
            return Err(failure(BAD_INPUT, format!("{file}: the suite has none of its rows any more")));
        }
    }
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

/// Without hakmem nobody runs the rows that are its alone.
pub fn that_any_serves(mut rows: Vec<Row>, allocators: &[Allocator]) -> Result<Vec<Row>> {
    rows.retain(|row| !begun(row, allocators).columns.is_empty());
    if rows.is_empty() {
        return Err(failure(BAD_INPUT, "hakmem alone can serve these rows, and it is not among the allocators"));
    }
    Ok(rows)
}

pub fn is_quick(arguments: &Bench, against: Option<&Results>) -> bool {
    arguments.quick || (arguments.filter.is_none() && against.is_some_and(|then| then.quick))
}

/// Others have nothing to be compared with. Those that were asked for by name run as well.
pub fn only_those_of(then: &Results, choice: &Choice, allocators: &mut Vec<Allocator>) -> Result<()> {
    let given = |name: &str| choice.allocator.iter().any(|text| text.split('=').next() == Some(name));
    let was_there = |name: &str| then.allocators.iter().any(|allocator| allocator.name == name);
    if choice.allocators.is_empty() {
        allocators.retain(|allocator| was_there(&allocator.name) || given(&allocator.name));
    }
    if allocators.iter().all(|allocator| allocator.name != HAKMEM) {
        return Err(failure(BAD_INPUT, "--against shows what has changed for hakmem, which would not run"));
    }
    Ok(())
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
    if let Some(build) = choice.build.as_deref().filter(|build| !build.is_dir()) {
        return Err(failure(BAD_INPUT, format!("--build {}: there is no such directory", build.display())));
    }
    // Where they are not all there, the list is of use still.
    let (allocators, left_out) = allocators::choose_there(choice)?;
    for reason in left_out {
        output::say(format_args!("hak: the time is without one: {reason}"));
    }
    output::print(&format!("{table}\n{}\n", plan.describe(rows, allocators.len())))
}

/// Before anything of it was measured.
pub fn begun(row: &Row, allocators: &[Allocator]) -> results::Row {
    let serving = allocators.iter().filter(|allocator| row.beside.is_none() || allocator.name == HAKMEM);
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
        beside: row.beside.clone(),
        sweep: row.point.as_ref().map(|(_, point)| point.clone()),
        took_seconds: None,
        columns: serving.map(|allocator| Column::new(&allocator.name)).collect(),
    }
}
