// SPDX-License-Identifier: MIT
//! A process: its mappings, and its memory, read and written from outside.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;

use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};
use crate::inspect::identity::Identity;
use crate::output::without_controls;

/// Its number in linux/capability.h.
const CAP_SYS_PTRACE: u32 = 19;

/// One line of /proc/PID/maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub from: u64,
    pub to: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    pub offset: u64,
    pub inode: u64,
    /// Empty for memory without a file or a name.
    pub path: String,
}

pub struct Target {
    pub pid: u32,
    pub page: u64,
    way: Way,
    /// It was there once.
    is_known: bool,
    identity: Option<Identity>,
}

enum Way {
    Calls,
    /// /proc/PID/mem: where a filter of system calls forbids process_vm_readv, and for who writes. It stays that of the
    /// program that ran when it was opened: after `exec` nothing can be read or written there, whereas a call finds the
    /// new program's memory.
    File(File),
}

/// So many pieces may go into one call (IOV_MAX).
const PIECES: usize = 1024;

/// A piece of the process's memory, and where it goes. What cannot be read is filled with zeroes.
pub struct Piece<'a> {
    pub at: u64,
    pub into: &'a mut [u8],
}

impl Target {
    pub fn open(pid: u32) -> Result<Target> {
        // SAFETY: sysconf has no preconditions.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let identity = Identity::of(pid);
        let mut target = Target { pid, page, way: Way::Calls, is_known: false, identity };
        let mappings = target.mappings()?;
        target.refuse_thread()?;
        let Some(first) = mappings.iter().find(|mapping| mapping.readable && !mapping.path.starts_with("[v")) else {
            let reason = "it has no memory: it has ended and waits to be collected, or is a thread of the kernel";
            return Err(failure(BAD_INPUT, format!("process {pid} cannot be inspected: {reason}")));
        };
        let mut byte = [0];
        let tried = call(pid, &mut [Piece { at: first.from, into: &mut byte }]);
        if let Err(error) = tried {
            if error.raw_os_error() == Some(libc::ESRCH) {
                return Err(target.gone());
            }
            let file = File::open(format!("/proc/{pid}/mem")).map_err(|_| target.denied(&error))?;
            file.read_at(&mut byte, first.from).map_err(|error| target.denied(&error))?;
            target.way = Way::File(file);
        }
        target.is_known = true;
        Ok(target)
    }

    /// To be written to, as well: the program that it runs now, and none that it becomes.
    pub fn open_for_writing(pid: u32) -> Result<Target> {
        // Before anything else is looked at, which is then of the same program or cannot be read.
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let mut target = Target::open(pid)?;
        target.way = Way::File(file.map_err(|error| target.denied(&error))?);
        Ok(target)
    }

    /// The number of a thread names files of its process's in /proc, too.
    fn refuse_thread(&self) -> Result<()> {
        let status = text(self.file("status")).map_err(|error| self.cannot_look(&error))?;
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")).map(str::trim);
        match process.filter(|process| **process != *self.pid.to_string()) {
            Some(process) => Err(failure(BAD_INPUT, format!("{} is a thread of process {process}", self.pid))),
            None => Ok(()),
        }
    }

    pub fn mappings(&self) -> Result<Vec<Mapping>> {
        let text = text(self.file("maps")).map_err(|error| self.cannot_look(&error))?;
        Ok(text.lines().filter_map(mapping).collect())
    }

