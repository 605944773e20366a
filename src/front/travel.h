/*
 * Which magazines travel: those whose blocks pass from thread to thread by the depot (slab/depot.h).
 *
 * A magazine that travels is refilled from the depot before its thread's own slabs, and what it has too much of
 * goes there. Others' blocks stay in it. It does so for a second or two after another thread's block has found
 * it full, or for one after it was served by the depot for want of own ones; one of small blocks, where the
 * thread exchanges these (travel_is_wanted). It does not grow beyond a fair batch, however often it runs full
 * and empty: the depot has what it is short of, and others can have what it has too much of. But where what it
 * runs full of are its thread's own blocks, nobody exchanges any, and to send them by the depot, a batch at a
 * time, would only take time; it grows as others do.
 *
 * Among more than SOME_THREADS, magazines of mid blocks of several pages travel whenever they run full
 * (travel_is_due). What a thread has of such a size at hand follows the most that it had of it at once, and
 * these peaks add up over sizes and threads; what one has too much of serves the others.
 *
 * The heap's own thread calls these, between thread_enter and thread_leave.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TRAVEL_H
#define HAK_TRAVEL_H

#include "capacity.h"
#include "heap.h"

HAK_C_BEGIN

/* Blocks that share lines of the cache with their neighbours, but for their ends: below 128 bytes. */
enum { SHARED_LINE_CLASSES = 8 };
HAK_INLINE bool travel_shares_lines(unsigned size_class) { return size_class < SHARED_LINE_CLASSES; }
/* Whether a magazine of such blocks is to travel, as one of another thread's has come. Handed out by this
 * thread they would share lines with their neighbours over there; but who frees others' blocks of many slabs,
 * in no order, and takes blocks of the class as well, exchanges them with others, and what shares a line is up
 * to chance already. */
bool travel_is_wanted(const heap_t *heap, unsigned size_class);

/* Whether a magazine that has run full is to, whosever blocks it holds. */
bool travel_is_due(unsigned size_class);

/* Another's block has come that the magazine has no room for, or that is due. */
void travel_begin(heap_t *heap, unsigned size_class);
/* A round of decay_now has come to it. */
void travel_decay(heap_t *heap, unsigned size_class);

/* Up to `wanted` blocks from the depot, if the magazine travels or, of 128 bytes and more, the thread's own
 * blocks are all out: what others have too many of, so no page is touched anew, and where blocks go in a circle
 * nobody looks for their slabs. Returns how many. */
size_t travel_fetch(heap_t *heap, unsigned size_class, void **blocks, size_t wanted);

/* How much a fair batch is of a magazine, in bytes: more where blocks pass in one direction, as the magazine
 * never ran full, or has not run empty since and none of the thread's own blocks is free. */
size_t travel_batch_bytes_of_one(const heap_t *heap, unsigned size_class); /* that travels */
HAK_INLINE size_t travel_batch_bytes(const heap_t *heap, unsigned size_class) {
  if (HAK_LIKELY(heap->magazines[size_class].travels == 0)) return BATCH_BYTES;
  return travel_batch_bytes_of_one(heap, size_class);
}

/* The capacity that a magazine is to have that has run full, and travels or not; `block` is the one that it has no room
 * for. */
size_t travel_capacity_when_full(const heap_t *heap, unsigned size_class, const void *block);

HAK_C_END
#endif
