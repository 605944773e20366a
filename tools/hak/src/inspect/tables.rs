// SPDX-License-Identifier: MIT
//! The allocator's tables as they were a moment ago: copied out of a process that goes on meanwhile.
//!
//! What may be torn is recognised by being read twice, and by what holds of it (docs/design.md, "Invariants"): a
//! slab has as many free bits as its record says. A SuperSlab or a heap of which that is not so is read again, some
//! times; then it is "moving", and what was read last counts. All of it is read again if the heap has grown meanwhile;
//! what it has grown by in the last time is moving, too.

use anyhow::{Context, Result};

use crate::failure::{SOMETHING_FAILED, failure};
use crate::inspect::fields::{Field, number};
use crate::inspect::layout::Layout;
use crate::inspect::pages::{Pagemap, Pages};
use crate::inspect::target::{Piece, Target};

/// After the first time.
const TRIES: usize = 8;
/// So often all of it is read, if it grows meanwhile.
const GROWTHS: usize = 3;
const WORD_BYTES: u64 = 4;
/// Of the largest window, 16 TiB.
const MOST_UNITS: u64 = 1 << 28;

pub struct Tables {
    /// The window's first byte; 0 as long as nothing has been asked for.
    pub base: u64,
    pub units: u64,
    pub extents: Vec<Extent>,
    /// One record a heap, in order of their numbers, from 1 on.
    pub heaps: Vec<HeapCopy>,
    /// Heaps of no thread, for slabs that sleeping threads do not use.
    pub orphanages: Vec<u64>,
    /// Classes and blocks of what is on its way from thread to thread.
    pub depot: Vec<(usize, u64)>,
    pub pooled_count: u64,
    pub peak_units: u64,
    pub metadata_bytes: u64,
    /// `None`: it cannot be known what is resident.
    pub metadata_resident_bytes: Option<u64>,
    pub figures: Vec<(&'static str, u64)>,
    pub moving_superslabs: u64,
    pub moving_heaps: u64,
    pub is_measured: bool,
}

pub struct HeapCopy {
    pub record: Vec<u8>,
    /// Of each magazine, where blocks were taken out of the middle (src/front/strip.h).
    pub gaps: Vec<u64>,
    /// Classes and blocks of what it has freed of others', and of what others have freed of its own and it has not
    /// taken in yet.
    pub on_the_way: Vec<(usize, u64)>,
}

/// Units [first, end), with their elements of the tables.
pub struct Extent {
    pub first: u64,
    pub end: u64,
    pub pages: Option<Pages>,
    part: Part,
}

/// Elements of the tables for some units.
#[derive(Default)]
struct Part {
    words: Vec<u8>,
    records: Vec<u8>,
    superslabs: Vec<u8>,
    free_bits: Vec<u8>,
    remote_bits: Vec<u8>,
}

/// Where the tables begin in the process.
struct Places {
    words: u64,
    records: u64,
    superslabs: u64,
    free_bits: u64,
    remote_bits: u64,
}

struct Reader<'a> {
    target: &'a Target,
    layout: &'a Layout,
    pagemap: Option<&'a Pagemap>,
    places: Places,
}

/// A crate's state says how many blocks are in it, in its lower half; more than fit are none (src/slab/depot.h).
fn depot(target: &Target, layout: &Layout) -> Result<Vec<(usize, u64)>> {
    let Some(depot) = &layout.variables.depot else { return Ok(Vec::new()) };
    let racks = depot.racks.elements(target, 0)?;
    let mut classes = Vec::new();
    for (index, rack) in racks.iter().enumerate().filter(|(_, rack)| **rack != 0) {
        let class = index * layout.single_from / racks.len();
        let counts = depot.states.elements(target, *rack)?.into_iter().map(|state| state & u64::from(u32::MAX));
        classes.extend(counts.filter(|count| (1..=depot.crate_blocks).contains(count)).map(|count| (class, count)));
    }
    Ok(classes)
}

