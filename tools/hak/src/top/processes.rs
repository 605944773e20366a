// SPDX-License-Identifier: MIT
//! All processes that may be read, and which of them run under hakmem.
//!
//! Where the tables of a process lie is found out once. That others do not run under hakmem is remembered as well,
//! as it takes the symbols of all their libraries; from time to time their libraries are compared with those.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::failure::{self, SOMETHING_FAILED, failure};
use crate::inspect::identity::Identity;
use crate::inspect::target::{Mapping, Target};
use crate::inspect::threads::State;
use crate::inspect::{Inspected, found};
use crate::top::course::{Look, per_second, purged};
use crate::top::row::Row;

/// A process that has loaded hakmem by itself, long after it began, is found after so many looks.
const LOOKS_BETWEEN: u64 = 10;
/// No library takes so long from being mapped to knowing its address.
const LOADED: Duration = Duration::from_secs(3);
/// Of a process in the middle of a change.
const TRIES: usize = 3;

/// All that could be seen at a time.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    pub rows: Vec<Row>,
    /// Processes that may not be read.
    pub denied: usize,
    /// Processes under a hakmem that this tool does not know.
    pub unknown: usize,
}

#[derive(Default)]
pub struct Processes {
    known: HashMap<u32, Known>,
    looks: u64,
}

struct Known {
    identity: Identity,
    what: What,
}

enum What {
    Under(Box<Inspected>, Option<(Instant, u64)>),
    NotUnder(Absence),
    Denied,
    Unknown,
}

/// No hakmem in the files that a process had code of. One that was just being loaded does not know its address yet, so
/// it takes some time until that is sure.
struct Absence {
    code: Vec<(u64, String)>,
    since: Instant,
    is_sure: bool,
}

impl Absence {
    fn of(code: Vec<(u64, String)>) -> Absence {
        Absence { code, since: Instant::now(), is_sure: false }
    }

    /// It was found once more.
    fn found_again(self, now: Absence) -> Absence {
        if self.code != now.code {
            return now;
        }
        Absence { is_sure: now.since.saturating_duration_since(self.since) >= LOADED, ..self }
    }
}

impl Processes {
    pub fn list(&mut self) -> Result<Listing> {
        let is_again = self.looks.is_multiple_of(LOOKS_BETWEEN);
        self.looks += 1;
        let pids = pids()?;
        self.known.retain(|pid, _| pids.contains(pid));
        let mut listing = Listing::default();
        for pid in pids {
            let Some(identity) = Identity::of(pid) else {
                self.known.remove(&pid);
                continue;
            };
            let known = match self.known.remove(&pid) {
                Some(known) if known.identity == identity && !is_again => known,
                Some(known) if known.identity == identity => Known { what: again(pid, known.what), identity },
                _ => Known { what: find(pid), identity },
            };
            let known = self.known.entry(pid).insert_entry(known).into_mut();
            match &mut known.what {
                What::Under(inspected, before) => listing.rows.extend(row(inspected, before)),
                What::NotUnder(_) => {}
                What::Denied => listing.denied += 1,
                What::Unknown => listing.unknown += 1,
            }
        }
        Ok(listing)
    }

    /// Why one cannot be looked at is an error as that of `hak inspect`.
    pub fn look(&mut self, pid: u32) -> Result<Look> {
        let identity = Identity::of(pid);
        let is_same = |known: &Known| Some(&known.identity) == identity.as_ref();
        if let Some(Known { what: What::Under(inspected, _), .. }) = self.known.get(&pid).filter(|known| is_same(known))
        {
            return look(inspected);
        }
        // It has ended, or has become another program.
        if let Some(Known { what: What::Under(before, _), .. }) = self.known.remove(&pid) {
            before.target.check()?;
        }
        let inspected = Inspected::attach(pid)?;
        let looked = look(&inspected)?;
        if let Some(identity) = identity {
            self.known.insert(pid, Known { identity, what: What::Under(Box::new(inspected), None) });
        }
        Ok(looked)
    }
}

