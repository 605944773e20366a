// SPDX-License-Identifier: MIT
//! What a trace says of its program: sizes, lifetimes, who frees, what grows, what lies badly.

use anyhow::Result;
use serde::Serialize;

use crate::files::Whole;
use crate::trace::live::{Block, Live};
use crate::trace::read::Reader;
use crate::trace::{Event, What};

/// Blocks from that size on are large: each is a slab of its own in hakmem.
pub const LARGE: u64 = 64 << 10;
/// And short-lived, if fewer allocations come before their free.
pub const SHORT: u64 = 100;
/// In a chain there are so many `realloc` of one block.
pub const CHAIN: u32 = 3;
/// Lifetimes in allocations that come before the free; the last band is beyond.
pub const LIVES: [u64; 5] = [10, 100, 1000, 10_000, 100_000];

/// Blocks of some sizes: up to 16 bytes, and twice as much each.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Band {
    pub up_to: u64,
    pub allocations: u64,
    pub bytes: u64,
    /// How many lived so long, as LIVES has it; those that were never freed are `kept`, also those that `exec` took along.
    pub lives: [u64; LIVES.len() + 1],
    pub kept: u64,
    /// When the pages were filled least: live blocks and bytes, and the pages' bytes that were theirs.
    pub live_then: u64,
    pub bytes_then: u64,
    pub page_bytes_then: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Facts {
    pub command: Vec<String>,
    pub seconds: f64,
    pub events: u64,
    pub threads: u64,
    pub allocations: u64,
    pub callocs: u64,
    pub aligned: u64,
    pub largest_alignment: u64,
    pub bytes: u64,
    pub reallocations: u64,
    pub refused: u64,
    pub frees: u64,
    pub frees_by_others: u64,
    pub peak_bytes: u64,
    pub peak_blocks: u64,
    pub peak_ms: u64,
    pub end_bytes: u64,
    pub end_blocks: u64,
    /// What was live when the program became another one. Nobody freed it, but a replay does.
    pub exec_bytes: u64,
    pub exec_blocks: u64,
    /// Blocks with CHAIN calls of `realloc` or more; of all, how many moved, and what those held before.
    pub chains: u64,
    pub longest_chain: u32,
    pub moved: u64,
    pub moved_bytes: u64,
    pub short_large: u64,
    pub short_large_bytes: u64,
    /// Allocations that came to lie in a cache line with a live block of another thread.
    pub shared_lines: u64,
    /// When the pages that live blocks touch were filled least, after the peak.
    pub least_filled_ms: u64,
    pub least_filled_bytes: u64,
    pub least_filled_page_bytes: u64,
    pub bands: Vec<Band>,
    /// What the trace does not have.
    pub lost: u64,
    pub unknown: u64,
    pub implied: u64,
    pub damage: Option<String>,
}

pub fn band_of(size: u64) -> usize {
    size.max(16).checked_next_power_of_two().map_or(60, |power| power.trailing_zeros() as usize - 4)
}

/// Twice through the file, as only the first time tells where to look the second time.
pub fn gather(trace: &Whole) -> Result<Facts> {
    let mut first = Walk::default();
    let mut reader = Reader::open(trace)?;
    first.through(&mut reader, u64::MAX);
    let mut facts = first.end();
    facts.command = reader.header.command.clone();
    facts.damage = reader.damage.take();
    (facts.unknown, facts.implied) = (reader.resolver.unknown, reader.resolver.implied);
    if let Some(footer) = reader.footer {
        facts.lost = footer.lost;
        facts.seconds = footer.seconds;
    }
    if let Some(place) = first.worst.filter(|place| place.page_bytes > 0) {
        (facts.least_filled_ms, facts.least_filled_bytes) = (place.ms, place.bytes);
        facts.least_filled_page_bytes = place.page_bytes;
        let mut second = Walk::default();
        second.through(&mut Reader::open(trace)?, place.event);
        for block in second.live.blocks.values() {
            let band = &mut facts.bands[band_of(block.size)];
            band.live_then += 1;
            band.bytes_then = band.bytes_then.saturating_add(block.size);
            band.page_bytes_then += (block.pages(&second.live) * 4096.0) as u64;
        }
    }
    facts.bands.retain(|band| band.allocations > 0 || band.live_then > 0);
    Ok(facts)
}

#[derive(Clone, Copy)]
struct Place {
    event: u64,
    ms: u64,
    bytes: u64,
    page_bytes: u64,
}

#[derive(Default)]
struct Walk {
    live: Live,
    facts: Facts,
    microseconds: u64,
    threads: std::collections::BTreeSet<u32>,
    /// Where most bytes of pages were not of live blocks, since the peak.
    worst: Option<Place>,
}