    pub fn file(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.pid)
    }

    /// The name of the program, as the kernel has it, to be shown.
    pub fn program(&self) -> String {
        text(self.file("comm")).map_or_else(|_| "?".into(), |name| printable(name.trim_end()))
    }

    pub fn read(&self, at: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut into = vec![0; bytes];
        if self.read_all(&mut [Piece { at, into: &mut into }])? > 0 {
            let message = format!("process {}: nothing is mapped at {at:#x}, where its tables were", self.pid);
            return Err(failure(SOMETHING_FAILED, message));
        }
        Ok(into)
    }

    /// Into memory of the process, which it shares with nobody.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let Way::File(file) = &self.way else {
            return Err(failure(SOMETHING_FAILED, format!("process {} was opened for reading only", self.pid)));
        };
        match file.write_at(bytes, at) {
            Ok(put) if put == bytes.len() => Ok(()),
            Ok(0) => Err(self.gone()),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) => Err(self.denied(&error)),
            _ => {
                let message = format!("process {}: nothing can be written at {at:#x}, where its tables were", self.pid);
                Err(failure(SOMETHING_FAILED, message))
            }
        }
    }

    /// Returns how many of the pieces could not be read.
    pub fn read_all(&self, pieces: &mut [Piece]) -> Result<usize> {
        let mut unreadable = 0;
        let mut next = 0;
        while next < pieces.len() {
            let end = (next + PIECES).min(pieces.len());
            let wanted: usize = pieces[next..end].iter().map(|piece| piece.into.len()).sum();
            let got = match self.once(&mut pieces[next..end]) {
                Ok(got) => got,
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => 0,
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(self.gone()),
                Err(error) => return Err(self.denied(&error)),
            };
            if got == wanted {
                next = end;
                continue;
            }
            // The system stops at the first that it cannot read. A process that has just ended has no memory either.
            self.check()?;
            let mut left = got;
            while next < end && left >= pieces[next].into.len() {
                left -= pieces[next].into.len();
                next += 1;
            }
            if next < end {
                pieces[next].into.fill(0);
                unreadable += 1;
                next += 1;
            }
        }
        Ok(unreadable)
    }

    fn once(&self, pieces: &mut [Piece]) -> io::Result<usize> {
        match &self.way {
            Way::Calls => call(self.pid, pieces),
            Way::File(file) => {
                let mut got = 0;
                for piece in pieces {
                    match file.read_at(piece.into, piece.at) {
                        Ok(bytes) if bytes == piece.into.len() => got += bytes,
                        // Of a program that is no more, the system reads nothing, and of one without that address
                        // it says so.
                        Ok(0) => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                        Err(_) => break,
                        Ok(bytes) => return Ok(got + bytes),
                    }
                }
                Ok(got)
            }
        }
    }

    /// Whether it is there still. What has ended and is not waited for yet has no memory any more.
    pub fn check(&self) -> Result<()> {
        if self.mappings()?.is_empty() { Err(self.gone()) } else { Ok(()) }
    }

    /// As `check`, and whether it still runs the program that it was opened with, if it was opened for writing.
    pub fn is_same(&self) -> bool {
        let Ok(mappings) = self.mappings() else {
            return false;
        };
        let first = mappings.iter().find(|mapping| mapping.readable && !mapping.path.starts_with("[v"));
        match (&self.way, first) {
            (_, None) => false,
            (Way::Calls, _) => true,
            (Way::File(file), Some(first)) => !matches!(file.read_at(&mut [0], first.from), Ok(0)),
        }
    }

    /// An error, if its number is by now that of another program or process than it was opened with.
    pub fn replaced(&self) -> Option<anyhow::Error> {
        (Identity::of(self.pid) != self.identity).then(|| self.gone())
    }

    fn gone(&self) -> anyhow::Error {
        let is_there = fs::read(self.file("maps")).is_ok_and(|maps| !maps.is_empty());
        let how = if is_there { "become another program" } else { "ended" };
        failure(SOMETHING_FAILED, format!("process {} has {how} while it was being looked at", self.pid))
    }

    fn cannot_look(&self, error: &io::Error) -> anyhow::Error {
        match error.raw_os_error() {
            Some(libc::ENOENT) if !self.is_known => failure(BAD_INPUT, format!("there is no process {}", self.pid)),
            Some(libc::ENOENT | libc::ESRCH) => self.gone(),
            _ => self.denied(error),
        }
    }

    /// What to do about it: ptrace(2), "Ptrace access mode checking".
    fn denied(&self, error: &io::Error) -> anyhow::Error {
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        let what = match scope.trim() {
            "" | "0" | "1" | "2" if may_trace() => {
                "hak has the capability CAP_SYS_PTRACE, but a security module or another user namespace is in the way"
            }
            "" | "0" | "1" | "2" if rustix::process::geteuid().is_root() => {
                "root needs the capability CAP_SYS_PTRACE for it, which it mostly lacks in a container"
            }
            "" | "0" => "only its owner may read it, if it has gained no rights, and root",
            "1" => {
                "only its ancestors and root may read it (kernel.yama.ptrace_scope is 1): run hak as root, \
                 or `sysctl kernel.yama.ptrace_scope=0`"
            }
            "2" => "only root may read it (kernel.yama.ptrace_scope is 2)",
            _ => "nobody may read it until the machine is started again (kernel.yama.ptrace_scope is 3)",
        };
        failure(SOMETHING_FAILED, format!("the memory of process {} cannot be read: {error}; {what}", self.pid))
    }
}

/// Whether hak has the capability CAP_SYS_PTRACE, as root mostly has outside of containers.
fn may_trace() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    bits.is_some_and(|bits| u64::from_str_radix(bits.trim(), 16).is_ok_and(|bits| bits & 1 << CAP_SYS_PTRACE != 0))
}

