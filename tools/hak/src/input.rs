// SPDX-License-Identifier: MIT
//! Standard input that every run can read from its start.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::output;

/// Who waits for longer is told what for.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// Whether each run can read a file from its start. Who opens a FIFO waits for a writer.
pub fn check(file: &Path) -> io::Result<()> {
    let kind = std::fs::metadata(file)?.file_type();
    if kind.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if kind.is_fifo() || kind.is_socket() {
        return Err(io::Error::other("it is a pipe, which one run alone could read; give it as standard input"));
    }
    File::open(file).map(|_| ())
}

/// Of the tool's own standard input: the file, or a copy of all that comes through a pipe. `None` of a terminal
/// and of what holds nothing; an interrupted reading gives what had come until then.
pub fn standard(directory: &Path) -> Result<Option<PathBuf>> {
    // Opened by this name, a file is read from its start, also one that has been deleted.
    let own = PathBuf::from(format!("/proc/{}/fd/0", std::process::id()));
    let Ok(metadata) = std::fs::metadata(&own) else {
        return Ok(None);
    };
    if metadata.is_file() {
        return Ok(Some(own));
    }
    if !metadata.file_type().is_fifo() && !metadata.file_type().is_socket() {
        return Ok(None);
    }
    let copy = directory.join("input");
    read_all(&copy).context("cannot read standard input")?;
    Ok(Some(copy))
}

fn read_all(copy: &Path) -> Result<()> {
    let mut file = File::create(copy)?;
    let stdin = std::io::stdin();
    let start = Instant::now();
    let mut told = false;
    let mut buffer = vec![0; 1 << 16];
    while !crate::interrupt::requested() {
        let mut ready = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        let tick = Timespec::try_from(TICK).expect("a short time");
        match poll(&mut ready, Some(&tick)) {
            Ok(0) | Err(rustix::io::Errno::INTR) if !told && start.elapsed() > PATIENCE => {
                output::say("hak: reading standard input to its end, to give it to every run (</dev/null: none)");
                told = true;
            }
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => match rustix::io::read(stdin.as_fd(), &mut buffer) {
                Ok(0) => break,
                Ok(length) => file.write_all(&buffer[..length])?,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
