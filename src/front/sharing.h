/*
 * Sharing: where there are many threads, these get small blocks of slabs that are nobody's.
 *
 * A slab of each size would be much for each of them: a page for each block that stays in use or in a magazine. So
 * where there are more than FEW_THREADS, they share slabs, from which the pool lends blocks (slab/orphanage.h). To free
 * one of these takes the slow path. It stays in the magazine, which does not grow meanwhile: what one thread has at
 * hand another one has to take from the next page. All that costs time, so a thread that has come here often, and
 * works rather than waits, gets slabs of its own: the larger the blocks, the more pages, and the later. From 66
 * threads on, 2000 that wait had 102 to 106 MiB, instead of 117 to 121, but threads that work would pay for it in
 * programs that have no more than these.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SHARING_H
#define HAK_SHARING_H

#include "heap.h"

HAK_C_BEGIN

/* Whether there ever were so many threads that a magazine may hold blocks which the pool has lent. Any thread. */
bool sharing_has_begun(void);
/* Whether there are so many now. Any thread. */
bool sharing_is_on(void);
/* Whether the class is still served so; as of the next two, the heap's own thread calls it, between thread_enter and
 * thread_leave. */
bool sharing_serves(const heap_t *heap, unsigned size_class);
/* The same at the batch boundary, which is noted. */
bool sharing_note(heap_t *heap, unsigned size_class);
/* Puts blocks into an empty magazine: lent ones, unless the thread has slabs of its own with free ones, or there are
 * none. Returns how many. */
size_t sharing_fetch(heap_t *heap, unsigned size_class, size_t wanted);

HAK_C_END
#endif
