// SPDX-License-Identifier: MIT
//! A program on a terminal of its own, and what is on its screen.
#![allow(dead_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Nothing takes that long, on a busy machine either.
const LONG: Duration = Duration::from_secs(60);

pub struct OnTerminal {
    pub child: Child,
    /// The side of the terminal at which a person sits.
    person: File,
    /// The other side, kept open so that it can be asked how it was left.
    program: OwnedFd,
    before: libc::termios,
    bytes: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    pub raw: Vec<u8>,
}

fn some(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn attributes(terminal: &OwnedFd) -> libc::termios {
    // SAFETY: a termios may be all zeroes, and is filled by the call.
    unsafe {
        let mut attributes = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &mut attributes), 0);
        attributes
    }
}

impl OnTerminal {
    pub fn start(command: &mut Command, columns: u16, lines: u16) -> OnTerminal {
        let (mut person, mut program) = (-1, -1);
        let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the descriptors are new ones, and nobody else's.
        let (person, program) = unsafe {
            let made = libc::openpty(&mut person, &mut program, std::ptr::null_mut(), std::ptr::null(), &size);
            assert_eq!(made, 0);
            (File::from_raw_fd(person), OwnedFd::from_raw_fd(program))
        };
        // Neither is the program's but as its standard ones, or the terminal would not end with it.
        for descriptor in [person.as_raw_fd(), program.as_raw_fd()] {
            // SAFETY: the descriptor is open.
            assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
        }
        let before = attributes(&program);
        let copy = || program.try_clone().unwrap();
        command.stdin(copy()).stdout(copy()).stderr(copy());
        // SAFETY: these calls may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // Ctrl-C is ignored where the tests are in the background of a script.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY as _, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        let (tell, bytes) = mpsc::channel();
        let mut reads = person.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count) = reads.read(&mut some) {
                if count == 0 || tell.send(some[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let screen = vt100::Parser::new(self::some(lines), self::some(columns), 0);
        OnTerminal { child, person, program, before, bytes, screen, raw: Vec::new() }
    }

    pub fn press(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).unwrap();
    }

    pub fn resize(&mut self, columns: u16, lines: u16) {
        let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the call reads a winsize.
        assert_eq!(unsafe { libc::ioctl(self.person.as_raw_fd(), libc::TIOCSWINSZ, &size) }, 0);
        self.screen.screen_mut().set_size(some(lines), some(columns));
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Until the screen shows that; returns what it shows.
    pub fn until(&mut self, shows: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + LONG;
        loop {
            if shows(&self.text()) {
                return self.text();
            }
            match self.bytes.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.take(&bytes),
                Err(error) => panic!("{error}; on the screen:\n{}", self.text()),
            }
        }
    }

    pub fn until_contains(&mut self, text: &str) -> String {
        self.until(|screen| screen.contains(text))
    }

    fn take(&mut self, bytes: &[u8]) {
        self.raw.extend(bytes);
        self.screen.process(bytes);
    }

    pub fn is_on_other_screen(&self) -> bool {
        self.screen.screen().alternate_screen()
    }

    pub fn is_raw(&self) -> bool {
        attributes(&self.program).c_lflag & libc::ICANON == 0
    }

    /// Its exit code, and what is on the screen then. The terminal is as it was.
    pub fn end(mut self) -> (Option<i32>, String) {
        let end = Instant::now() + LONG;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                None => panic!("it does not end; on the screen:\n{}", self.text()),
            }
        };
        let code = status.code();
        self.assert_restored();
        (code, self.text())
    }

    /// After the program has ended.
    fn assert_restored(&mut self) {
        // A mark behind everything that the program has written.
        let mut behind = File::from(self.program.try_clone().unwrap());
        behind.write_all(b"<end>").unwrap();
        self.until_contains("<end>");
        let (before, after) = (self.before, attributes(&self.program));
        let modes = |it: libc::termios| (it.c_iflag, it.c_oflag, it.c_cflag, it.c_lflag, it.c_cc);
        assert!(modes(before) == modes(after), "the terminal's modes are not those that it had");
        assert!(!self.is_on_other_screen(), "the other screen is still there");
        assert!(!self.screen.screen().hide_cursor(), "the cursor is hidden");
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