/// A file of /proc. Programs, threads and files may have any bytes in their names, and the kernel cuts long ones off in
/// the middle of a letter: what is no UTF-8 is replaced.
pub fn text(file: impl AsRef<Path>) -> io::Result<String> {
    fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A name without what a terminal obeys, and XML does not allow.
pub fn printable(name: &str) -> String {
    without_controls(name, "")
}

fn call(pid: u32, pieces: &mut [Piece]) -> io::Result<usize> {
    let mut local = Vec::with_capacity(pieces.len());
    let mut remote = Vec::with_capacity(pieces.len());
    for piece in pieces {
        local.push(libc::iovec { iov_base: piece.into.as_mut_ptr().cast(), iov_len: piece.into.len() });
        remote.push(libc::iovec { iov_base: piece.at as *mut libc::c_void, iov_len: piece.into.len() });
    }
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: the local pieces are slices that nobody else has; the others are addresses in the other process.
    let got =
        unsafe { libc::process_vm_readv(pid, local.as_ptr(), local.len() as _, remote.as_ptr(), remote.len() as _, 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// "7f00-8f00 r--p 00001000 08:01 123    /path"
fn mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        rest = rest.trim_start();
        let (word, behind) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        rest = behind;
        word
    };
    let (range, rights, offset, _device, inode) = (word(), word(), word(), word(), word());
    let (from, to) = range.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        from: hex(from)?,
        to: hex(to)?,
        readable: rights.contains('r'),
        writable: rights.contains('w'),
        executable: rights.contains('x'),
        offset: hex(offset)?,
        inode: inode.parse().ok()?,
        path: rest.trim_start().into(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let line = "7f0000001000-7f0000002000 r-xp 0000a000 fd:01 1234                       /a path/b.so (deleted)";
        let found = mapping(line).unwrap();
        assert_eq!(
            (found.from, found.to, found.offset, found.inode),
            (0x7f00_0000_1000, 0x7f00_0000_2000, 0xa000, 1234)
        );
        assert!(found.readable && found.executable && !found.writable);
        assert_eq!(found.path, "/a path/b.so (deleted)");
        assert_eq!(mapping("1000-2000 rw-p 00000000 00:00 0 ").unwrap().path, "");
        assert_eq!(mapping("1000 rw-p"), None);
    }

    #[test]
    fn a_thread_is_taken_for_no_process() {
        let error = std::thread::spawn(|| {
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            Target::open(thread.cast_unsigned()).err().map(|error| error.to_string())
        });
        let said = error.join().unwrap().unwrap();
        assert!(said.ends_with(&format!(" is a thread of process {}", std::process::id())), "{said}");
    }

    #[test]
    fn a_process_that_ends_meanwhile_is_noticed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let target = Target::open(child.id()).unwrap();
        let at = target.mappings().unwrap()[0].from;
        assert!(target.read(at, 4).is_ok());
        child.kill().unwrap();
        // First as one that waits to be collected, which has no memory; then as none.
        while !fs::read_to_string(target.file("stat")).unwrap().contains(") Z") {}
        let says_so = |error: anyhow::Error| error.to_string().contains("has ended while it was being looked at");
        assert!(says_so(target.read(at, 4).unwrap_err()));
        assert!(says_so(target.check().unwrap_err()));
        child.wait().unwrap();
        assert!(says_so(target.read(at, 4).unwrap_err()));
        assert!(says_so(target.check().unwrap_err()));
        assert!(says_so(target.mappings().unwrap_err()));
    }

    /// Both programs have their stacks at the same address, so whoever went by the process's number would write.
    #[test]
    fn nothing_is_written_to_what_a_program_becomes() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo; read line; exec sh -c 'echo; read line'"]);
        // SAFETY: one system call.
        unsafe {
            shell.pre_exec(|| {
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                Ok(())
            });
        }
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        stdout.read_exact(&mut [0]).unwrap();
        let target = Target::open_for_writing(child.id()).unwrap();
        let at = target.mappings().unwrap().iter().find(|mapping| mapping.path == "[stack]").unwrap().to - 8;
        let word = target.read(at, 8).unwrap();
        target.write(at, &word).unwrap();
        assert!(target.is_same());
        stdin.write_all(b"\n").unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        assert!(Target::open(child.id()).unwrap().read(at, 8).is_ok());
        let says_so = |error: anyhow::Error| error.to_string().contains("has become another program");
        assert!(says_so(target.write(at, &word).unwrap_err()));
        assert!(says_so(target.read(at, 8).unwrap_err()));
        assert!(!target.is_same());
        drop(stdin);
        child.wait().unwrap();
        assert!(!target.is_same());
    }

    #[test]
    fn memory_is_read_and_what_cannot_be_is_zero() {
        let calls = Target::open(std::process::id()).unwrap();
        let file = File::open(calls.file("mem")).unwrap();
        let file = Target { way: Way::File(file), ..Target::open(std::process::id()).unwrap() };
        assert!(matches!(calls.way, Way::Calls));
        for target in [calls, file] {
            reads_and_zeroes(&target);
        }
    }

    fn reads_and_zeroes(target: &Target) {
        let text = *b"some text in this process";
        let (mut one, mut none, mut other) = ([1; 4], [1; 8], [1; 4]);
        let at = text.as_ptr() as u64;
        let mut pieces =
            [Piece { at, into: &mut one }, Piece { at: 8, into: &mut none }, Piece { at: at + 5, into: &mut other }];
        assert_eq!(target.read_all(&mut pieces).unwrap(), 1);
        assert_eq!((&one, none, &other), (b"some", [0; 8], b"text"));
        assert!(target.read(8, 8).is_err());
    }
}
