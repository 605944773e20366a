/*
 * Whole heaps sent home. The caller is the owning thread (owner.h).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_FLUSH_H
#define HAK_FLUSH_H

#include "heap.h"

HAK_C_BEGIN

/* Of one call: the cost that is left (capacity_block_cost), and the bytes that went home. */
typedef struct {
  size_t left, sent;
} flush_step_t;
/* All but the newest `stay` blocks of a magazine go home, as far as the step allows. Returns whether there are more. */
bool flush_all_but(heap_t *heap, unsigned size_class, size_t stay, flush_step_t *step);

/* All magazines and the outbox empty. */
void flush_caches(heap_t *heap);
/* The same, what others have freed collected, empty slabs given back. */
void flush_heap(heap_t *heap);
/* Sends a bounded number of blocks home from an owner's magazines, the largest first.
 * Returns whether there are more. */
bool flush_step(owner_t *owner);
/* The same when the heap's thread ends. Where the owner may be pooled warm, magazines of a few tiny blocks stay as they
 * are for the next thread, once it is seen that a flush would have found nothing wrong with any of these blocks: what
 * the thread, or others whose frees have come, have freed twice is found now, as if all of them went home. */
void flush_at_end(heap_t *heap);

HAK_C_END
#endif
