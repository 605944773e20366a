// SPDX-License-Identifier: MIT
//! A trace as the plan that helpers/replay.c carries out: for each thread its calls, each with the slot of its block
//! and how many calls about that slot come before it, and where a segment begins.

use std::collections::HashMap;
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::failure::{INTERRUPTED, failure};
use crate::files::Whole;
use crate::interrupt;
use crate::trace::read::Reader;
use crate::trace::resolve::AddressHasher;
use crate::trace::segments::{self, Segments};
use crate::trace::{Event, Kind, What};

const MAGIC: u64 = 0x324e_414c_504b_4148;
const MALLOC: u32 = 0;
const CALLOC: u32 = 1;
const ALIGNED: u32 = 2;
const REALLOC: u32 = 3;
const FREE: u32 = 4;
const WAS: u32 = 5;
const SEGMENT: u32 = 6;
const USED: u32 = 7;
const STEP_BYTES: usize = 16;
const HEAD_BYTES: usize = 40;
const THREAD_BYTES: usize = 24;
/// What a block counts for, beside its size, where it is about how much is live.
const BLOCK_BYTES: u64 = 16;
/// What fits into a step. No allocator gives more.
const MOST_SIZE: u64 = (1 << 54) - 1;
/// Of one thread's steps, before they are written.
const BUFFER: usize = 2048 * STEP_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    what: u32,
    slot: u32,
    turn: u32,
    size: u64,
    log2: u32,
}

