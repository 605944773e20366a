// SPDX-License-Identifier: MIT
//! Some ten thousand events as bytes, and back. What is alike stands together, so that it can be compressed:
//! first what each event is, then all threads, sizes, addresses, blocks, and the rest.
//!
//! A block is named by its distance from the newest one, or from the one that the thread named last, whichever
//! is shorter. An address is a difference to that of the last block of the same size. Nothing refers to what is
//! in another group of events, but for the number of the newest block.

use anyhow::{Context, Result, bail, ensure};

use crate::trace::numbers::{fold, put, put_signed, take, take_signed};
use crate::trace::{Event, Kind, What};

/// No file has more in one group.
pub const MOST_EVENTS: usize = 1 << 16;
/// No trace has more, or their numbers would take much memory.
pub const MOST_THREADS: u32 = 1 << 20;
const SIZES_APART: usize = 4096;

/// Bits of the byte that says what an event is. With `SWITCH`, its thread stands among the threads; without, it is
/// that of the event before.
const SWITCH: u8 = 0x80;
const MALLOC: u8 = 0;
const CALLOC: u8 = 1;
const ALIGNED: u8 = 2;
const FREE: u8 = 3;
const REALLOCATE: u8 = 4;
const REFUSED: u8 = 5;
const TIME: u8 = 6;
const IMAGE: u8 = 7;
/// Of `FREE` and `REALLOCATE`: by the distance from the newest block.
const FROM_NEWEST: u8 = 0x10;

const COLUMNS: usize = 6;
const OPS: usize = 0;
const THREADS: usize = 1;
const SIZES: usize = 2;
const ADDRESSES: usize = 3;
const BLOCKS: usize = 4;
const OTHERS: usize = 5;

/// What both sides keep in mind within a group.
#[derive(Default)]
struct Memory {
    thread: u32,
    microseconds: u64,
    /// By thread: the block behind the one that it named last.
    expected: Vec<u64>,
    /// By size, in steps of 16; all large ones together.
    addresses: Vec<u64>,
}

impl Memory {
    fn address_slot(&mut self, size: u64) -> &mut u64 {
        let slot = usize::try_from(size.saturating_add(15) / 16).map_or(SIZES_APART, |steps| steps.min(SIZES_APART));
        if self.addresses.is_empty() {
            self.addresses.resize(SIZES_APART + 1, 0);
        }
        &mut self.addresses[slot]
    }

    fn expected(&mut self) -> &mut u64 {
        let thread = self.thread as usize;
        if thread >= self.expected.len() {
            self.expected.resize(thread + 1, 0);
        }
        &mut self.expected[thread]
    }
}

/// The number of blocks that there were before is in front.
pub fn encode(events: &[Event], newest: u64) -> Vec<u8> {
    let mut columns: [Vec<u8>; COLUMNS] = Default::default();
    let mut memory = Memory::default();
    let mut next = newest;
    for event in events {
        let mut op = 0;
        if event.thread != memory.thread {
            op |= SWITCH;
            put(&mut columns[THREADS], event.thread.into());
            memory.thread = event.thread;
        }
        match event.what {
            What::Allocate { kind, size, alignment, address, .. } => {
                op |= match kind {
                    Kind::Malloc => MALLOC,
                    Kind::Calloc => CALLOC,
                    Kind::Aligned => ALIGNED,
                };
                if kind == Kind::Aligned {
                    put(&mut columns[OTHERS], alignment);
                }
                put(&mut columns[SIZES], size);
                put_address(&mut columns[ADDRESSES], &mut memory, size, address);
                next += 1;
            }
            What::Free { block } => op |= FREE | put_block(&mut columns[BLOCKS], &mut memory, block, next),
            What::Reallocate { block, size, address } => {
                op |= REALLOCATE | put_block(&mut columns[BLOCKS], &mut memory, block, next);
                put(&mut columns[SIZES], size);
                put_address(&mut columns[ADDRESSES], &mut memory, size, address);
            }
            What::Refused { size } => {
                op |= REFUSED;
                put(&mut columns[SIZES], size);
            }
            What::Time { microseconds } => {
                op |= TIME;
                put(&mut columns[OTHERS], microseconds - memory.microseconds);
                memory.microseconds = microseconds;
            }
            What::Image => op |= IMAGE,
        }
        columns[OPS].push(op);
    }
    let mut bytes = Vec::new();
    put(&mut bytes, newest);
    columns.iter().for_each(|column| put(&mut bytes, column.len() as u64));
    columns.iter().for_each(|column| bytes.extend_from_slice(column));
    bytes
}

/// Multiples of 16, as all blocks have.
fn put_address(column: &mut Vec<u8>, memory: &mut Memory, size: u64, address: u64) {
    let slot = memory.address_slot(size);
    put_signed(column, (address >> 4).wrapping_sub(*slot).cast_signed());
    *slot = address >> 4;
}

fn put_block(column: &mut Vec<u8>, memory: &mut Memory, block: u64, next: u64) -> u8 {
    let expected = memory.expected();
    let distance = block.wrapping_sub(*expected).cast_signed();
    *expected = block + 1;
    let from_newest = next - 1 - block;
    if from_newest <= fold(distance) {
        put(column, from_newest);
        FROM_NEWEST
    } else {
        put_signed(column, distance);
        0
    }
}

