/*
 * The life of a thread: how it gets its heap, enters and leaves the allocator, and what
 * becomes of the heap when it ends or forks.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_THREAD_H
#define HAK_THREAD_H

#include "heap.h"

HAK_C_BEGIN

/* The calling thread's heap; made at first use. NULL when there is no memory. In
 * a thread that has ended as far as we know (its last destructors run), a heap
 * that must be given back with thread_leave. */
heap_t *thread_enter(void);
/* The same if it has one by now, else NULL. */
heap_t *thread_enter_if_any(void);
void thread_leave(heap_t *heap);

/* All that lies aside goes home: what the calling thread's caches of regions and the depot have, and its magazines, if
 * it has a heap. */
void thread_flush(void);

/* Whether the first thread of the process has ended, which does not end the process while
 * there are others; as far as it was noticed. Acquire. */
bool thread_leader_has_ended(void);
/* Sleeps until that is so, for `milliseconds` at the most. */
void thread_await_leaders_end(int milliseconds);
/* The calling thread's end is to be noticed, although it may never need a heap. */
void thread_watch(void);
/* The same, for one that is about to get caches of regions. */
void thread_watch_caches(void);

/* Prepares thread ends to be noticed; before the first heap, any number of times. */
void thread_prepare(void);
/* Before a fork, and in the child: heaps of threads that are not here. */
void thread_before_fork(void);
void thread_after_fork(void);

HAK_C_END
#endif
