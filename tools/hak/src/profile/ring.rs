// SPDX-License-Identifier: MIT
//! The samples that a process keeps for who reads them (src/front/record.h): begun, read and ended from outside.

mod fields;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};
use crate::inspect::fields::{Field, Root, number};
use crate::inspect::layout::Layout;
use crate::inspect::target::{Piece, Target};
use crate::profile::ring::fields::Fields;

/// What a thread has begun to write and not ended after this long is given up: the thread is gone, or sleeps.
const PATIENCE: Duration = Duration::from_millis(200);
/// Who reads gives a sign of it more often than this, if it runs at all.
const BEAT: Duration = Duration::from_millis(200);
/// Of two who begin at once, each has written its number after this long, and one has been overwritten.
const CONFIRMATION: Duration = Duration::from_millis(20);
/// In a heap's number that its frees compare with: sample.h.
const SAMPLES: u8 = 0x80;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers {
    pub pc: u64,
    /// x86-64: rsp, rbp; aarch64: sp, x29, x30.
    pub all: Vec<u64>,
    pub stack: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Allocated {
        bytes: u64,
        mean_bytes: u64,
        /// `None`: it could not be kept, or was written over.
        stack: Option<Registers>,
    },
    Freed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub thread: u32,
    pub block: u64,
    pub time_ms: u64,
    pub what: What,
}

pub struct Ring {
    fields: Fields,
    id_word: Field,
    next: u64,
    /// Every stack before this number was read.
    next_stack: u64,
    /// Those that were taken by the round before.
    stacks_before: u64,
    stuck: Option<(u64, Instant)>,
    dropped_before: u64,
    /// Events that were written over before they were read, or never completed.
    pub lost: u64,
    /// Samples without a stack.
    pub lost_stacks: u64,
    beat: u32,
}

fn taken(target: &Target, reader: u64) -> anyhow::Error {
    failure(BAD_INPUT, format!("process {} is profiled already, by process {reader}", target.pid))
}

/// Makes it zero. What is zero is not written to: most of it was never used, and would be resident then.
fn clear(target: &Target, at: u64, bytes: u64) -> Result<()> {
    let table = target.read(at, usize::try_from(bytes)?)?;
    let words: Vec<u64> = table.chunks(8).map(number).collect();
    let mut next = at;
    for run in words.chunk_by(|one, other| (*one == 0) == (*other == 0)) {
        let end = (next + run.len() as u64 * 8).min(at + bytes);
        if run[0] != 0 {
            target.write(next, &vec![0; usize::try_from(end - next)?])?;
        }
        next = end;
    }
    Ok(())
}

impl Ring {
    pub fn of(target: &Target, root: &Root) -> Result<Ring> {
        let fields = Fields::of(root)?;
        if !fields.is_sane() {
            let message = format!("process {}: the samples have sizes that this hak does not know", target.pid);
            return Err(failure(SOMETHING_FAILED, message));
        }
        let id_word = root.member("heap.id_word")?;
        let dropped_before = fields.dropped_count.value(target)?;
        Ok(Ring {
            fields,
            id_word,
            next: 0,
            next_stack: 0,
            stacks_before: 0,
            stuck: None,
            dropped_before,
            lost: 0,
            lost_stacks: 0,
            beat: 0,
        })
    }

    /// From now on it samples, or goes on to; unless another hak reads its samples.
    pub fn start(&mut self, target: &Target, layout: &Layout, mean_bytes: u64) -> Result<()> {
        self.take_over(target)?;
        self.begin(target, mean_bytes)?;
        self.nudge(target, layout)
    }

    fn begin(&mut self, target: &Target, mean_bytes: u64) -> Result<()> {
        // Who was there has left it on.
        target.write(self.fields.mean_bytes.at, &[0; 8])?;
        let record = self.fields.record.value(target)?;
        if record != 0 {
            // What others have left behind: blocks that they watched.
            clear(target, record + self.fields.at_watched, self.fields.watched * 8)?;
            clear(target, record + self.fields.at_filter, self.fields.filter)?;
        }
        self.next = self.fields.event_count.value(target)?;
        self.next_stack = self.fields.stack_count.value(target)?;
        self.beat(target)?;
        target.write(self.fields.mean_bytes.at, &mean_bytes.to_le_bytes())
    }

