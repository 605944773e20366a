// SPDX-License-Identifier: MIT
//! `hak explain`

use anyhow::Result;

use crate::failure::SOMETHING_FAILED;
use crate::output::{self, Output};
use crate::trace::arguments::Explain as Arguments;
use crate::trace::{explain, text};

pub fn run(arguments: &Arguments) -> Result<u8> {
    let json = arguments.json.as_deref().map(Output::of).transpose()?;
    let facts = explain::gather(&arguments.file)?;
    if let Some(json) = &json {
        json.write(format!("{}\n", serde_json::to_string_pretty(&facts)?).as_bytes())?;
    }
    let text = text::text(&facts);
    if json == Some(Output::Standard) {
        output::say(text.trim_end());
    } else {
        output::print(&text)?;
    }
    if let Some(damage) = &facts.damage {
        output::say(format_args!("hak: {damage}; what is before that place is shown"));
        return Ok(SOMETHING_FAILED);
    }
    Ok(0)
}
