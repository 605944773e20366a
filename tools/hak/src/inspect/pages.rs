// SPDX-License-Identifier: MIT
//! Which pages of a process are in memory: /proc/PID/pagemap.
//!
//! Behind pages that were only read lies one page of zeroes, which is nobody's memory. The kernel does not mark
//! it, but marks pages that this process alone has; of the others it is asked where they lie, which for that
//! page is an error.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::inspect::target::Target;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// Mapped by this process alone; Linux 4.2.
const EXCLUSIVE: u64 = 1 << 56;
/// Asked about at once.
const ASKED: usize = 1024;

/// Of some row of pages: bits of `Page`.
pub struct Pages {
    from: u64,
    pub page: u64,
    known: Vec<u8>,
}

/// It has contents, in memory or swapped out.
const HAS_CONTENTS: u8 = 1;
/// It is memory that is this process's.
const RESIDENT: u8 = 2;

pub struct Pagemap {
    file: File,
    pid: u32,
    page: u64,
}

impl Pagemap {
    /// `None` where that is not allowed.
    pub fn open(target: &Target) -> Option<Pagemap> {
        let map = Pagemap { file: File::open(target.file("pagemap")).ok()?, pid: target.pid, page: target.page };
        let mut entry = [0; 8];
        map.file.read_at(&mut entry, 0).ok()?;
        Some(map)
    }

    /// Both ends start pages. `None`: it cannot be read, and the process has ended perhaps.
    pub fn pages(&self, from: u64, to: u64, find_zero_pages: bool) -> Option<Pages> {
        let count = usize::try_from((to - from) / self.page).ok()?;
        let mut known = vec![0; count];
        let mut entries = vec![0; count.min(1 << 16) * 8];
        let mut shared = Vec::new();
        let mut index = 0;
        while index < count {
            let bytes = entries.len().min((count - index) * 8);
            let got = self.file.read_at(&mut entries[..bytes], (from / self.page + index as u64) * 8).ok()?;
            if got == 0 || got % 8 != 0 {
                return None;
            }
            for entry in entries[..got].chunks_exact(8) {
                let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
                if entry & PRESENT != 0 {
                    known[index] = HAS_CONTENTS | RESIDENT;
                    if entry & EXCLUSIVE == 0 {
                        shared.push(index);
                    }
                } else if entry & SWAPPED != 0 {
                    known[index] = HAS_CONTENTS;
                }
                index += 1;
            }
        }
        if find_zero_pages {
            self.unmark_zero_pages(from, &shared, &mut known);
        }
        Some(Pages { from, page: self.page, known })
    }

    /// Asked on which node they lie, the kernel says EFAULT of the page of zeroes. Where it does not answer, they
    /// all count.
    fn unmark_zero_pages(&self, from: u64, shared: &[usize], known: &mut [u8]) {
        for some in shared.chunks(ASKED) {
            let asked: Vec<u64> = some.iter().map(|index| from + *index as u64 * self.page).collect();
            let mut nodes = vec![0i32; some.len()];
            // SAFETY: both arrays have as many elements as is said; without nodes to move to nothing is moved.
            let failed = unsafe {
                libc::syscall(
                    libc::SYS_move_pages,
                    libc::c_long::from(self.pid),
                    some.len(),
                    asked.as_ptr(),
                    std::ptr::null::<i32>(),
                    nodes.as_mut_ptr(),
                    0,
                )
            };
            if failed != 0 {
                return;
            }
            for (index, node) in some.iter().zip(nodes) {
                if node == -libc::EFAULT {
                    known[*index] = 0;
                }
            }
        }
    }
}

impl Pages {
    /// Of whole pages.
    pub fn resident_bytes(&self, from: u64, to: u64) -> u64 {
        let first = usize::try_from((from.saturating_sub(self.from)) / self.page).unwrap_or(usize::MAX);
        let last = usize::try_from((to.saturating_sub(self.from)) / self.page).unwrap_or(usize::MAX);
        let known = self.known.get(first..last.min(self.known.len())).unwrap_or_default();
        known.iter().filter(|bits| **bits & RESIDENT != 0).count() as u64 * self.page
    }

    /// Rows of pages that have contents: where they begin and end.
    pub fn rows_with_contents(&self) -> Vec<(u64, u64)> {
        let mut rows: Vec<(u64, u64)> = Vec::new();
        for (index, bits) in self.known.iter().enumerate() {
            if bits & HAS_CONTENTS == 0 {
                continue;
            }
            let at = self.from + index as u64 * self.page;
            match rows.last_mut() {
                Some((_, to)) if *to == at => *to = at + self.page,
                _ => rows.push((at, at + self.page)),
            }
        }
        rows
    }
}