    /// Becomes the reader, if there is none. One that has been killed is still named, and so is its wish for samples;
    /// a program that was started with HAKMEM_SAMPLE has a wish and no reader.
    fn take_over(&mut self, target: &Target) -> Result<()> {
        let reader = self.fields.reader.value(target)?;
        if reader != 0 && self.is_on(target)? {
            let beat = self.fields.beat.value(target)?;
            let since = Instant::now();
            while since.elapsed() < BEAT {
                if self.fields.beat.value(target)? != beat {
                    return Err(taken(target, reader));
                }
                thread::sleep(CONFIRMATION / 4);
            }
        }
        self.name_reader(target)?;
        thread::sleep(CONFIRMATION);
        self.check_reader(target).map_err(|_| taken(target, self.fields.reader.value(target).unwrap_or(0)))
    }

    /// Says who reads, in a process that samples from its start.
    pub fn claim(&mut self, target: &Target) -> Result<()> {
        self.name_reader(target)?;
        self.beat(target)
    }

    fn name_reader(&mut self, target: &Target) -> Result<()> {
        // The process must see another beat than it has seen last, however long ago.
        self.beat = u32::try_from(self.fields.beat.value(target)?)?;
        target.write(self.fields.reader.at, &std::process::id().to_le_bytes())
    }

    /// Whether this is the reader still. Another one may have taken it for dead, when it was stopped for a while, and
    /// has the samples then.
    pub fn check_reader(&self, target: &Target) -> Result<()> {
        match self.fields.reader.value(target)? {
            reader if reader == u64::from(std::process::id()) => Ok(()),
            reader => Err(failure(SOMETHING_FAILED, format!("process {reader} has begun to profile it"))),
        }
    }

    fn beat(&mut self, target: &Target) -> Result<()> {
        self.beat = self.beat.wrapping_add(1);
        target.write(self.fields.beat.at, &self.beat.to_le_bytes())?;
        target.write(self.fields.stacks_drained.at, &self.next_stack.to_le_bytes())?;
        target.write(self.fields.drained.at, &self.next.to_le_bytes())
    }

    /// Each thread's next free takes the slow path, where it looks. A heap's number is the same for ever, so its
    /// highest byte can be written without a look at what it was a moment ago.
    fn nudge(&self, target: &Target, layout: &Layout) -> Result<()> {
        let (heaps, count) = (layout.variables.heaps.value(target)?, layout.variables.owner_count.value(target)?);
        for index in 0..count {
            let heap = heaps + index * layout.heap_bytes;
            let state = target.read(heap + layout.heap.state.at, layout.heap.state.bytes)?;
            let word = target.read(heap + self.id_word.at, 4)?;
            if u64::from(state[0]) == layout.state_attached && word != [0; 4] {
                target.write(heap + self.id_word.at + 3, &[word[3] | SAMPLES])?;
            }
        }
        Ok(())
    }

    /// Nobody wants samples any more, unless another reader does.
    pub fn stop(&self, target: &Target) -> Result<()> {
        if self.check_reader(target).is_err() {
            return Ok(());
        }
        target.write(self.fields.mean_bytes.at, &[0; 8])?;
        target.write(self.fields.reader.at, &[0; 4])
    }

    /// Whether it samples still. It ends by itself when it has not heard from its reader for ten seconds.
    pub fn is_on(&self, target: &Target) -> Result<bool> {
        Ok(self.fields.mean_bytes.value(target)? != 0)
    }

    pub fn is_ending(&self, target: &Target) -> Result<bool> {
        Ok(self.fields.is_ending.value(target)? != 0)
    }

    /// How many samples the process has dropped by itself.
    pub fn dropped(&self, target: &Target) -> Result<u64> {
        Ok(self.fields.dropped_count.value(target)?.wrapping_sub(self.dropped_before))
    }

    /// The sampled blocks that are live.
    pub fn watched(&self, target: &Target) -> Result<HashSet<u64>> {
        let record = self.fields.record.value(target)?;
        if record == 0 {
            return Ok(HashSet::new());
        }
        let table = target.read(record + self.fields.at_watched, usize::try_from(self.fields.watched * 8)?)?;
        Ok(table.chunks_exact(8).map(number).filter(|address| *address != 0).collect())
    }

