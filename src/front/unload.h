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
/* The same, but as many as the depot has room for go there. */
void unload_by_depot(heap_t *heap, unsigned size_class, size_t count);

HAK_C_END
#endif
