// SPDX-License-Identifier: MIT
//! What every unit of the heap is, and what of it is in memory: as src/observe/census.c and account.c count it
//! inside the process, from copies of the same tables.

use crate::inspect::layout::{Layout, Regions};
use crate::inspect::tables::{Extent, Tables};

/// Of a size class. Blocks, but for what is called bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClassCensus {
    pub slabs: u64,
    pub free: u64,
    pub cached: u64,
    pub in_outboxes: u64,
    pub out_resident_bytes: u64,
    pub free_resident_bytes: u64,
    pub tail_resident_bytes: u64,
}

/// What a heap has of slabs.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnerCensus {
    pub slab_count: u64,
    pub slab_bytes: u64,
    pub free_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A slab of several blocks: its class, and how many of them are out.
    Slab {
        class: usize,
        owner: u64,
        out: u64,
    },
    Large {
        class: usize,
        owner: u64,
    },
    Huge,
    /// A unit of a region that nothing lies in.
    Spare,
    Dirty,
    Clean,
    /// The system has taken it away, or it is being changed.
    Lost,
}

/// A run of units.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub extent: usize,
    pub first: u64,
    pub units: u64,
    pub what: What,
}

#[derive(Default)]
pub struct Census {
    pub committed: u64,
    pub used: u64,
    pub dirty: u64,
    pub classes: Vec<ClassCensus>,
    pub owners: Vec<OwnerCensus>,
    pub lost_bytes: u64,
    pub huge_count: u64,
    pub huge_bytes: u64,
    pub huge_resident_bytes: u64,
    pub spare_bytes: u64,
    pub spare_resident_bytes: u64,
    pub dirty_resident_bytes: u64,
    pub slack_resident_bytes: u64,
    pub runs: Vec<Run>,
}

struct Walk<'a> {
    tables: &'a Tables,
    layout: &'a Layout,
    extent: &'a Extent,
    index: usize,
    census: &'a mut Census,
}

impl Census {
    pub fn of(tables: &Tables, layout: &Layout) -> Census {
        let mut census = Census {
            classes: vec![ClassCensus::default(); layout.classes.len()],
            owners: vec![OwnerCensus::default(); tables.heaps.len() + 1],
            ..Census::default()
        };
        for (index, extent) in tables.extents.iter().enumerate() {
            census.committed += (extent.end - extent.first) * layout.unit_bytes;
            for unit in (extent.first..extent.end).step_by(32) {
                let superslab = extent.superslab(layout, unit);
                let units = |bits: u64| u64::from(bits.count_ones()) * layout.unit_bytes;
                census.used += units(layout.used.of(superslab, 0));
                census.dirty += units(layout.dirty.of(superslab, 0));
            }
            let mut walk = Walk { tables, layout, extent, index, census: &mut census };
            let mut unit = extent.first;
            while unit < extent.end {
                unit += walk.run(unit);
            }
        }
        for (class, blocks) in &tables.depot {
            census.classes[*class].in_outboxes += blocks;
        }
        for heap in &tables.heaps {
            for class in 0..layout.classes.len() {
                let count = layout.magazine_count(&heap.record, class);
                census.classes[class].cached += count.saturating_sub(heap.gaps[class]);
            }
            for (class, blocks) in &heap.on_the_way {
                census.classes[*class].in_outboxes += blocks;
            }
        }
        census
    }

    pub fn blocks(&self, layout: &Layout, class: usize) -> u64 {
        self.classes[class].slabs * layout.classes[class].capacity
    }

    /// Held by the program.
    pub fn live(&self, layout: &Layout, class: usize) -> u64 {
        let its = &self.classes[class];
        self.blocks(layout, class).saturating_sub(its.free + its.cached + its.in_outboxes)
    }

    pub fn tail_bytes(&self, layout: &Layout, class: usize) -> u64 {
        let its = &layout.classes[class];
        self.classes[class].slabs * (its.slab_units * layout.unit_bytes - its.capacity * its.block_bytes)
    }

    /// What is resident of blocks in magazines, or in outboxes: their share of those that are out.
    pub fn resident_share(&self, layout: &Layout, class: usize, blocks: u64) -> u64 {
        let its = &self.classes[class];
        let out = self.blocks(layout, class).saturating_sub(its.free);
        if blocks == 0 || out == 0 {
            return 0;
        }
        let share = blocks.min(out) as f64 / out as f64;
        ((its.out_resident_bytes as f64 * share) as u64).min(its.out_resident_bytes)
    }
}

