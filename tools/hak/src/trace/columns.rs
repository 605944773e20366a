// SPDX-License-Identifier: MIT
//! Some ten thousand calls as bytes, and back. What is alike stands together, so that it can be compressed:
//! first what each call is, then all threads, sizes, addresses, and the rest.
//!
//! An address is where predict.rs foretells it, which takes no more than a bit, or a difference to another one. What
//! is foretold comes from all groups before, so each of these has to be there: a group begins with how many calls they
//! have.

use anyhow::{Context, Result, bail, ensure};

use crate::trace::call::{ALIGNED, CALLOC, Call, FREE, IMAGE, MALLOC, REALLOC_FROM, REALLOC_TO, RESIDENT, TIME};
use crate::trace::numbers::{Column, fold, put, take, take_signed};
use crate::trace::predict::Predictor;

/// No file has more in one group.
pub const MOST_CALLS: usize = 1 << 16;
/// No trace has more, or their numbers would take much memory.
pub const MOST_THREADS: u32 = 1 << 20;

/// Bits of the byte that says what a call is, beside its number. With `SWITCH`, its thread stands among the threads;
/// without, it is that of the call before.
const SWITCH: u8 = 0x80;
/// There is no address, as the call was refused.
const REFUSED: u8 = 0x40;
/// Of `FREE` and `REALLOC_FROM`: a difference to what the thread allocated last, not to what it freed last.
const FROM_ALLOCATED: u8 = 0x20;
/// The address is as foretold.
const FORETOLD: u8 = 0x10;
const OP: u8 = 0x0f;

const COLUMNS: usize = 5;
const OPS: usize = 0;
const THREADS: usize = 1;
const SIZES: usize = 2;
const ADDRESSES: usize = 3;
const OTHERS: usize = 4;

/// What both sides keep in mind.
struct Memory {
    predictor: Predictor,
    thread: u32,
    microseconds: u64,
    /// Calls in groups that are complete.
    calls: u64,
}

impl Memory {
    fn new() -> Memory {
        Memory { predictor: Predictor::new(), thread: 0, microseconds: 0, calls: 0 }
    }
}

pub struct Encoder {
    memory: Memory,
    ops: Vec<u8>,
    threads: Column,
    sizes: Column,
    addresses: Column,
    others: Column,
}

impl Encoder {
    pub fn new() -> Encoder {
        let column = || Column::of(MOST_CALLS);
        let ops = Vec::with_capacity(MOST_CALLS);
        Encoder {
            memory: Memory::new(),
            ops,
            threads: column(),
            sizes: column(),
            addresses: column(),
            others: column(),
        }
    }

    /// Calls that are not in a group yet.
    #[inline]
    pub fn pending(&self) -> usize {
        self.ops.len()
    }

    /// No more than `MOST_CALLS` in a group. As a part of the loop over all events: else each would go through memory.
    #[inline(always)]
    pub fn add(&mut self, call: &Call) {
        let memory = &mut self.memory;
        let mut op = call.op;
        if call.thread != memory.thread {
            op |= SWITCH;
            self.threads.put(call.thread.into());
            memory.thread = call.thread;
        }
        let address = call.address >> 4;
        match call.op {
            FREE | REALLOC_FROM => {
                let (allocated, freed) = memory.predictor.free(call.thread);
                if address == allocated {
                    op |= FORETOLD;
                } else {
                    let (near, far) = (fold(difference(address, allocated)), fold(difference(address, freed)));
                    op |= if near < far { FROM_ALLOCATED } else { 0 };
                    self.addresses.put(near.min(far));
                }
                memory.predictor.freed(call.thread, address);
            }
            MALLOC | CALLOC | ALIGNED | REALLOC_TO => {
                self.sizes.put(call.size);
                if call.op == ALIGNED {
                    self.others.put(call.alignment);
                }
                if call.address == 0 {
                    op |= REFUSED;
                } else {
                    let (foretold, before) = memory.predictor.allocation(call.thread, call.size);
                    if address == foretold {
                        op |= FORETOLD;
                    } else {
                        self.addresses.put(fold(difference(address, before)));
                    }
                    memory.predictor.allocated(call.thread, call.size, address);
                }
            }
            _ => self.add_other(call),
        }
        self.ops.push(op);
    }

