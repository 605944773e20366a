// SPDX-License-Identifier: MIT
//! What the tracer has seen: calls with addresses, in their order. Which block is at an address is not asked while
//! the program runs, see resolve.rs.

use std::collections::HashMap;

use crate::trace::columns::MOST_THREADS;
use crate::trace::region::Raw;

/// As helpers/trace_ring.h numbers them; a file has `IMAGE` to `REALLOC_TO`, `RESIDENT` and `TIME`.
pub const THREAD: u8 = 1;
pub const IMAGE: u8 = 2;
pub const MALLOC: u8 = 3;
pub const CALLOC: u8 = 4;
pub const ALIGNED: u8 = 5;
pub const FREE: u8 = 6;
pub const REALLOC_FROM: u8 = 7;
pub const REALLOC_TO: u8 = 8;
const ALIGNMENT: u8 = 9;
const SIZE: u8 = 10;
/// `size` is how many bytes of the pages of the large block at that address are resident, which goes next or has stayed
/// until the end.
pub const RESIDENT: u8 = 11;
/// `size` is so many microseconds since the start.
pub const TIME: u8 = 15;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Call {
    /// Counted from 0, in the order in which threads were first seen.
    pub thread: u32,
    pub op: u8,
    /// A multiple of 16; 0 where the call was refused.
    pub address: u64,
    pub size: u64,
    /// Of `ALIGNED`.
    pub alignment: u64,
}

/// Makes calls of what is in the rings.
#[derive(Default)]
pub struct Callers {
    /// By the system's id: the number of the thread. An id that is used again stands for the same one.
    threads: HashMap<u64, u32>,
    rings: Vec<Ring>,
    /// Events that the tracer cannot have written: the program has written there itself.
    pub strange: u64,
}

/// Whose it is, and what was said of the next event.
#[derive(Default, Clone, Copy)]
struct Ring {
    thread: u32,
    /// Nothing was said.
    is_plain: bool,
    size: Option<u64>,
    alignment: u64,
}

impl Callers {
    pub fn threads(&self) -> u64 {
        self.threads.len() as u64
    }

    #[inline(always)]
    pub fn call(&mut self, ring: usize, raw: Raw) -> Option<Call> {
        match self.rings.get(ring) {
            Some(of) if of.is_plain && (IMAGE..=REALLOC_TO).contains(&raw.op) => {
                Some(Call { thread: of.thread, op: raw.op, address: raw.address, size: raw.size, alignment: 0 })
            }
            _ => self.call_of_several(ring, raw),
        }
    }

    #[cold]
    fn call_of_several(&mut self, ring: usize, raw: Raw) -> Option<Call> {
        if ring >= self.rings.len() {
            self.rings.resize(ring + 1, Ring::default());
        }
        let of = &mut self.rings[ring];
        of.is_plain = false;
        match raw.op {
            THREAD => {
                // Beyond them, all are one.
                let count = (self.threads.len() as u32).min(MOST_THREADS - 1);
                let thread = *self.threads.entry(raw.size).or_insert(count);
                *of = Ring { thread, is_plain: true, size: None, alignment: 0 };
                None
            }
            ALIGNMENT => {
                of.alignment = raw.more();
                None
            }
            SIZE => {
                of.size = Some(raw.more());
                None
            }
            IMAGE..=REALLOC_TO | RESIDENT => {
                let size = of.size.take().unwrap_or(raw.size);
                let alignment = if raw.op == ALIGNED { std::mem::take(&mut of.alignment) } else { 0 };
                of.is_plain = of.alignment == 0;
                Some(Call { thread: of.thread, op: raw.op, address: raw.address, size, alignment })
            }
            _ => {
                self.strange += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_an_event_comes_before_it() {
        let mut callers = Callers::default();
        let mut calls = Vec::new();
        let whole = |number: u64| (number << 16 >> 12, number >> 48);
        let (low, high) = whole(u64::MAX - 1);
        for (ring, op, address, size) in [
            (0, THREAD, 0, 100),
            (1, THREAD, 0, 200),
            (1, ALIGNMENT, 1 << 24, 0),
            (0, SIZE, low, high),
            (1, ALIGNED, 32, 5),
            (0, MALLOC, 0, 0),
            (0, MALLOC, 16, 7),
            (0, 14, 0, 0),
        ] {
            calls.extend(callers.call(ring, Raw { number: 0, op, address, size }));
        }
        let call = |thread, op, address, size, alignment| Call { thread, op, address, size, alignment };
        let expected =
            [call(1, ALIGNED, 32, 5, 1 << 20), call(0, MALLOC, 0, u64::MAX - 1, 0), call(0, MALLOC, 16, 7, 0)];
        assert_eq!(calls, expected);
        assert_eq!((callers.threads(), callers.strange), (2, 1));
    }
}
