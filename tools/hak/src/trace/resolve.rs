// SPDX-License-Identifier: MIT
//! From addresses, which are used again and again, to names of blocks, which are not.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::trace::columns::MOST_THREADS;
use crate::trace::region::Raw;
use crate::trace::{Event, Kind, What};

/// As helpers/trace_ring.h numbers them.
const THREAD: u8 = 1;
const IMAGE: u8 = 2;
const MALLOC: u8 = 3;
const CALLOC: u8 = 4;
const ALIGNED: u8 = 5;
const FREE: u8 = 6;
const REALLOC_FROM: u8 = 7;
const REALLOC_TO: u8 = 8;

/// Addresses come from the process itself, which may slow down nobody but its own trace.
#[derive(Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }
    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

#[derive(Default)]
pub struct Resolver {
    live: HashMap<u64, u64, BuildHasherDefault<AddressHasher>>,
    next: u64,
    /// By the system's id: the number of the thread. An id that is used again stands for the same one.
    threads: HashMap<u64, u32>,
    /// By ring: whose it is, and the block that its thread is moving.
    rings: Vec<Ring>,
    pub unknown: u64,
    pub implied: u64,
}

#[derive(Default, Clone, Copy)]
struct Ring {
    thread: u32,
    moving: Option<u64>,
}

impl Resolver {
    pub fn threads(&self) -> u64 {
        self.threads.len() as u64
    }

    pub fn add(&mut self, ring: usize, raw: Raw, out: &mut impl FnMut(Event)) {
        if ring >= self.rings.len() {
            self.rings.resize(ring + 1, Ring::default());
        }
        let mut of = self.rings[ring];
        let thread = of.thread;
        let mut say = |what| out(Event { thread, what });
        match raw.op {
            THREAD => {
                // Beyond them, all are one.
                let count = (self.threads.len() as u32).min(MOST_THREADS - 1);
                of = Ring { thread: *self.threads.entry(raw.address).or_insert(count), moving: None };
            }
            IMAGE => {
                self.live.clear();
                say(What::Image);
            }
            MALLOC => self.allocated(raw, Kind::Malloc, &mut say),
            CALLOC => self.allocated(raw, Kind::Calloc, &mut say),
            ALIGNED => self.allocated(raw, Kind::Aligned, &mut say),
            FREE => match self.live.remove(&raw.address) {
                Some(block) => say(What::Free { block }),
                None => self.unknown += 1,
            },
            REALLOC_FROM => of.moving = self.live.remove(&raw.address),
            REALLOC_TO => {
                let block = of.moving.take();
                self.reallocated(raw, block, &mut say);
            }
            // Nothing that the tracer writes: the program has written there itself.
            _ => self.unknown += 1,
        }
        self.rings[ring] = of;
    }

    fn allocated(&mut self, raw: Raw, kind: Kind, say: &mut impl FnMut(What)) {
        if raw.address == 0 {
            say(What::Refused { size: raw.size });
            return;
        }
        let block = self.next;
        self.next += 1;
        self.settle(raw.address, block, say);
        let alignment = if kind == Kind::Aligned { raw.extra } else { 0 };
        say(What::Allocate { block, kind, size: raw.size, alignment, address: raw.address });
    }

    /// Whatever was at that address has been freed without a word.
    fn settle(&mut self, address: u64, block: u64, say: &mut impl FnMut(What)) {
        if let Some(before) = self.live.insert(address, block) {
            self.implied += 1;
            say(What::Free { block: before });
        }
    }

    fn reallocated(&mut self, raw: Raw, block: Option<u64>, say: &mut impl FnMut(What)) {
        match block {
            // `realloc(p, 0)` frees; otherwise the block stays as it was.
            _ if raw.address == 0 && raw.size > 0 => {
                if let Some(block) = block {
                    self.live.insert(raw.extra, block);
                }
                say(What::Refused { size: raw.size });
            }
            Some(block) if raw.address == 0 => say(What::Free { block }),
            Some(block) => {
                self.settle(raw.address, block, say);
                say(What::Reallocate { block, size: raw.size, address: raw.address });
            }
            None => {
                self.unknown += 1;
                if raw.address != 0 {
                    self.allocated(raw, Kind::Malloc, say);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(raws: &[(usize, u8, u64, u64, u64)]) -> (Vec<Event>, Resolver) {
        let mut resolver = Resolver::default();
        let mut events = Vec::new();
        for (ring, op, address, size, extra) in raws.iter().copied() {
            resolver.add(ring, Raw { number: 0, op, address, size, extra }, &mut |event| events.push(event));
        }
        (events, resolver)
    }

    fn allocate(block: u64, size: u64, address: u64) -> What {
        What::Allocate { block, kind: Kind::Malloc, size, alignment: 0, address }
    }

    /// While one thread's `realloc` moves a block, another one gets the address that it leaves.
    #[test]
    fn an_address_is_another_block_as_soon_as_it_is_left() {
        let (events, resolver) = resolve(&[
            (0, THREAD, 100, 0, 0),
            (1, THREAD, 200, 0, 0),
            (0, MALLOC, 16, 5, 0),
            (0, REALLOC_FROM, 16, 0, 0),
            (1, MALLOC, 16, 6, 0),
            (0, REALLOC_TO, 32, 50, 16),
            (1, FREE, 32, 0, 0),
            (0, FREE, 16, 0, 0),
        ]);
        let expected = [
            (0, allocate(0, 5, 16)),
            (1, allocate(1, 6, 16)),
            (0, What::Reallocate { block: 0, size: 50, address: 32 }),
            (1, What::Free { block: 0 }),
            (0, What::Free { block: 1 }),
        ];
        assert_eq!(events, expected.map(|(thread, what)| Event { thread, what }));
        assert_eq!((resolver.unknown, resolver.implied, resolver.threads()), (0, 0, 2));
    }

    #[test]
    fn what_fails_changes_nothing_and_what_is_unknown_is_counted() {
        let (events, resolver) = resolve(&[
            (0, MALLOC, 0, 7, 0),
            (0, MALLOC, 16, 5, 0),
            (0, REALLOC_FROM, 16, 0, 0),
            (0, REALLOC_TO, 0, 99, 16),
            (0, FREE, 48, 0, 0),
            (0, MALLOC, 16, 5, 0),
            (0, REALLOC_FROM, 16, 0, 0),
            (0, REALLOC_TO, 0, 0, 16),
            (0, 77, 1, 2, 3),
        ]);
        let expected = [
            What::Refused { size: 7 },
            allocate(0, 5, 16),
            What::Refused { size: 99 },
            What::Free { block: 0 },
            allocate(1, 5, 16),
            What::Free { block: 1 },
        ];
        assert_eq!(events.iter().map(|event| event.what).collect::<Vec<_>>(), expected);
        assert_eq!((resolver.unknown, resolver.implied), (2, 1));
    }
}
