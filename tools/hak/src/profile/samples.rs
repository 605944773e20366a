// SPDX-License-Identifier: MIT
//! What samples tell: which stack allocated how much, and how much of it was live when.
//!
//! A byte is sampled with the same chance, wherever it was allocated. A block of `s` bytes is a sample if one of its
//! bytes is, with the chance 1 - exp(-s / mean), so each sample stands for the reciprocal of that number of blocks.

use std::collections::{HashMap, HashSet};

use crate::profile::modules::Place;
use crate::profile::ring::{Event, What};

pub struct Sample {
    /// Of blocks and bytes, how many it stands for.
    pub count: f64,
    pub bytes: f64,
    pub stack: usize,
    pub thread: u32,
    /// When it was allocated and freed: numbers of events, and milliseconds.
    pub since: u64,
    pub since_ms: u64,
    pub freed: Option<(u64, u64)>,
}

/// Which bytes are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Value {
    /// Live when most was
    Peak,
    /// Live at the end, never freed
    Live,
    /// All that was allocated, freed or not
    Allocated,
    /// Live at the second moment of --growth, less what was at the first
    Growth,
}

#[derive(Default)]
pub struct Samples {
    pub all: Vec<Sample>,
    pub stacks: Vec<Vec<Place>>,
    known: HashMap<Vec<Place>, usize>,
    live: HashMap<u64, usize>,
    events: u64,
    live_bytes: f64,
    pub peak_bytes: f64,
    peak_event: u64,
    pub peak_ms: u64,
    pub first_ms: Option<u64>,
    pub last_ms: u64,
    /// The course of what is live: milliseconds since the start, and bytes.
    pub course: Vec<(u64, f64)>,
}

impl Samples {
    pub fn stack(&mut self, places: Vec<Place>) -> usize {
        if let Some(index) = self.known.get(&places) {
            return *index;
        }
        self.stacks.push(places.clone());
        self.known.insert(places, self.stacks.len() - 1);
        self.stacks.len() - 1
    }

    /// `stack` is of an allocation.
    pub fn add(&mut self, event: &Event, stack: usize) {
        self.events += 1;
        self.time(event.time_ms);
        match event.what {
            What::Allocated { bytes, mean_bytes, .. } => {
                // An event that was lost has freed it.
                self.free(event);
                let size = bytes as f64;
                let count = 1.0 / -(-size / mean_bytes.max(1) as f64).exp_m1();
                self.live.insert(event.block, self.all.len());
                self.live_bytes += size * count;
                self.all.push(Sample {
                    count,
                    bytes: size * count,
                    stack,
                    thread: event.thread,
                    since: self.events,
                    since_ms: event.time_ms,
                    freed: None,
                });
                if self.live_bytes > self.peak_bytes {
                    (self.peak_bytes, self.peak_event, self.peak_ms) = (self.live_bytes, self.events, event.time_ms);
                }
            }
            What::Freed => self.free(event),
        }
        let at = event.time_ms.saturating_sub(self.first_ms.unwrap_or(0));
        match self.course.last_mut() {
            Some(last) if last.0 == at => last.1 = self.live_bytes,
            _ => self.course.push((at, self.live_bytes)),
        }
    }

    /// Milliseconds that the process's clock has shown.
    pub fn time(&mut self, now_ms: u64) {
        self.first_ms.get_or_insert(now_ms);
        self.last_ms = self.last_ms.max(now_ms);
    }

    fn free(&mut self, event: &Event) {
        if let Some(index) = self.live.remove(&event.block) {
            self.live_bytes -= self.all[index].bytes;
            self.all[index].freed = Some((self.events, event.time_ms));
        }
    }

    /// Events are missing: what is not live any more was freed some time before now.
    pub fn settle(&mut self, live: &HashSet<u64>) {
        let gone: Vec<u64> = self.live.keys().filter(|block| !live.contains(block)).copied().collect();
        self.events += 1;
        for block in gone {
            self.free(&Event { thread: 0, block, time_ms: self.last_ms, what: What::Freed });
        }
    }

    fn at_peak(&self, sample: &Sample) -> bool {
        sample.since <= self.peak_event && sample.freed.is_none_or(|(freed, _)| freed > self.peak_event)
    }

