// SPDX-License-Identifier: MIT
//! The sampled heap profile of a process: which stacks have allocated what, and what of it is live.

pub mod arguments;
pub mod flames;
pub mod modules;
pub mod names;
pub mod page;
pub mod pprof;
pub mod recorder;
pub mod ring;
pub mod samples;
pub mod summary;
pub mod symbols;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::profile::modules::Modules;
use crate::profile::samples::Samples;
use crate::trace::text::count;

/// What was gathered of a process.
pub struct Profile {
    pub pid: u32,
    pub program: String,
    pub version: String,
    /// The file in which hakmem was found.
    pub library: String,
    pub mean_bytes: u64,
    /// Since 1970.
    pub started: Duration,
    pub samples: Samples,
    pub modules: Modules,
    pub threads: BTreeMap<u32, String>,
    /// Between which two moments growth is meant, in milliseconds since the start.
    pub growth: (u64, u64),
    /// For how long the process was looked at.
    pub lasted_ms: u64,
    pub dropped: u64,
    pub lost: u64,
    pub lost_stacks: u64,
    pub short_stacks: u64,
    /// The program has run from its first allocation to its end under these eyes.
    pub is_whole: bool,
    /// What went wrong.
    pub failures: Vec<String>,
}

impl Profile {
    pub fn thread(&self, id: u32) -> String {
        self.threads.get(&id).map_or_else(|| id.to_string(), |name| format!("{name} ({id})"))
    }

    /// What a reader has to know of how good the figures are.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = self.failures.clone();
        let mut say = |number: u64, what: &str, one: &str, many: &str, more: &str| {
            if number > 0 {
                remarks.push(format!("{} {}{more}", count(number, what), if number == 1 { one } else { many }));
            }
        };
        say(
            self.dropped,
            "event",
            "was",
            "were",
            " dropped by the process, as nobody had read the others yet, or too many samples were live: the \
             figures are too low, and what was freed may count as live for a second longer",
        );
        say(self.lost, "event", "was", "were", " never completed");
        let helps = " no stack, as nobody had read the others yet: a larger --every helps";
        say(self.lost_stacks, "sample", "has", "have", helps);
        say(
            self.short_stacks,
            "stack",
            "is",
            "are",
            " cut off at the outer end: deeper than the 16 KiB that are kept, or not to be followed further",
        );
        if !self.is_whole {
            remarks.push("What was allocated before the profile began, or after it ended, is not in it".into());
        }
        remarks
    }
}
