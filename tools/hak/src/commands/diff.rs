// SPDX-License-Identifier: MIT
//! `hak diff`

use std::collections::BTreeSet;

use anyhow::Result;

use crate::cli::Diff;
use crate::inspect::report::{KINDS, kib, mib};
use crate::inspect::snapshot::{Class, Snapshot};
use crate::inspect::target::printable;
use crate::output;
use crate::report::table::{self, Fitted};

pub fn run(arguments: &Diff) -> Result<u8> {
    let (before, after) = (Snapshot::load(&arguments.before)?, Snapshot::load(&arguments.after)?);
    output::print(&text(&before, &after, table::width()))?;
    Ok(0)
}

fn text(before: &Snapshot, after: &Snapshot, width: Option<usize>) -> String {
    let mut out = format!("{}\n{}\n", name("before", before), name("after", after));
    for (snapshot, which) in [(before, "before"), (after, "after")] {
        if !snapshot.is_measured {
            out += &table::paragraph(&format!("note: {which}, what is resident could not be known"), width);
        }
    }
    if let Some(doubt) = doubt(before, after) {
        out += &table::paragraph(&format!("note: {doubt}"), width);
    }
    let parts = [kinds(before, after).fit(width), events(before, after).fit(width), classes(before, after).fit(width)];
    for part in parts.iter().filter(|part| part.lines().count() > 1) {
        out.push('\n');
        out += part;
    }
    if parts.iter().all(|part| part.lines().count() <= 1) {
        out += "\nNothing has changed.\n";
    }
    out
}

fn name(which: &str, snapshot: &Snapshot) -> String {
    match &snapshot.inspect {
        Some(inspect) => {
            printable(&format!("{which}: {}, process {}, {}", inspect.program, inspect.process_id, inspect.taken))
        }
        None => printable(&format!("{which}: statistics of hakmem {}", snapshot.version)),
    }
}

/// Why what is shown may be no change of one process from the first look to the second.
fn doubt(before: &Snapshot, after: &Snapshot) -> Option<&'static str> {
    if let (Some(before), Some(after)) = (&before.inspect, &after.inspect) {
        if before.process_id != after.process_id {
            return Some("these are two processes: what is shown is how they differ, and no change of either");
        }
        let times = [before, after].map(|inspect| inspect.taken.parse::<jiff::Timestamp>());
        if let [Ok(before), Ok(after)] = times
            && before > after
        {
            return Some("the second look is the earlier one, so that what has grown is shown as less");
        }
    }
    let (before, after) = (before.figures.never_less(), after.figures.never_less());
    let is_less = before.iter().zip(after).any(|(before, after)| after < *before);
    is_less.then_some(
        "counts that never fall are less in the second look: it is the earlier one, or another process's, or the \
         program has become another one by exec",
    )
}

fn signed(before: u64, after: u64, form: fn(u64) -> String) -> String {
    let sign = if after >= before { "+" } else { "-" };
    format!("{sign}{}", form(after.abs_diff(before)))
}

fn kinds(before: &Snapshot, after: &Snapshot) -> Fitted {
    let mut table = Fitted::new("MiB")
        .number("resident", Some(2))
        .number("then", Some(2))
        .number("change", None)
        .number("mapped", Some(1))
        .number("then", Some(1))
        .number("change", None);
    let (before, after) = (&before.figures, &after.figures);
    for (name, resident, all, _) in KINDS {
        let (was, is, had, has) = (resident(before), resident(after), all(before), all(after));
        if (was, had) != (is, has) {
            let cells = [mib(was), mib(is), signed(was, is, mib), mib(had), mib(has), signed(had, has, mib)];
            table.row([name.into()].into_iter().chain(cells).collect());
        }
    }
    table
}