    fn at(&self, sample: &Sample, ms: u64) -> bool {
        let at = self.first_ms.unwrap_or(0) + ms;
        sample.since_ms <= at && sample.freed.is_none_or(|(_, freed)| freed > at)
    }

    /// How often the sample counts.
    pub fn share(&self, sample: &Sample, value: Value, growth: (u64, u64)) -> f64 {
        match value {
            Value::Peak => f64::from(u8::from(self.at_peak(sample))),
            Value::Live => f64::from(u8::from(sample.freed.is_none())),
            Value::Allocated => 1.0,
            Value::Growth => {
                f64::from(u8::from(self.at(sample, growth.1))) - f64::from(u8::from(self.at(sample, growth.0)))
            }
        }
    }

    pub fn sum(&self, value: Value, growth: (u64, u64)) -> f64 {
        self.all.iter().map(|sample| sample.bytes * self.share(sample, value, growth)).sum()
    }

    /// By stack, of one thread or all; the largest first, and without what is nothing.
    pub fn by_stack(&self, value: Value, growth: (u64, u64), thread: Option<u32>) -> Vec<(usize, f64)> {
        let mut sums = vec![0.0; self.stacks.len()];
        for sample in self.all.iter().filter(|sample| thread.is_none_or(|thread| thread == sample.thread)) {
            sums[sample.stack] += sample.bytes * self.share(sample, value, growth);
        }
        let mut sums: Vec<(usize, f64)> =
            sums.into_iter().enumerate().filter(|(_, bytes)| bytes.abs() >= 0.5).collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1));
        sums
    }

    pub fn duration_ms(&self) -> u64 {
        self.last_ms.saturating_sub(self.first_ms.unwrap_or(self.last_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ms: u64, block: u64, bytes: u64) -> Event {
        let what = match bytes {
            0 => What::Freed,
            bytes => What::Allocated { bytes, mean_bytes: 1, stack: None },
        };
        Event { thread: 7, block, time_ms, what }
    }

    #[test]
    fn the_peak_is_that_of_the_order_of_events() {
        let mut samples = Samples::default();
        let (a, b) = (samples.stack(Vec::new()), samples.stack(vec![Place { module: None, address: 1 }]));
        for (time, block, bytes, stack) in
            [(10, 1, 100, a), (11, 2, 200, b), (12, 1, 0, a), (13, 3, 50, a), (20, 2, 0, b), (30, 4, 60, b)]
        {
            samples.add(&event(time, block, bytes), stack);
        }
        assert_eq!(samples.peak_bytes.round() as u64, 300);
        let rounded = |value, growth| -> Vec<(usize, u64)> {
            let sums = samples.by_stack(value, growth, None);
            sums.into_iter().map(|(stack, bytes)| (stack, bytes.round() as u64)).collect()
        };
        assert_eq!(rounded(Value::Peak, (0, 0)), [(b, 200), (a, 100)]);
        assert_eq!(rounded(Value::Live, (0, 0)), [(b, 60), (a, 50)]);
        assert_eq!(rounded(Value::Allocated, (0, 0)), [(b, 260), (a, 150)]);
        // From 200 of b alone, and 50 of a, to 50 of a and 60 of b.
        let sums = samples.by_stack(Value::Growth, (4, 20), None);
        assert_eq!(sums.iter().map(|sum| (sum.0, sum.1.round() as i64)).collect::<Vec<_>>(), [(b, -140)]);
        assert_eq!(samples.duration_ms(), 20);
    }

    #[test]
    fn a_sample_stands_for_as_many_as_were_not_taken() {
        let mut samples = Samples::default();
        let stack = samples.stack(Vec::new());
        let what = What::Allocated { bytes: 16, mean_bytes: 1 << 20, stack: None };
        samples.add(&Event { thread: 1, block: 1, time_ms: 0, what }, stack);
        assert!((samples.all[0].bytes - f64::from(1 << 20)).abs() < 16.0);
    }

    #[test]
    fn a_block_that_comes_again_was_freed() {
        let mut samples = Samples::default();
        let stack = samples.stack(Vec::new());
        samples.add(&event(1, 5, 1000), stack);
        samples.add(&event(2, 5, 1000), stack);
        assert_eq!(samples.sum(Value::Live, (0, 0)).round() as u64, 1000);
        assert_eq!(samples.peak_bytes.round() as u64, 1000);
    }
}
