//! The structures of `hakmem.h`, member by member.
//!
//! SPDX-License-Identifier: MIT

/// A picture of the heap. All are bytes unless their names say otherwise. The figures of other threads
/// are read while they run: each is a value that was true a moment ago, their sums may be off by what
/// moved meanwhile. When no thread allocates,
///
/// ```text
/// live + cached + outboxes + free_in_slabs = slab_bytes + large_bytes + huge_bytes
/// slab_bytes + slab_tails + large_bytes + huge_bytes + dirty_free + clean_free = committed
/// ```
///
/// hold. Blocks count as large as they may be used, not as was asked for.
#[repr(C)]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hak_stats_t {
    /// The structure's size in the library's version.
    pub struct_bytes: usize,
    /// Range of addresses that the heap may grow in.
    pub reserved: usize,
    /// Heap memory that may be written.
    pub committed: usize,
    /// Free memory kept resident for reuse.
    pub dirty_free: usize,
    /// Committed for page map, slab records, thread heaps.
    pub metadata: usize,
    /// Capacity of all slabs.
    pub slab_bytes: usize,
    /// Large blocks (64 KiB to 4 MiB), live or cached.
    pub large_bytes: usize,
    /// Huge blocks.
    pub huge_bytes: usize,
    /// In blocks that the program holds.
    pub live: usize,
    /// In blocks that wait in threads' magazines.
    pub cached: usize,
    /// In free blocks of slabs.
    pub free_in_slabs: usize,
    /// Slabs in use.
    pub slab_count: usize,
    /// Thread heaps ever made.
    pub heap_count: usize,
    /// Of them, waiting for a thread.
    pub heap_pooled_count: usize,
    /// Batches that came into magazines.
    pub refills: u64,
    /// Batches that left them.
    pub flushes: u64,
    /// Blocks sent to the slab of another thread.
    pub remote_frees: u64,
    /// Slabs taken over from threads that ended or sleep.
    pub adoptions: u64,
    /// Calls of the system that map memory.
    pub mmap_calls: u64,
    /// Calls of the system that unmap memory.
    pub munmap_calls: u64,
    /// Calls of `madvise`, most of which give memory back.
    pub madvise_calls: u64,
    /// Calls of the system that move pages.
    pub mremap_calls: u64,
    /// Double, invalid and mismatched frees reported.
    pub errors: u64,
    /// In blocks freed, on the way to another thread's slab.
    pub outboxes: usize,
    /// Ends of slabs that are too short for a block.
    pub slab_tails: usize,
    /// Free memory never used, or returned to the system.
    pub clean_free: usize,
    /// The most that slabs, large and huge blocks ever took.
    pub peak_in_use: usize,
    /// Returned to the system: free memory that nobody took for a second.
    pub purged_aged: u64,
    /// Returned: beyond the share of the heap that is kept.
    pub purged_strained: u64,
    /// Returned: free pages of slabs that nobody used for half a second or more.
    pub purged_idle: u64,
    /// Returned: `hak_trim` and `hak_thread_idle`.
    pub purged_trimmed: u64,
    /// Sent home from magazines to slabs: what a thread did not use for a second.
    pub flushed_unused: u64,
    /// Sent home: what lay in those of sleeping threads.
    pub flushed_stripped: u64,
    /// Sent home: of ended threads.
    pub flushed_ended: u64,
    /// Returned: because the heap came near a limit.
    pub purged_limited: u64,
    /// `HAKMEM_HARD_LIMIT`; 0: none.
    pub hard_limit: usize,
    /// `HAKMEM_SOFT_LIMIT`, or what `hak_set_soft_limit` said; 0: none.
    pub soft_limit: usize,
    /// Of the process's control groups, the least; 0: none is known.
    pub container_limit: usize,
    /// What counts against these limits.
    pub charged: usize,
    /// Refused by the system: to take memory back.
    pub refused_purges: u64,
    /// Refused: `membarrier`.
    pub refused_membarriers: u64,
    /// Refused: the background thread.
    pub refused_threads: u64,
}

/// What of the heap is in memory. Every resident page is counted once, so that always
///
/// ```text
/// resident = the sum of the members resident_...
/// mapped   = resident + returned
/// ```
#[repr(C)]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hak_account_t {
    /// The structure's size in the library's version.
    pub struct_bytes: usize,
    /// 1; 0: the system does not say what is resident: the most that can be.
    pub is_measured: usize,
    /// May be written: `committed` + `metadata` of [`hak_stats_t`].
    pub mapped: usize,
    /// Of that, what is not resident: returned to the system or never used.
    pub returned: usize,
    /// In memory now.
    pub resident: usize,
    /// In blocks that the program holds.
    pub resident_live: usize,
    /// In blocks that wait in threads' magazines.
    pub resident_cached: usize,
    /// In blocks freed, on the way to another thread's slab.
    pub resident_outboxes: usize,
    /// In free blocks of slabs.
    pub resident_free_in_slabs: usize,
    /// Ends of slabs that are too short for a block.
    pub resident_slab_tails: usize,
    /// Free, kept for reuse.
    pub resident_dirty: usize,
    /// Free and never used, behind huge pages.
    pub resident_huge_page_slack: usize,
    /// The allocator's own tables.
    pub resident_metadata: usize,
}

/// Of one heap of the program's own, in bytes. Other threads may go on: each figure was true a moment ago.
///
/// ```text
/// live + cached + free = taken
/// ```
#[repr(C)]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hak_heap_stats_t {
    /// The structure's size in the library's version.
    pub struct_bytes: usize,
    /// Memory that nothing else can use: whole units of 64 KiB.
    pub taken: usize,
    /// The most that it ever was.
    pub peak_taken: usize,
    /// In blocks that the program holds, as large as they may be used.
    pub live: usize,
    /// In blocks that wait in threads' caches.
    pub cached: usize,
    /// The rest: free blocks, ends of slabs, free units.
    pub free: usize,
    /// Of `taken`; 0: none.
    pub limit: usize,
    /// Requests that failed for the limit.
    pub refused: u64,
}
