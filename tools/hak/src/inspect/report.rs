// SPDX-License-Identifier: MIT
//! One look, for people: in the words of the report of HAKMEM_STATS.

use std::fmt::Write;

use crate::inspect::snapshot::{Figures, Snapshot};
use crate::inspect::threads::{Heap, State};
use crate::report::table::{Fitted, paragraph};

/// A kind of memory: its name, what of it is resident, all of it, and what it means.
pub type KindOf = (&'static str, fn(&Figures) -> u64, fn(&Figures) -> u64, &'static str);

pub const KINDS: [KindOf; 9] = [
    ("live", |f| f.resident_live, |f| f.live, "held by the program"),
    ("cached", |f| f.resident_cached, |f| f.cached, "in threads' magazines"),
    ("outboxes", |f| f.resident_outboxes, |f| f.outboxes, "freed, on the way to another thread or its slab"),
    ("free in slabs", |f| f.resident_free_in_slabs, |f| f.free_in_slabs, "blocks for the next refills"),
    ("slab tails", |f| f.resident_slab_tails, |f| f.slab_tails, "too short for a block"),
    ("dirty", |f| f.resident_dirty, |f| f.dirty_free, "free, kept for reuse"),
    (
        "clean",
        |f| f.resident_huge_page_slack,
        |f| f.clean_free,
        "free, returned or never used; resident behind huge pages",
    ),
    ("metadata", |f| f.resident_metadata, |f| f.metadata, "tables, thread heaps, magazines"),
    ("in all", |f| f.resident, |f| f.mapped, "what is not resident was returned, or never used"),
];

pub fn mib(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / f64::from(1 << 20))
}

pub fn kib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1024.0)
}

pub fn text(snapshot: &Snapshot, width: Option<usize>) -> String {
    let mut out = head(snapshot, width);
    let mut kinds = Fitted::new("MiB").number("resident", None).number("mapped", None).text("", Some(1));
    for (name, resident, all, meaning) in KINDS {
        kinds.row(vec![name.into(), mib(resident(&snapshot.figures)), mib(all(&snapshot.figures)), meaning.into()]);
    }
    out += &kinds.fit(width);
    out += &given_back(&snapshot.figures, width);
    if !snapshot.classes.is_empty() {
        out.push('\n');
        out += &classes(snapshot).fit(width);
    }
    if !snapshot.heaps.is_empty() {
        out.push('\n');
        out += &heaps(&snapshot.heaps).fit(width);
    }
    out
}

fn head(snapshot: &Snapshot, width: Option<usize>) -> String {
    let mut out = String::new();
    let Some(inspect) = &snapshot.inspect else { return out };
    let _ = writeln!(
        out,
        "hakmem {}: {}, process {}, {}",
        snapshot.version, inspect.program, inspect.process_id, inspect.taken
    );
    for remark in &inspect.remarks {
        out += &paragraph(&format!("note: {remark}"), width);
    }
    let (superslabs, heaps) = (inspect.moving_superslab_count, inspect.moving_heap_count);
    if superslabs + heaps > 0 {
        let text = format!(
            "moving: {superslabs} SuperSlabs and {heaps} heaps changed each time that they were read; of these the \
             figures are a mixture of moments"
        );
        out += &paragraph(&text, width);
    }
    out
}

fn given_back(figures: &Figures, width: Option<usize>) -> String {
    let text = format!(
        "{} MiB were given back to the system so far; the blocks took {} MiB at their peak.",
        mib(figures.returned()),
        mib(figures.peak_in_use)
    );
    let mut out = paragraph(&text, width);
    let limits = [("hard", figures.hard_limit), ("soft", figures.soft_limit), ("container's", figures.container_limit)];
    for (name, limit) in limits.into_iter().filter(|(_, limit)| *limit > 0) {
        let text = format!("Of the {name} limit, {} MiB, {} are charged.", mib(limit), mib(figures.charged));
        out += &paragraph(&text, width);
    }
    out
}

fn classes(snapshot: &Snapshot) -> Fitted {
    let mut table = Fitted::new("block")
        .number("slabs", Some(2))
        .number("live", None)
        .number("cached", Some(3))
        .number("outboxes", Some(5))
        .number("free", None)
        .number("live %", Some(1))
        .number("resident KiB", Some(4))
        .number("rounding KiB <=", Some(6));
    for class in &snapshot.classes {
        table.row(vec![
            class.block_bytes.to_string(),
            class.slab_count.to_string(),
            class.live_count.to_string(),
            class.cached_count.to_string(),
            class.outbox_count.to_string(),
            class.free_count.to_string(),
            class.live_share(),
            (class.resident_bytes / 1024).to_string(),
            class.rounding_most_bytes.map_or_else(String::new, |bytes| (bytes / 1024).to_string()),
        ]);
    }
    huge_row(&mut table, snapshot, 9);
    table
}

/// Beside the classes, whose table has so many columns and live blocks in the third: how many huge blocks there are.
pub fn huge_row(table: &mut Fitted, snapshot: &Snapshot, columns: usize) {
    if let Some(inspect) = snapshot.inspect.as_ref().filter(|inspect| inspect.huge_count > 0) {
        let mut row = vec![String::new(); columns];
        (row[0], row[2]) = ("huge".into(), inspect.huge_count.to_string());
        table.row(row);
    }
}

fn heaps(heaps: &[Heap]) -> Fitted {
    const MOST: usize = 20;
    let mut table = Fitted::new("heap")
        .text("thread", None)
        .number("cached KiB", None)
        .number("blocks", Some(3))
        .number("outboxes KiB", Some(4))
        .number("slabs", Some(2))
        .number("free in slabs KiB", Some(1));
    let mut sorted: Vec<&Heap> = heaps.iter().collect();
    sorted.sort_by_key(|heap| std::cmp::Reverse(heap.cached + heap.outboxes + heap.slab_bytes));
    for heap in sorted.iter().take(MOST) {
        table.row(row(&heap.heap.to_string(), &whose(heap), &[heap]));
    }
    if let Some(others) = sorted.get(MOST..).filter(|others| !others.is_empty()) {
        table.row(row("others", &format!("{} heaps", others.len()), others));
    }
    table
}

pub fn whose(heap: &Heap) -> String {
    match (&heap.state, &heap.name, heap.thread_id) {
        (State::Attached, Some(name), Some(id)) => format!("{name} ({id})"),
        (State::Attached, _, _) => "a thread".into(),
        (State::Pooled, ..) => "ended; waits for the next".into(),
        (State::Orphanage, ..) => "none: slabs that no thread uses".into(),
        (State::Abandoned, ..) => "not there any more".into(),
    }
}

fn row(name: &str, whose: &str, heaps: &[&Heap]) -> Vec<String> {
    let sum = |of: fn(&Heap) -> u64| heaps.iter().map(|heap| of(heap)).sum::<u64>();
    vec![
        name.into(),
        whose.into(),
        kib(sum(|heap| heap.cached)),
        sum(|heap| heap.cached_count).to_string(),
        kib(sum(|heap| heap.outboxes)),
        sum(|heap| heap.slab_count).to_string(),
        kib(sum(|heap| heap.free_in_slabs)),
    ]
}
