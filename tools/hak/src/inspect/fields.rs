// SPDX-License-Identifier: MIT
//! The root that the library exports, and the fields that it names (src/observe/inspect.h).

use std::collections::HashMap;

use anyhow::Result;

use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};
use crate::inspect::target::{Target, printable};

pub const SYMBOL: &str = "hak_inspect_root";
pub const MARK: &[u8; 16] = b"hakmem's tables\0";
/// The only one that this tool knows.
const LAYOUT: u32 = 1;

const HEAD_BYTES: usize = 56;
const GROUP_BYTES: usize = 16;
const FIELD_BYTES: usize = 56;
const NAME_BYTES: usize = 32;
/// More than there can be: the memory is something else.
const MOST_GROUPS: u32 = 64;
const MOST_FIELDS: u64 = 4096;
const MOST_STRIDE: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Number,
    Variable,
    Member,
}

#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub kind: Kind,
    pub bytes: usize,
    pub count: usize,
    pub stride: usize,
    /// A number, an address, or an offset.
    pub at: u64,
}

#[derive(Debug)]
pub struct Root {
    pub version: String,
    pub layout: u32,
    fields: HashMap<String, Field>,
}

/// Little-endian, as both architectures are that hakmem runs on; up to 8 bytes.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The process could have put anything there.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    printable(&String::from_utf8_lossy(&bytes[..end]))
}

/// Whether the root is at that address of the process: a copy of it in a buffer has another one.
pub fn is_root(target: &Target, at: u64) -> bool {
    target.read(at, 24).is_ok_and(|head| head[..16] == MARK[..] && number(&head[16..24]) == at)
}

impl Root {
    pub fn read(target: &Target, at: u64) -> Result<Root> {
        let head = target.read(at, HEAD_BYTES)?;
        let u32_at = |offset: usize| u32::try_from(number(&head[offset..offset + 4])).unwrap_or(u32::MAX);
        let (layout, field_bytes, groups) = (u32_at(24), u32_at(32), u32_at(36));
        let version = text(&head[40..56]);
        if layout != LAYOUT || field_bytes as usize != FIELD_BYTES {
            let message = format!(
                "process {} has hakmem {version}, whose tables have layout {layout}, and this hak reads layout {LAYOUT}: \
                 use the hak that was built with that library",
                target.pid
            );
            return Err(failure(BAD_INPUT, message));
        }
        let damaged = |what: &str| {
            let message = format!("process {}: the root of hakmem's tables is damaged: {what}", target.pid);
            failure(SOMETHING_FAILED, message)
        };
        if groups > MOST_GROUPS {
            return Err(damaged("too many groups"));
        }
        let mut fields = HashMap::new();
        for group in target.read(at + HEAD_BYTES as u64, groups as usize * GROUP_BYTES)?.chunks(GROUP_BYTES) {
            let (from, count) = (number(&group[..8]), number(&group[8..]));
            if count > MOST_FIELDS {
                return Err(damaged("too many fields"));
            }
            for bytes in target.read(from, usize::try_from(count)? * FIELD_BYTES)?.chunks(FIELD_BYTES) {
                let u32_at = |offset: usize| number(&bytes[offset..offset + 4]);
                let kind = match u32_at(32) {
                    0 => Kind::Number,
                    1 => Kind::Variable,
                    2 => Kind::Member,
                    _ => return Err(damaged("a field of no known kind")),
                };
                let field = Field {
                    kind,
                    bytes: usize::try_from(u32_at(36))?,
                    count: usize::try_from(u32_at(40))?,
                    stride: usize::try_from(u32_at(44))?,
                    at: number(&bytes[48..56]),
                };
                fields.insert(text(&bytes[..NAME_BYTES]), field);
            }
        }
        Ok(Root { version, layout, fields })
    }

    fn field(&self, name: &str, kind: Kind) -> Result<Field> {
        let bad = |what: &str| {
            let message = format!(
                "hakmem {} {what} '{name}', which this hak reads: use the hak that was built with that library",
                self.version
            );
            failure(BAD_INPUT, message)
        };
        let field = *self.fields.get(name).ok_or_else(|| bad("has no field"))?;
        let is_sane = field.kind == kind
            && (1..=8).contains(&field.bytes)
            && (1..=MOST_FIELDS as usize).contains(&field.count)
            && field.stride <= MOST_STRIDE;
        if is_sane { Ok(field) } else { Err(bad("has another kind of field")) }
    }

    pub fn number(&self, name: &str) -> Result<u64> {
        Ok(self.field(name, Kind::Number)?.at)
    }

    pub fn member(&self, name: &str) -> Result<Field> {
        self.field(name, Kind::Member)
    }

    pub fn variable(&self, name: &str) -> Result<Field> {
        self.field(name, Kind::Variable)
    }
}

impl Field {
    /// An element of a member of the record.
    pub fn of(&self, record: &[u8], index: usize) -> u64 {
        let from = self.at as usize + index * self.stride;
        record.get(from..from + self.bytes).map_or(0, number)
    }

    /// The elements of a variable, as they are now; those of another one lie `behind`.
    pub fn elements(&self, target: &Target, behind: u64) -> Result<Vec<u64>> {
        let all = target.read(self.at + behind, (self.count - 1) * self.stride + self.bytes)?;
        Ok((0..self.count).map(|index| number(&all[index * self.stride..index * self.stride + self.bytes])).collect())
    }

    pub fn value(&self, target: &Target) -> Result<u64> {
        Ok(number(&target.read(self.at, self.bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_and_does_not_steer_the_terminal() {
        assert_eq!(text(b"0.1.0\0\0x"), "0.1.0");
        assert_eq!(text(b"0\x1b[2J\n\xff"), "0?[2J?\u{fffd}");
    }
}
