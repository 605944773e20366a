// SPDX-License-Identifier: MIT
//! `hak inspect`

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cli::Inspect;
use crate::failure::INTERRUPTED;
use crate::inspect::picture::Frame;
use crate::inspect::{Inspected, picture_text, report};
use crate::interrupt;
use crate::output::{self, Output};
use crate::report::{html_map, table};

/// The files that are asked for, and what is shown.
struct Wanted {
    json: Option<Output>,
    html: Option<Output>,
    map: bool,
    /// Standard output is a file's.
    is_taken: bool,
}

pub fn run(arguments: &Inspect) -> Result<u8> {
    let file = |name: &Option<std::path::PathBuf>| name.as_deref().map(Output::of).transpose();
    let (json, html) = (file(&arguments.json)?, file(&arguments.html)?);
    output::keep_apart(json.iter().chain(&html), [])?;
    let is_taken = json == Some(Output::Standard) || html == Some(Output::Standard);
    let wanted = Wanted { json, html, map: arguments.map, is_taken };
    let inspected = Inspected::attach(arguments.pid)?;
    let (Some(every), Some(count)) = (arguments.every, arguments.count) else {
        let frame = look(&inspected, &wanted)?;
        let shown = show(&frame, &wanted);
        return both(shown.map(|()| 0), write(&[frame], &wanted));
    };
    interrupt::watch()?;
    let mut frames = Vec::new();
    let ended = watch(&inspected, every, count, &wanted, &mut frames);
    if frames.is_empty() {
        return ended;
    }
    // Whatever ended it: what was gathered is kept.
    both(ended, write(&frames, &wanted))
}

/// The first failure, if both have failed; the other is told here.
fn both(first: Result<u8>, second: Result<()>) -> Result<u8> {
    if first.is_err()
        && let Err(error) = &second
    {
        output::say(format_args!("hak: {error:#}"));
    }
    let code = first?;
    second.map(|()| code)
}

fn watch(inspected: &Inspected, every: Duration, count: u32, wanted: &Wanted, frames: &mut Vec<Frame>) -> Result<u8> {
    let start = Instant::now();
    for number in 0..count {
        if !interrupt::wait_until(start + every * number) {
            return Ok(INTERRUPTED);
        }
        let frame = look(inspected, wanted)?;
        let shown = show(&frame, wanted);
        // Only the page needs more than the last one.
        if wanted.html.is_none() {
            frames.clear();
        }
        frames.push(frame);
        shown?;
    }
    Ok(0)
}

fn look(inspected: &Inspected, wanted: &Wanted) -> Result<Frame> {
    let (tables, census, snapshot) = inspected.look()?;
    if wanted.map || wanted.html.is_some() {
        return Ok(Frame::of(inspected, &tables, &census, snapshot));
    }
    Ok(Frame { snapshot, superslabs: Vec::new() })
}

fn show(frame: &Frame, wanted: &Wanted) -> Result<()> {
    if wanted.is_taken {
        return Ok(());
    }
    let mut text = report::text(&frame.snapshot, table::width());
    if wanted.map {
        text += &picture_text::text(frame, picture_text::wants_colours());
    }
    output::print_coloured(&text)
}

/// Both, even if the first fails.
fn write(frames: &[Frame], wanted: &Wanted) -> Result<()> {
    let last = &frames[frames.len() - 1];
    let json = wanted.json.as_ref().map_or(Ok(()), |file| file.write(last.snapshot.json()?.as_bytes()));
    let html = wanted.html.as_ref().map_or(Ok(()), |file| file.write(html_map::page(frames)?.as_bytes()));
    both(json.map(|()| 0), html).map(|_| ())
}
