// SPDX-License-Identifier: MIT
//! Gathers the samples of a process until it ends, or is not to be looked at any longer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::failure::{SOMETHING_FAILED, failure};
use crate::inspect::Inspected;
use crate::inspect::target::{printable, text};
use crate::profile::Profile;
use crate::profile::modules::Modules;
use crate::profile::ring::{Event, Ring, What};
use crate::profile::samples::Samples;

/// The ring has room for what comes meanwhile, of a process that allocates some gigabytes a second.
const PAUSE: Duration = Duration::from_millis(5);
/// New code is looked for so often; also where an address is in none that is known.
const LOOK: Duration = Duration::from_secs(1);

pub struct Recorder {
    inspected: Inspected,
    ring: Ring,
    profile: Profile,
    began: Instant,
    looked: Instant,
    /// It was started for this.
    from_start: bool,
    /// So many events were missing when what is live was last looked up.
    settled: u64,
}

impl Recorder {
    /// Of a process that was started with HAKMEM_SAMPLE, or, if `begin`, one that is told now.
    pub fn attach(inspected: Inspected, mean_bytes: u64, begin: bool) -> Result<Recorder> {
        let target = &inspected.target;
        let mut ring = Ring::of(target, &inspected.found.root)?;
        // It takes a while to read all files of a large program, in which there is room for few samples.
        let mut modules = Modules::default();
        modules.look(target)?;
        if begin {
            ring.start(target, &inspected.layout, mean_bytes)?;
        } else {
            ring.claim(target)?;
        }
        let profile = Profile {
            pid: target.pid,
            program: target.program(),
            version: inspected.found.root.version.clone(),
            library: inspected.found.file.clone(),
            mean_bytes,
            started: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            samples: Samples::default(),
            modules,
            threads: BTreeMap::new(),
            growth: (0, 0),
            lasted_ms: 0,
            dropped: 0,
            lost: 0,
            lost_stacks: 0,
            short_stacks: 0,
            is_whole: false,
            failures: Vec::new(),
        };
        let now = Instant::now();
        Ok(Recorder { inspected, ring, profile, began: now, looked: now, from_start: !begin, settled: 0 })
    }

    /// Until `is_over`, or the process ends. What was gathered is kept, whatever happens.
    pub fn gather(&mut self, mut is_over: impl FnMut() -> bool) {
        let mut knows_of_end = false;
        while !is_over() {
            let started = Instant::now();
            let ends = match self.step() {
                Ok(ends) => ends,
                Err(error) => {
                    // What has ended has no memory; and the library says before that it will.
                    if self.inspected.target.check().is_ok() {
                        self.profile.failures.push(format!("The profile ended early: {error:#}"));
                    }
                    break;
                }
            };
            // Busy as long as there is much: a pause is for those that have little to say. A process that ends waits for
            // the round after the one in which this was seen.
            if knows_of_end || !ends {
                std::thread::sleep(PAUSE.saturating_sub(started.elapsed()));
            }
            knows_of_end = ends;
        }
    }

    /// Whether the process is about to end.
    fn step(&mut self) -> Result<bool> {
        let target = &self.inspected.target;
        let ends = self.ring.is_ending(target)?;
        if !self.ring.is_on(target)? {
            let message = "sampling was ended from elsewhere, or hak was not heard of for ten seconds";
            return Err(failure(SOMETHING_FAILED, message));
        }
        self.ring.check_reader(target)?;
        for event in self.ring.drain(target)? {
            self.add(&event);
        }
        // It waits for this before it ends.
        self.profile.is_whole |= ends && self.from_start;
        let target = &self.inspected.target;
        self.profile.dropped = self.ring.dropped(target)?;
        let is_due = self.looked.elapsed() > LOOK;
        if self.profile.dropped + self.ring.lost > self.settled && (is_due || ends) {
            self.settled = self.profile.dropped + self.ring.lost;
            self.profile.samples.settle(&self.ring.watched(target)?);
        }
        if is_due {
            self.look()?;
        }
        Ok(ends)
    }

    fn look(&mut self) -> Result<()> {
        self.looked = Instant::now();
        self.profile.modules.look(&self.inspected.target)
    }

    fn add(&mut self, event: &Event) {
        let profile = &mut self.profile;
        let pid = profile.pid;
        profile.threads.entry(event.thread).or_insert_with(|| {
            let name = text(format!("/proc/{pid}/task/{}/comm", event.thread));
            name.map_or_else(|_| "thread".into(), |name| printable(name.trim_end()))
        });
        let mut places = Vec::new();
        if let What::Allocated { stack: Some(registers), .. } = &event.what {
            let (found, is_short) = self.profile.modules.unwind(registers);
            places = found;
            // It may have been loaded since the last look.
            let is_new = places.iter().any(|place| place.module.is_none());
            let mut short = is_short;
            if is_new && self.looked.elapsed() > PAUSE && self.look().is_ok() {
                (places, short) = self.profile.modules.unwind(registers);
            }
            self.profile.short_stacks += u64::from(short);
        }
        let stack = self.profile.samples.stack(places);
        self.profile.samples.add(event, stack);
    }

    /// Ends sampling, if the process is there still, and runs the same program.
    pub fn finish(mut self) -> Profile {
        let target = &self.inspected.target;
        if target.is_same() {
            if let Err(error) = self.ring.stop(target)
                && target.is_same()
            {
                self.profile.failures.push(format!("the process goes on sampling for ten seconds: {error:#}"));
            }
            if let Ok(events) = self.ring.drain(&self.inspected.target) {
                events.iter().for_each(|event| self.add(event));
            }
        }
        self.profile.lost = self.ring.lost;
        self.profile.lost_stacks = self.ring.lost_stacks;
        // The process's clock shows no more than what it has done.
        self.profile.lasted_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let end = self.profile.samples.duration_ms();
        self.profile.growth = (end / 2, end);
        self.profile
    }
}
