// SPDX-License-Identifier: MIT
//! The same free memory for every run.
//!
//! A virtual machine may hand its free pages to its host (free page reporting, a balloon). To fault
//! one in then waits for the host, and a run that gets such pages can take ten times as long as one
//! that gets pages which were in use a moment ago: huge pages most of all, so that allocators with
//! huge pages jump between two speeds. So before each run twice as much memory as the program has
//! needed so far is written and given back: of once as much, the kernel's free lists leave a run
//! some cold pages.

use memmap2::{Advice, MmapMut};

use crate::machine;
use crate::results::Row;

/// Before anything is known of the row, and for what is loaded and started beside the program.
const LEAST_BYTES: u64 = 16 << 20;

/// The host takes up to two seconds for a GiB.
const MOST_BYTES: u64 = 512 << 20;

/// Before a run of this row. It is all the same where there is no memory for it.
pub fn memory(row: &Row) {
    let samples = row.columns.iter().flat_map(|column| &column.samples);
    let peak = samples.map(|sample| sample.usage.peak_kib * 1024).max().unwrap_or(0);
    let bytes = (2 * peak + LEAST_BYTES).min(MOST_BYTES).min(machine::available_bytes() / 4);
    if let Ok(mut pages) = MmapMut::map_anon(bytes as usize) {
        let _ = pages.advise(Advice::HugePage);
        pages.iter_mut().step_by(rustix::param::page_size()).for_each(|byte| *byte = 1);
    }
}
