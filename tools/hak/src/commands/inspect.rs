// SPDX-License-Identifier: MIT
//! `hak inspect`

use anyhow::Result;

use crate::cli::Inspect;
use crate::inspect::{Inspected, report};
use crate::output::{self, Output};
use crate::report::table;

pub fn run(arguments: &Inspect) -> Result<u8> {
    let json = arguments.json.as_deref().map(Output::of).transpose()?;
    let inspected = Inspected::attach(arguments.pid)?;
    let (_, _, snapshot) = inspected.look()?;
    let text = report::text(&snapshot, table::width());
    match &json {
        None => output::print(&text)?,
        Some(Output::Standard) => output::print(&snapshot.json()?)?,
        Some(file) => {
            // What was gathered is shown, whatever becomes of the file.
            output::print(&text)?;
            file.write(snapshot.json()?.as_bytes())?;
        }
    }
    Ok(0)
}
