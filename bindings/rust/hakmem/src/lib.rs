#![doc = include_str!("../README.md")]
//!
//! SPDX-License-Identifier: MIT
#![no_std]
#![warn(missing_docs)]

mod heap;
#[cfg(feature = "stats")]
mod stats;

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{CStr, c_void};

pub use heap::{Heap, HeapStats};
#[cfg(feature = "stats")]
pub use stats::{Account, Stats, account, stats, write_json};

/// The allocator. It has no state: all values are the one heap of the process.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;
///
/// let block = vec![1u8; 100_000];
/// assert!(hakmem::owns(block.as_ptr()));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Hakmem;

/// What every block is aligned to: no function that takes an alignment needs to be called up to here.
const ALIGNMENT: usize = 16;

// SAFETY: hak_malloc and its relatives are what the trait asks for: they do not unwind, and a block has
// at least the size and the alignment that were asked for, or is null.
unsafe impl GlobalAlloc for Hakmem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            unsafe { hakmem_sys::hak_malloc(layout.size()).cast() }
        } else {
            unsafe { hakmem_sys::hak_aligned_alloc(layout.align(), layout.size()).cast() }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            return unsafe { hakmem_sys::hak_calloc(1, layout.size()).cast() };
        }
        unsafe { alloc_then_zero(self, layout) }
    }

    /// With debug assertions, a size that the block cannot have been asked for with is found at once; not one of the same
    /// class, nor a wrong alignment beside a size that fits.
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let block = block.cast::<c_void>();
        if !cfg!(debug_assertions) {
            unsafe { hakmem_sys::hak_free(block) }
        } else if layout.align() <= ALIGNMENT {
            unsafe { hakmem_sys::hak_free_sized(block, layout.size()) }
        } else {
            unsafe { hakmem_sys::hak_free_aligned_sized(block, layout.align(), layout.size()) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            return unsafe { hakmem_sys::hak_realloc(block.cast(), new_size).cast() };
        }
        unsafe { realloc_by_copy(self, block, layout, new_size) }
    }
}

/// For alignments that calloc does not give.
unsafe fn alloc_then_zero(from: &impl GlobalAlloc, layout: Layout) -> *mut u8 {
    let block = unsafe { from.alloc(layout) };
    if !block.is_null() {
        unsafe { block.write_bytes(0, layout.size()) };
    }
    block
}

/// For alignments that realloc would not keep.
unsafe fn realloc_by_copy(from: &impl GlobalAlloc, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    let new = unsafe { from.alloc(Layout::from_size_align_unchecked(new_size, layout.align())) };
    if !new.is_null() {
        unsafe { new.copy_from_nonoverlapping(block, layout.size().min(new_size)) };
        unsafe { from.dealloc(block, layout) };
    }
    new
}

/// The version of the allocator, such as "0.1.0".
///
/// ```
/// assert_eq!(hakmem::version(), env!("CARGO_PKG_VERSION"));
/// ```
pub fn version() -> &'static str {
    // SAFETY: a static string of digits and dots.
    unsafe { CStr::from_ptr(hakmem_sys::hak_version()).to_str().unwrap_or("unknown") }
}

/// Returns every page of free memory beyond `keep_bytes`, resident ones between live blocks included,
/// to the system. Returns true if any was.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;
/// let blocks: Vec<_> = (0..1000).map(|_| vec![1u8; 10_000]).collect();
/// drop(blocks);
/// assert!(hakmem::trim(0));
/// ```
pub fn trim(keep_bytes: usize) -> bool {
    unsafe { hakmem_sys::hak_trim(keep_bytes) }
}

/// Gives the calling thread's cached blocks back to the slabs that they are from. Wrong frees among
/// them are noticed.
pub fn thread_flush() {
    unsafe { hakmem_sys::hak_thread_flush() }
}

/// For a thread that is about to wait for long, and knows it: what it holds and does not use is given
/// back now. Returns how many bytes that were.
pub fn thread_idle() -> usize {
    unsafe { hakmem_sys::hak_thread_idle() }
}

/// The heap goes on as if the process's container had so much memory: from nine tenths of it on, memory
/// goes back before more is taken. 0 is no limit.
pub fn set_soft_limit(bytes: usize) {
    unsafe { hakmem_sys::hak_set_soft_limit(bytes) }
}

/// Whether the address lies in memory that the allocator has handed out for blocks. (It need not be
/// that of a live block.)
pub fn owns<T: ?Sized>(address: *const T) -> bool {
    unsafe { hakmem_sys::hak_owns(address.cast()) }
}

/// How many bytes of a block may be used, at least what was asked for; 0 for null.
///
/// # Safety
///
/// `block` is null or the start of a live block of this allocator.
pub unsafe fn usable_size(block: *const u8) -> usize {
    unsafe { hakmem_sys::hak_usable_size(block.cast()) }
}
