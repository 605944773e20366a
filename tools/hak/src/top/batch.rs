// SPDX-License-Identifier: MIT
//! Blocks of plain text, one for each look, for files and other programs.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::failure::INTERRUPTED;
use crate::interrupt;
use crate::output;
use crate::report::table;
use crate::top::course::Course;
use crate::top::processes::{Listing, Processes};
use crate::top::row::{self, Column};
use crate::top::schedule::next_due;
use crate::top::state;
use crate::top::texts;

/// Without a count it ends with the process, or by a signal.
pub fn run(pid: Option<u32>, every: Duration, count: Option<u32>) -> Result<u8> {
    interrupt::watch()?;
    let mut processes = Processes::default();
    let mut course: Option<Course> = None;
    let (mut due, mut number) = (Instant::now(), 0);
    while count.is_none_or(|count| number < count) {
        if !rest_until(due) {
            return Ok(INTERRUPTED);
        }
        let began = Instant::now();
        let text = match pid {
            None => list(processes.list()?),
            Some(pid) => {
                let look = processes.look(pid)?;
                match &mut course {
                    Some(course) => course.go_on(look),
                    None => course = Some(Course::begin(look)),
                }
                one(course.as_ref().expect("it has just been put there"))
            }
        };
        let text = if number == 0 { text } else { format!("\n{text}") };
        output::print(&text)?;
        due = next_due(due, began, Instant::now(), every);
        number += 1;
    }
    Ok(0)
}

/// Whether nothing interrupted it.
fn rest_until(due: Instant) -> bool {
    const NAP: Duration = Duration::from_millis(20);
    while !interrupt::requested() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(NAP.min(left));
    }
    false
}

fn list(mut listing: Listing) -> String {
    Column::Resident.sort(&mut listing.rows, true);
    let head = format!("{}, in MiB: {}", taken(), state::summary(&listing));
    let head = table::paragraph(&head, table::width());
    if listing.rows.is_empty() {
        return head;
    }
    head + &row::table(listing.rows.iter(), None).fit(table::width())
}

fn taken() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn one(course: &Course) -> String {
    let (snapshot, width) = (&course.last.snapshot, table::width());
    let mut out = table::paragraph(&texts::head(snapshot), width);
    for remark in texts::remarks(snapshot) {
        out += &table::paragraph(&remark, width);
    }
    for section in texts::sections(course, width.unwrap_or(usize::MAX)) {
        out += &section.lines.join("\n");
        out += "\n";
    }
    out
}