    /// What is new, in order.
    pub fn drain(&mut self, target: &Target) -> Result<Vec<Event>> {
        let record = self.fields.record.value(target)?;
        // Before the events: those whose events are numbered by then are read, or their events were dropped.
        let stacks = self.fields.stack_count.value(target)?;
        let end = self.fields.event_count.value(target)?;
        let mut events = Vec::new();
        if record != 0 && end > self.next {
            // Never more, unless another reader was here.
            let oldest = end.saturating_sub(self.fields.events);
            self.lost += oldest.saturating_sub(self.next);
            self.next = self.next.max(oldest);
            let places = self.places(target, record, end)?;
            self.take(target, record, &places, &mut events)?;
        }
        if self.next == end {
            // Stacks of dropped events would keep their places for ever. One that is being written still keeps its
            // place all the same, as it is busy; but its event is to be read before its place is another's, so one is
            // waited for a round longer.
            self.next_stack = self.next_stack.max(self.stacks_before);
        }
        self.stacks_before = stacks;
        self.beat(target)?;
        Ok(events)
    }

    fn places(&self, target: &Target, record: u64, end: u64) -> Result<Vec<u8>> {
        let bytes = usize::try_from((end - self.next) * self.fields.event_bytes)?;
        let first = self.next % self.fields.events;
        let until_wrap = usize::try_from((self.fields.events - first) * self.fields.event_bytes)?.min(bytes);
        let mut places = vec![0; bytes];
        let at = record + self.fields.at_events;
        let (one, other) = places.split_at_mut(until_wrap);
        target.read_all(&mut [
            Piece { at: at + first * self.fields.event_bytes, into: one },
            Piece { at, into: other },
        ])?;
        Ok(places)
    }

    fn take(&mut self, target: &Target, record: u64, places: &[u8], events: &mut Vec<Event>) -> Result<()> {
        for place in places.chunks_exact(usize::try_from(self.fields.event_bytes)?) {
            let number = self.fields.number.of(place, 0);
            if number == self.next + 1 {
                events.push(self.event(target, record, place)?);
            } else if number > self.next + 1 && number != u64::MAX {
                self.lost += 1;
            } else if !self.is_given_up() {
                break;
            }
            self.next += 1;
        }
        Ok(())
    }

    fn is_given_up(&mut self) -> bool {
        match self.stuck {
            Some((number, since)) if number == self.next => {
                let over = since.elapsed() > PATIENCE;
                self.lost += u64::from(over);
                over
            }
            _ => {
                self.stuck = Some((self.next, Instant::now()));
                false
            }
        }
    }

    fn event(&mut self, target: &Target, record: u64, place: &[u8]) -> Result<Event> {
        let fields = &self.fields;
        let what = if fields.kind.of(place, 0) == fields.allocated {
            let stack = match fields.stack.of(place, 0) {
                0 => None,
                number => {
                    // Those between belong to events that are not complete yet, and are read before their places are
                    // wanted again, or never.
                    self.next_stack = self.next_stack.max(number);
                    self.stack(target, record, number)?
                }
            };
            self.lost_stacks += u64::from(stack.is_none());
            let fields = &self.fields;
            What::Allocated { bytes: fields.bytes.of(place, 0), mean_bytes: fields.mean.of(place, 0), stack }
        } else {
            What::Freed
        };
        let fields = &self.fields;
        Ok(Event {
            thread: u32::try_from(fields.thread.of(place, 0))?,
            block: fields.block.of(place, 0),
            time_ms: fields.time.of(place, 0),
            what,
        })
    }

    /// Its number is read once more after it, in the order of the pieces.
    fn stack(&self, target: &Target, record: u64, number: u64) -> Result<Option<Registers>> {
        let fields = &self.fields;
        let at = record + fields.at_stacks + (number - 1) % fields.stacks * fields.stack_bytes;
        let mut stack = vec![0; usize::try_from(fields.stack_bytes)?];
        target.read_all(&mut [Piece { at, into: &mut stack }])?;
        let again = target.read(at + fields.stack_number.at, 8)?;
        let is_whole = fields.stack_number.of(&stack, 0) == number && again == number.to_le_bytes();
        let from = usize::try_from(fields.contents.at)?;
        let length = usize::try_from(fields.stack_length.of(&stack, 0))?;
        let all = (0..fields.registers.count).map(|index| fields.registers.of(&stack, index));
        Ok(stack.get(from..from.saturating_add(length)).filter(|_| is_whole).map(|contents| Registers {
            pc: fields.pc.of(&stack, 0),
            all: all.collect(),
            stack: contents.to_vec(),
        }))
    }
}