impl Tables {
    pub fn read(target: &Target, layout: &Layout) -> Result<Tables> {
        let variables = &layout.variables;
        let pagemap = Pagemap::open(target);
        let mut figures = Vec::new();
        for (name, field) in &variables.figures {
            figures.push((*name, field.value(target)?));
        }
        let mut tables = Tables {
            base: variables.base.value(target)?,
            units: variables.units.value(target)?,
            extents: Vec::new(),
            heaps: Vec::new(),
            orphanages: variables.orphanages.elements(target, 0)?.into_iter().filter(|id| *id != 0).collect(),
            depot: depot(target, layout)?,
            pooled_count: variables.pooled_count.value(target)?,
            peak_units: variables.peak_units.value(target)?,
            metadata_bytes: variables.table_bytes.value(target)? + variables.metadata_bytes.value(target)?,
            metadata_resident_bytes: None,
            figures,
            moving_superslabs: 0,
            moving_heaps: 0,
            is_measured: pagemap.is_some(),
        };
        if tables.units == 0 {
            return Ok(tables);
        }
        let reader = Reader {
            target,
            layout,
            pagemap: pagemap.as_ref(),
            places: Places {
                words: tables.base,
                records: variables.records.value(target)?,
                superslabs: variables.superslabs.value(target)?,
                free_bits: variables.free_bits.value(target)?,
                remote_bits: variables.remote_bits.value(target)?,
            },
        };
        reader.extents(&mut tables)?;
        tables.is_measured &= tables.extents.iter().all(|extent| extent.pages.is_some());
        reader.heaps(&mut tables)?;
        if let Some(pagemap) = &pagemap {
            tables.metadata_resident_bytes = reader.metadata_resident(pagemap, &tables)?;
            tables.is_measured &= tables.metadata_resident_bytes.is_some();
        }
        if !tables.is_measured {
            target.check()?; // if it has ended, that is why
        }
        Ok(tables)
    }
}

/// The first unit, and the end; that of a zone's last extent as far as it is mapped, where what lies there is clean.
fn extents(target: &Target, layout: &Layout, units: u64) -> Result<Vec<(u64, u64)>> {
    let variables = &layout.variables;
    let mut found = Vec::new();
    // In this order: how far the last extent is mapped only grows, but there may be another last one meanwhile.
    let (mapped, counts) = (variables.mapped_to.elements(target, 0)?, variables.extent_count.elements(target, 0)?);
    for (zone, (count, mapped_to)) in counts.into_iter().zip(mapped).enumerate() {
        let behind = zone as u64 * variables.zone_bytes;
        let firsts = variables.extent_first.elements(target, behind)?;
        let mut ends = variables.extent_end.elements(target, behind)?;
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(firsts.len());
        if let Some(last) = ends[..count].last_mut().filter(|last| **last > 0) {
            *last = mapped_to.max(*last);
        }
        for (first, end) in firsts.into_iter().zip(ends).take(count) {
            let superslab = layout.superslab_units;
            if first > end
                || end > units.min(MOST_UNITS)
                || !first.is_multiple_of(superslab)
                || !end.is_multiple_of(superslab)
            {
                let message = format!("process {}: the extents of its heap make no sense", target.pid);
                return Err(failure(SOMETHING_FAILED, message));
            }
            if first < end {
                found.push((first, end));
            }
        }
    }
    Ok(found)
}

