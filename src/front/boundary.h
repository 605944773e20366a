/*
 * The batch boundary: where the fast path ends, because a magazine is empty or full or
 * the block is another thread's.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_BOUNDARY_H
#define HAK_BOUNDARY_H

#include "heap.h"

HAK_C_BEGIN

/* A block when the class's magazine is empty, see magazine_refill. NULL and errno
 * = ENOMEM when there is no memory. `is_zero` as in batch_refill. */
void *boundary_refill(unsigned size_class, bool *is_zero);

/* Frees a block that the fast path did not take: the magazine is full, or the
 * word is another's. `word` is the block's, its kind a class. */
void boundary_free(void *block, uint32_t word);

/* The same for a tiny block of another's, when all there is to do is to add it to
 * the outbox. false: it has not been freed. The thread has a heap, which does not sample. */
bool boundary_free_quickly(void *block, uint32_t word);
/* The same for a thread that samples, or is to, or has no heap. A block of its own may be freed, too. */
bool boundary_free_sampled(void *block, uint32_t word);

HAK_C_END
#endif
