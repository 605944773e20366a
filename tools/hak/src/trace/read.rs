// SPDX-License-Identifier: MIT
//! Reads a trace, which may be cut off, damaged, or no trace at all.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use zstd::bulk::Decompressor;

use crate::failure::{BAD_INPUT, failure};
use crate::files::Whole;
use crate::trace::call::Call;
use crate::trace::columns::{Decoder, MOST_CALLS};
use crate::trace::resolve::Resolver;
use crate::trace::write::{CALLS, FOOTER, HEADER, MAGIC, OLD_VERSION};
use crate::trace::{Event, Footer, Header};

/// A trace is read more than once.
pub fn whole(path: &Path) -> Result<Whole> {
    Whole::of(path).map_err(|error| failure(BAD_INPUT, format!("cannot read {}: {error}", path.display())))
}

/// By its first bytes, of whatever version.
pub fn is_trace(beginning: &[u8]) -> bool {
    beginning.len() >= MAGIC.len() && beginning[..15] == MAGIC[..15]
}

/// More than any part has: a call has at most this many bytes.
const MOST_BYTES: u32 = MOST_CALLS as u32 * 48;

pub struct Reader {
    input: BufReader<File>,
    name: String,
    decompressor: Decompressor<'static>,
    decoder: Decoder,
    calls: Vec<Call>,
    /// From addresses to blocks.
    pub resolver: Resolver,
    pub header: Header,
    /// Once all was read; none if the trace ends early.
    pub footer: Option<Footer>,
    /// Why it ends early.
    pub damage: Option<String>,
    is_over: bool,
}

impl Reader {
    pub fn open(trace: &Whole) -> Result<Reader> {
        let name = trace.name().display().to_string();
        let bad = |error: &dyn std::fmt::Display| failure(BAD_INPUT, format!("cannot read {name}: {error}"));
        let file = trace.open().map_err(|error| bad(&error))?;
        let mut input = BufReader::new(file);
        let mut magic = [0; 16];
        let length = read_most(&mut input, &mut magic).map_err(|error| bad(&error))?;
        if !is_trace(&magic[..length]) {
            return Err(bad(&"it is no trace of hak trace"));
        }
        if ![OLD_VERSION, MAGIC[15]].contains(&magic[15]) {
            let [version, old, own] = [magic[15], OLD_VERSION, MAGIC[15]].map(char::from);
            let message =
                format!("it is a trace of version {version:?}, and this hak reads versions {old:?} and {own:?}");
            return Err(bad(&message));
        }
        let mut decompressor = Decompressor::new()?;
        let header = match part(&mut input, &mut decompressor) {
            Ok(Some((HEADER, text))) => serde_json::from_slice(&text).map_err(|error| bad(&error))?,
            Ok(_) => return Err(bad(&"it has no header")),
            Err(error) => return Err(bad(&format!("its header is damaged: {error:#}"))),
        };
        Ok(Reader {
            input,
            name,
            decompressor,
            decoder: Decoder::new(),
            calls: Vec::new(),
            resolver: Resolver::default(),
            header,
            footer: None,
            damage: None,
            is_over: false,
        })
    }

    /// Some more events; none at the end.
    pub fn next(&mut self, events: &mut Vec<Event>) {
        events.clear();
        while events.is_empty() && !self.is_over {
            if let Err(error) = self.read_part(events) {
                events.clear();
                self.is_over = true;
                self.damage = Some(format!("{} is damaged or cut off: {error:#}", self.name));
            }
        }
    }

    fn read_part(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let Some((letter, bytes)) = part(&mut self.input, &mut self.decompressor)? else {
            bail!("it has no end, as of a trace that was ended early")
        };
        match letter {
            CALLS => {
                self.calls.clear();
                self.decoder.decode(&bytes, &mut self.calls)?;
                self.calls.iter().for_each(|call| self.resolver.add(call, &mut |event| events.push(event)));
            }
            FOOTER => {
                self.footer = Some(serde_json::from_slice(&bytes)?);
                self.is_over = true;
                ensure!(read_most(&mut self.input, &mut [0])? == 0, "something is behind its end");
            }
            _ => bail!("it has an unknown part"),
        }
        Ok(())
    }
}