impl Reader<'_> {
    /// Again if the heap has grown meanwhile: a block may reach beyond what was its end.
    fn extents(&self, tables: &mut Tables) -> Result<()> {
        let mut bounds = extents(self.target, self.layout, tables.units)?;
        for _ in 0..GROWTHS {
            let (found, moving) = self.within(tables.base, &bounds)?;
            let now = extents(self.target, self.layout, tables.units)?;
            let units = |bounds: &[(u64, u64)]| bounds.iter().map(|(first, end)| end - first).sum::<u64>();
            let grown = units(&now).saturating_sub(units(&bounds)) / self.layout.superslab_units;
            (tables.extents, tables.moving_superslabs) = (found, moving + grown);
            if grown == 0 {
                break;
            }
            bounds = now;
        }
        Ok(())
    }

    /// Returns how many SuperSlabs were moving, too.
    fn within(&self, base: u64, bounds: &[(u64, u64)]) -> Result<(Vec<Extent>, u64)> {
        let (mut found, mut all_moving) = (Vec::new(), 0);
        for &(first, end) in bounds {
            let (mut extent, moving) = self.extent(first, end)?;
            all_moving += moving;
            extent.pages = self.pagemap.and_then(|pagemap| {
                pagemap.pages(base + first * self.layout.unit_bytes, base + end * self.layout.unit_bytes, true)
            });
            found.push(extent);
        }
        Ok((found, all_moving))
    }

    /// Elements of a table; what was never touched is zero, and is not touched.
    fn table(&self, from: u64, bytes: u64) -> Result<Vec<u8>> {
        let bytes_here = usize::try_from(bytes)?;
        // What a process says of itself may be anything: more than there is room for ends no look at others.
        Vec::<u8>::new().try_reserve_exact(bytes_here).context("its tables are larger than what there is room for")?;
        let mut into = vec![0; bytes_here]; // of zeros that nobody writes
        let page = self.target.page;
        let (first, last) = (from / page * page, (from + bytes).next_multiple_of(page));
        let rows = match self.pagemap.and_then(|pagemap| pagemap.pages(first, last, false)) {
            Some(pages) => pages.rows_with_contents(),
            None => vec![(first, last)],
        };
        let mut pieces = Vec::new();
        let (mut rest, mut rest_at) = (&mut into[..], from);
        for (row_from, row_to) in rows {
            let (row_from, row_to) = (row_from.max(from), row_to.min(from + bytes));
            let behind = rest.split_at_mut(usize::try_from(row_from - rest_at)?).1;
            let (wanted, behind) = behind.split_at_mut(usize::try_from(row_to - row_from)?);
            pieces.push(Piece { at: row_from, into: wanted });
            (rest, rest_at) = (behind, row_to);
        }
        self.target.read_all(&mut pieces)?;
        Ok(into)
    }

    fn books(&self, first: u64, end: u64) -> Result<Part> {
        let (layout, places) = (self.layout, &self.places);
        let superslabs = layout.superslab_units;
        Ok(Part {
            words: self.table(places.words + first * WORD_BYTES, (end - first) * WORD_BYTES)?,
            records: self.table(places.records + first * layout.record_bytes, (end - first) * layout.record_bytes)?,
            superslabs: self.table(
                places.superslabs + first / superslabs * layout.superslab_bytes,
                (end - first) / superslabs * layout.superslab_bytes,
            )?,
            ..Part::default()
        })
    }

    fn part(&self, first: u64, end: u64) -> Result<Part> {
        let each = self.layout.bitmap_bytes;
        Ok(Part {
            free_bits: self.table(self.places.free_bits + first * each, (end - first) * each)?,
            remote_bits: self.table(self.places.remote_bits + first * each, (end - first) * each)?,
            ..self.books(first, end)?
        })
    }

    /// Returns how many SuperSlabs were moving, too.
    fn extent(&self, first: u64, end: u64) -> Result<(Extent, u64)> {
        let mut extent = Extent { first, end, pages: None, part: self.part(first, end)? };
        let again = self.books(first, end)?;
        let (units, mut moving) = (self.layout.superslab_units, 0);
        for at in (first..end).step_by(usize::try_from(units)?) {
            if extent.part.is_whole(self.layout, at - first, &again, at - first) {
                continue;
            }
            let mut is_whole = false;
            for _ in 0..TRIES {
                let part = self.part(at, at + units)?;
                let again = self.books(at, at + units)?;
                is_whole = part.is_whole(self.layout, 0, &again, 0);
                extent.part.replace(self.layout, at - first, &part);
                if is_whole {
                    break;
                }
            }
            moving += u64::from(!is_whole);
        }
        Ok((extent, moving))
    }

    fn heaps(&self, tables: &mut Tables) -> Result<()> {
        const MOST_HEAPS: u64 = 1 << 24;
        let variables = &self.layout.variables;
        let (at, count) = (variables.heaps.value(self.target)?, variables.owner_count.value(self.target)?);
        let each = usize::try_from(self.layout.heap_bytes)?;
        let count = usize::try_from(count.min(MOST_HEAPS))?;
        let (all, again) = (self.target.read(at, count * each)?, self.target.read(at, count * each)?);
        for (index, (heap, again)) in all.chunks(each).zip(again.chunks(each)).enumerate() {
            let mut heap = heap.to_vec();
            let mut is_whole = self.is_whole_heap(&heap, again);
            for _ in 0..TRIES {
                if is_whole {
                    break;
                }
                let from = at + (index * each) as u64;
                heap = self.target.read(from, each)?;
                is_whole = self.is_whole_heap(&heap, &self.target.read(from, each)?);
            }
            tables.moving_heaps += u64::from(!is_whole);
            let (gaps, on_the_way) = (self.gaps(&heap)?, self.on_the_way(&heap)?);
            tables.heaps.push(HeapCopy { record: heap, gaps, on_the_way });
        }
        Ok(())
    }

    /// Its magazines have the arrays that they had, and are no fuller than those. The newest blocks may come and go.
    fn is_whole_heap(&self, heap: &[u8], again: &[u8]) -> bool {
        let fields = &self.layout.heap;
        (0..self.layout.classes.len()).all(|class| {
            let (limit, top) = (fields.limit.of(heap, class), fields.top.of(heap, class));
            let capacity = fields.capacity.of(heap, class);
            let room = limit.wrapping_sub(top) / 8;
            limit == fields.limit.of(again, class)
                && capacity == fields.capacity.of(again, class)
                && (room <= capacity || limit == 0)
        })
    }

    fn gaps(&self, heap: &[u8]) -> Result<Vec<u64>> {
        let fields = &self.layout.heap;
        let mut gaps = vec![0; self.layout.classes.len()];
        if fields.stripped.of(heap, 0) == 0 {
            return Ok(gaps);
        }
        for (class, gaps) in gaps.iter_mut().enumerate() {
            let count = self.layout.magazine_count(heap, class);
            let from = fields.top.of(heap, class).wrapping_sub(count * 8).wrapping_add(8);
            let mut slots = vec![0; usize::try_from(count * 8)?];
            if count > 0 && self.target.read_all(&mut [Piece { at: from, into: &mut slots }])? == 0 {
                *gaps = slots.chunks(8).filter(|slot| number(slot) == 0).count() as u64;
            }
        }
        Ok(gaps)
    }

    /// Of the outbox, the parcels that are being packed, and the mail. What moves meanwhile is seen as it comes; no
    /// number is trusted.
    fn on_the_way(&self, heap: &[u8]) -> Result<Vec<(usize, u64)>> {
        let (heap_fields, fields) = (&self.layout.heap, &self.layout.parcel);
        let mut found = Vec::new();
        let mut add = |record: &[u8], bits: &Field, class: &Field, count: usize| {
            for index in 0..count.min(bits.count) {
                let blocks = u64::from(bits.of(record, index).count_ones());
                let class = usize::try_from(class.of(record, index)).unwrap_or(usize::MAX);
                if blocks > 0 && class < self.layout.single_from {
                    found.push((class, blocks));
                }
            }
        };
        let read = |at: u64, last: &Field| -> Result<Option<Vec<u8>>> {
            let end = usize::try_from(last.at)? + last.count * last.stride.max(last.bytes);
            let mut record = vec![0; end.min(1 << 16)];
            let missing = self.target.read_all(&mut [Piece { at, into: &mut record }])?;
            Ok((missing == 0).then_some(record))
        };
        let outbox = heap_fields.outbox.of(heap, 0);
        if outbox != 0
            && let Some(record) = read(outbox, &fields.outbox_bits)?
        {
            add(&record, &fields.outbox_bits, &fields.outbox_class, fields.outbox_bits.count);
        }
        let metadata = self.layout.variables.metadata.value(self.target)?;
        let packed = (0..heap_fields.parcels.count).map(|index| (heap_fields.parcels.of(heap, index), 1));
        let mail = [heap_fields.mail_taken.of(heap, 0), heap_fields.mail.of(heap, 0) & u64::from(u32::MAX)];
        for (mut number, most) in packed.chain(mail.map(|number| (number, fields.mail_most))) {
            for _ in 0..most {
                if number == 0 {
                    break;
                }
                let Some(record) = read(metadata.wrapping_add(number * fields.step), &fields.bits)? else { break };
                add(&record, &fields.bits, &fields.class, usize::try_from(fields.count.of(&record, 0))?);
                number = fields.next.of(&record, 0);
            }
        }
        Ok(found)
    }

    /// Of what may be written before the zones begin.
    fn metadata_resident(&self, pagemap: &Pagemap, tables: &Tables) -> Result<Option<u64>> {
        let first = self.layout.variables.zone_first.elements(self.target, 0)?.into_iter().min().unwrap_or(0);
        let end = tables.base + first * self.layout.unit_bytes;
        let mut resident = 0;
        for mapping in self.target.mappings()?.iter().filter(|mapping| mapping.writable && mapping.inode == 0) {
            let (from, to) = (mapping.from.max(tables.base), mapping.to.min(end));
            if from >= to {
                continue;
            }
            let Some(pages) = pagemap.pages(from, to, true) else { return Ok(None) };
            resident += pages.resident_bytes(from, to);
        }
        Ok(Some(resident))
    }
}

