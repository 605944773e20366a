/*
 * hakmem: a general-purpose memory allocator for Linux.
 *
 * Preloaded or linked, libhakmem replaces malloc(3) and the C++ operators; a
 * program that wants nothing but a faster and leaner heap never includes this
 * header. It declares the same functions under names of their own, for use
 * beside another malloc, and the few that malloc(3) has no word for.
 *
 * Unless a comment says otherwise, every function may be called from any
 * thread at any time, sizes are in bytes, and a block may be freed by another
 * thread than the one that allocated it. None is async-signal-safe, as
 * malloc(3) is not.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAK_VERSION_MAJOR 0
#define HAK_VERSION_MINOR 1
#define HAK_VERSION_PATCH 0

/* A function and the structure that it fills have one name: C++ warns of a hidden constructor. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

#ifdef __cplusplus
extern "C" {
#define HAK_NOEXCEPT noexcept
#else
#define HAK_NOEXCEPT
#endif

#if defined(__GNUC__)
#define HAK_ATTR(...) __attribute__((__VA_ARGS__))
#else
#define HAK_ATTR(...)
#endif
#define HAK_PUBLIC HAK_ATTR(visibility("default"))

/* ---- Allocation: as the malloc(3) function of the same name --------------
 *
 * Every block is aligned to at least 16 bytes, and to its size when that is a
 * power of two of at most 4 KiB; one that realloc has resized to at least 16.
 * On failure NULL is returned and errno is ENOMEM; that includes sizes above
 * PTRDIFF_MAX and products that overflow. A size of 0 gives a unique pointer.
 */
HAK_PUBLIC void *hak_malloc(size_t bytes) HAK_NOEXCEPT HAK_ATTR(malloc, alloc_size(1), warn_unused_result);
HAK_PUBLIC void *hak_calloc(size_t count, size_t bytes) HAK_NOEXCEPT
    HAK_ATTR(malloc, alloc_size(1, 2), warn_unused_result);
/* As glibc: realloc(NULL, n) allocates; realloc(p, 0) frees p and gives NULL. */
HAK_PUBLIC void *hak_realloc(void *block, size_t bytes) HAK_NOEXCEPT HAK_ATTR(alloc_size(2), warn_unused_result);
HAK_PUBLIC void *hak_reallocarray(void *block, size_t count, size_t bytes) HAK_NOEXCEPT
    HAK_ATTR(alloc_size(2, 3), warn_unused_result);
/* ISO C23 aligned_alloc: alignment is a power of two, else NULL and EINVAL. */
HAK_PUBLIC void *hak_aligned_alloc(size_t alignment, size_t bytes) HAK_NOEXCEPT
    HAK_ATTR(malloc, alloc_size(2), warn_unused_result);
/* POSIX: returns 0, EINVAL (alignment is no power of two or no multiple of
 * sizeof(void *)) or ENOMEM; errno and, on failure, *out are left alone. */
HAK_PUBLIC int hak_posix_memalign(void **out, size_t alignment, size_t bytes) HAK_NOEXCEPT;

/* free keeps errno. A block that is already free, an address inside a block
 * and an address that no allocator here gave out are reported: see
 * HAKMEM_ABORT_ON_ERROR in libhakmem(3). */
HAK_PUBLIC void hak_free(void *block) HAK_NOEXCEPT;
/* ISO C23: bytes must be what the block was asked for with. */
HAK_PUBLIC void hak_free_sized(void *block, size_t bytes) HAK_NOEXCEPT;
HAK_PUBLIC void hak_free_aligned_sized(void *block, size_t alignment, size_t bytes) HAK_NOEXCEPT;

/* Bytes of the block that may be used, at least what was asked for; 0 for NULL. */
HAK_PUBLIC size_t hak_usable_size(const void *block) HAK_NOEXCEPT;

/* ---- Heaps of the program's own -------------------------------------------
 *
 * For what goes all at once: a request, a plug-in, a query of a database. A heap has memory that
 * no other block lies in; hak_heap_destroy gives all of it back, in a time that the number of blocks does
 * not matter for. Any number of threads may use a heap at a time, each of which keeps some free blocks of it
 * in a cache of its own. A program may have 65 534 heaps.
 *
 * A block of a heap is a block like others: free, realloc, malloc_usable_size, free_sized, hak_free and so on take
 * it, from any thread. realloc leaves it in its heap. Only when its heap is destroyed is it gone without
 * being freed. As for other blocks, what is freed twice is noticed when a cache is flushed; an address inside
 * a block, and a block of a heap that is gone, as long as nothing else lies there, at once.
 *
 * A heap that is NULL, was destroyed or was never made is a mistake that is always noticed, at once,
 * whatever heaps were made since: the program ends with a line that says so or, with
 * HAKMEM_ABORT_ON_ERROR=0, the call does nothing, returns NULL, and sets errno to EINVAL. hak_heap_destroy(NULL) does
 * nothing, and neither does hak_heap_free of a block that is NULL.
 */
