// SPDX-License-Identifier: MIT
//! One process over time: what was seen of it, and how fast it gives memory back.

use std::collections::VecDeque;
use std::time::Instant;

use crate::inspect::snapshot::{Figures, Snapshot};

/// So many moments are kept.
const MOST: usize = 600;

/// What hakmem has decided to give back: a tally of bytes, and why.
pub type Decision = (&'static str, fn(&Figures) -> u64, &'static str);

/// To the system.
pub const PURGED: [Decision; 5] = [
    ("purged_aged", |f| f.purged_aged, "nobody took it for a second"),
    ("purged_strained", |f| f.purged_strained, "more was free than is kept"),
    ("purged_idle", |f| f.purged_idle, "free pages of slabs that nobody used"),
    ("purged_trimmed", |f| f.purged_trimmed, "the program asked for it"),
    ("purged_limited", |f| f.purged_limited, "the heap came near a limit"),
];
/// From threads' magazines to slabs.
pub const FLUSHED: [Decision; 3] = [
    ("flushed_unused", |f| f.flushed_unused, "not used, or others grew"),
    ("flushed_stripped", |f| f.flushed_stripped, "the thread sleeps, or they serve it alone"),
    ("flushed_ended", |f| f.flushed_ended, "the thread has ended"),
];

pub fn purged(figures: &Figures) -> u64 {
    PURGED.iter().map(|(_, tally, _)| tally(figures)).sum()
}

/// What a look has found, and when.
#[derive(Debug, Clone)]
pub struct Look {
    pub at: Instant,
    pub snapshot: Box<Snapshot>,
}

/// By how much a tally has grown in a second between two looks.
pub fn per_second(from: (Instant, u64), to: (Instant, u64)) -> Option<f64> {
    let seconds = to.0.saturating_duration_since(from.0).as_secs_f64();
    // A program that has become another one begins anew.
    (seconds > 0.0 && to.1 >= from.1).then(|| (to.1 - from.1) as f64 / seconds)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Since the first.
    pub seconds: f64,
    pub resident: u64,
    /// What of it the program holds.
    pub live: u64,
}

#[derive(Debug, Clone)]
pub struct Course {
    began: Instant,
    pub moments: VecDeque<Moment>,
    before: Option<(Instant, Figures)>,
    pub last: Look,
}

impl Course {
    pub fn begin(look: Look) -> Course {
        let mut course = Course { began: look.at, moments: VecDeque::new(), before: None, last: look };
        course.note();
        course
    }

    pub fn go_on(&mut self, look: Look) {
        let last = std::mem::replace(&mut self.last, look);
        self.before = Some((last.at, last.snapshot.figures));
        self.note();
    }

    fn note(&mut self) {
        let figures = &self.last.snapshot.figures;
        if self.moments.len() == MOST {
            self.moments.pop_front();
        }
        self.moments.push_back(Moment {
            seconds: self.last.at.saturating_duration_since(self.began).as_secs_f64(),
            resident: figures.resident,
            live: figures.resident_live,
        });
    }

    /// Bytes a second between the last two looks; `None` after the first.
    pub fn rate(&self, tally: impl Fn(&Figures) -> u64) -> Option<f64> {
        let (at, before) = self.before.as_ref()?;
        per_second((*at, tally(before)), (self.last.at, tally(&self.last.snapshot.figures)))
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;
    use crate::inspect::picture::tests::made;

    pub fn look(at: Instant, change: impl Fn(&mut Snapshot)) -> Look {
        let mut snapshot = made(&[], "").snapshot;
        change(&mut snapshot);
        Look { at, snapshot: Box::new(snapshot) }
    }

    #[test]
    fn rates_are_of_the_last_two_looks() {
        let start = Instant::now();
        let at = |seconds: u64, aged: u64| look(start + Duration::from_secs(seconds), |s| s.figures.purged_aged = aged);
        let aged = |course: &Course| course.rate(|figures| figures.purged_aged);
        let mut course = Course::begin(at(0, 1000));
        assert_eq!(aged(&course), None);
        course.go_on(at(1, 1500));
        assert_eq!(aged(&course), Some(500.0));
        course.go_on(at(5, 1900));
        assert_eq!(aged(&course), Some(100.0), "also behind a pause");
        course.go_on(at(6, 10));
        assert_eq!(aged(&course), None, "another program");
        assert_eq!(course.moments.iter().map(|moment| moment.seconds).collect::<Vec<_>>(), [0.0, 1.0, 5.0, 6.0]);
    }

    #[test]
    fn the_oldest_moments_are_forgotten() {
        let start = Instant::now();
        let at = |seconds: u64| look(start + Duration::from_secs(seconds), |s| s.figures.resident = seconds);
        let mut course = Course::begin(at(0));
        (1..MOST as u64 + 10).for_each(|seconds| course.go_on(at(seconds)));
        assert_eq!(course.moments.len(), MOST);
        assert_eq!(course.moments[0].resident, 10);
    }
}
