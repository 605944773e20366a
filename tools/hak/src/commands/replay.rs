// SPDX-License-Identifier: MIT
//! `hak replay`

use std::fmt::Write;

use anyhow::Result;
use serde_json::json;

use crate::allocators;
use crate::failure::{INTERRUPTED, SOMETHING_FAILED};
use crate::helpers::Helpers;
use crate::interrupt;
use crate::output::{self, Output};
use crate::trace::arguments::Replay as Arguments;
use crate::trace::replay::{Replayed, Stage};
use crate::trace::text::{count, shown};
use crate::trace::{plan, read};

pub fn run(arguments: &Arguments) -> Result<u8> {
    let json = arguments.json.as_deref().map(Output::of).transpose()?;
    output::keep_apart(&json, [arguments.file.as_path()])?;
    let allocators = allocators::choose(&arguments.choice)?;
    let trace = read::whole(&arguments.file)?;
    interrupt::watch()?;
    let helpers = Helpers::unpack()?;
    let file = helpers.directory().join("plan");
    let plan = plan::make(&trace, &file)?;
    let stage = Stage { helpers: &helpers, plan: &file, touch: arguments.touch };
    let (all, interrupted) = stage.run(&allocators, arguments.rounds);
    let (calls, threads) = (plan.events, plan.threads);
    let more = match plan.exec_frees {
        0 => String::new(),
        frees => format!(", {frees} of them frees of what exec took along"),
    };
    let (command, table) = (shown(&plan.command), table("allocator", &all));
    let (counted, of) = (count(calls, "call"), count(threads as u64, "thread"));
    let text = format!("{command}: {counted} of {of}{more}\n{table}");
    if let Some(json) = &json {
        let value = json!({"command": plan.command, "calls": calls, "exec_frees": plan.exec_frees, "threads": threads, "touch": arguments.touch,
            "allocators": all});
        json.write(format!("{value:#}\n").as_bytes())?;
    }
    if json == Some(Output::Standard) {
        output::say(text.trim_end());
    } else {
        output::print(&text)?;
    }
    if let Some(damage) = &plan.damage {
        output::say(format_args!("hak: {damage}; what is before that place was replayed"));
    }
    if interrupted {
        output::say(interrupt::SHOWN);
        return Ok(INTERRUPTED);
    }
    let has_failed = plan.damage.is_some() || all.iter().any(|one| one.failure.is_some());
    Ok(if has_failed { SOMETHING_FAILED } else { 0 })
}

/// A line for each: the medians, also as ratios to the first one that has some.
pub fn table(head: &str, all: &[Replayed]) -> String {
    let mut out = String::new();
    let width = all.iter().map(|one| one.name.chars().count()).chain([head.len()]).max().unwrap_or(0);
    let _ =
        writeln!(out, "{head:<width$} {:>10} {:>6} {:>10} {:>6}  served by", "seconds", "ratio", "peak MiB", "ratio");
    let first = all.iter().find_map(|one| one.seconds().zip(one.peak_mib()));
    for one in all {
        let (Some(seconds), Some(peak), Some(first)) = (one.seconds(), one.peak_mib(), first) else {
            let reason = one.failure.as_ref().map_or("not run".into(), |reason| format!("failed: {reason}"));
            let _ = writeln!(out, "{:<width$} {reason}", one.name);
            continue;
        };
        let ratio = |value: f64, base: f64| if base > 0.0 { format!("{:.2}", value / base) } else { "-".into() };
        let (time, memory) = (ratio(seconds, first.0), ratio(peak, first.1));
        let by = one.proof.as_ref().map_or("", |proof| proof.answered_by.as_str());
        let refused = if one.refused > 0 { format!(", {} calls refused", one.refused) } else { String::new() };
        let _ = writeln!(out, "{:<width$} {seconds:>10.4} {time:>6} {peak:>10.1} {memory:>6}  {by}{refused}", one.name);
    }
    out
}
