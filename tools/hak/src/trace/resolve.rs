// SPDX-License-Identifier: MIT
//! From addresses, which are used again and again, to names of blocks, which are not.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::trace::call::{ALIGNED, CALLOC, Call, FREE, IMAGE, MALLOC, REALLOC_FROM, RESIDENT, TIME};
use crate::trace::{Event, Kind, What};

/// Calls of `realloc` that one thread can be in at a time, by signal handlers. A thread that left one in the middle
/// leaves its block behind.
const MOST_MOVING: usize = 16;

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
    /// By thread: the addresses that it is moving blocks from, and the blocks, if they are known.
    moving: HashMap<u32, Vec<(u64, Option<u64>)>>,
    /// Frees and reallocations of blocks that are not in the trace.
    pub unknown: u64,
    /// Blocks whose free is not in the trace; it was put before the next allocation at their address.
    pub implied: u64,
}

impl Resolver {
    pub fn add(&mut self, call: &Call, out: &mut impl FnMut(Event)) {
        let thread = call.thread;
        let mut say = |what| out(Event { thread, what });
        match call.op {
            IMAGE => {
                self.live.clear();
                self.moving.clear();
                say(What::Image);
            }
            TIME => say(What::Time { microseconds: call.size }),
            // Of a block that is not known, the free that follows says so.
            RESIDENT => {
                if let Some(&block) = self.live.get(&call.address) {
                    say(What::Resident { block, bytes: call.size });
                }
            }
            MALLOC => self.allocated(call, Kind::Malloc, &mut say),
            CALLOC => self.allocated(call, Kind::Calloc, &mut say),
            ALIGNED => self.allocated(call, Kind::Aligned, &mut say),
            FREE => match self.live.remove(&call.address) {
                Some(block) => say(What::Free { block }),
                None => self.unknown += 1,
            },
            REALLOC_FROM => {
                let block = self.live.remove(&call.address);
                let moving = self.moving.entry(thread).or_default();
                if moving.len() == MOST_MOVING {
                    moving.remove(0);
                }
                moving.push((call.address, block));
            }
            // What is read has no others: the other one of `realloc`.
            _ => {
                let from = self.moving.get_mut(&thread).and_then(Vec::pop);
                self.reallocated(call, from, &mut say);
            }
        }
    }

    fn allocated(&mut self, call: &Call, kind: Kind, say: &mut impl FnMut(What)) {
        if call.address == 0 {
            say(What::Refused { size: call.size });
            return;
        }
        let block = self.next;
        self.next += 1;
        self.settle(call.address, block, say);
        say(What::Allocate { block, kind, size: call.size, alignment: call.alignment, address: call.address });
    }

    /// Whatever was at that address has been freed without a word.
    fn settle(&mut self, address: u64, block: u64, say: &mut impl FnMut(What)) {
        if let Some(before) = self.live.insert(address, block) {
            self.implied += 1;
            say(What::Free { block: before });
        }
    }

