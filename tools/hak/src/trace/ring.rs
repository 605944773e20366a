// SPDX-License-Identifier: MIT
//! The events of all rings, put into the one order in which they were numbered.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::trace::region::{RINGS, Raw, Region};

/// What is not there by then, while others wait for it, never comes: its thread was ended in the middle.
const PATIENCE: Duration = Duration::from_secs(1);

/// A ring is given back in steps of so many events.
const STEP: u64 = 1024;

/// What gets the events in their order.
pub trait Sink {
    fn event(&mut self, ring: usize, raw: Raw);
    /// So many microseconds had passed before the next one.
    fn time(&mut self, microseconds: u64);
}

/// Each ring has its events in their order. What comes before an event that is missing is handed on, and what comes
/// behind it stays in the rings.
pub struct Order {
    started: Instant,
    /// The number of the next event.
    next: u64,
    /// The number that is missing, and since when.
    missing_since: Option<(u64, Instant)>,
    /// All events up to this number were before that moment, in microseconds.
    times: VecDeque<(u64, u64)>,
    /// Numbers that never came.
    pub missed: u64,
}

/// Of a ring: what is there and was not handed on.
struct Rest {
    ring: usize,
    unread: Range<u64>,
    /// Events that are handed on and not given back.
    kept: u64,
}

impl Order {
    pub fn new() -> Order {
        Order { started: Instant::now(), next: 1, missing_since: None, times: VecDeque::new(), missed: 0 }
    }

    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Hands on all that is there, up to an event that is missing. Returns how much that was. `is_last`: nobody writes
    /// any more, so what is missing does not come.
    pub fn drain(&mut self, region: &Region, is_last: bool, sink: &mut impl Sink) -> u64 {
        let now = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let number = region.number();
        if self.times.back().is_none_or(|(before, _)| *before < number) && number >= self.next {
            self.times.push_back((number, now));
        }
        let before = self.next - self.missed;
        let mut rests: Vec<Rest> =
            (0..RINGS).map(|ring| Rest { ring, unread: region.unread(ring), kept: 0 }).filter(Rest::has_more).collect();
        // After the rings: no event that was in one has a number that was not given out.
        let highest = region.number();
        let mut firsts = BinaryHeap::new();
        for (index, rest) in rests.iter_mut().enumerate() {
            firsts.extend(self.first(region, rest, highest).map(|number| Reverse((number, index))));
        }
        while let Some(Reverse((number, index))) = firsts.pop() {
            if number > self.next {
                if !is_last && !self.was_missing_for_long() {
                    break;
                }
                self.missed += number - self.next;
                self.next = number;
            }
            let rest = &mut rests[index];
            if number == self.next {
                self.hand_on(region, rest, sink);
            } else {
                self.hand_on_late(region, rest, sink);
            }
            firsts.extend(self.first(region, rest, highest).map(|number| Reverse((number, index))));
        }
        rests.iter_mut().for_each(|rest| rest.give_back(region));
        self.next - self.missed - before
    }

    /// Where the lowest bits of it are those, near the next one.
    #[inline]
    fn number_of(&self, raw: Raw) -> u64 {
        let distance = raw.number.wrapping_sub(self.next as u32).cast_signed();
        self.next.wrapping_add_signed(distance.into())
    }

    /// The number of what is first in a ring. Those that no counter has given out are left out: the memory is the
    /// program's, too, and may have been written by mistake.
    fn first(&self, region: &Region, rest: &mut Rest, highest: u64) -> Option<u64> {
        loop {
            let mut numbers = region.events(rest.ring, rest.unread.clone()).map(|raw| self.number_of(raw));
            let (number, second) = (numbers.next()?, numbers.next());
            let is_possible = if number < self.next {
                self.missed > 0
            } else {
                number == self.next || (number <= highest && second.is_none_or(|second| number < second))
            };
            if is_possible {
                return Some(number);
            }
            rest.take(region);
        }
    }

    /// Events of a ring as long as each is the next one.
    fn hand_on(&mut self, region: &Region, rest: &mut Rest, sink: &mut impl Sink) {
        while rest.has_more() {
            while let Some((_, microseconds)) = self.times.front().copied().filter(|(number, _)| *number < self.next) {
                self.times.pop_front();
                sink.time(microseconds);
            }
            let most = self.times.front().map_or(STEP, |(number, _)| number + 1 - self.next).min(STEP);
            let end = rest.unread.end.min(rest.unread.start + most);
            let mut next = self.next;
            for raw in region.events(rest.ring, rest.unread.start..end) {
                if raw.number != next as u32 {
                    break;
                }
                sink.event(rest.ring, raw);
                next += 1;
            }
            let count = next - self.next;
            self.next = next;
            rest.has_read(count, region);
            if count == 0 {
                return;
            }
        }
    }

