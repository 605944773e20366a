// SPDX-License-Identifier: MIT
//! Where everything is in the process's tables, by the names that the library gives.

use anyhow::Result;

use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};
use crate::inspect::fields::{Field, Root};
use crate::inspect::target::Target;

/// A size class.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    pub block_bytes: u64,
    pub slab_units: u64,
    pub capacity: u64,
}

pub struct Layout {
    pub unit_bytes: u64,
    pub superslab_units: u64,
    pub superslab_bytes: u64,
    pub record_bytes: u64,
    /// Of a unit, in one of the bitmaps.
    pub bitmap_bytes: u64,
    pub heap_bytes: u64,
    /// Classes from here on have slabs of one block.
    pub single_from: usize,
    pub magazine_most: u64,
    pub owner_shift: u64,
    pub kind_huge: u64,
    pub regions: Option<Regions>,
    pub state_attached: u64,
    pub state_pooled: u64,
    pub classes: Vec<Class>,
    pub record: RecordFields,
    pub used: Field,
    pub dirty: Field,
    pub heap: HeapFields,
    pub parcel: ParcelFields,
    pub variables: Variables,
}

/// What a library knows that has heaps of the program's own (src/region/region_word.h).
pub struct Regions {
    pub kind: u64,
    pub lone: u64,
    /// A lone block that is just being copied; the same as `lone` where the library knows of none.
    pub copied: u64,
    pub lone_units: Field,
}

pub struct RecordFields {
    pub run_units: Field,
    pub free_count: Field,
}

pub struct HeapFields {
    pub top: Field,
    pub limit: Field,
    pub capacity: Field,
    pub outbox: Field,
    pub parcels: Field,
    pub mail: Field,
    pub mail_taken: Field,
    pub state: Field,
    pub stripped: Field,
    pub process_id: Field,
    pub thread_id: Field,
    pub refills: Field,
    pub flushes: Field,
    pub remote_frees: Field,
    pub adoptions: Field,
}

/// Blocks that pass from thread to thread (src/slab/depot.h).
#[derive(Debug)]
pub struct DepotFields {
    /// Addresses, those of each class after each other; 0: there is none yet.
    pub racks: Field,
    /// Of the crates of a rack.
    pub states: Field,
    pub crate_blocks: u64,
}

/// What a thread has freed of others' blocks, on its way (src/slab/parcel.h).
pub struct ParcelFields {
    pub outbox_bits: Field,
    pub outbox_class: Field,
    pub next: Field,
    pub count: Field,
    pub bits: Field,
    pub class: Field,
    /// Its number counts steps of so many bytes.
    pub step: u64,
    pub mail_most: u64,
}

/// Read anew at each look.
pub struct Variables {
    pub base: Field,
    pub units: Field,
    pub records: Field,
    pub free_bits: Field,
    pub remote_bits: Field,
    pub superslabs: Field,
    pub heaps: Field,
    pub metadata: Field,
    pub zone_first: Field,
    pub zone_bytes: u64,
    pub extent_count: Field,
    pub extent_first: Field,
    pub extent_end: Field,
    pub mapped_to: Field,
    pub peak_units: Field,
    pub table_bytes: Field,
    pub metadata_bytes: Field,
    pub owner_count: Field,
    pub pooled_count: Field,
    /// One a node of the machine's memory; 0 where there is none.
    pub orphanages: Field,
    /// `None`: a library that has none, or another.
    pub depot: Option<DepotFields>,
    pub fork_pending: Field,
    pub fork_survivor: Field,
    pub fork_thread_id: Field,
    /// Figures that are read as they are, by their names.
    pub figures: Vec<(&'static str, Field)>,
}

pub const FIGURES: [&str; 20] = [
    "mmap_calls",
    "munmap_calls",
    "madvise_calls",
    "mremap_calls",
    "errors",
    "purged_aged",
    "purged_strained",
    "purged_idle",
    "purged_trimmed",
    "flushed_unused",
    "flushed_stripped",
    "flushed_ended",
    "purged_limited",
    "hard_limit",
    "soft_limit",
    "container_limit",
    "charged",
    "refused_purges",
    "refused_membarriers",
    "refused_threads",
];

fn regions(root: &Root) -> Result<Regions> {
    let lone = root.number("region.lone")?;
    Ok(Regions {
        kind: root.number("kind.region")?,
        lone,
        copied: root.number("region.copied").unwrap_or(lone),
        lone_units: root.member("record.lone_units")?,
    })
}

impl Layout {
    pub fn of(target: &Target, root: &Root) -> Result<Layout> {
        let layout = Layout {
            unit_bytes: root.number("unit.bytes")?,
            superslab_units: root.number("superslab.units")?,
            superslab_bytes: root.number("superslab.bytes")?,
            record_bytes: root.number("record.bytes")?,
            bitmap_bytes: root.number("bitmap.bytes")?,
            heap_bytes: root.number("heap.bytes")?,
            single_from: usize::try_from(root.number("class.single_from")?)?,
            magazine_most: root.number("magazine.most")?,
            owner_shift: root.number("word.owner_shift")?,
            kind_huge: root.number("kind.huge")?,
            regions: regions(root).ok(),
            state_attached: root.number("state.attached")?,
            state_pooled: root.number("state.pooled")?,
            classes: classes(target, root)?,
            record: RecordFields {
                run_units: root.member("record.run_units")?,
                free_count: root.member("record.free_count")?,
            },
            used: root.member("superslab.used")?,
            dirty: root.member("superslab.dirty")?,
            heap: heap(root)?,
            parcel: ParcelFields {
                outbox_bits: root.member("outbox.bits")?,
                outbox_class: root.member("outbox.class")?,
                next: root.member("parcel.next")?,
                count: root.member("parcel.count")?,
                bits: root.member("parcel.bits")?,
                class: root.member("parcel.class")?,
                step: root.number("parcel.step")?,
                mail_most: root.number("mail.most")?,
            },
            variables: variables(root)?,
        };
        // What everything is computed with; else sizes could be anything.
        let is_power = |number: u64, most: u64| number.is_power_of_two() && number <= most;
        let is_sane = layout.unit_bytes == 64 << 10
            && layout.superslab_units == 32
            && is_power(layout.superslab_bytes, 4096)
            && is_power(layout.record_bytes, 4096)
            && is_power(layout.bitmap_bytes, 1 << 20)
            && is_power(layout.heap_bytes, 1 << 20)
            && layout.unit_bytes.is_multiple_of(target.page)
            && layout.owner_shift < 32
            && layout.parcel.step <= 4096
            && layout.parcel.mail_most <= 1 << 16
            && layout.magazine_most <= 1 << 16
            && layout.single_from <= layout.classes.len()
            && layout.classes.iter().all(|class| {
                (1..=1 << 10).contains(&class.slab_units)
                    && class.block_bytes > 0
                    && class.capacity * class.block_bytes <= class.slab_units * layout.unit_bytes
                    && class.capacity <= class.slab_units * layout.bitmap_bytes * 8
            });
        if is_sane {
            return Ok(layout);
        }
        let message =
            format!("hakmem {} in process {} has sizes that this hak does not know", root.version, target.pid);
        Err(failure(BAD_INPUT, message))
    }