/// None where the file ends.
fn part(input: &mut impl Read, decompressor: &mut Decompressor) -> Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; 9];
    match read_most(input, &mut head)? {
        0 => return Ok(None),
        9 => {}
        _ => bail!("a part is cut off"),
    }
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (packed, unpacked) = (number(1), number(5));
    ensure!(packed <= MOST_BYTES && unpacked <= MOST_BYTES, "a part is too long");
    let mut bytes = vec![0; packed as usize];
    ensure!(read_most(input, &mut bytes)? == bytes.len(), "a part is cut off");
    let text = decompressor.decompress(&bytes, unpacked as usize).context("a part cannot be unpacked")?;
    ensure!(text.len() == unpacked as usize, "a part has another length");
    Ok(Some((head[0], text)))
}

fn read_most(input: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < into.len() {
        match input.read(&mut into[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::call::MALLOC;
    use crate::trace::write::Writer;
    use crate::trace::{Kind, What};

    fn allocate(block: u64) -> Event {
        let what =
            What::Allocate { block, kind: Kind::Malloc, size: block % 100, alignment: 0, address: 16 + block * 16 };
        Event { thread: (block / 1000) as u32, what }
    }

    fn call(block: u64) -> Call {
        let thread = (block / 1000) as u32;
        Call { thread, op: MALLOC, address: 16 + block * 16, size: block % 100, alignment: 0 }
    }

    fn written(path: &Path, blocks: u64) {
        let header = Header { tool_version: "1".into(), command: vec!["x".into()], started_ms: 1, machine: "m".into() };
        let mut writer = Writer::create(path, &header).unwrap();
        for block in 0..blocks {
            if writer.add(&call(block)) {
                writer.flush().unwrap();
            }
        }
        writer.finish(&Footer { events: blocks, ..Footer::default() }).unwrap();
    }

    fn open(path: &Path) -> Result<Reader> {
        Reader::open(&whole(path)?)
    }

    fn read(path: &Path) -> (u64, Reader) {
        let mut reader = open(path).unwrap();
        let (mut events, mut count) = (Vec::new(), 0);
        loop {
            reader.next(&mut events);
            if events.is_empty() {
                return (count, reader);
            }
            for event in &events {
                assert_eq!(*event, allocate(count));
                count += 1;
            }
        }
    }

    #[test]
    fn a_file_comes_back_and_one_that_is_cut_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let most = MOST_CALLS as u64;
        written(&path, 2 * most + 10);
        let (count, reader) = read(&path);
        assert_eq!((count, reader.damage), (2 * most + 10, None));
        assert_eq!(reader.footer.unwrap().events, count);
        let whole = std::fs::read(&path).unwrap();
        let mut seen = Vec::new();
        for length in (0..whole.len()).step_by(whole.len() / 64).chain(whole.len() - 100..whole.len()) {
            std::fs::write(&path, &whole[..length]).unwrap();
            match open(&path) {
                Err(error) => assert!(error.to_string().contains("cannot read"), "{error}"),
                Ok(_) => {
                    let (count, reader) = read(&path);
                    assert!(reader.damage.unwrap().contains("is damaged or cut off"));
                    seen.push(count);
                }
            }
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [0, most, 2 * most, 2 * most + 10]);
    }

    #[test]
    fn a_file_of_the_version_before_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        written(&path, 1000);
        let mut bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[15], MAGIC[15]);
        bytes[15] = OLD_VERSION;
        std::fs::write(&path, &bytes).unwrap();
        let (count, reader) = read(&path);
        assert_eq!((count, reader.damage), (1000, None));
    }

    #[test]
    fn what_is_behind_the_end_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        written(&path, 1000);
        let whole = std::fs::read(&path).unwrap();
        for behind in [&b"x"[..], &whole] {
            std::fs::write(&path, [&whole, behind].concat()).unwrap();
            let (count, reader) = read(&path);
            assert_eq!(count, 1000);
            assert!(reader.damage.unwrap().contains("something is behind its end"));
        }
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        written(&path, 1000);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            std::fs::write(&path, &bytes).unwrap();
            let noticed = open(&path).map_or(true, |_| read(&path).1.damage.is_some());
            assert!(noticed, "byte {at}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let error = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            open(&path).err().unwrap().to_string()
        };
        assert!(error(b"").contains("it is no trace"));
        assert!(error(&[b'x'; 100]).contains("it is no trace"));
        assert!(
            error(b"hakmem trace\r\n\x1a1 and more")
                .contains("of version '1', and this hak reads versions '2' and '3'")
        );
        assert!(error(MAGIC).contains("no header"));
        assert!(error(&[MAGIC, &b"H\xff\xff\xff\xff\xff\xff\xff\xff"[..]].concat()).contains("too long"));
        assert!(open(directory.path()).is_err());
        assert!(open(&directory.path().join("none")).err().unwrap().to_string().contains("No such file"));
    }
}