fn element(table: &[u8], index: u64, bytes: u64) -> &[u8] {
    let from = usize::try_from(index * bytes).unwrap_or(usize::MAX);
    table.get(from..from + usize::try_from(bytes).unwrap_or(0)).unwrap_or_default()
}

fn bit_word(table: &[u8], layout: &Layout, unit: u64, word: usize) -> u64 {
    let from = usize::try_from(unit * layout.bitmap_bytes).unwrap_or(usize::MAX) + word * 8;
    table.get(from..from + 8).map_or(0, number)
}

/// Units are counted from the part's first.
impl Part {
    fn word(&self, unit: u64) -> u64 {
        number(element(&self.words, unit, WORD_BYTES))
    }

    fn record(&self, layout: &Layout, unit: u64) -> &[u8] {
        element(&self.records, unit, layout.record_bytes)
    }

    fn superslab(&self, layout: &Layout, unit: u64) -> &[u8] {
        element(&self.superslabs, unit / layout.superslab_units, layout.superslab_bytes)
    }

    /// Whether a SuperSlab of this part is as it was in another, which was read later, and its slabs are whole.
    fn is_whole(&self, layout: &Layout, from: u64, again: &Part, its: u64) -> bool {
        let (one, other) = (self.superslab(layout, from), again.superslab(layout, its));
        let same = |field: &Field, one: &[u8], other: &[u8]| field.of(one, 0) == field.of(other, 0);
        if !same(&layout.used, one, other) || !same(&layout.dirty, one, other) {
            return false;
        }
        (0..layout.superslab_units).all(|unit| {
            let (record, other) = (self.record(layout, from + unit), again.record(layout, its + unit));
            self.word(from + unit) == again.word(its + unit)
                && same(&layout.record.run_units, record, other)
                && same(&layout.record.free_count, record, other)
                && self.has_its_free_bits(layout, from + unit)
        })
    }