    fn reallocated(&mut self, call: &Call, from: Option<(u64, Option<u64>)>, say: &mut impl FnMut(What)) {
        match from {
            // `realloc(p, 0)` frees; otherwise the block stays as it was.
            _ if call.address == 0 && call.size > 0 => {
                if let Some((address, Some(block))) = from {
                    self.live.insert(address, block);
                }
                say(What::Refused { size: call.size });
            }
            Some((_, Some(block))) if call.address == 0 => say(What::Free { block }),
            Some((_, Some(block))) => {
                self.settle(call.address, block, say);
                say(What::Reallocate { block, size: call.size, address: call.address });
            }
            _ => {
                self.unknown += 1;
                if call.address != 0 {
                    self.allocated(call, Kind::Malloc, say);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::call::{REALLOC_TO, RESIDENT};

    fn resolve(calls: &[(u32, u8, u64, u64)]) -> (Vec<Event>, Resolver) {
        let mut resolver = Resolver::default();
        let mut events = Vec::new();
        for (thread, op, address, size) in calls.iter().copied() {
            let call = Call { thread, op, address, size, alignment: 0 };
            resolver.add(&call, &mut |event| events.push(event));
        }
        (events, resolver)
    }

    fn allocate(block: u64, size: u64, address: u64) -> What {
        What::Allocate { block, kind: Kind::Malloc, size, alignment: 0, address }
    }

    fn whats(events: &[Event]) -> Vec<What> {
        events.iter().map(|event| event.what).collect()
    }

    /// While one thread's `realloc` moves a block, another one gets the address that it leaves.
    #[test]
    fn an_address_is_another_block_as_soon_as_it_is_left() {
        let (events, resolver) = resolve(&[
            (0, MALLOC, 16, 5),
            (0, REALLOC_FROM, 16, 0),
            (1, MALLOC, 16, 6),
            (0, REALLOC_TO, 32, 50),
            (1, FREE, 32, 0),
            (0, FREE, 16, 0),
        ]);
        let expected = [
            (0, allocate(0, 5, 16)),
            (1, allocate(1, 6, 16)),
            (0, What::Reallocate { block: 0, size: 50, address: 32 }),
            (1, What::Free { block: 0 }),
            (0, What::Free { block: 1 }),
        ];
        assert_eq!(events, expected.map(|(thread, what)| Event { thread, what }));
        assert_eq!((resolver.unknown, resolver.implied), (0, 0));
    }

    /// A signal comes between the two, whose handler calls `realloc`, too; and many do not come back.
    #[test]
    fn reallocations_within_others_keep_their_blocks() {
        let mut calls = vec![(0, MALLOC, 16, 5), (0, MALLOC, 32, 6)];
        calls.extend([(1, REALLOC_FROM, 800, 0); MOST_MOVING + 3]);
        calls.extend([(0, REALLOC_FROM, 16, 0), (0, REALLOC_FROM, 32, 0), (0, REALLOC_TO, 48, 60)]);
        calls.extend([(0, REALLOC_TO, 64, 50), (1, REALLOC_FROM, 64, 0), (1, REALLOC_TO, 80, 70)]);
        let (events, resolver) = resolve(&calls);
        let reallocate = |block, size, address| What::Reallocate { block, size, address };
        let expected = [
            allocate(0, 5, 16),
            allocate(1, 6, 32),
            reallocate(1, 60, 48),
            reallocate(0, 50, 64),
            reallocate(0, 70, 80),
        ];
        assert_eq!(whats(&events), expected);
        assert_eq!((resolver.unknown, resolver.implied), (0, 0));
    }

    #[test]
    fn what_is_resident_is_of_the_block_that_is_there() {
        let (events, resolver) = resolve(&[
            (0, RESIDENT, 16, 1),
            (0, MALLOC, 16, 5),
            (1, RESIDENT, 16, 2),
            (0, REALLOC_FROM, 16, 0),
            (0, RESIDENT, 16, 3),
            (0, REALLOC_TO, 32, 6),
            (0, RESIDENT, 32, 4),
        ]);
        let resident = |bytes| What::Resident { block: 0, bytes };
        let reallocated = What::Reallocate { block: 0, size: 6, address: 32 };
        let expected = [allocate(0, 5, 16), resident(2), reallocated, resident(4)];
        assert_eq!(whats(&events), expected);
        assert_eq!((resolver.unknown, resolver.implied), (0, 0));
    }

    #[test]
    fn what_fails_changes_nothing_and_what_is_unknown_is_counted() {
        let (events, resolver) = resolve(&[
            (0, MALLOC, 0, 7),
            (0, MALLOC, 16, 5),
            (0, REALLOC_FROM, 16, 0),
            (0, REALLOC_TO, 0, 99),
            (0, FREE, 48, 0),
            (0, MALLOC, 16, 5),
            (0, REALLOC_FROM, 16, 0),
            (0, REALLOC_TO, 0, 0),
            (0, REALLOC_TO, 32, 8),
        ]);
        let expected = [
            What::Refused { size: 7 },
            allocate(0, 5, 16),
            What::Refused { size: 99 },
            What::Free { block: 0 },
            allocate(1, 5, 16),
            What::Free { block: 1 },
            allocate(2, 8, 32),
        ];
        assert_eq!(whats(&events), expected);
        assert_eq!((resolver.unknown, resolver.implied), (2, 1));
    }
}
