//! Heaps of the program's own.
//!
//! SPDX-License-Identifier: MIT
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;

use hakmem_sys::hak_heap_t;

use crate::ALIGNMENT;

/// What one heap holds: see [`Heap::stats`].
pub type HeapStats = hakmem_sys::hak_heap_stats_t;

/// A heap of the program's own, for what goes all at once: a request, a plug-in, a query. No other block lies
/// in its memory, and when it is dropped all of that goes back, however many blocks there are. Any thread may use it.
///
/// ```
/// use std::alloc::{GlobalAlloc, Layout};
///
/// let heap = hakmem::Heap::new(64 << 20).expect("no memory");
/// let layout = Layout::new::<[u64; 100]>();
/// let block = unsafe { heap.alloc(layout) };
/// assert!(!block.is_null() && heap.owns(block));
/// drop(heap); // and with it the block
/// ```
///
/// As a [`GlobalAlloc`], which is unsafe to use as that trait says: besides, a block must not be used when its heap is
/// gone. A block may be freed by [`Hakmem`](crate::Hakmem) as well, but not reallocated: with an alignment above 16 it
/// would leave its heap. Layouts are not looked at when blocks are freed.
#[derive(Debug)]
pub struct Heap(NonNull<hak_heap_t>);

// SAFETY: a handle is a number, and the functions that take it may be called by any thread.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

impl Heap {
    /// A heap without memory, which takes no more than `limit_bytes`, in whole units of 64 KiB; 0: as much as there is.
    /// With a limit of less than that it gives no block, and it uses a unit or more for each of the sizes of blocks, of which
    /// there are 114 up to 64 KiB.
    /// None: there is no memory, or there are too many heaps.
    pub fn new(limit_bytes: usize) -> Option<Heap> {
        NonNull::new(unsafe { hakmem_sys::hak_heap_new(limit_bytes) }).map(Heap)
    }

    /// Changes the limit. What the heap has already it keeps.
    pub fn set_limit(&self, limit_bytes: usize) {
        unsafe { hakmem_sys::hak_heap_set_limit(self.0.as_ptr(), limit_bytes) }
    }

    /// Whether the address lies in a slab or a block of the heap. (It need not be that of a live block.)
    pub fn owns<T: ?Sized>(&self, address: *const T) -> bool {
        unsafe { hakmem_sys::hak_heap_owns(self.0.as_ptr(), address.cast()) }
    }

    /// What the heap holds.
    pub fn stats(&self) -> HeapStats {
        let mut stats = HeapStats::default();
        unsafe { hakmem_sys::hak_heap_stats(self.0.as_ptr(), &mut stats, size_of::<HeapStats>()) };
        stats
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        unsafe { hakmem_sys::hak_heap_destroy(self.0.as_ptr()) }
    }
}

// SAFETY: as for Hakmem; blocks are the heap's, which is there as long as `self` is.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let heap = self.0.as_ptr();
        if layout.align() <= ALIGNMENT {
            unsafe { hakmem_sys::hak_heap_malloc(heap, layout.size()).cast() }
        } else {
            unsafe { hakmem_sys::hak_heap_aligned_alloc(heap, layout.align(), layout.size()).cast() }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            return unsafe { hakmem_sys::hak_heap_calloc(self.0.as_ptr(), 1, layout.size()).cast() };
        }
        unsafe { crate::alloc_then_zero(self, layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        unsafe { hakmem_sys::hak_heap_free(self.0.as_ptr(), block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            return unsafe { hakmem_sys::hak_heap_realloc(self.0.as_ptr(), block.cast(), new_size).cast() };
        }
        unsafe { crate::realloc_by_copy(self, block, layout, new_size) }
    }
}
