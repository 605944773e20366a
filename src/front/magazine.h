/*
 * Magazines at the batch boundary: refill and overflow.
 *
 * Capacity adapts to what the program does. A magazine that runs full after it ran empty oscillates: half of it
 * travels to the slabs and back each time; it is doubled, and the oscillation ends, but for those whose blocks
 * would get out of order (order.h). One that runs empty again and again grows to a fair batch. All capacity
 * together has a budget (array.h). What is not used for a second shrinks (decay.h).
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
/* Frees a block whose magazine is full. */
void magazine_overflow(heap_t *heap, unsigned size_class, void *block);
/* Frees another's large block, for whose class there is no magazine, nor will be for this. */
void magazine_pass_by(heap_t *heap, unsigned size_class, void *block, uint32_t word);
/* Frees a block in a heap that may sample, whether or not its magazine is full. */
void magazine_push_sampled(heap_t *heap, unsigned size_class, void *block);
/* Frees the arrays of all magazines that are empty, but for those of so many blocks or
 * fewer. */
void magazines_drop(heap_t *heap, size_t capacity_kept);

/* Blocks in a magazine that may be another thread's: a number that was right lately. */
size_t magazine_count_of_others(const heap_t *heap, unsigned size_class);
void magazines_check(const heap_t *heap);

HAK_C_END
#endif