fn events(before: &Snapshot, after: &Snapshot) -> Fitted {
    let mut table = Fitted::new("since then").number("change", None);
    let (before, after) = (&before.figures, &after.figures);
    let counts = [
        ("slabs", before.slab_count, after.slab_count),
        ("thread heaps made", before.heap_count, after.heap_count),
        ("heaps without a thread", before.heap_pooled_count, after.heap_pooled_count),
        ("refills", before.refills, after.refills),
        ("flushes", before.flushes, after.flushes),
        ("remote frees", before.remote_frees, after.remote_frees),
        ("slabs adopted", before.adoptions, after.adoptions),
        ("wrong frees", before.errors, after.errors),
    ];
    let bytes = [
        ("returned: free for a second", before.purged_aged, after.purged_aged),
        ("returned: more than is kept", before.purged_strained, after.purged_strained),
        ("returned: free pages of idle slabs", before.purged_idle, after.purged_idle),
        ("returned: asked for", before.purged_trimmed, after.purged_trimmed),
        ("returned: near a limit", before.purged_limited, after.purged_limited),
        ("charged against limits", before.charged, after.charged),
        ("left magazines: unused, or while others grew", before.flushed_unused, after.flushed_unused),
        ("left magazines: of sleeping threads", before.flushed_stripped, after.flushed_stripped),
        ("left magazines: of ended threads", before.flushed_ended, after.flushed_ended),
        ("most that slabs and blocks ever took", before.peak_in_use, after.peak_in_use),
    ];
    let mut rows = |events: &[(&str, u64, u64)], form: fn(u64) -> String| {
        for (name, was, is) in events.iter().filter(|(_, was, is)| was != is) {
            table.row(vec![(*name).into(), signed(*was, *is, form)]);
        }
    };
    rows(&counts, |count| count.to_string());
    rows(&bytes, |bytes| kib(bytes) + " KiB");
    table
}

fn classes(before: &Snapshot, after: &Snapshot) -> Fitted {
    let mut table = Fitted::new("block")
        .number("live", Some(1))
        .number("then", Some(1))
        .number("change", None)
        .number("slabs", Some(2))
        .number("free", Some(3))
        .number("resident KiB", None);
    // Classes of one size are told apart by their order: that of malloc(0) comes first.
    let numbered = |snapshot: &Snapshot| -> Vec<((u64, usize), Class)> {
        let mut all: Vec<((u64, usize), Class)> = Vec::new();
        for class in &snapshot.classes {
            let same = snapshot.classes.iter().filter(|other| other.block_bytes == class.block_bytes).count();
            let earlier = all.iter().filter(|((bytes, _), _)| *bytes == class.block_bytes).count();
            // Follows from the others, and only one of two files may have it.
            let class = Class { rounding_most_bytes: None, ..class.clone() };
            // One alone is taken for the usual one.
            all.push(((class.block_bytes, if same == 1 { 1 } else { earlier }), class));
        }
        all
    };
    let (was, is) = (numbered(before), numbered(after));
    let keys: BTreeSet<(u64, usize)> = was.iter().chain(&is).map(|(key, _)| *key).collect();
    for key in keys {
        let of = |all: &[((u64, usize), Class)]| {
            let none = Class {
                block_bytes: key.0,
                slab_count: 0,
                live_count: 0,
                cached_count: 0,
                outbox_count: 0,
                free_count: 0,
                tail_bytes: 0,
                resident_bytes: 0,
                rounding_most_bytes: None,
            };
            all.iter().find(|(its, _)| *its == key).map_or(none, |(_, class)| class.clone())
        };
        let (was, is) = (of(&was), of(&is));
        if was == is {
            continue;
        }
        let count = |of: fn(&Class) -> u64| signed(of(&was), of(&is), |count| count.to_string());
        table.row(vec![
            key.0.to_string(),
            was.live_count.to_string(),
            is.live_count.to_string(),
            count(|class| class.live_count),
            count(|class| class.slab_count),
            count(|class| class.free_count),
            signed(was.resident_bytes, is.resident_bytes, kib),
        ]);
    }
    table
}
