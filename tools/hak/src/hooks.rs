// SPDX-License-Identifier: MIT
//! The user's own shell commands around the runs (`--setup`, `--prepare`, `--cleanup`).

use std::process::{Command, Stdio};

use crate::interrupt;
use crate::measure::Stop;
use crate::process;

/// Nothing is preloaded for it but what the user has set. Its output is shown only if it fails.
pub fn run(option: &str, text: &str) -> Result<(), Stop> {
    let wrong = |reason: String| match interrupt::requested() {
        true => Stop::Interrupted, // Ctrl-C ended it as well
        false => Stop::Failed(format!("--{option} '{text}': {reason}")),
    };
    let output = Command::new("/bin/sh").args(["-c", text]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| wrong(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = process::tail(&output.stderr);
    let end = process::describe(output.status);
    Err(wrong(if said.is_empty() { end } else { format!("{end}: {said}") }))
}
