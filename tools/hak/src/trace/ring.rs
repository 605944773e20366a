// SPDX-License-Identifier: MIT
//! The events of all rings, put into the one order in which they were numbered.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::trace::region::{RINGS, Raw, Region};

/// What is not there by then, while others wait for it, never comes: its thread was ended in the middle.
const PATIENCE: Duration = Duration::from_secs(1);
/// So many events are kept for one that is missing.
const MOST_KEPT: usize = 1 << 20;

/// A ring is given back in steps of so many events.
const STEP: u64 = 1024;

/// An event in its order, or that so many microseconds had passed before the next one.
pub enum Step {
    Event(usize, Raw),
    Time(u64),
}

pub struct Order {
    started: Instant,
    /// The number of the next event.
    next: u64,
    /// Those behind it that are there already, by their distance.
    kept: VecDeque<Option<(usize, Raw)>>,
    /// The number that is missing, and since when.
    missing_since: Option<(u64, Instant)>,
    /// All events up to this number were before that moment, in microseconds.
    times: VecDeque<(u64, u64)>,
    /// Numbers that never came.
    pub missed: u64,
}

impl Order {
    pub fn new() -> Order {
        Order {
            started: Instant::now(),
            next: 1,
            kept: VecDeque::new(),
            missing_since: None,
            times: VecDeque::new(),
            missed: 0,
        }
    }

    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Reads all that is there, and hands on what can be. Returns how much that was. `is_last`: nobody writes any
    /// more, so what is missing does not come.
    pub fn drain(&mut self, region: &Region, is_last: bool, mut step: impl FnMut(Step)) -> u64 {
        let now = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let number = region.number();
        if self.times.back().is_none_or(|(before, _)| *before < number) && number >= self.next {
            self.times.push_back((number, now));
        }
        let mut count = 0;
        for ring in 0..RINGS {
            let unread = region.unread(ring);
            if unread.is_empty() {
                continue;
            }
            for index in unread.clone() {
                let raw = region.event(ring, index);
                self.take(ring, raw, &mut step);
                count += 1;
                // So that a thread that waits need not wait for all of it.
                if count % STEP == 0 {
                    region.read(ring, index + 1);
                }
            }
            region.read(ring, unread.end);
        }
        self.hand_on(&mut step);
        self.look_for_missing(is_last, &mut step);
        count
    }

    #[inline]
    fn take(&mut self, ring: usize, raw: Raw, step: &mut impl FnMut(Step)) {
        // The lowest bits tell how far it is from the next one.
        let distance = raw.number.wrapping_sub(self.next as u32).cast_signed();
        if distance == 0 && self.kept.is_empty() {
            self.give(ring, raw, step);
            return;
        }
        // One that was given up comes late.
        if distance < 0 {
            step(Step::Event(ring, raw));
            self.missed = self.missed.saturating_sub(1);
            return;
        }
        // What no counter can have given out was not written by the tracer.
        let distance = distance as usize;
        if distance >= MOST_KEPT * 64 {
            return;
        }
        if distance >= self.kept.len() {
            self.kept.resize(distance + 1, None);
        }
        self.kept[distance] = Some((ring, raw));
    }

    #[inline]
    fn give(&mut self, ring: usize, raw: Raw, step: &mut impl FnMut(Step)) {
        while let Some((_, microseconds)) = self.times.front().copied().filter(|(number, _)| *number < self.next) {
            self.times.pop_front();
            step(Step::Time(microseconds));
        }
        self.next += 1;
        step(Step::Event(ring, raw));
    }

    fn hand_on(&mut self, step: &mut impl FnMut(Step)) {
        while let Some((ring, raw)) = self.kept.front().copied().flatten() {
            self.kept.pop_front();
            self.give(ring, raw, step);
        }
    }

    fn look_for_missing(&mut self, is_last: bool, step: &mut impl FnMut(Step)) {
        if self.kept.is_empty() {
            self.missing_since = None;
            return;
        }
        let (_, since) = self.missing_since.filter(|(number, _)| *number == self.next).unwrap_or((0, Instant::now()));
        self.missing_since = Some((self.next, since));
        if is_last || since.elapsed() > PATIENCE || self.kept.len() > MOST_KEPT {
            while self.kept.front().is_some_and(Option::is_none) {
                self.kept.pop_front();
                self.next += 1;
                self.missed += 1;
            }
            self.missing_since = None;
            self.hand_on(step);
            if is_last {
                self.look_for_missing(is_last, step);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(number: u32) -> Raw {
        Raw { number, op: 0, address: 0, size: 0 }
    }

    /// Of two that are missing one after the other, the second has its own second to come in.
    #[test]
    fn each_number_that_is_missing_is_waited_for() {
        let (mut order, mut given) = (Order::new(), Vec::new());
        let mut step = |step: Step| {
            if let Step::Event(_, raw) = step {
                given.push(raw.number);
            }
        };
        order.take(0, raw(2), &mut step);
        order.look_for_missing(false, &mut step);
        order.missing_since.as_mut().unwrap().1 = Instant::now().checked_sub(2 * PATIENCE).unwrap();
        order.take(1, raw(1), &mut step);
        order.take(0, raw(4), &mut step);
        order.hand_on(&mut step);
        order.look_for_missing(false, &mut step);
        assert_eq!((order.next, order.missed), (3, 0));
        order.missing_since.as_mut().unwrap().1 = Instant::now().checked_sub(2 * PATIENCE).unwrap();
        order.look_for_missing(false, &mut step);
        assert_eq!((order.next, order.missed), (5, 1));
        assert_eq!(given, [1, 2, 4]);
    }
}
