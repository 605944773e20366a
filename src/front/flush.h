/*
 * Whole heaps sent home. The caller is the owning thread (owner.h).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_FLUSH_H
#define HAK_FLUSH_H

#include "heap.h"

HAK_C_BEGIN

/* All magazines and the outbox empty, what others have freed collected, empty slabs
 * given back. */
void flush_heap(heap_t *heap);
/* Sends a bounded number of blocks home from an owner's magazines, the largest first.
 * Returns whether there are more. */
bool flush_step(owner_t *owner);

HAK_C_END
#endif