typedef struct hak_heap hak_heap_t; /* a number in a pointer's clothes: nothing lies there */

/* A heap without memory. `limit_bytes`: how much memory it may take, see hak_heap_stats_t.taken; 0: any. As
 * it takes whole units of 64 KiB, one of less than that gets no block, and a heap uses a unit or more for each of
 * 114 sizes of blocks. NULL and ENOMEM: there is no memory, or there are too many heaps. */
HAK_PUBLIC hak_heap_t *hak_heap_new(size_t limit_bytes) HAK_NOEXCEPT HAK_ATTR(warn_unused_result);
/* Changes the limit. What the heap has already it keeps. */
HAK_PUBLIC void hak_heap_set_limit(hak_heap_t *heap, size_t limit_bytes) HAK_NOEXCEPT;

/* The heap and all its blocks are gone. No thread may be inside a function for this heap meanwhile, or use the
 * heap or a block of it afterwards. (If one does, what it gets may be memory that is free or others' by now.
 * The allocator's own data stays in order, and calls that begin later are reported.) Takes some microseconds,
 * and time in proportion to the heap's size for what goes back to the system: free memory beyond the share that
 * is kept, see HAKMEM_PROFILE in libhakmem(3), and what was reused just before. In a process with the
 * background thread it goes within about a second instead. */
HAK_PUBLIC void hak_heap_destroy(hak_heap_t *heap) HAK_NOEXCEPT;

/* As hak_malloc and so on, from the heap. NULL and ENOMEM at the heap's limit, too. Blocks above 64 KiB are whole
 * units of 64 KiB. */
HAK_PUBLIC void *hak_heap_malloc(hak_heap_t *heap, size_t bytes) HAK_NOEXCEPT
    HAK_ATTR(malloc, alloc_size(2), warn_unused_result);
HAK_PUBLIC void *hak_heap_calloc(hak_heap_t *heap, size_t count, size_t bytes) HAK_NOEXCEPT
    HAK_ATTR(malloc, alloc_size(2, 3), warn_unused_result);
HAK_PUBLIC void *hak_heap_aligned_alloc(hak_heap_t *heap, size_t alignment, size_t bytes) HAK_NOEXCEPT
    HAK_ATTR(malloc, alloc_size(3), warn_unused_result);
/* The block is NULL or the heap's: another's is reported as a mistake, and stays as it is. */
HAK_PUBLIC void *hak_heap_realloc(hak_heap_t *heap, void *block, size_t bytes) HAK_NOEXCEPT
    HAK_ATTR(alloc_size(3), warn_unused_result);
/* As hak_free, which does the same for a block of any heap, but sees to it that the block is the heap's. */
HAK_PUBLIC void hak_heap_free(hak_heap_t *heap, void *block) HAK_NOEXCEPT;

/* Whether the address lies in a slab or a block of the heap (it need not be the start of a live block). false, without
 * a report, if there is no such heap. */
HAK_PUBLIC bool hak_heap_owns(const hak_heap_t *heap, const void *address) HAK_NOEXCEPT;

/* Of one heap, in bytes. Other threads may go on: each figure was true a moment ago. Always
 *     live + cached + free = taken
 * In a child that was forked in a signal handler, while another thread was inside the heap, all are 0: the
 * heap gives no more blocks there. */
typedef struct hak_heap_stats {
  size_t struct_bytes; /* sizeof(hak_heap_stats_t) of the library's version        */
  size_t taken;        /* memory that nothing else can use: whole units of 64 KiB  */
  size_t peak_taken;   /* the most that it ever was                                */
  size_t live;         /* in blocks that the program holds, as large as they may be used */
  size_t cached;       /* in blocks that wait in threads' caches                   */
  size_t free;         /* the rest: free blocks, ends of slabs, free units         */
  size_t limit;        /* of `taken`; 0: none                                      */
  uint64_t refused;    /* requests that failed for the limit                       */
} hak_heap_stats_t;
/* Fills *out as hak_stats does. */
HAK_PUBLIC void hak_heap_stats(const hak_heap_t *heap, hak_heap_stats_t *out, size_t out_bytes) HAK_NOEXCEPT;

/* ---- What malloc(3) has no word for --------------------------------------*/

/* Whether the address lies in memory that this allocator has handed to a slab,
 * a large or a huge block (it need not be the start of a live block). */
