/*
 * Unloading: the oldest blocks of a magazine leave it, for their slabs or for other threads.
 *
 * The heap's own thread calls these, between thread_enter and thread_leave, or who has claimed the owner.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_UNLOAD_H
#define HAK_UNLOAD_H

#include "heap.h"

HAK_C_BEGIN

/* `count` blocks at the most go home. Returns what that cost: capacity_block_cost. */
size_t unload(heap_t *heap, unsigned size_class, size_t count);
/* The same of an overflow, which frees no more than a call purges: it ends, with one block gone at least, when slabs
 * of FLUSH_BYTES have become free by it. Where blocks are freed in no order, each of the last ones may free a slab. */
void unload_some(heap_t *heap, unsigned size_class, size_t count);
/* The same, but as many as the depot has room for go there. */
void unload_by_depot(heap_t *heap, unsigned size_class, size_t count);

HAK_C_END
#endif
