/*
 * Magazines at the batch boundary: refill, overflow and capacity.
 *
 * Capacity adapts to what the program does. A magazine that runs full after it ran empty oscillates: half of it
 * travels to the slabs and back each time; it is doubled, and the oscillation ends, but for those whose blocks
 * would get out of order (order.h). One that runs empty again and again grows to a fair batch. All capacity
 * together is bounded by a budget in bytes (the first arrays of small classes are not asked for theirs). What
 * is not used for a second shrinks (decay.h).
 *
 * The heap's own thread calls these, between thread_enter and thread_leave.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_MAGAZINE_H
#define HAK_MAGAZINE_H

#include "heap.h"

HAK_C_BEGIN

/* A block where the magazine is empty: of a class that may serve instead, or of
 * the magazine, refilled; NULL when there is no memory. */
void *magazine_refill(heap_t *heap, unsigned size_class, bool *is_zero);
/* Whether there ever were so many threads that a magazine may hold blocks which the pool has lent (FEW_THREADS). */
bool magazines_may_have_shared(void);
/* Frees a block whose magazine is full. */
void magazine_overflow(heap_t *heap, unsigned size_class, void *block);
/* Frees another's large block, for whose class there is no magazine, nor will be for this. */
void magazine_pass_by(heap_t *heap, unsigned size_class, void *block, uint32_t word);
/* Frees a block in a heap that may sample, whether or not its magazine is full. */
void magazine_push_sampled(heap_t *heap, unsigned size_class, void *block);
/* Flushes the oldest blocks, `count` at the most, to their slabs. Returns what that
 * cost: capacity_block_cost. */
size_t magazine_flush(heap_t *heap, unsigned size_class, size_t count);
/* Flushes half of the blocks and halves the capacity. Returns what that cost, as
 * magazine_flush. */
size_t magazine_shrink(heap_t *heap, unsigned size_class);
/* Frees the arrays of all magazines that are empty, but for those of so many blocks or
 * fewer. */
void magazines_drop(heap_t *heap, size_t capacity_kept);

/* Blocks in a magazine that may be another thread's: a number that was right lately. */
size_t magazine_count_of_others(const heap_t *heap, unsigned size_class);
void magazines_check(const heap_t *heap);

HAK_C_END
#endif