impl Walk<'_> {
    /// A run can be another one by the time its length is used, so no length is trusted. Returns the units.
    fn run(&mut self, first: u64) -> u64 {
        let (layout, extent) = (self.layout, self.extent);
        let word = extent.word(first);
        let (owner, kind) = (word >> layout.owner_shift, word & ((1 << layout.owner_shift) - 1));
        let class = usize::try_from(kind).unwrap_or(usize::MAX);
        if let Some(regions) = layout.regions.as_ref().filter(|regions| kind == regions.kind) {
            let what = owner & ((1 << layout.owner_shift) - 1);
            return self.of_region(first, what, regions);
        }
        let is_class = owner != 0 && class < layout.classes.len();
        // The first unit of a large block that is free and lies on the shelf: used, as the arena sees it.
        let is_shelved = owner == 0 && word != 0 && class < layout.classes.len();
        let run_units = layout.record.run_units.of(extent.record(layout, first), 0).max(1);
        let units = if is_class || is_shelved { layout.classes[class].slab_units } else { run_units };
        let mut units = units.min(extent.end - first);
        let what = if is_class && layout.is_single(class) {
            self.census.classes[class].slabs += 1;
            self.census.classes[class].out_resident_bytes += self.resident_units(first, units);
            self.note_owner(owner, class, 0);
            What::Large { class, owner }
        } else if is_class {
            let out = self.slab(first, class, owner);
            if units == layout.classes[class].slab_units {
                self.measure_slab(first, class);
            }
            What::Slab { class, owner, out }
        } else if word == layout.kind_huge {
            self.census.huge_count += 1;
            self.census.huge_bytes += units * layout.unit_bytes;
            self.census.huge_resident_bytes += self.resident_units(first, units);
            What::Huge
        } else if is_shelved || word == 0 {
            return self.free_units(first, units);
        } else {
            units = 1;
            self.census.lost_bytes += layout.unit_bytes;
            self.census.huge_resident_bytes += self.resident_units(first, 1);
            What::Lost
        };
        self.census.runs.push(Run { extent: self.index, first, units, what });
        units
    }

    /// Blocks in threads' caches of the region count as held by the program. Returns the units.
    fn of_region(&mut self, first: u64, what: u64, regions: &Regions) -> u64 {
        let (layout, extent) = (self.layout, self.extent);
        let class = usize::try_from(what).unwrap_or(usize::MAX);
        let (what, units) = if class < layout.single_from {
            let units = layout.classes[class].slab_units.min(extent.end - first);
            let out = self.slab(first, class, 0);
            if units == layout.classes[class].slab_units {
                self.measure_slab(first, class);
            }
            (What::Slab { class, owner: 0, out }, units)
        } else if what == regions.lone || what == regions.copied {
            let units = regions.lone_units.of(extent.record(layout, first), 0).max(1).min(extent.end - first);
            self.census.huge_count += 1;
            self.census.huge_bytes += units * layout.unit_bytes;
            self.census.huge_resident_bytes += self.resident_units(first, units);
            (What::Huge, units)
        } else {
            self.census.spare_bytes += layout.unit_bytes;
            self.census.spare_resident_bytes += self.resident_units(first, 1);
            (What::Spare, 1)
        };
        self.census.runs.push(Run { extent: self.index, first, units, what });
        units
    }

    fn resident(&self, from: u64, bytes: u64) -> u64 {
        match &self.extent.pages {
            Some(pages) if self.tables.is_measured => pages.resident_bytes(from, from + bytes),
            _ => bytes,
        }
    }

    fn resident_units(&self, first: u64, units: u64) -> u64 {
        self.resident(self.tables.base + first * self.layout.unit_bytes, units * self.layout.unit_bytes)
    }

    fn note_owner(&mut self, owner: u64, class: usize, free: u64) {
        let its = &self.layout.classes[class];
        let place = usize::try_from(owner).ok().and_then(|owner| self.census.owners.get_mut(owner));
        if let Some(of) = place {
            of.slab_count += 1;
            of.slab_bytes += its.slab_units * self.layout.unit_bytes;
            of.free_bytes += free * its.block_bytes;
        }
    }

    /// Returns how many blocks are out.
    fn slab(&mut self, slab: u64, class: usize, owner: u64) -> u64 {
        let (layout, extent) = (self.layout, self.extent);
        let capacity = layout.classes[class].capacity;
        let words = 0..layout.bitmap_words(class);
        let remote: u32 = words.map(|word| extent.remote_word(layout, slab, word).count_ones()).sum();
        let free = layout.record.free_count.of(extent.record(layout, slab), 0).min(capacity) + u64::from(remote);
        self.census.classes[class].slabs += 1;
        self.census.classes[class].free += free;
        self.note_owner(owner, class, free);
        capacity.saturating_sub(free)
    }

    /// Each resident page, by what lies on it.
    fn measure_slab(&mut self, slab: u64, class: usize) {
        let (layout, page) = (self.layout, self.tables_page());
        let its = layout.classes[class];
        let start = self.tables.base + slab * layout.unit_bytes;
        let blocks_end = its.capacity * its.block_bytes;
        let bits = Bits { layout, extent: self.extent, slab };
        let (mut out, mut free, mut tail) = (0, 0, 0);
        for from in (0..its.slab_units * layout.unit_bytes).step_by(usize::try_from(page).expect("a page is small")) {
            if self.resident(start + from, page) == 0 {
                continue;
            }
            let to = (from + page).min(blocks_end.max(from));
            let free_here = bits.free_bytes_between(its.block_bytes, from, to);
            free += free_here;
            tail += from + page - to;
            out += to - from - free_here;
        }
        let census = &mut self.census.classes[class];
        census.out_resident_bytes += out;
        census.free_resident_bytes += free;
        census.tail_resident_bytes += tail;
    }

    fn tables_page(&self) -> u64 {
        self.extent.pages.as_ref().map_or(4096, |pages| pages.page)
    }

    /// What is dirty; what nobody has used since it was clean; and what lies on the shelf, or is between two layers
    /// just now, which has been used. The arena counts the last as in use. Several threads may have given back some
    /// MiB each while whoever was in the arena had no processor: that is dirty, as on the map.
    fn free_units(&mut self, first: u64, units: u64) -> u64 {
        let layout = self.layout;
        for unit in first..first + units {
            let superslab = self.extent.superslab(layout, unit);
            let has = |bits: u64| bits >> (unit % layout.superslab_units) & 1 != 0;
            let (is_used, is_dirty) = (has(layout.used.of(superslab, 0)), has(layout.dirty.of(superslab, 0)));
            if is_used {
                self.census.used = self.census.used.saturating_sub(layout.unit_bytes);
                self.census.dirty += layout.unit_bytes;
            }
            let is_clean = !is_used && !is_dirty;
            let what = if is_clean { What::Clean } else { What::Dirty };
            match self.census.runs.last_mut() {
                Some(run) if run.what == what && run.extent == self.index && run.first + run.units == unit => {
                    run.units += 1
                }
                _ => self.census.runs.push(Run { extent: self.index, first: unit, units: 1, what }),
            }
            if is_clean && !self.tables.is_measured {
                continue;
            }
            let resident = self.resident_units(unit, 1);
            if is_clean {
                self.census.slack_resident_bytes += resident;
            } else {
                self.census.dirty_resident_bytes += resident;
            }
        }
        units
    }
}

