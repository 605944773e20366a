// SPDX-License-Identifier: MIT
//! The user's own shell commands around the runs (`--setup`, `--prepare`, `--cleanup`).

use std::process::Command;

use crate::interrupt;
use crate::measure::Stop;
use crate::process;

/// Nothing is preloaded for it but what the user has set. Its output is shown only if it fails.
pub fn run(option: &str, text: &str) -> Result<(), Stop> {
    let wrong = |reason: String| match interrupt::requested() {
        true => Stop::Interrupted, // Ctrl-C ended it as well
        false => Stop::Failed(format!("--{option} '{text}': {reason}")),
    };
    let ran = process::run_beside(Command::new("/bin/sh").args(["-c", text]));
    let Some((status, stderr)) = ran.map_err(|error| wrong(format!("{error:#}")))? else {
        return Err(Stop::Interrupted);
    };
    if status.success() {
        return Ok(());
    }
    let said = process::tail(&stderr);
    let end = process::describe(status);
    Err(wrong(if said.is_empty() { end } else { format!("{end}: {said}") }))
}