impl Step {
    fn bytes(self) -> [u8; STEP_BYTES] {
        let size = self.size.min(MOST_SIZE);
        let what = self.what | self.log2 << 4 | ((size >> 32) as u32) << 10;
        let mut bytes = [0; STEP_BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip([what, self.slot, self.turn, size as u32]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

pub struct Plan {
    pub events: u64,
    /// How many of them are none of the program's: frees of what `exec` took along.
    pub exec_frees: u64,
    pub threads: usize,
    /// Why not all of the trace is in it.
    pub damage: Option<String>,
    pub command: Vec<String>,
}

/// Reads the trace three times: how much of large blocks the program used, and how much was live at the peak, has to be
/// known before their allocations are, and how long each thread's part is before they are written.
pub fn make(trace: &Whole, to: &Path) -> Result<Plan> {
    let mut first = Builder::with_peak(None);
    first.through(trace, |_, _| Ok(()))?;
    // Of one thread, segments do not matter.
    let peak = (first.parts.iter().flatten().count() > 1).then_some(first.segments.most_live);
    let mut counts = Vec::<u64>::new();
    let mut first = Builder { resident: first.seen, ..Builder::with_peak(peak) };
    let reader = first.through(trace, |thread, _| {
        if thread >= counts.len() {
            counts.resize(thread + 1, 0);
        }
        counts[thread] += 1;
        Ok(())
    })?;
    // Threads that did nothing have no part; the others come in the order in which they start.
    let parts: Vec<(u32, u32)> = first.parts.iter().flatten().copied().collect();
    let started = first.parts.iter().enumerate();
    let mut order: Vec<(u32, usize)> = started.filter_map(|(thread, part)| Some((part.as_ref()?.0, thread))).collect();
    order.sort_unstable();

    let failed = || format!("cannot write {}", to.display());
    let file = File::create(to).with_context(failed)?;
    let seats = segments::at_a_time(&parts);
    let counted = [order.len(), first.turns.len(), first.members.len(), seats].map(|count| count as u64);
    let mut head: Vec<u64> = [MAGIC].into_iter().chain(counted).collect();
    let size = HEAD_BYTES + order.len() * THREAD_BYTES + first.members.len() * 4;
    let mut offset = size.next_multiple_of(STEP_BYTES) as u64;
    let mut offsets = vec![0; counts.len()];
    for (segment, thread) in order.iter().copied() {
        offsets[thread] = offset;
        head.extend([offset, counts[thread], u64::from(segment)]);
        offset += counts[thread] * STEP_BYTES as u64;
    }
    let mut bytes: Vec<u8> = head.iter().flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend(first.members.iter().flat_map(|count| count.to_le_bytes()));
    file.write_all_at(&bytes, 0).with_context(failed)?;

    let mut buffers = vec![Vec::new(); counts.len()];
    let flush = |buffer: &mut Vec<u8>, offset: &mut u64| -> Result<()> {
        file.write_all_at(buffer, *offset).with_context(failed)?;
        *offset += buffer.len() as u64;
        buffer.clear();
        Ok(())
    };
    let mut second = Builder { resident: first.resident, ..Builder::with_peak(peak) };
    second.through(trace, |thread, step| {
        buffers[thread].extend_from_slice(&step.bytes());
        if buffers[thread].len() >= BUFFER { flush(&mut buffers[thread], &mut offsets[thread]) } else { Ok(()) }
    })?;
    buffers.iter_mut().zip(&mut offsets).try_for_each(|(buffer, offset)| flush(buffer, offset))?;
    Ok(Plan {
        events: first.events,
        exec_frees: first.exec_frees,
        threads: order.len(),
        damage: reader.damage,
        command: reader.header.command,
    })
}

#[derive(Default)]
struct Builder {
    events: u64,
    exec_frees: u64,
    /// By block: its slot and size, and which event gave it that size.
    live: HashMap<u64, (u32, u64, u64), BuildHasherDefault<AddressHasher>>,
    /// By event: how much of the block is resident in the end, where that is not all. What an earlier reading has seen.
    resident: HashMap<u64, u64>,
    seen: HashMap<u64, u64>,
    free: Vec<u32>,
    /// By slot: how many calls have been about it.
    turns: Vec<u32>,
    /// By segment: how many threads have a part in it.
    members: Vec<u32>,
    /// By thread: the first segment, and the last one up to now.
    parts: Vec<Option<(u32, u32)>>,
    segments: Segments,
}

impl Builder {
    fn with_peak(peak: Option<u64>) -> Builder {
        Builder { segments: Segments::with_peak(peak), ..Builder::default() }
    }

    fn through(&mut self, trace: &Whole, mut out: impl FnMut(usize, Step) -> Result<()>) -> Result<Reader> {
        let mut reader = Reader::open(trace)?;
        let mut events = Vec::new();
        loop {
            reader.next(&mut events);
            if events.is_empty() {
                return Ok(reader);
            }
            if interrupt::requested() {
                return Err(failure(INTERRUPTED, "interrupted before anything was replayed"));
            }
            for event in &events {
                self.step(event, &mut out)?;
            }
        }
    }

    fn step(&mut self, event: &Event, out: &mut impl FnMut(usize, Step) -> Result<()>) -> Result<()> {
        let thread = event.thread;
        match event.what {
            What::Time { .. } | What::Refused { .. } => return Ok(()),
            What::Image => {
                let mut blocks: Vec<u64> = self.live.keys().copied().collect();
                blocks.sort_unstable();
                self.exec_frees += blocks.len() as u64;
                for block in blocks {
                    self.step(&Event { thread, what: What::Free { block } }, out)?;
                }
                return Ok(());
            }
            What::Resident { block, bytes } => {
                if let Some((_, size, event)) = self.live.get(&block) {
                    self.seen.insert(*event, bytes.min(*size));
                }
                return Ok(());
            }
            _ => {}
        }
        let (allocated, freed) = self.bytes(event);
        let segment = self.segments.of(thread, allocated, freed)?;
        self.begin_segment(thread, segment, out)?;
        let index = self.events;
        self.events += 1;
        let mut say = |step| out(thread as usize, step);
        if let Some(bytes) = self.resident.get(&index) {
            say(Step { what: USED, slot: 0, turn: 0, size: *bytes, log2: 0 })?;
        }
        match event.what {
            What::Allocate { block, kind, size, alignment, .. } => {
                let what = match kind {
                    Kind::Malloc => MALLOC,
                    Kind::Calloc => CALLOC,
                    Kind::Aligned => ALIGNED,
                };
                // As memalign does where it is none; too large a one is refused again.
                let log2 = alignment.max(1).checked_next_power_of_two().map_or(63, u64::ilog2);
                let slot = match self.free.pop() {
                    Some(slot) => slot,
                    None => {
                        self.turns.push(0);
                        u32::try_from(self.turns.len() - 1)?
                    }
                };
                ensure!(self.live.insert(block, (slot, size, index)).is_none(), "a block is allocated twice");
                say(Step { what, slot, turn: self.turn(slot), size, log2 })
            }
            What::Reallocate { block, size, .. } => {
                let of = self.live.get_mut(&block).context("a block that is not live is reallocated")?;
                let (slot, was, _) = *of;
                *of = (slot, size, index);
                say(Step { what: WAS, slot, turn: 0, size: was, log2: 0 })?;
                say(Step { what: REALLOC, slot, turn: self.turn(slot), size, log2: 0 })
            }
            What::Free { block } => {
                let (slot, ..) = self.live.remove(&block).context("a block that is not live is freed")?;
                self.free.push(slot);
                say(Step { what: FREE, slot, turn: self.turn(slot), size: 0, log2: 0 })
            }
            _ => Ok(()),
        }
    }

    fn turn(&mut self, slot: u32) -> u32 {
        let turn = &mut self.turns[slot as usize];
        *turn = turn.wrapping_add(1);
        turn.wrapping_sub(1)
    }

    /// What it allocates and frees. `realloc` may have both blocks for a while.
    fn bytes(&self, event: &Event) -> (u64, u64) {
        let was = |block| self.live.get(&block).map_or(0, |(_, size, _)| size.saturating_add(BLOCK_BYTES));
        match event.what {
            What::Allocate { size, .. } => (size.saturating_add(BLOCK_BYTES), 0),
            What::Reallocate { block, size, .. } => (size.saturating_add(BLOCK_BYTES), was(block)),
            What::Free { block } => (0, was(block)),
            _ => (0, 0),
        }
    }

    fn begin_segment(
        &mut self,
        thread: u32,
        segment: u32,
        out: &mut impl FnMut(usize, Step) -> Result<()>,
    ) -> Result<()> {
        let index = thread as usize;
        if index >= self.parts.len() {
            self.parts.resize(index + 1, None);
        }
        let part = &mut self.parts[index];
        if part.is_some_and(|part| part.1 == segment) {
            return Ok(());
        }
        *part = Some((part.map_or(segment, |part| part.0), segment));
        // There may be empty ones between.
        self.members.resize(segment as usize + 1, 0);
        self.members[segment as usize] += 1;
        out(index, Step { what: SEGMENT, slot: segment, turn: 0, size: 0, log2: 0 })
    }
}