HAK_PUBLIC bool hak_owns(const void *address) HAK_NOEXCEPT;

/* Gives the calling thread's cached blocks back to their slabs, and those that are on their way from
 * thread to thread, and empty slabs to the arena. Wrong frees among them are noticed. */
HAK_PUBLIC void hak_thread_flush(void) HAK_NOEXCEPT;

/* For a thread that is about to wait for long, and knows it: an event loop, a member of a pool of threads. What
 * it holds and does not use is given back now: its caches are emptied to the last block and their room is
 * returned, frees of other threads' blocks that it has collected are delivered, pages that lie wholly in free
 * blocks go to the system, but for those of slabs that are mostly in use where huge pages are asked for, slabs of
 * which three quarters are free to other threads, and free
 * memory of the heap to the system as far as there is more than the share that is kept: as much as the call has
 * freed and 2 MiB more, or, by the only thread there is, whatever there is, but 18 MiB at the most: of more
 * than that the rest at the next call, or when it has grown old. Returns how many bytes the thread had in its
 * caches and free in its slabs and has no more, as hak_stats counts them: blocks as large as they may be used,
 * part of which may not have been resident. 0 if there was nothing.
 *
 * Takes time in proportion to what there is to give, mostly for the calls to the system: some
 * tens of microseconds where a thread has used 400 small blocks, and no more than some
 * milliseconds: of a thread with more than a thousand slabs the rest is left to the next call.
 * The thread pays once more for the next blocks of each size, which come from slabs, and for
 * the pages that it touches again. May be called by a thread that has not
 * allocated yet, while a thread ends, and in a forked child. */
HAK_PUBLIC size_t hak_thread_idle(void) HAK_NOEXCEPT;

/* hak_thread_flush, then returns every page of free memory beyond `keep_bytes`, resident ones
 * between live blocks included, to the system. Returns true if any was. Other threads' caches
 * are emptied as well, but for a block of each size up to 1040 bytes, where the thread is not in the allocator
 * just then, and membarrier(2) is there and no filter of system calls in force, or the thread can be seen asleep
 * in /proc: also under a filter that a dynamically linked program began under, but with no_new_privs. Of heaps of
 * the program's own, the calling thread's caches are emptied, and what is wholly free then goes
 * back: slabs without a block, in pieces of 64 KiB to 2 MiB in which nothing else lies. They keep
 * what other threads have in caches for them, the slabs of those blocks, of up to 512 KiB for each, and free pages
 * beside live blocks. hak_heap_destroy gives all back. Pages of the allocator's own arrays that nobody uses go back,
 * too. Of calls at the same time one empties other threads' caches for all, and alone counts what that returns. */
HAK_PUBLIC bool hak_trim(size_t keep_bytes) HAK_NOEXCEPT;

/* The heap goes on as if the process's container had so much memory: from nine tenths of it on
 * little is kept for speed alone, and memory goes back before more is taken. Replaces what
 * HAKMEM_SOFT_LIMIT says; 0 is no limit. Allocation does not fail for it. What is too much goes
 * at once, as by hak_trim. Thread-safe. */
HAK_PUBLIC void hak_set_soft_limit(size_t bytes) HAK_NOEXCEPT;

/* "MAJOR.MINOR.PATCH" of the library that runs, which may differ from the
 * header's. A static string. */
HAK_PUBLIC const char *hak_version(void) HAK_NOEXCEPT;

/* A picture of the heap. All are bytes unless their names say otherwise. The
 * figures of other threads are read while they run: each is a value that was
 * true a moment ago, their sums may be off by what moved meanwhile. When no
 * thread allocates, and hakmem's own gives nothing back just then,
 *     live + cached + outboxes + free_in_slabs = slab_bytes + large_bytes + huge_bytes
 *     slab_bytes + slab_tails + large_bytes + huge_bytes + dirty_free + clean_free = committed
 * hold. In a forked child they may be off by what other threads of the parent were just moving: blocks that one was
 * putting back, free memory that one was taking, or giving to the system. Blocks count as large as they may be used,
 * not as was asked for. */
