// SPDX-License-Identifier: MIT
//! `hak report`

use anyhow::Result;

use crate::cli::Report;
use crate::commands::exports::Exports;
use crate::output;
use crate::report;
use crate::results::{Kind, Results};

pub fn run(arguments: &Report) -> Result<u8> {
    let files = arguments.files.iter().map(|file| Results::load(file)).collect::<Result<Vec<_>>>()?;
    let all: Vec<&Results> = files.iter().collect();
    let exports = Exports::of(None, &arguments.exports)?;
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
    Ok(0)
}