fn pids() -> Result<Vec<u32>> {
    let cannot = |error: std::io::Error| failure(SOMETHING_FAILED, format!("cannot read /proc: {error}"));
    let names = fs::read_dir("/proc").map_err(cannot)?.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

fn find(pid: u32) -> What {
    let attach = || {
        let target = Target::open(pid)?;
        let mappings = target.mappings()?;
        match found::search(&target, &mappings) {
            Ok(None) => Ok(What::NotUnder(Absence::of(code(&mappings)))),
            Ok(Some(found)) => {
                Ok(Inspected::of(target, found).map_or(What::Unknown, |it| What::Under(it.into(), None)))
            }
            Err(_) => Ok(What::Unknown),
        }
    };
    // Threads of the kernel, and what has ended and is not waited for, are bad input.
    attach().unwrap_or_else(|error: anyhow::Error| match failure::code_of(&error) {
        SOMETHING_FAILED if Identity::of(pid).is_some() => What::Denied,
        _ => What::NotUnder(Absence::of(Vec::new())),
    })
}

fn again(pid: u32, what: What) -> What {
    match what {
        What::NotUnder(before) => {
            let now = Target::open(pid).and_then(|target| target.mappings()).map(|mappings| code(&mappings));
            match now {
                Ok(now) if before.is_sure && now == before.code => What::NotUnder(before),
                Ok(_) => match find(pid) {
                    What::NotUnder(now) => What::NotUnder(before.found_again(now)),
                    found => found,
                },
                Err(_) => What::NotUnder(before),
            }
        }
        What::Denied | What::Unknown => find(pid),
        under => under,
    }
}

fn code(mappings: &[Mapping]) -> Vec<(u64, String)> {
    let executable = mappings.iter().filter(|mapping| mapping.executable && mapping.inode != 0);
    executable.map(|mapping| (mapping.inode, mapping.path.clone())).collect()
}

fn look(inspected: &Inspected) -> Result<Look> {
    let mut tried = inspected.look();
    for _ in 1..TRIES {
        if tried.is_ok() {
            break;
        }
        inspected.target.check()?;
        tried = inspected.look();
    }
    let (_, _, snapshot) = tried?;
    Ok(Look { at: Instant::now(), snapshot: Box::new(snapshot) })
}

/// `None` if it has ended.
fn row(inspected: &Inspected, before: &mut Option<(Instant, u64)>) -> Option<Row> {
    let Look { at, snapshot } = look(inspected).ok()?;
    let now = (at, purged(&snapshot.figures));
    let returned = before.replace(now).and_then(|before| per_second(before, now));
    Some(Row {
        pid: inspected.target.pid,
        program: snapshot.inspect.as_ref().map_or_else(String::new, |inspect| inspect.program.clone()),
        threads: snapshot.heaps.iter().filter(|heap| heap.state == State::Attached).count() as u64,
        figures: snapshot.figures,
        returned,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_that_are_not_under_hakmem_are_not_listed() {
        let mut processes = Processes::default();
        for _ in 0..=LOOKS_BETWEEN {
            let listing = processes.list().unwrap();
            assert!(listing.rows.iter().all(|row| row.pid != std::process::id()));
        }
        assert!(
            matches!(processes.known[&std::process::id()].what, What::NotUnder(ref absence) if !absence.code.is_empty())
        );
        let error = processes.look(std::process::id()).unwrap_err();
        assert!(error.to_string().contains("does not run under hakmem"));
    }

    #[test]
    fn a_process_with_another_program_is_looked_at_anew() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo shell; read line; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let (pid, mut stdin) = (child.id(), child.stdin.take().unwrap());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut processes = Processes::default();
        let mut has_code_of_cat = || {
            processes.list().unwrap();
            let What::NotUnder(absence) = &processes.known[&pid].what else { panic!("it is not under hakmem") };
            absence.code.iter().any(|(_, path)| path.ends_with("/cat"))
        };
        assert_eq!(lines.next().unwrap().unwrap(), "shell");
        assert!(!has_code_of_cat());
        stdin.write_all(b"\n").unwrap();
        // A shell may read more than its line.
        while !fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().contains("cat") {}
        stdin.write_all(b"cat\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "cat");
        assert!(has_code_of_cat(), "at the next look already");
        drop(stdin);
        child.wait().unwrap();
    }

    #[test]
    fn that_there_is_no_hakmem_is_sure_after_a_time() {
        let at = |name: &str, seconds: u64| {
            let absence = Absence::of(vec![(1, name.to_owned())]);
            Absence { since: absence.since + Duration::from_secs(seconds), ..absence }
        };
        assert!(!at("one", 0).is_sure);
        let again = at("one", 0).found_again(at("one", 1));
        assert!(!again.is_sure, "it may be on its way still");
        assert!(again.found_again(at("one", 10)).is_sure);
        let other = at("one", 0).found_again(at("other", 10));
        assert!(!other.is_sure && !other.found_again(at("other", 11)).is_sure, "what is new may be on its way");
    }
}