    #[cold]
    fn add_other(&mut self, call: &Call) {
        if call.op == TIME {
            self.others.put(call.size.saturating_sub(self.memory.microseconds));
            self.memory.microseconds = call.size.max(self.memory.microseconds);
        } else if call.op == RESIDENT {
            let (_, freed) = self.memory.predictor.free(call.thread);
            self.addresses.put(fold(difference(call.address >> 4, freed)));
            self.others.put(call.size);
        }
    }

    /// The calls since the last time, in place of what is in `bytes`.
    pub fn group(&mut self, bytes: &mut Vec<u8>) {
        bytes.clear();
        put(bytes, self.memory.calls);
        self.memory.calls += self.pending() as u64;
        let mut columns = [&mut self.threads, &mut self.sizes, &mut self.addresses, &mut self.others];
        put(bytes, self.ops.len() as u64);
        columns.iter().for_each(|column| put(bytes, column.bytes().len() as u64));
        bytes.extend_from_slice(&self.ops);
        self.ops.clear();
        for column in &mut columns {
            bytes.extend_from_slice(column.bytes());
            column.clear();
        }
    }
}

fn difference(one: u64, other: u64) -> i64 {
    one.wrapping_sub(other).cast_signed()
}

pub struct Decoder {
    memory: Memory,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder { memory: Memory::new() }
    }

    /// Whatever the bytes are, it ends, with an error if they are no such group; nothing can be read behind that.
    pub fn decode(&mut self, bytes: &[u8], calls: &mut Vec<Call>) -> Result<()> {
        let mut rest = bytes;
        let memory = &mut self.memory;
        ensure!(take(&mut rest)? == memory.calls, "calls are missing before this place");
        let mut lengths = [0usize; COLUMNS];
        for length in &mut lengths {
            *length = usize::try_from(take(&mut rest)?)?;
        }
        let mut columns: [&[u8]; COLUMNS] = [&[]; COLUMNS];
        for (column, length) in columns.iter_mut().zip(lengths) {
            (*column, rest) = rest.split_at_checked(length).context("a column is cut off")?;
        }
        ensure!(rest.is_empty() && columns[OPS].len() <= MOST_CALLS, "its columns do not fit");
        let ops = columns[OPS];
        for &op in ops {
            calls.push(memory.take(op, &mut columns)?);
        }
        ensure!(columns[1..].iter().all(|column| column.is_empty()), "something is left over");
        memory.calls += ops.len() as u64;
        Ok(())
    }
}

