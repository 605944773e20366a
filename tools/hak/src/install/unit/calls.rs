// SPDX-License-Identifier: MIT
//! Whether a service may make the system calls that hakmem makes: `SystemCallFilter=` of systemd.exec(5).

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::install::unit::Settings;

/// What hakmem calls under a filter that is there before the program: docs/configuration.md says what for, and
/// tests/life/listed_program.c has a filter of these.
const NEEDED: [&str; 16] = [
    "close",
    "fstat",
    "futex",
    "getpid",
    "gettid",
    "madvise",
    "mmap",
    "munmap",
    "newfstatat",
    "openat",
    "prctl",
    "pread64",
    "prlimit64",
    "read",
    "rt_sigprocmask",
    "sysinfo",
];
/// What it calls beside these where no filter is seen, as where `prctl` is answered with an error.
const UNSEEN: [&str; 14] = [
    "clock_gettime",
    "get_mempolicy",
    "getcpu",
    "membarrier",
    "mincore",
    "move_pages",
    "mremap",
    "process_vm_readv",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "sched_setaffinity",
    "sched_setscheduler",
    "tgkill",
];
/// What is lost where calls are answered with an error.
const LOST: [(&[&str], &str); 3] = [
    (&["madvise"], "what the program frees stays resident"),
    (&["sysinfo"], "the heap is laid out as on a machine of 8 GiB (HAKMEM_RESERVE= says otherwise)"),
    (
        &["close", "fstat", "openat", "read"],
        "its MemoryMax= and MemoryHigh= are not noticed (HAKMEM_SOFT_LIMIT= says them)",
    ),
];
/// A list of what is allowed has this to begin with.
const ALWAYS: &str = "@default";
const MOST_ERRORS: u32 = 4095;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Answer {
    Made,
    /// With an error.
    Refused,
    /// The process ends; or goes on as if the call had been made, which is worse.
    Ended,
}

/// What is after a colon. `None`: systemd does not know it.
fn denial(text: &str) -> Option<Answer> {
    match text.parse() {
        _ if text == "kill" => Some(Answer::Ended),
        Ok(0) => Some(Answer::Ended),
        Ok(number) => (number <= MOST_ERRORS).then_some(Answer::Refused),
        Err(_) => text.starts_with('E').then_some(Answer::Refused),
    }
}

/// The groups of system calls, by name, as systemd-analyze(1) prints them: each with its members below, which may be
/// groups.
pub struct Groups(BTreeMap<String, Vec<String>>);

impl Groups {
    fn parse(text: &str) -> Groups {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut group = None;
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let member = line.trim_start();
            if line.starts_with('@') {
                group = Some(all.entry(line.trim_end().to_owned()).or_default());
            } else if let (Some(group), true) = (&mut group, member.len() < line.len() && !member.is_empty()) {
                group.push(member.trim_end().to_owned());
            }
        }
        Groups(all)
    }

    /// `None`: there is no systemd to ask, or one without filters.
    pub fn of_systemd() -> Option<Groups> {
        let mut command = Command::new("systemd-analyze");
        command.args(["--no-pager", "syscall-filter"]).stdin(Stdio::null()).stderr(Stdio::null());
        let groups = Groups::parse(&String::from_utf8_lossy(&command.output().ok()?.stdout));
        groups.0.contains_key(ALWAYS).then_some(groups)
    }

    /// Of a word: itself, or what is in the group. One that systemd does not know has nothing in it.
    fn calls(&self, word: &str) -> Vec<String> {
        if !word.starts_with('@') {
            return vec![word.to_owned()];
        }
        self.0.get(word).into_iter().flatten().flat_map(|one| self.calls(one)).collect()
    }
}

/// The lines of a unit, in one.
struct Filter {
    /// Whether what is listed is allowed, rather than what is not. The first line says so.
    allows: bool,
    /// With what is said of the call alone.
    listed: BTreeMap<String, Option<Answer>>,
    /// What becomes of calls that are not allowed.
    denied: Answer,
}