    /// As many bits as its record says; true of what is no slab's first unit.
    fn has_its_free_bits(&self, layout: &Layout, unit: u64) -> bool {
        let word = self.word(unit);
        let class = usize::try_from(word & ((1 << layout.owner_shift) - 1)).unwrap_or(usize::MAX);
        let Some(its) = layout.classes.get(class) else { return true };
        if word >> layout.owner_shift == 0 || layout.is_single(class) || !unit.is_multiple_of(its.slab_units) {
            return true;
        }
        let words = 0..layout.bitmap_words(class);
        let bits: u32 = words.map(|word| bit_word(&self.free_bits, layout, unit, word).count_ones()).sum();
        u64::from(bits) == layout.record.free_count.of(self.record(layout, unit), 0)
    }

    /// Puts a SuperSlab in place that was read again.
    fn replace(&mut self, layout: &Layout, unit: u64, other: &Part) {
        let put = |table: &mut Vec<u8>, index: u64, bytes: u64, other: &[u8]| {
            let from = usize::try_from(index * bytes).unwrap_or(usize::MAX);
            if let Some(place) = table.get_mut(from..from + other.len()) {
                place.copy_from_slice(other);
            }
        };
        put(&mut self.words, unit, WORD_BYTES, &other.words);
        put(&mut self.records, unit, layout.record_bytes, &other.records);
        put(&mut self.superslabs, unit / layout.superslab_units, layout.superslab_bytes, &other.superslabs);
        put(&mut self.free_bits, unit, layout.bitmap_bytes, &other.free_bits);
        put(&mut self.remote_bits, unit, layout.bitmap_bytes, &other.remote_bits);
    }
}

/// Units are counted as the allocator counts them.
impl Extent {
    pub fn word(&self, unit: u64) -> u64 {
        self.part.word(unit - self.first)
    }

    pub fn record(&self, layout: &Layout, unit: u64) -> &[u8] {
        self.part.record(layout, unit - self.first)
    }

    pub fn superslab(&self, layout: &Layout, unit: u64) -> &[u8] {
        self.part.superslab(layout, unit - self.first)
    }

    pub fn free_word(&self, layout: &Layout, slab: u64, word: usize) -> u64 {
        bit_word(&self.part.free_bits, layout, slab - self.first, word)
    }

    pub fn remote_word(&self, layout: &Layout, slab: u64, word: usize) -> u64 {
        bit_word(&self.part.remote_bits, layout, slab - self.first, word)
    }
}