impl Memory {
    fn take(&mut self, op: u8, columns: &mut [&[u8]; COLUMNS]) -> Result<Call> {
        if op & SWITCH != 0 {
            self.thread = u32::try_from(take(&mut columns[THREADS])?)?;
            ensure!(self.thread < MOST_THREADS, "too many threads");
        }
        let thread = self.thread;
        let mut call = Call { thread, op: op & OP, ..Call::default() };
        match (call.op, op & (REFUSED | FROM_ALLOCATED | FORETOLD)) {
            (FREE | REALLOC_FROM, how @ (0 | FROM_ALLOCATED | FORETOLD)) => {
                let (allocated, freed) = self.predictor.free(thread);
                let address = match how {
                    FORETOLD => allocated,
                    FROM_ALLOCATED => allocated.wrapping_add(take_signed(&mut columns[ADDRESSES])?.cast_unsigned()),
                    _ => freed.wrapping_add(take_signed(&mut columns[ADDRESSES])?.cast_unsigned()),
                };
                self.predictor.freed(thread, address);
                call.address = address << 4;
            }
            (TIME, 0) => {
                let step = take(&mut columns[OTHERS])?;
                self.microseconds = self.microseconds.checked_add(step).context("too late a time")?;
                call.size = self.microseconds;
            }
            (IMAGE, 0) => {}
            (RESIDENT, 0) => {
                let (_, freed) = self.predictor.free(thread);
                let address = freed.wrapping_add(take_signed(&mut columns[ADDRESSES])?.cast_unsigned());
                call.address = address << 4;
                call.size = take(&mut columns[OTHERS])?;
            }
            (MALLOC | CALLOC | ALIGNED | REALLOC_TO, how @ (0 | REFUSED | FORETOLD)) => {
                call.size = take(&mut columns[SIZES])?;
                if call.op == ALIGNED {
                    call.alignment = take(&mut columns[OTHERS])?;
                }
                if how != REFUSED {
                    let (foretold, before) = self.predictor.allocation(thread, call.size);
                    let address = match how {
                        FORETOLD => foretold,
                        _ => before.wrapping_add(take_signed(&mut columns[ADDRESSES])?.cast_unsigned()),
                    };
                    self.predictor.allocated(thread, call.size, address);
                    call.address = address << 4;
                }
            }
            _ => bail!("unknown kind of call {op}"),
        }
        Ok(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_calls() -> Vec<Call> {
        let mut calls = Vec::new();
        for number in 0..100u64 {
            let thread = (number % 3) as u32;
            let mut at = |op, address, size, alignment| calls.push(Call { thread, op, address, size, alignment });
            let op = [MALLOC, CALLOC, ALIGNED][(number % 3) as usize];
            let alignment = if op == ALIGNED { 1 << (number % 20) } else { 0 };
            let size = number * number * 1000;
            at(op, 0x7000_0000_0000 + size * 16, size, alignment);
            at(TIME, 0, number * 10, 0);
            at(RESIDENT, 0x7000_0000_0000 + size * 16, number * 4096, 0);
            at(FREE, 0x7000_0000_0000 + size / 2 * 16, 0, 0);
            at(MALLOC, 0x7000_0000_0000 + number / 2 * 32, number / 8, 0);
            at(REALLOC_FROM, 0x7000_0000_0000 + number / 2 * 32, 0, 0);
            at(REALLOC_TO, if number % 7 == 0 { 0 } else { (1 << 52) - 16 }, u64::MAX, 0);
        }
        calls.push(Call { thread: 9, op: MALLOC, address: 0, size: u64::MAX, alignment: 0 });
        calls.push(Call { thread: 9, op: IMAGE, ..Call::default() });
        calls
    }

    fn encoded() -> Vec<u8> {
        let mut encoder = Encoder::new();
        some_calls().iter().for_each(|call| encoder.add(call));
        group(&mut encoder)
    }

    fn group(encoder: &mut Encoder) -> Vec<u8> {
        let mut bytes = vec![1; 10];
        encoder.group(&mut bytes);
        bytes
    }

    #[test]
    fn calls_come_back() {
        let (mut encoder, mut decoder, mut calls) = (Encoder::new(), Decoder::new(), Vec::new());
        let some = some_calls();
        // In several groups, each with what the former ones have taught.
        for part in some.chunks(130) {
            part.iter().for_each(|call| encoder.add(call));
            decoder.decode(&group(&mut encoder), &mut calls).unwrap();
        }
        assert_eq!(calls, some);
    }

    /// A block that is freed and comes back at once, among many others.
    #[test]
    fn what_is_foretold_takes_no_bytes() {
        let mut encoder = Encoder::new();
        let mut add = |op, address, size| encoder.add(&Call { op, address, size, ..Call::default() });
        for number in 0..1000u64 {
            add(MALLOC, 0x7000_0000_0000 + number * 48, 40);
        }
        for number in 0..1000u64 {
            let address = 0x7000_0000_0000 + number * 7919 % 1000 * 48;
            add(FREE, address, 0);
            add(MALLOC, address, 33 + number % 16);
        }
        let bytes = group(&mut encoder).len();
        // An op and a size for each; an address of at most 3 bytes for each free, and of one at the start.
        assert!(bytes < 1000 * 3 + 1000 * 4 + 1000 * 2 + 100, "{bytes}");
    }

    /// Each byte in turn cut off, or another: an error or other calls, and never a panic.
    #[test]
    fn bytes_that_are_no_calls_are_errors() {
        let bytes = encoded();
        let decode = |bytes: &[u8]| Decoder::new().decode(bytes, &mut Vec::new());
        let mut errors = 0;
        for at in 0..bytes.len() {
            assert!(decode(&bytes[..at]).is_err(), "{at}");
            for change in [1, 0x10, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                errors += u32::from(decode(&bytes).is_err());
            }
        }
        assert!(errors > 100, "{errors}");
        let mut decoder = Decoder::new();
        decoder.decode(&bytes, &mut Vec::new()).unwrap();
        assert!(decoder.decode(&bytes, &mut Vec::new()).unwrap_err().to_string().contains("calls are missing"));
    }
}
