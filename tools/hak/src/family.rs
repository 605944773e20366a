// SPDX-License-Identifier: MIT
//! A program that is waited for with all that it leaves behind, and that gets the signals that hak gets.
//!
//! Processes whose parents have ended become children of hak (PR_SET_CHILD_SUBREAPER), so a program that goes
//! on in the background is waited for too.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::inherited;
use crate::inspect::target::{printable, text};
use crate::interrupt::is_ignored;
use crate::output::say;
use crate::sampling;

const HANDED_ON: [i32; 6] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

pub struct Family {
    first: Pid,
    /// Once it has ended.
    status: Option<ExitStatus>,
    /// The signals that it caught then, a bit each; none if that could not be read.
    caught: Option<u64>,
    signals: SignalsInfo<WithOrigin>,
}

impl Family {
    pub fn start(command: &mut Command) -> io::Result<Family> {
        set_child_subreaper(Some(getpid()))?;
        // Before the start, so that none is lost. What is ignored stays so, for the program too, as nohup needs it.
        let taken = HANDED_ON.into_iter().filter(|signal| !is_ignored(*signal)).chain([SIGCHLD]);
        let signals = SignalsInfo::new(taken)?;
        // It is called behind fork, so that execvp follows: posix_spawn, which would be used without it, starts no script
        // without a first line for its interpreter.
        inherited::hand_on(command);
        let first = Pid::from_child(&command.spawn()?);
        Ok(Family { first, status: None, caught: None, signals })
    }

    pub fn first(&self) -> u32 {
        self.first.as_raw_nonzero().get().cast_unsigned()
    }

    /// The signals that the program caught when it ended, the first one in the lowest bit; none if that is not known.
    pub fn caught(&self) -> Option<u64> {
        self.caught
    }

    /// How the program ended, if it has; hands on the signals that have come. Does not wait.
    pub fn poll(&mut self) -> Option<ExitStatus> {
        for origin in self.signals.pending().collect::<Vec<_>>() {
            if origin.signal != SIGCHLD && self.status.is_none() {
                hand_on(self.first, &origin);
            }
        }
        self.take_ended();
        self.status
    }

    /// Until the program and all that it has left behind have ended. How the program ended.
    pub fn wait(&mut self) -> ExitStatus {
        loop {
            for origin in self.signals.wait().collect::<Vec<_>>() {
                match self.status {
                    _ if origin.signal == SIGCHLD => {}
                    None => hand_on(self.first, &origin),
                    Some(status) => {
                        say(format_args!("hak: not waited for any longer, without statistics: {}", left_behind()));
                        return status;
                    }
                }
            }
            let running = self.status.is_none();
            let others_are_left = self.take_ended();
            let Some(status) = self.status else { continue };
            if !others_are_left {
                return status;
            }
            if running {
                let first = self.first.as_raw_nonzero();
                let left = left_behind();
                say(format_args!("hak: process {first} has ended; waiting for what it left running: {left}"));
                say("hak: their statistics come when they end; Ctrl-C ends the waiting");
            }
        }
    }

    /// Whether children are left.
    fn take_ended(&mut self) -> bool {
        loop {
            match ended_child() {
                Ok(Some(pid)) => {
                    if pid == self.first {
                        self.caught = caught_by(pid);
                    }
                    if let Ok(Some((pid, status))) = waitpid(Some(pid), WaitOptions::NOHANG)
                        && pid == self.first
                    {
                        self.status = Some(ExitStatus::from_raw(status.as_raw()));
                    }
                }
                Ok(None) => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}

/// A child that has ended and is there still, so that more can be read of it; none if all run.
fn ended_child() -> io::Result<Option<Pid>> {
    // SAFETY: waitid only fills in the structure, for which all zeros are a value; without a child it stays so.
    unsafe {
        let mut ended: libc::siginfo_t = std::mem::zeroed();
        match libc::waitid(libc::P_ALL, 0, &raw mut ended, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) {
            0 => Ok(Pid::from_raw(ended.si_pid())),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn caught_by(pid: Pid) -> Option<u64> {
    let status = text(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(caught.trim(), 16).ok()
}

/// What the kernel sends for a key of the terminal, it sends to the program itself as well.
fn hand_on(program: Pid, origin: &Origin) {
    if origin.cause == Cause::Kernel {
        return;
    }
    if let Some(signal) = Signal::from_named_raw(origin.signal) {
        let _ = kill_process(program, signal);
    }
}

/// "1234 (nginx), 1235 (nginx)"
fn left_behind() -> String {
    let name = |pid: &u32| {
        let name = text(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{pid} ({})", printable(name.trim_end()))
    };
    let left = sampling::descendants(std::process::id());
    left.iter().map(name).collect::<Vec<_>>().join(", ")
}