typedef struct hak_stats {
  size_t struct_bytes;      /* sizeof(hak_stats_t) of the library's version        */
  size_t reserved;          /* range of addresses that the heap may grow in        */
  size_t committed;         /* heap memory that may be written                     */
  size_t dirty_free;        /* free memory kept resident for reuse                 */
  size_t metadata;          /* committed for page map, slab records, thread heaps  */
  size_t slab_bytes;        /* capacity of all slabs                               */
  size_t large_bytes;       /* large blocks (64 KiB..4 MiB), live or cached        */
  size_t huge_bytes;        /* huge blocks                                         */
  size_t live;              /* in blocks that the program holds                    */
  size_t cached;            /* in blocks that wait in threads' magazines           */
  size_t free_in_slabs;     /* in free blocks of slabs                             */
  size_t slab_count;        /* slabs in use                                        */
  size_t heap_count;        /* thread heaps ever made                              */
  size_t heap_pooled_count; /* of them, waiting for a thread                    */
  uint64_t refills;         /* batches that came into magazines                    */
  uint64_t flushes;         /* batches that left them                              */
  uint64_t remote_frees;    /* blocks sent to the slab of another thread           */
  uint64_t adoptions;       /* slabs taken over that other threads had no use for                */
  uint64_t mmap_calls, munmap_calls, madvise_calls, mremap_calls;
  uint64_t errors;    /* double, invalid and mismatched frees reported       */
  size_t outboxes;    /* in blocks freed, on the way to another thread or its slab */
  size_t slab_tails;  /* ends of slabs that are too short for a block        */
  size_t clean_free;  /* free memory never used, or returned to the system   */
  size_t peak_in_use; /* the most that slabs, large and huge blocks ever took */
  /* Returned to the system since the process began (or the first that it was forked from), by
   * the reason for it: free memory that nobody took for a second; beyond the share of the heap
   * that is kept; free pages of slabs that nobody used for half a second or more; hak_trim and
   * hak_thread_idle. In part it may not have been resident. */
  uint64_t purged_aged, purged_strained, purged_idle, purged_trimmed;
  /* Sent home from magazines to slabs since then: what a thread did not use for a second, or
   * while its slabs of other sizes grew; what lay in those of sleeping threads; of ended ones. */
  uint64_t flushed_unused, flushed_stripped, flushed_ended;
  uint64_t purged_limited; /* as purged_...: because the heap came near a limit        */
  size_t hard_limit;       /* HAKMEM_HARD_LIMIT; 0: none                             */
  size_t soft_limit;       /* HAKMEM_SOFT_LIMIT, or what hak_set_soft_limit said; 0: none */
  size_t container_limit;  /* of the process's control groups, the least; 0: none is known */
  size_t charged;          /* what counts against these limits                             */
  /* What the system refused, for which there is a next best that takes more memory or time: to take
   * memory back (locked pages, filters of system calls); membarrier, where
   * /proc does not show either that a thread sleeps, so that nobody looks at what it holds; the background thread. */
  uint64_t refused_purges, refused_membarriers, refused_threads;
} hak_stats_t;

/* Fills *out, allocating nothing; takes some 12 KiB of stack, as hak_account does.
 * `out_bytes` is sizeof(*out) as the caller was compiled: a library of another version
 * fills what both know. */
HAK_PUBLIC void hak_stats(hak_stats_t *out, size_t out_bytes) HAK_NOEXCEPT;

/* What of the heap is in memory. Every resident page is counted once, so that always
 *     resident = the sum of the members resident_...
 *     mapped   = resident + returned */
typedef struct hak_account {
  size_t struct_bytes; /* sizeof(hak_account_t) of the library's version           */
  size_t is_measured;  /* 1; 0: the system does not say what is resident: the most that can be */
  size_t mapped;       /* may be written: hak_stats_t.committed + metadata         */
  size_t returned;     /* of that, what is not resident: returned to the system or never used */
  size_t resident;     /* in memory now                                            */
  size_t resident_live;
  size_t resident_cached;
  size_t resident_outboxes;
  size_t resident_free_in_slabs;
  size_t resident_slab_tails;
  size_t resident_dirty;           /* free, kept for reuse                          */
  size_t resident_huge_page_slack; /* free and never used, behind huge pages        */
  size_t resident_metadata;
} hak_account_t;

/* Fills *out as hak_stats does. Asks the system page by page: it takes time in proportion to
 * what is mapped, 3 to 7 milliseconds for each GiB. */
HAK_PUBLIC void hak_account(hak_account_t *out, size_t out_bytes) HAK_NOEXCEPT;

/* Writes the statistics, the account and a table of the size classes in use as one JSON
 * object (RFC 8259) in pieces to `write`, which returns false to stop. Allocates nothing;
 * `write` may allocate. Behind each piece is a NUL, which `bytes` does not count. Takes as long as hak_account,
 * and some 4 KiB of stack; where a report is being written already, or a `write` has not come back, some 20 KiB. */
typedef bool hak_write_fn(void *context, const char *text, size_t bytes);
HAK_PUBLIC void hak_stats_json(hak_write_fn *write, void *context) HAK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#endif