/// Appends the events. Whatever the bytes are, it ends, with an error if they are no such group.
pub fn decode(bytes: &[u8], known: u64, events: &mut Vec<Event>) -> Result<u64> {
    let mut rest = bytes;
    let mut next = take(&mut rest)?;
    ensure!(next == known, "blocks are missing before this place");
    let mut lengths = [0usize; COLUMNS];
    for length in &mut lengths {
        *length = usize::try_from(take(&mut rest)?)?;
    }
    let mut columns: [&[u8]; COLUMNS] = [&[]; COLUMNS];
    for (column, length) in columns.iter_mut().zip(lengths) {
        (*column, rest) = rest.split_at_checked(length).context("a column is cut off")?;
    }
    ensure!(rest.is_empty() && columns[OPS].len() <= MOST_EVENTS, "its columns do not fit");
    let mut memory = Memory::default();
    let ops = columns[OPS];
    for &op in ops {
        if op & SWITCH != 0 {
            memory.thread = u32::try_from(take(&mut columns[THREADS])?)?;
            ensure!(memory.thread < MOST_THREADS, "too many threads");
        }
        let by_newest = op & FROM_NEWEST != 0;
        let what = match op & !SWITCH & !FROM_NEWEST {
            kind @ (MALLOC | CALLOC | ALIGNED) if !by_newest => {
                let alignment = if kind == ALIGNED { take(&mut columns[OTHERS])? } else { 0 };
                let size = take(&mut columns[SIZES])?;
                let address = take_address(&mut columns[ADDRESSES], &mut memory, size)?;
                let kind = match kind {
                    MALLOC => Kind::Malloc,
                    CALLOC => Kind::Calloc,
                    _ => Kind::Aligned,
                };
                next = next.checked_add(1).context("too many blocks")?;
                What::Allocate { block: next - 1, kind, size, alignment, address }
            }
            FREE => What::Free { block: take_block(&mut columns[BLOCKS], &mut memory, next, by_newest)? },
            REALLOCATE => {
                let block = take_block(&mut columns[BLOCKS], &mut memory, next, by_newest)?;
                let size = take(&mut columns[SIZES])?;
                What::Reallocate { block, size, address: take_address(&mut columns[ADDRESSES], &mut memory, size)? }
            }
            REFUSED if !by_newest => What::Refused { size: take(&mut columns[SIZES])? },
            TIME if !by_newest => {
                let step = take(&mut columns[OTHERS])?;
                memory.microseconds = memory.microseconds.checked_add(step).context("too late a time")?;
                What::Time { microseconds: memory.microseconds }
            }
            IMAGE if !by_newest => What::Image,
            _ => bail!("unknown kind of event {op}"),
        };
        events.push(Event { thread: memory.thread, what });
    }
    ensure!(columns[1..].iter().all(|column| column.is_empty()), "something is left over");
    Ok(next)
}

fn take_address(column: &mut &[u8], memory: &mut Memory, size: u64) -> Result<u64> {
    let slot = memory.address_slot(size);
    *slot = slot.wrapping_add(take_signed(column)?.cast_unsigned());
    Ok(*slot << 4)
}

fn take_block(column: &mut &[u8], memory: &mut Memory, next: u64, by_newest: bool) -> Result<u64> {
    let expected = memory.expected();
    let block = if by_newest {
        next.checked_sub(1).and_then(|newest| newest.checked_sub(take(column).ok()?))
    } else {
        Some(expected.wrapping_add(take_signed(column)?.cast_unsigned()))
    };
    let block = block.filter(|block| *block < next).context("a block that has not been allocated")?;
    *expected = block + 1;
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_events() -> Vec<Event> {
        let mut events = Vec::new();
        let mut at = |thread, what| events.push(Event { thread, what });
        for block in 0..100u64 {
            let thread = (block % 3) as u32;
            let kind = [Kind::Malloc, Kind::Calloc, Kind::Aligned][(block % 3) as usize];
            let alignment = if kind == Kind::Aligned { 1 << (block % 20) } else { 0 };
            let size = block * block * 1000;
            at(
                thread,
                What::Allocate { block: 7 + block, kind, size, alignment, address: 0x7000_0000_0000 + size * 16 },
            );
            at(thread, What::Time { microseconds: block * 10 });
            at(thread, What::Free { block: block.max(1) / 2 });
            at(2, What::Reallocate { block: 7 + block, size: u64::MAX, address: !15 });
        }
        at(0, What::Refused { size: u64::MAX });
        at(9, What::Image);
        events
    }

    #[test]
    fn events_come_back() {
        let bytes = encode(&some_events(), 7);
        let mut events = Vec::new();
        assert_eq!(decode(&bytes, 7, &mut events).unwrap(), 107);
        assert_eq!(events, some_events());
    }

    /// Each byte in turn cut off, or another: an error or other events, and never a panic.
    #[test]
    fn bytes_that_are_no_events_are_errors() {
        let bytes = encode(&some_events(), 7);
        let mut errors = 0;
        for at in 0..bytes.len() {
            assert!(decode(&bytes[..at], 7, &mut Vec::new()).is_err(), "{at}");
            for change in [1, 0x10, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                errors += u32::from(decode(&bytes, 7, &mut Vec::new()).is_err());
            }
        }
        assert!(errors > 100, "{errors}");
        assert!(decode(&bytes, 8, &mut Vec::new()).is_err());
    }
}
