// SPDX-License-Identifier: MIT
//! The heap as a picture: a cell for each unit of 64 KiB, SuperSlab by SuperSlab.

use crate::inspect::Inspected;
use crate::inspect::census::{Census, Run, What};
use crate::inspect::layout::Layout;
use crate::inspect::report;
use crate::inspect::snapshot::Snapshot;
use crate::inspect::tables::Tables;

/// How many steps there are from empty to dense.
pub const LEVELS: u64 = 8;

/// What a cell is, as far as its colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Blocks up to 1040 bytes.
    Tiny,
    /// Blocks up to 64 KiB.
    Mid,
    /// A block up to 4 MiB.
    Large,
    Huge,
    Dirty,
    Clean,
    Lost,
}

pub const KINDS: [Kind; 7] = [Kind::Tiny, Kind::Mid, Kind::Large, Kind::Huge, Kind::Dirty, Kind::Clean, Kind::Lost];

impl Kind {
    /// In words, and what makes it dense.
    pub fn meaning(self) -> &'static str {
        match self {
            Kind::Tiny => "blocks up to 1040 bytes; dense: most are in use or cached",
            Kind::Mid => "blocks up to 64 KiB; dense: most are in use or cached",
            Kind::Large => "a block up to 4 MiB; dense: most of its pages are resident",
            Kind::Huge => "a larger block; dense: most of its pages are resident",
            Kind::Dirty => "free, kept for reuse; dense: most of its pages are resident",
            Kind::Clean => "free, returned or never used",
            Kind::Lost => "taken away by the system, or just changing",
        }
    }

    pub fn letter(self) -> char {
        match self {
            Kind::Tiny => 't',
            Kind::Mid => 'm',
            Kind::Large => 'l',
            Kind::Huge => 'h',
            Kind::Dirty => 'd',
            Kind::Clean => 'c',
            Kind::Lost => 'x',
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    pub kind: Kind,
    /// 0 to LEVELS - 1.
    pub level: u64,
    pub resident_kib: u64,
}

/// Cells of one SuperSlab that are of one run.
#[derive(Debug, Clone)]
pub struct Part {
    pub first: usize,
    pub cells: usize,
    pub text: String,
}

#[derive(Debug, Clone)]
pub struct SuperSlab {
    pub address: u64,
    pub cells: Vec<Cell>,
    pub parts: Vec<Part>,
}

/// One look.
#[derive(Debug, Clone)]
pub struct Frame {
    pub snapshot: Snapshot,
    /// In order of address.
    pub superslabs: Vec<SuperSlab>,
}

impl Frame {
    pub fn of(inspected: &Inspected, tables: &Tables, census: &Census, snapshot: Snapshot) -> Frame {
        let layout = &inspected.layout;
        let units = layout.superslab_units;
        let mut superslabs: Vec<SuperSlab> = Vec::new();
        for run in &census.runs {
            let text = text(layout, run, &snapshot);
            let (mut unit, end) = (run.first, run.first + run.units);
            while unit < end {
                let address = tables.base + unit / units * units * layout.unit_bytes;
                if superslabs.last().is_none_or(|last| last.address != address) {
                    superslabs.push(SuperSlab { address, cells: Vec::new(), parts: Vec::new() });
                }
                let superslab = superslabs.last_mut().expect("one was just put there");
                let count = (end - unit).min(units - unit % units);
                let first = superslab.cells.len();
                let cells = (unit..unit + count).map(|unit| cell(layout, tables, run, unit));
                superslab.cells.extend(cells);
                superslab.parts.push(Part { first, cells: superslab.cells.len() - first, text: text.clone() });
                unit += count;
            }
        }
        superslabs.sort_by_key(|superslab| superslab.address);
        Frame { snapshot, superslabs }
    }
}

fn cell(layout: &Layout, tables: &Tables, run: &Run, unit: u64) -> Cell {
    let address = tables.base + unit * layout.unit_bytes;
    let pages = tables.extents[run.extent].pages.as_ref();
    let resident = pages.map_or(0, |pages| pages.resident_bytes(address, address + layout.unit_bytes));
    let kind = match run.what {
        What::Slab { class, .. } if layout.classes[class].block_bytes <= 1040 => Kind::Tiny,
        What::Slab { .. } => Kind::Mid,
        What::Large { .. } => Kind::Large,
        What::Huge => Kind::Huge,
        What::Dirty | What::Spare => Kind::Dirty,
        What::Clean => Kind::Clean,
        What::Lost => Kind::Lost,
    };
    let (part, all) = match run.what {
        What::Slab { class, out, .. } => (out, layout.classes[class].capacity),
        _ => (resident, layout.unit_bytes),
    };
    Cell { kind, level: level(part, all), resident_kib: resident / 1024 }
}

fn level(part: u64, all: u64) -> u64 {
    (part * LEVELS / all.max(1)).min(LEVELS - 1)
}

/// What is known of a run, without its address and what is resident of it.
fn text(layout: &Layout, run: &Run, snapshot: &Snapshot) -> String {
    let heap = |owner: u64| {
        if owner == 0 {
            return "a heap of the program's own".into();
        }
        let its = snapshot.heaps.iter().find(|heap| heap.heap == owner);
        its.map_or_else(|| format!("heap {owner}"), |heap| format!("heap {owner}, {}", report::whose(heap)))
    };
    let bytes = run.units * layout.unit_bytes / 1024;
    match run.what {
        What::Slab { class, owner, out } => {
            let its = &layout.classes[class];
            let blocks = format!("{} bytes each, {out} of {} in use or cached", its.block_bytes, its.capacity);
            format!("slab of {bytes} KiB: blocks of {blocks}; {}", heap(owner))
        }
        What::Large { class, owner } => {
            format!("large block of {} KiB; {}", layout.classes[class].block_bytes / 1024, heap(owner))
        }
        What::Huge => format!("huge block of {bytes} KiB"),
        What::Spare => format!("free, of a heap of the program's own: {bytes} KiB"),
        What::Dirty => format!("free, kept for reuse: {bytes} KiB"),
        What::Clean => format!("free, returned or never used: {bytes} KiB"),
        What::Lost => "taken away by the system, or just changing".into(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A made-up heap of so many SuperSlabs, each with a slab, and free memory behind it.
    pub fn made(addresses: &[u64], text: &str) -> Frame {
        let slab = Cell { kind: Kind::Tiny, level: 5, resident_kib: 12 };
        let clean = Cell { kind: Kind::Clean, level: 0, resident_kib: 0 };
        let superslab = |address: &u64| SuperSlab {
            address: *address,
            cells: [vec![slab], vec![clean; 31]].concat(),
            parts: vec![
                Part { first: 0, cells: 1, text: text.into() },
                Part { first: 1, cells: 31, text: "free".into() },
            ],
        };
        let snapshot = Snapshot {
            version: "0.0.0".into(),
            figures: Default::default(),
            is_measured: true,
            classes: Vec::new(),
            inspect: None,
            heaps: Vec::new(),
        };
        Frame { snapshot, superslabs: addresses.iter().map(superslab).collect() }
    }

    #[test]
    fn levels_go_from_empty_to_dense() {
        assert_eq!([0, 1, 99, 500, 999, 1000].map(|part| level(part, 1000)), [0, 0, 0, 4, 7, 7]);
        assert_eq!(level(0, 0), 0);
    }
}