/// A slab's free blocks: its own bits, and those that other threads have freed.
struct Bits<'a> {
    layout: &'a Layout,
    extent: &'a Extent,
    slab: u64,
}

impl Bits<'_> {
    fn word(&self, word: u64) -> u64 {
        let word = usize::try_from(word).unwrap_or(usize::MAX / 16);
        self.extent.free_word(self.layout, self.slab, word) | self.extent.remote_word(self.layout, self.slab, word)
    }

    fn is_free(&self, number: u64) -> bool {
        self.word(number / 64) >> (number % 64) & 1 != 0
    }

    /// Free blocks from one number to before another.
    fn count(&self, from: u64, to: u64) -> u64 {
        let mut count = 0;
        let mut next = from;
        while next < to {
            let end = to.min((next / 64 + 1) * 64);
            let mut bits = self.word(next / 64) >> (next % 64);
            if end - next < 64 {
                bits &= (1 << (end - next)) - 1;
            }
            count += u64::from(bits.count_ones());
            next = end;
        }
        count
    }

    /// Bytes of free blocks in [from, to), offsets into the part of the slab that has blocks.
    fn free_bytes_between(&self, block: u64, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let (first, last) = (from / block, (to - 1) / block);
        if first == last {
            return if self.is_free(first) { to - from } else { 0 };
        }
        let mut bytes = self.count(first + 1, last) * block;
        if self.is_free(first) {
            bytes += (first + 1) * block - from;
        }
        if self.is_free(last) {
            bytes += to - last * block;
        }
        bytes
    }
}
