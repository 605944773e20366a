// SPDX-License-Identifier: MIT
//! `hak explain`

use anyhow::Result;

use crate::commands::replay::table;
use crate::failure::{INTERRUPTED, SOMETHING_FAILED};
use crate::interrupt;
use crate::output::{self, Output};
use crate::trace::arguments::Explain as Arguments;
use crate::trace::{explain, read, settings, text};

pub fn run(arguments: &Arguments) -> Result<u8> {
    let json = arguments.json.as_deref().map(Output::of).transpose()?;
    output::keep_apart(&json, [arguments.file.as_path()])?;
    let trace = read::whole(&arguments.file)?;
    let facts = explain::gather(&trace)?;
    let mut text = text::text(&facts);
    let mut value = serde_json::to_value(&facts)?;
    let mut has_failed = facts.damage.is_some();
    let (mut interrupted, mut failed) = (false, Ok(()));
    if arguments.settings {
        interrupt::watch()?;
        match settings::replay(&trace, arguments.library.as_deref(), arguments.rounds) {
            Ok((replayed, was_interrupted)) => {
                interrupted = was_interrupted;
                has_failed |= replayed.iter().any(|one| one.failure.is_some());
                value["settings"] = serde_json::to_value(&replayed)?;
                text += &format!("\nReplayed under hakmem with other settings:\n{}", table("setting", &replayed));
            }
            // The facts are there all the same.
            Err(error) => failed = Err(error),
        }
    }
    if let Some(json) = &json {
        json.write(format!("{value:#}\n").as_bytes())?;
    }
    if json == Some(Output::Standard) {
        output::say(text.trim_end());
    } else {
        output::print(&text)?;
    }
    if let Some(damage) = &facts.damage {
        output::say(format_args!("hak: {damage}; what is before that place is shown"));
    }
    failed?;
    if interrupted {
        output::say(interrupt::SHOWN);
        return Ok(INTERRUPTED);
    }
    Ok(if has_failed { SOMETHING_FAILED } else { 0 })
}
