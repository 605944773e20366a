// SPDX-License-Identifier: MIT
//! How much of large blocks is resident: a program may ask for much more than it uses. Of a block that goes, the tracer
//! says it; of those that are there as the program ends, hak looks itself.

use std::collections::HashMap;
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::os::unix::fs::FileExt;

use crate::trace::call::{Call, IMAGE, RESIDENT};
use crate::trace::resolve::AddressHasher;

/// As helpers/trace.c has it.
pub const LARGE: u64 = 64 << 10;

/// Bits of a word of /proc/PID/pagemap.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const WORD: u64 = 8;

/// Large blocks that are live: their sizes, by address.
#[derive(Default)]
pub struct Large(HashMap<u64, u64, BuildHasherDefault<AddressHasher>>);

impl Large {
    /// What the tracer says of a block comes before it goes.
    #[cold]
    pub fn note(&mut self, call: &Call) {
        match call.op {
            IMAGE => self.0.clear(),
            RESIDENT => {
                self.0.remove(&call.address);
            }
            _ if call.address != 0 => {
                self.0.insert(call.address, call.size);
            }
            _ => {}
        }
    }

    /// As calls, in the order of addresses. Nothing where the system does not show it, as of a process of another user.
    pub fn resident(&self, process: u32) -> Vec<Call> {
        let Ok(pages) = File::open(format!("/proc/{process}/pagemap")) else { return Vec::new() };
        let mut blocks: Vec<(u64, u64)> = self.0.iter().map(|(address, size)| (*address, *size)).collect();
        blocks.sort_unstable();
        let page = rustix::param::page_size() as u64;
        let call = |(address, size): (u64, u64)| {
            let count = bytes_resident(&pages, address / page, address.saturating_add(size).div_ceil(page), page)?;
            Some(Call { op: RESIDENT, address, size: count, ..Call::default() })
        };
        blocks.into_iter().filter_map(call).collect()
    }
}

/// Of pages from the first one to the last one, which is not one of them.
fn bytes_resident(pages: &File, first: u64, last: u64, page: u64) -> Option<u64> {
    const STEP: u64 = 1 << 13;
    let mut bytes = vec![0; ((last - first).min(STEP) * WORD) as usize];
    let mut count = 0;
    for start in (first..last).step_by(STEP as usize) {
        let part = &mut bytes[..((last - start).min(STEP) * WORD) as usize];
        pages.read_exact_at(part, start * WORD).ok()?;
        let words = part.as_chunks::<8>().0;
        count += words.iter().filter(|word| u64::from_le_bytes(**word) & (PRESENT | SWAPPED) != 0).count() as u64;
    }
    Some(count * page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::call::MALLOC;

    #[test]
    fn what_is_written_to_is_resident() {
        let mut large = Large::default();
        let page = rustix::param::page_size();
        let mut memory = memmap2::MmapMut::map_anon(512 * page).unwrap();
        // So that no huge page comes.
        memory.advise(memmap2::Advice::NoHugePage).unwrap();
        for index in [3, 4, 200] {
            memory[index * page] = 1;
        }
        let at = memory.as_ptr().addr() as u64;
        let call = |op, address, size| Call { op, address, size, ..Call::default() };
        let (half, own) = (256 * page as u64, std::process::id());
        large.note(&call(MALLOC, at, half));
        large.note(&call(MALLOC, at + half, half));
        large.note(&call(MALLOC, 0, half));
        let seen = [call(RESIDENT, at, 3 * page as u64), call(RESIDENT, at + half, 0)];
        assert_eq!(large.resident(own), seen);
        large.note(&seen[0]);
        assert_eq!(large.resident(own), seen[1..]);
        large.note(&call(IMAGE, 0, 0));
        assert_eq!(large.resident(own), []);
    }
}