    /// It comes after it was given up.
    #[cold]
    fn hand_on_late(&mut self, region: &Region, rest: &mut Rest, sink: &mut impl Sink) {
        if let Some(raw) = rest.take(region) {
            self.missed -= 1;
            sink.event(rest.ring, raw);
        }
    }

    fn was_missing_for_long(&mut self) -> bool {
        let since =
            self.missing_since.filter(|(number, _)| *number == self.next).map_or_else(Instant::now, |(_, at)| at);
        self.missing_since = Some((self.next, since));
        since.elapsed() > PATIENCE
    }
}

impl Rest {
    fn has_more(&self) -> bool {
        !self.unread.is_empty()
    }

    fn take(&mut self, region: &Region) -> Option<Raw> {
        let raw = region.events(self.ring, self.unread.clone()).next()?;
        self.has_read(1, region);
        Some(raw)
    }

    /// So that a thread that waits need not wait for all of it.
    fn has_read(&mut self, count: u64, region: &Region) {
        self.unread.start += count;
        self.kept += count;
        if self.kept >= STEP {
            self.give_back(region);
        }
    }

    fn give_back(&mut self, region: &Region) {
        if self.kept > 0 {
            region.read(self.ring, self.unread.start);
            self.kept = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Given(Vec<u32>);

    impl Sink for Given {
        fn event(&mut self, _: usize, raw: Raw) {
            assert_eq!((raw.op, raw.address, raw.size), (3, 16 * u64::from(raw.number), 7));
            self.0.push(raw.number);
        }
        fn time(&mut self, _: u64) {}
    }

    fn put(region: &Region, ring: usize, number: u32) {
        region.put(ring, Raw { number, op: 3, address: 16 * u64::from(number), size: 7 });
    }

    fn drain(order: &mut Order, region: &Region, is_last: bool) -> Vec<u32> {
        let mut given = Given::default();
        order.drain(region, is_last, &mut given);
        given.0
    }

    fn wait_for_long(order: &mut Order) {
        order.missing_since.as_mut().unwrap().1 = Instant::now().checked_sub(2 * PATIENCE).unwrap();
    }

    #[test]
    fn events_of_many_rings_come_in_their_order() {
        let (mut order, region) = (Order::new(), Region::make().unwrap());
        let mut given = Vec::new();
        for number in 1..=100_000u32 {
            put(&region, number as usize * number as usize % 1000 / 100, number);
            if number % 7919 == 0 {
                given.extend(drain(&mut order, &region, false));
            }
        }
        given.extend(drain(&mut order, &region, true));
        assert!(given.into_iter().eq(1..=100_000));
        assert_eq!(order.missed, 0);
        assert!((0..RINGS).all(|ring| region.unread(ring).is_empty()));
    }

    /// Of two that are missing one after the other, the second has its own second to come in.
    #[test]
    fn each_number_that_is_missing_is_waited_for() {
        let (mut order, region) = (Order::new(), Region::make().unwrap());
        put(&region, 0, 2);
        assert!(drain(&mut order, &region, false).is_empty());
        wait_for_long(&mut order);
        put(&region, 1, 1);
        put(&region, 0, 4);
        assert_eq!(drain(&mut order, &region, false), [1, 2]);
        assert_eq!((order.next, order.missed), (3, 0));
        wait_for_long(&mut order);
        assert_eq!(drain(&mut order, &region, false), [4]);
        assert_eq!((order.next, order.missed), (5, 1));
        // It comes after all; and what waits when the program has ended is given up at once.
        put(&region, 1, 3);
        put(&region, 0, 9);
        assert_eq!(drain(&mut order, &region, true), [3, 9]);
        assert_eq!((order.next, order.missed), (10, 4));
    }

    /// The program has written into a ring. What was written well comes, and is waited for as what is missing.
    #[test]
    fn numbers_that_nobody_gave_out_are_left_out() {
        let (mut order, region) = (Order::new(), Region::make().unwrap());
        let raw = |number: u32| Raw { number, op: 3, address: 16 * u64::from(number), size: 7 };
        [1, 2, 5, 6, 7].into_iter().for_each(|number| put(&region, 0, number));
        [3, 4].into_iter().for_each(|number| put(&region, 1, number));
        region.put_at(0, 1, raw(1 << 30));
        region.put_at(0, 2, raw(7));
        assert_eq!(drain(&mut order, &region, false), [1]);
        wait_for_long(&mut order);
        assert_eq!(drain(&mut order, &region, false), [3, 4]);
        wait_for_long(&mut order);
        assert_eq!(drain(&mut order, &region, false), [6, 7]);
        put(&region, 0, 1);
        assert!(drain(&mut order, &region, false).iter().all(|number| *number == 1));
        assert!(region.unread(0).is_empty() && region.unread(1).is_empty());
    }
}