impl Filter {
    fn new(lines: &[&str], denied: Answer, groups: &Groups) -> Filter {
        let allows = lines.first().is_some_and(|line| !line.starts_with('~'));
        let mut filter = Filter { allows, listed: BTreeMap::new(), denied };
        if allows {
            filter.listed.extend(groups.calls(ALWAYS).into_iter().map(|call| (call, None)));
        }
        for line in lines {
            let denies = line.starts_with('~');
            for word in line.strip_prefix('~').unwrap_or(line).split_whitespace() {
                let (name, answer) = match word.split_once(':') {
                    None => (word, None),
                    // Of what is allowed there is nothing to be said.
                    Some((name, text)) => match denial(text).filter(|_| denies) {
                        None => continue,
                        answer => (name, answer),
                    },
                };
                for call in groups.calls(name) {
                    if denies != allows || answer.is_some() {
                        filter.listed.insert(call, answer);
                    } else {
                        filter.listed.remove(&call);
                    }
                }
            }
        }
        filter
    }

    fn answer(&self, call: &str) -> Answer {
        match (self.listed.get(call), self.allows) {
            (Some(Some(answer)), _) => *answer,
            (Some(None), true) | (None, false) => Answer::Made,
            _ => self.denied,
        }
    }
}

/// `Err`: what it would be ended for. Otherwise what the user has to know.
pub fn check(settings: &Settings, groups: impl FnOnce() -> Option<Groups>) -> Result<Option<String>, String> {
    let lines: Vec<&str> = settings.in_force(&["SystemCallFilter"]).iter().map(|one| one.value.as_str()).collect();
    if lines.is_empty() {
        return Ok(None);
    }
    let Some(groups) = groups() else {
        return Ok(Some(format!(
            "there is no systemd-analyze here to ask what its SystemCallFilter= allows: hakmem needs {}",
            NEEDED.join(" ")
        )));
    };
    let denied = settings.last("SystemCallErrorNumber").and_then(denial).unwrap_or(Answer::Ended);
    let filter = Filter::new(&lines, denied, &groups);
    let with = |calls: &[&'static str], answer: Answer| -> Vec<&'static str> {
        calls.iter().copied().filter(|call| filter.answer(call) == answer).collect()
    };
    let mut ended = with(&NEEDED, Answer::Ended);
    if filter.answer("prctl") == Answer::Refused {
        ended.extend(with(&UNSEEN, Answer::Ended));
    }
    if !ended.is_empty() {
        return Err(ended.join(" "));
    }
    let refused = with(&NEEDED, Answer::Refused);
    let lost = LOST.iter().filter(|(calls, _)| calls.iter().any(|call| refused.contains(call)));
    let lost: Vec<&str> = lost.map(|(_, what)| *what).collect();
    if lost.is_empty() {
        return Ok(None);
    }
    let calls = refused.join(" ");
    Ok(Some(format!(
        "its SystemCallFilter= answers {calls} with an error, so {}; SystemCallFilter={calls} in a drop-in allows it",
        lost.join(", and ")
    )))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::install::unit::text::Setting;

    const SOME: &str = "@default\n    # Always\n    futex\n    getpid\n    gettid\n    membarrier\n    mmap\n    munmap\n    \
                        prlimit64\n\n@basic-io\n    close\n    pread64\n    read\n@file-system\n    close\n    fstat\n    newfstatat\n    openat\n\
                        @process\n    prctl\n    tgkill\n@signal\n    rt_sigprocmask\n@all\n    @basic-io\n    @default\n    \
                        @file-system\n    @process\n    @signal\n    madvise\n    mremap\n    sysinfo\n\n\
                        # Ungrouped System Calls:\n#   mincore\n";

    fn settings(lines: &[&str]) -> Settings {
        let of = |line: &&str| {
            let (name, value) = line.split_once('=').unwrap();
            Setting { name: name.into(), value: value.into(), file: PathBuf::new() }
        };
        Settings { all: lines.iter().map(of).collect(), before: 0 }
    }

    /// What it would be ended for; `None` if nothing.
    fn ended(lines: &[&str]) -> Option<String> {
        check(&settings(lines), || Some(Groups::parse(SOME))).err()
    }

    fn note(lines: &[&str]) -> String {
        check(&settings(lines), || Some(Groups::parse(SOME))).unwrap().unwrap_or_default()
    }

    #[test]
    fn a_list_that_allows_has_to_have_every_call() {
        let narrow = "SystemCallFilter=@basic-io @file-system @process @signal @network-io";
        assert_eq!(ended(&[narrow]).as_deref(), Some("madvise sysinfo"));
        assert_eq!(
            ended(&["SystemCallFilter=madvise sysinfo fstat"]).as_deref(),
            Some("close newfstatat openat prctl pread64 read rt_sigprocmask")
        );
        assert_eq!(
            ended(&["SystemCallFilter=@no-such"]).unwrap().split(' ').count(),
            10,
            "@default is there by itself"
        );
        for lines in [
            &["SystemCallFilter=@all"][..],
            &[narrow, "SystemCallFilter=sysinfo madvise"],
            &["SystemCallFilter=@signal", "SystemCallFilter=", "SystemCallFilter=@all"],
            &["SystemCallFilter=@signal", "SystemCallFilter="],
            &["SystemCallFilter=@all", "SystemCallFilter=~mremap @no-such"],
            &["SystemCallFilter=@all", "SystemCallFilter=madvise:EPERM"],
            &["SystemCallFilter=@all", "SystemCallFilter=~@process", "SystemCallFilter=prctl"],
            &["SystemCallArchitectures=native", "SystemCallErrorNumber=kill"],
        ] {
            assert_eq!((ended(lines), note(lines)), (None, String::new()), "{lines:?}");
        }
        assert_eq!(ended(&["SystemCallFilter=@all", "SystemCallFilter=~@process"]).as_deref(), Some("prctl"));
        assert_eq!(ended(&["SystemCallFilter=@all", "SystemCallFilter=", narrow]).as_deref(), Some("madvise sysinfo"));
    }

    #[test]
    fn a_list_that_denies_may_have_none_of_them() {
        assert_eq!(ended(&["SystemCallFilter=~madvise mlock"]).as_deref(), Some("madvise"));
        assert_eq!(
            ended(&["SystemCallFilter=~@process", "SystemCallFilter=~sysinfo"]).as_deref(),
            Some("prctl sysinfo")
        );
        assert_eq!(ended(&["SystemCallFilter=~mremap mincore @no-such"]), None, "it is not called under a filter");
        assert_eq!(ended(&["SystemCallFilter=~madvise", "SystemCallFilter=madvise"]), None);
        assert_eq!(ended(&["SystemCallFilter=~madvise", "SystemCallFilter=@signal"]).as_deref(), Some("madvise"));
    }

    #[test]
    fn an_error_ends_nothing() {
        let lost = "what the program frees stays resident";
        for lines in [
            &["SystemCallFilter=~madvise:EPERM"][..],
            &["SystemCallFilter=~madvise:1"],
            &["SystemCallFilter=~madvise", "SystemCallErrorNumber=ENOSYS"],
            &["SystemCallFilter=@all", "SystemCallFilter=~madvise:EPERM"],
            &["SystemCallFilter=@all", "SystemCallErrorNumber=EPERM", "SystemCallFilter=~madvise"],
        ] {
            let said = note(lines);
            assert!(said.contains(lost) && said.contains("SystemCallFilter=madvise in"), "{lines:?}: {said}");
        }
        assert_eq!(note(&["SystemCallFilter=~prctl:EPERM"]), "", "nothing is lost");
        // Nobody knows that there is a filter then.
        assert_eq!(ended(&["SystemCallFilter=~prctl:EPERM mincore"]).as_deref(), Some("mincore"));
        for lines in [
            &["SystemCallFilter=~madvise:kill", "SystemCallErrorNumber=EPERM"][..],
            &["SystemCallFilter=~madvise", "SystemCallErrorNumber=EPERM", "SystemCallErrorNumber=kill"],
            &["SystemCallFilter=~madvise", "SystemCallErrorNumber=EPERM", "SystemCallErrorNumber="],
            &["SystemCallFilter=~madvise:0"],
        ] {
            assert_eq!(ended(lines).as_deref(), Some("madvise"), "{lines:?}");
        }
        assert_eq!(ended(&["SystemCallFilter=~madvise:what"]), None, "systemd leaves such a word out");
    }

    #[test]
    fn without_systemd_nobody_knows() {
        let said = check(&settings(&["SystemCallFilter=@all"]), || None).unwrap().unwrap();
        assert!(said.contains("no systemd-analyze") && said.contains("madvise"), "{said}");
        assert_eq!(check(&settings(&["NoNewPrivileges=yes"]), || None), Ok(None));
    }

    #[test]
    fn systemd_knows_all_that_is_needed() {
        let Some(groups) = Groups::of_systemd() else { return };
        let service = groups.calls("@system-service");
        for call in NEEDED {
            assert!(service.iter().any(|one| one == call), "{call} is not in @system-service");
        }
        assert!(!service.iter().any(|one| one == "mincore" || one == "reboot"));
        assert_eq!(groups.calls("@no-such").len(), 0);
    }
}