    pub fn bitmap_words(&self, class: usize) -> usize {
        usize::try_from(self.classes[class].capacity.div_ceil(64)).expect("a slab is small")
    }

    /// Slots of a heap's magazine that are filled; a number out of range is one that was never true.
    pub fn magazine_count(&self, heap: &[u8], class: usize) -> u64 {
        let room = self.heap.limit.of(heap, class).wrapping_sub(self.heap.top.of(heap, class)) / 8;
        let count = self.heap.capacity.of(heap, class).wrapping_sub(room);
        if count > self.magazine_most { 0 } else { count }
    }

    pub fn is_single(&self, class: usize) -> bool {
        class >= self.single_from
    }
}

fn classes(target: &Target, root: &Root) -> Result<Vec<Class>> {
    let array = |name: &str| root.variable(name)?.elements(target, 0);
    let (blocks, units, capacities) =
        (array("class.block_bytes")?, array("class.slab_units")?, array("class.capacity")?);
    if blocks.len() != units.len() || blocks.len() != capacities.len() {
        let message = format!("process {}: the root of hakmem's tables is damaged: size classes", target.pid);
        return Err(failure(SOMETHING_FAILED, message));
    }
    let all = blocks.iter().zip(&units).zip(&capacities);
    let class = |((block_bytes, slab_units), capacity): ((&u64, &u64), &u64)| Class {
        block_bytes: *block_bytes,
        slab_units: *slab_units,
        capacity: *capacity,
    };
    Ok(all.map(class).collect())
}

fn heap(root: &Root) -> Result<HeapFields> {
    Ok(HeapFields {
        top: root.member("heap.top")?,
        limit: root.member("heap.limit")?,
        capacity: root.member("heap.capacity")?,
        outbox: root.member("heap.outbox")?,
        parcels: root.member("heap.parcels")?,
        mail: root.member("heap.mail")?,
        mail_taken: root.member("heap.mail_taken")?,
        state: root.member("heap.state")?,
        stripped: root.member("heap.stripped")?,
        process_id: root.member("heap.process_id")?,
        thread_id: root.member("heap.thread_id")?,
        refills: root.member("heap.refills")?,
        flushes: root.member("heap.flushes")?,
        remote_frees: root.member("heap.remote_frees")?,
        adoptions: root.member("heap.adoptions")?,
    })
}

fn depot(root: &Root) -> Result<DepotFields> {
    Ok(DepotFields {
        racks: root.variable("depot.racks")?,
        states: root.member("rack.state")?,
        crate_blocks: root.number("depot.crate_blocks")?,
    })
}

fn variables(root: &Root) -> Result<Variables> {
    let mut figures = Vec::new();
    for name in FIGURES {
        figures.push((name, root.variable(name)?));
    }
    Ok(Variables {
        base: root.variable("map.base")?,
        units: root.variable("map.units")?,
        records: root.variable("map.records")?,
        free_bits: root.variable("map.free_bits")?,
        remote_bits: root.variable("map.remote_bits")?,
        superslabs: root.variable("map.superslabs")?,
        heaps: root.variable("map.heaps")?,
        metadata: root.variable("map.metadata")?,
        zone_first: root.variable("map.zone_first")?,
        zone_bytes: root.number("zone.bytes")?,
        extent_count: root.variable("zone.extent_count")?,
        extent_first: root.variable("zone.extent_first")?,
        extent_end: root.variable("zone.extent_end")?,
        mapped_to: root.variable("zone.mapped_to")?,
        peak_units: root.variable("arena.peak_units")?,
        table_bytes: root.variable("map.table_bytes")?,
        metadata_bytes: root.variable("metadata.committed_bytes")?,
        owner_count: root.variable("pool.owner_count")?,
        pooled_count: root.variable("pool.pooled_count")?,
        orphanages: root.variable("pool.orphanages")?,
        depot: depot(root).ok(),
        fork_pending: root.variable("forked.pending")?,
        fork_survivor: root.variable("forked.survivor")?,
        fork_thread_id: root.variable("forked.thread_id")?,
        figures,
    })
}
