// SPDX-License-Identifier: MIT
//! Whether a process is the one that had this number before, and still runs the same program.

use crate::inspect::target::text;

/// When it began, and where the program that it runs lies in its memory, with its arguments: a number that is given
/// to another process, and `exec`, change them. Zero where the process may not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity(Vec<u64>);

/// Of proc_pid_stat(5): starttime, startcode, startstack, arg_start, env_start.
const FIELDS: [usize; 5] = [22, 26, 28, 48, 50];
/// The first one behind the name of the program, which may hold anything.
const FIRST: usize = 3;

impl Identity {
    /// `None`: there is no such process.
    pub fn of(pid: u32) -> Option<Identity> {
        parsed(&text(format!("/proc/{pid}/stat")).ok()?)
    }
}

fn parsed(stat: &str) -> Option<Identity> {
    let (_, behind) = stat.rsplit_once(')')?;
    let words: Vec<&str> = behind.split_whitespace().collect();
    let field = |number: &usize| words.get(number - FIRST)?.parse().ok();
    FIELDS.iter().map(field).collect::<Option<_>>().map(Identity)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_that_becomes_another_one_is_another() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo ready; read line; exec sh -c 'echo ready; read line'"]);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut lines = BufReader::new(stdout).lines();
        let mut at_next = || {
            assert_eq!(lines.next().unwrap().unwrap(), "ready");
            (Identity::of(child.id()).unwrap(), Identity::of(child.id()).unwrap())
        };
        let (first, again) = at_next();
        assert_eq!(first, again);
        stdin.write_all(b"\n").unwrap();
        assert_ne!(at_next().0, first);
        drop(stdin);
        child.wait().unwrap();
        assert_eq!(Identity::of(child.id()), None);
    }

    #[test]
    fn names_may_hold_anything() {
        let stat = |name: &str| format!("1 ({name}) S {}", (4..53).map(|n| n.to_string() + " ").collect::<String>());
        assert_eq!(parsed(&stat("a) b (c")), Some(Identity(vec![22, 26, 28, 48, 50])));
        assert_eq!(parsed("1 (cut off) S 1 2"), None);
    }
}
