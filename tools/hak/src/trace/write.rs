// SPDX-License-Identifier: MIT
//! Writes a trace: a magic number, and parts of one letter, two lengths and a compressed text each. What has been
//! written is of use without what should have followed: a header is first, and each part is whole by itself.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};
use crate::trace::columns::{self, MOST_EVENTS};
use crate::trace::{Event, Footer, Header, What};

/// The last letter is the version.
pub const MAGIC: &[u8; 16] = b"hakmem trace\r\n\x1a1";
pub const HEADER: u8 = b'H';
pub const EVENTS: u8 = b'E';
pub const FOOTER: u8 = b'F';
/// Better than twice as fast as the events of a busy program come.
const LEVEL: i32 = 3;

pub struct Writer {
    file: File,
    name: String,
    compressor: Compressor<'static>,
    pending: Vec<Event>,
    /// Blocks before the first event that is pending, and up to now.
    newest: u64,
    next: u64,
    /// So much is whole.
    written: u64,
    pub events: u64,
}

impl Writer {
    pub fn create(path: &Path, header: &Header) -> Result<Writer> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| failure(BAD_INPUT, format!("cannot write {name}: {error}")))?;
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        let mut writer =
            Writer { file, name, compressor, pending: Vec::new(), newest: 0, next: 0, written: 0, events: 0 };
        writer.append(MAGIC)?;
        writer.part_of(HEADER, header)?;
        Ok(writer)
    }

    pub fn add(&mut self, event: Event) -> Result<()> {
        match event.what {
            What::Allocate { .. } => self.next += 1,
            What::Time { .. } => self.events -= 1,
            _ => {}
        }
        self.events += 1;
        self.pending.push(event);
        if self.pending.len() == MOST_EVENTS { self.flush() } else { Ok(()) }
    }

    pub fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let bytes = columns::encode(&self.pending, self.newest);
        self.pending.clear();
        self.newest = self.next;
        self.part(EVENTS, &bytes)
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
        let packed = self.compressor.compress(bytes)?;
        let mut part = vec![letter];
        part.extend_from_slice(&u32::try_from(packed.len())?.to_le_bytes());
        part.extend_from_slice(&u32::try_from(bytes.len())?.to_le_bytes());
        part.extend_from_slice(&packed);
        self.append(&part)
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
