// SPDX-License-Identifier: MIT
//! Writes a trace: a magic number, and parts of one letter, two lengths and a compressed text each. What has been
//! written is of use without what should have followed: a header is first, and each part is whole by itself.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::Result;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, compress_bound};

use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};
use crate::trace::call::{Call, REALLOC_FROM, RESIDENT, TIME};
use crate::trace::columns::{Encoder, MOST_CALLS};
use crate::trace::{Footer, Header};

/// The last letter is the version.
pub const MAGIC: &[u8; 16] = b"hakmem trace\r\n\x1a3";
/// Of the version before, which differs in that it has no `RESIDENT`.
pub const OLD_VERSION: u8 = b'2';
pub const HEADER: u8 = b'H';
pub const CALLS: u8 = b'C';
pub const FOOTER: u8 = b'F';
/// The letter, and two lengths.
const PART_HEAD: usize = 9;
/// The program may have to wait for it.
const LEVEL: i32 = 1;

pub struct Writer {
    file: File,
    name: String,
    compressor: Compressor<'static>,
    encoder: Encoder,
    /// Of calls, and of a part of the file: kept, as to ask for so much memory again and again costs more than a little.
    bytes: Vec<u8>,
    part: Vec<u8>,
    /// So much is whole.
    written: u64,
    pub events: u64,
}

impl Writer {
    pub fn create(path: &Path, header: &Header) -> Result<Writer> {
        let name = path.display().to_string();
        let was_there = fs::symlink_metadata(path).is_ok();
        let file = claim(path).map_err(|error| failure(BAD_INPUT, format!("cannot write {name}: {error}")))?;
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        let mut writer = Writer {
            file,
            name,
            compressor,
            encoder: Encoder::new(),
            bytes: Vec::new(),
            part: Vec::new(),
            written: 0,
            events: 0,
        };
        match writer.append(MAGIC).and_then(|()| writer.part_of(HEADER, header)) {
            Ok(()) => Ok(writer),
            Err(error) => {
                // What has no beginning is no trace.
                if !was_there {
                    let _ = fs::remove_file(path);
                }
                Err(error)
            }
        }
    }

    /// Once it returns true, `flush` has to be called.
    #[inline(always)]
    pub fn add(&mut self, call: &Call) -> bool {
        self.events += u64::from(!matches!(call.op, TIME | REALLOC_FROM | RESIDENT));
        self.encoder.add(call);
        self.encoder.pending() == MOST_CALLS
    }

    pub fn flush(&mut self) -> Result<()> {
        if self.encoder.pending() == 0 {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        self.encoder.group(&mut bytes);
        let done = self.part(CALLS, &bytes);
        self.bytes = bytes;
        done
    }

    pub fn finish(mut self, footer: &Footer) -> Result<u64> {
        self.flush()?;
        self.part_of(FOOTER, footer)?;
        Ok(self.written)
    }

    fn part_of(&mut self, letter: u8, what: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(what)?;
        self.part(letter, &text)
    }

    fn part(&mut self, letter: u8, bytes: &[u8]) -> Result<()> {
        let mut part = std::mem::take(&mut self.part);
        let most = PART_HEAD + compress_bound(bytes.len());
        part.resize(part.len().max(most), 0);
        let packed = self.compressor.compress_to_buffer(bytes, &mut part[PART_HEAD..])?;
        part[0] = letter;
        part[1..5].copy_from_slice(&u32::try_from(packed)?.to_le_bytes());
        part[5..PART_HEAD].copy_from_slice(&u32::try_from(bytes.len())?.to_le_bytes());
        let done = self.append(&part[..PART_HEAD + packed]);
        self.part = part;
        done
    }

    /// If it cannot be written as a whole, nothing of it stays, where the file can be cut.
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(error) = self.file.write_all(bytes) {
            let _ = self.file.set_len(self.written);
            let _ = self.file.seek(SeekFrom::Start(self.written));
            return Err(failure(SOMETHING_FAILED, format!("cannot write {}: {error}", self.name)));
        }
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// The file, empty, and locked until it is closed: two that wrote to one would leave neither's trace. FIFOs and devices
/// have nothing to lose, and a file system may have no locks.
fn claim(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    if file.metadata()?.is_file() {
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(io::Error::other("it is being written by another hak trace"));
        }
        file.set_len(0)?;
    }
    Ok(file)
}
