// SPDX-License-Identifier: MIT
//! `hak report`

use std::path::Path;

use anyhow::Result;

use crate::change;
use crate::cli::Report;
use crate::commands::exports::Exports;
use crate::failure::{BAD_INPUT, failure};
use crate::output;
use crate::report;
use crate::results::{Kind, Results};

pub fn run(arguments: &Report) -> Result<u8> {
    let files = arguments.files.iter().map(|file| Results::load(file)).collect::<Result<Vec<_>>>()?;
    let all: Vec<&Results> = files.iter().collect();
    let against = arguments.against.as_deref().map(Results::load_suite).transpose()?;
    if let Some(then) = &against
        && !all[0].rows.iter().any(|row| matches!(change::comparable(then, row), Ok(Some(_))))
    {
        let message =
            format!("{}: it has none of the rows", arguments.against.as_deref().unwrap_or(Path::new("")).display());
        return Err(failure(BAD_INPUT, message));
    }
    let read: Vec<&Path> = arguments.files.iter().chain(&arguments.against).map(|file| file.as_path()).collect();
    let exports = Exports::of(None, &arguments.exports, against, &read)?.with_each(arguments.each);
    if !exports.is_empty() {
        return Ok(exports.write(&all));
    }
    let labels = report::history::labels(&all);
    for (results, label) in all.iter().zip(&labels) {
        let text = match results.kind {
            Kind::Compare => report::terminal::comparison(results, exports.best()),
            Kind::Bench => report::terminal_suite::summary(results, exports.best()),
        };
        let heading = if all.len() > 1 { format!("\n=== {label}\n") } else { String::new() };
        output::print(&(heading + &text))?;
    }
    if let Some(then) = exports.against() {
        let told = report::changes::told(then, all[0]);
        output::print(&report::changes::text(&told, report::table::width()))?;
    }
    Ok(0)
}