/// So often the pages are looked at.
const LOOK: u64 = 256;

impl Walk {
    fn through(&mut self, reader: &mut Reader, until: u64) {
        self.facts.bands =
            (0..64).map(|band| Band { up_to: 16u64.checked_shl(band).unwrap_or(0), ..Band::default() }).collect();
        let mut events = Vec::new();
        let mut count = 0;
        while count < until {
            reader.next(&mut events);
            if events.is_empty() {
                break;
            }
            for event in &events {
                if count == until {
                    break;
                }
                count += 1;
                self.step(event);
                if count.is_multiple_of(LOOK) {
                    self.look(count);
                }
            }
        }
    }

    fn look(&mut self, event: u64) {
        let (bytes, page_bytes) = (self.live.bytes, self.live.page_bytes());
        let gap = |place: &Place| place.page_bytes.saturating_sub(place.bytes);
        let place = Place { event, ms: self.microseconds / 1000, bytes, page_bytes };
        if self.worst.as_ref().is_none_or(|worst| gap(worst) < gap(&place)) {
            self.worst = Some(place);
        }
    }

    fn step(&mut self, event: &Event) {
        let facts = &mut self.facts;
        if !matches!(event.what, What::Time { .. } | What::Resident { .. }) {
            facts.events += 1;
            self.threads.insert(event.thread);
        }
        match event.what {
            What::Allocate { block, kind, size, alignment, address } => {
                let born = facts.allocations;
                facts.allocations += 1;
                facts.bytes = facts.bytes.saturating_add(size);
                facts.callocs += u64::from(kind == crate::trace::Kind::Calloc);
                facts.aligned += u64::from(kind == crate::trace::Kind::Aligned);
                facts.largest_alignment = facts.largest_alignment.max(alignment);
                let band = &mut facts.bands[band_of(size)];
                band.allocations += 1;
                band.bytes = band.bytes.saturating_add(size);
                let thread = event.thread;
                self.insert(block, Block { size, address, thread, born, first_size: size, reallocations: 0 });
            }
            What::Reallocate { block, size, address } => {
                facts.reallocations += 1;
                if let Some(before) = self.live.remove(block) {
                    if before.address != address {
                        facts.moved += 1;
                        facts.moved_bytes = facts.moved_bytes.saturating_add(before.size.min(size));
                    }
                    let reallocations = before.reallocations + 1;
                    facts.chains += u64::from(reallocations == CHAIN);
                    facts.longest_chain = facts.longest_chain.max(reallocations);
                    self.insert(block, Block { size, address, reallocations, ..before });
                }
            }
            What::Free { block } => {
                facts.frees += 1;
                if let Some(block) = self.live.remove(block) {
                    self.freed(&block, event.thread);
                }
            }
            What::Refused { .. } => facts.refused += 1,
            What::Resident { .. } => {}
            What::Time { microseconds } => self.microseconds = microseconds,
            What::Image => {
                facts.exec_bytes = facts.exec_bytes.saturating_add(self.live.bytes);
                facts.exec_blocks += self.live.blocks.len() as u64;
                self.keep();
                self.live = Live::default();
            }
        }
    }

    fn insert(&mut self, name: u64, block: Block) {
        let facts = &mut self.facts;
        facts.shared_lines += u64::from(self.live.insert(name, block));
        if self.live.bytes > facts.peak_bytes {
            facts.peak_bytes = self.live.bytes;
            facts.peak_blocks = self.live.blocks.len() as u64;
            facts.peak_ms = self.microseconds / 1000;
        }
    }

    fn freed(&mut self, block: &Block, thread: u32) {
        let facts = &mut self.facts;
        facts.frees_by_others += u64::from(thread != block.thread);
        let life = facts.allocations - block.born - 1;
        let band = LIVES.iter().position(|most| life < *most).unwrap_or(LIVES.len());
        facts.bands[band_of(block.first_size)].lives[band] += 1;
        if block.size >= LARGE && life < SHORT {
            facts.short_large += 1;
            facts.short_large_bytes = facts.short_large_bytes.saturating_add(block.size);
        }
    }

    /// What is live now is never freed.
    fn keep(&mut self) {
        for block in self.live.blocks.values() {
            self.facts.bands[band_of(block.first_size)].kept += 1;
        }
    }

    fn end(&mut self) -> Facts {
        self.keep();
        let mut facts = std::mem::take(&mut self.facts);
        facts.threads = self.threads.len() as u64;
        facts.seconds = self.microseconds as f64 / 1e6;
        facts.end_bytes = self.live.bytes;
        facts.end_blocks = self.live.blocks.len() as u64;
        facts
    }
}
