// SPDX-License-Identifier: MIT
//! The blocks that are live at a point of a trace, and which pages and cache lines they lie in.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::trace::resolve::AddressHasher;

const PAGE: u64 = 4096;
const LINE: u64 = 64;

type Table<T> = HashMap<u64, T, BuildHasherDefault<AddressHasher>>;

#[derive(Debug, Clone, Copy)]
pub struct Block {
    pub size: u64,
    pub address: u64,
    pub thread: u32,
    /// How many allocations there had been before it.
    pub born: u64,
    /// What it was allocated with, before any `realloc`.
    pub first_size: u64,
    pub reallocations: u32,
}

#[derive(Default)]
pub struct Live {
    pub blocks: Table<Block>,
    pub bytes: u64,
    /// How many live blocks have an end in each page.
    pages: Table<u32>,
    inner_pages: u64,
    /// Who has blocks in a line: the thread that allocated, and how many of them; the last thread that came.
    lines: Table<(u32, u32)>,
}

impl Block {
    /// The pages or cache lines that its ends lie in; others may lie in these, too.
    fn ends(&self, unit: u64) -> impl Iterator<Item = u64> {
        let (first, last) = (self.address / unit, self.address.saturating_add(self.size.max(1) - 1) / unit);
        std::iter::once(first).chain((last != first).then_some(last))
    }

    /// Whole pages between its ends.
    fn inner_pages(&self) -> u64 {
        let (first, last) = (self.address / PAGE, self.address.saturating_add(self.size.max(1) - 1) / PAGE);
        (last - first).saturating_sub(1)
    }

    /// The share of its pages that is its own, if each is divided by how many blocks touch it.
    pub fn pages(&self, live: &Live) -> f64 {
        let share = |page: u64| 1.0 / f64::from(live.pages.get(&page).copied().unwrap_or(1).max(1));
        self.inner_pages() as f64 + self.ends(PAGE).map(share).sum::<f64>()
    }
}

impl Live {
    /// Whether it shares a cache line with a block of another thread.
    pub fn insert(&mut self, name: u64, block: Block) -> bool {
        self.bytes = self.bytes.saturating_add(block.size);
        self.inner_pages = self.inner_pages.saturating_add(block.inner_pages());
        for page in block.ends(PAGE) {
            *self.pages.entry(page).or_default() += 1;
        }
        let mut shares = false;
        for line in block.ends(LINE) {
            let (thread, count) = self.lines.entry(line).or_insert((block.thread, 0));
            shares |= *thread != block.thread && *count > 0;
            *thread = block.thread;
            *count += 1;
        }
        self.blocks.insert(name, block);
        shares
    }

    pub fn remove(&mut self, name: u64) -> Option<Block> {
        let block = self.blocks.remove(&name)?;
        self.bytes = self.bytes.saturating_sub(block.size);
        self.inner_pages = self.inner_pages.saturating_sub(block.inner_pages());
        block.ends(PAGE).for_each(|page| release(&mut self.pages, page, |count| count));
        block.ends(LINE).for_each(|line| release(&mut self.lines, line, |(_, count)| count));
        Some(block)
    }

    /// Bytes of all pages that live blocks touch.
    pub fn page_bytes(&self) -> u64 {
        (self.pages.len() as u64).saturating_add(self.inner_pages).saturating_mul(PAGE)
    }
}

fn release<T>(table: &mut Table<T>, key: u64, count: impl Fn(&mut T) -> &mut u32) {
    if let Some(value) = table.get_mut(&key) {
        let count = count(value);
        *count -= 1;
        if *count == 0 {
            table.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(address: u64, size: u64, thread: u32) -> Block {
        Block { size, address, thread, born: 0, first_size: size, reallocations: 0 }
    }

    #[test]
    fn pages_and_lines_are_counted_once() {
        let mut live = Live::default();
        assert!(!live.insert(0, block(4096, 10, 0)));
        assert!(!live.insert(1, block(4096 + 16, 16, 0)), "of the same thread");
        assert!(live.insert(2, block(4096 + 32, 100, 1)));
        assert!(!live.insert(3, block(4096 + 192, 16, 1)));
        assert_eq!((live.bytes, live.page_bytes()), (142, 4096));
        // From inside that page to the end of the third one behind it.
        live.insert(4, block(8000, 12 * 1024 + 192, 0));
        assert_eq!(live.page_bytes(), 4 * 4096);
        assert!((live.blocks[&4].pages(&live) - 3.2).abs() < 1e-9);
        for name in [0, 1, 2, 3] {
            assert!(live.remove(name).is_some() && live.remove(name).is_none());
        }
        assert_eq!(live.page_bytes(), 4 * 4096);
        live.remove(4);
        assert_eq!((live.bytes, live.page_bytes(), live.lines.len()), (0, 0, 0));
        live.insert(5, block(u64::MAX - 15, u64::MAX, 0));
        live.remove(5);
    }
}
