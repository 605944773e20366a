// SPDX-License-Identifier: MIT
//! How far threads may come apart when a trace is replayed: the calls are cut into segments, and a segment begins when
//! all but the one before it is done. So a segment is short where little is missing to the peak, for else blocks that
//! were live one after the other would be live together, or the other way round.

use anyhow::{Context, Result};

const CALLS: u64 = 4096;
/// Threads that make their first call, so that there are not many more at a time than the program had.
const NEWCOMERS: u32 = 8;
/// Near the peak, what is allocated and freed in a segment is this share of it, so two segments are 1.6 % of it;
const SHARE: u64 = 128;
/// or this, as less is lost among the pages that an allocator has besides.
const LEAST_ROOM: u64 = 16 << 10;

#[derive(Default)]
pub struct Segments {
    /// None: not known yet, and all may come apart.
    peak: Option<u64>,
    live: u64,
    pub most_live: u64,
    number: u32,
    calls: u64,
    changed: u64,
    room: u64,
    newcomers: u32,
    /// The only thread that has a part in it. Then the segment has an empty one before it, and one behind it, so
    /// nothing else is done meanwhile, and how much changes in it does not matter.
    owner: Option<u32>,
    known: Vec<bool>,
}

impl Segments {
    pub fn with_peak(peak: Option<u64>) -> Segments {
        let mut segments = Segments { peak, ..Segments::default() };
        segments.room = segments.room_now();
        segments
    }

    /// The segment of the next call, which allocates and frees so many bytes.
    pub fn of(&mut self, thread: u32, allocated: u64, freed: u64) -> Result<u32> {
        let changed = allocated.saturating_add(freed);
        if thread as usize >= self.known.len() {
            self.known.resize(thread as usize + 1, false);
        }
        let is_new = !std::mem::replace(&mut self.known[thread as usize], true);
        let fits = match self.owner {
            Some(owner) => owner == thread,
            None => self.changed.saturating_add(changed) <= self.room && !(is_new && self.newcomers == NEWCOMERS),
        };
        if !fits || self.calls == CALLS {
            let was_owned = self.owner.is_some();
            self.room = self.room_now();
            self.owner = (changed > self.room).then_some(thread);
            let distance = if was_owned || self.owner.is_some() { 2 } else { 1 };
            self.number = self.number.checked_add(distance).context("the trace is too long")?;
            (self.calls, self.changed, self.newcomers) = (0, 0, 0);
        }
        self.calls += 1;
        self.changed = self.changed.saturating_add(changed);
        self.newcomers += u32::from(is_new);
        self.live = self.live.saturating_add(allocated).saturating_sub(freed);
        self.most_live = self.most_live.max(self.live);
        Ok(self.number)
    }

    /// A quarter of what is missing to the peak: two segments, of which the second one may have a little more, do not
    /// reach it, whatever their order.
    fn room_now(&self) -> u64 {
        let Some(peak) = self.peak else { return u64::MAX };
        (peak / SHARE).max(peak.saturating_sub(self.live) / 4).max(LEAST_ROOM)
    }
}

/// How many threads there are at a time, at most, when each starts as its first segment may begin and is there until
/// its last one is done: from and to which segment, by thread.
pub fn at_a_time(threads: &[(u32, u32)]) -> usize {
    let mut starts: Vec<u32> = threads.iter().map(|thread| thread.0).collect();
    let mut ends: Vec<u32> = threads.iter().map(|thread| thread.1).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let (mut most, mut ended) = (0, 0);
    for (index, start) in starts.iter().enumerate() {
        // Those are done before it may begin.
        while ends[ended] + 1 < *start {
            ended += 1;
        }
        most = most.max(index + 1 - ended);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the worst order, what is live is not much more than the peak, nor is the peak passed by.
    #[test]
    fn two_segments_are_little_beside_what_is_missing_to_the_peak() {
        const BLOCK: u64 = 60_000;
        const PEAK: u64 = 512 * BLOCK;
        let mut segments = Segments::with_peak(Some(PEAK));
        let mut live = 0;
        // By segment: what was live before it, what it allocates, and what it frees.
        let mut all: Vec<(u64, u64, u64)> = Vec::new();
        for call in 0..2048_u32 {
            let is_free = call % 1024 >= 512;
            let (allocated, freed) = if is_free { (0, BLOCK) } else { (BLOCK, 0) };
            let number = segments.of(call % 32, allocated, freed).unwrap() as usize;
            if number >= all.len() {
                all.resize(number + 1, (live, 0, 0));
            }
            all[number].1 += allocated;
            all[number].2 += freed;
            live = live + allocated - freed;
        }
        assert_eq!(segments.most_live, PEAK);
        for pair in all.windows(2) {
            assert!(pair[0].0 + pair[0].1 + pair[1].1 <= PEAK + PEAK / 64, "{pair:?}");
        }
        // Of those where it is reached, what is freed before its time.
        let mut reached = all.windows(2).filter(|pair| pair[0].0 + pair[0].1 >= PEAK).peekable();
        assert!(reached.peek().is_some());
        reached.for_each(|pair| assert!(pair[0].2 + pair[1].2 <= PEAK / 64, "{pair:?}"));
        assert!(all.len() < 1024, "{} segments", all.len());
    }

    #[test]
    fn a_large_call_is_alone_and_its_thread_goes_on() {
        let mut segments = Segments::with_peak(Some(10 << 20));
        assert_eq!(segments.of(0, 1000, 0).unwrap(), 0);
        assert_eq!(segments.of(1, 9 << 20, 0).unwrap(), 2);
        assert_eq!(segments.of(1, 0, 9 << 20).unwrap(), 2);
        assert_eq!(segments.of(2, 9 << 20, 0).unwrap(), 4);
        assert_eq!(segments.of(0, 0, 1000).unwrap(), 6);
        assert_eq!(segments.of(1, 1000, 0).unwrap(), 6);
    }

    #[test]
    fn few_threads_begin_in_a_segment() {
        let mut segments = Segments::with_peak(Some(1 << 30));
        let mut parts = Vec::new();
        for thread in 0..800 {
            let number = segments.of(thread, 100, 0).unwrap();
            assert_eq!(number, thread / NEWCOMERS);
            parts.push((number, number));
        }
        assert_eq!(at_a_time(&parts), 2 * NEWCOMERS as usize);
        assert_eq!(at_a_time(&[(0, 9), (3, 4), (6, 6), (5, 9)]), 3);
    }
}
