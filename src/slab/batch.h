/*
 * Batches: how blocks get from slabs into magazines and back, many at a time.
 *
 * A refill looks for free blocks where they cost least: what others have freed, the
 * owner's slabs in use, those of ended threads, fresh ones. A flush checks each block
 * and sends it home, whoever's its slab is by now.
 *
 * The functions are the owning thread's (owner.h).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_BATCH_H
#define HAK_BATCH_H

#include "owner.h"

HAK_C_BEGIN

/* Takes up to `wanted` free blocks of a class into `blocks`, so that the last one
 * has the lowest address of its slab; at least one unless there is no memory.
 * Collects what other threads have freed first; prefers slabs in use to those of
 * ended threads and those to fresh ones. `is_zero`, if not NULL, tells whether
 * a single block (wanted is 1) reads as zero; false when unknown. */
size_t batch_refill(owner_t *owner, unsigned size_class, void **blocks, size_t wanted, bool *is_zero);
/* The same from the orphanage, which lends them: size_class_is_shared. May return none: orphanage_lend. */
size_t batch_borrow(owner_t *owner, unsigned size_class, void **blocks, size_t wanted);

/* Takes blocks back that came from a magazine of the class. Each is checked:
 * one that is free already or that is no block of the class is reported. Blocks
 * of slabs that are another's by now go there. */
void batch_flush(owner_t *owner, unsigned size_class, void *const *blocks, size_t count);
/* The same of the first ones, until slabs of `most_units`, or a little more, have gone to the arena by them. Returns
 * how many blocks were taken back, one at least. */
size_t batch_flush_some(owner_t *owner, unsigned size_class, void *const *blocks, size_t count, uint32_t most_units);
/* The same of a large block that is not in a magazine, whoever's it is by its word. */
void batch_flush_single(owner_t *owner, unsigned size_class, void *block, uint32_t word);

/* Up to `wanted` blocks of a class out of the depot (depot.h), whoever's. Returns how many. */
size_t batch_fetch(owner_t *owner, unsigned size_class, void **blocks, size_t wanted);
/* Puts blocks there that came from a magazine of the class, unchecked. Returns how many it had room for. */
size_t batch_send(owner_t *owner, unsigned size_class, void *const *blocks, size_t count);

/* Collects as much of what others have freed as a refill does. Returns whether nothing is left that has come. */
bool batch_collect(owner_t *owner);
/* Whether batch_flush would report none of the blocks, a few of a class of several, and send none to another owner.
 * Nothing is changed. */
bool batch_is_sound(const owner_t *owner, unsigned size_class, void *const *blocks, size_t count);

HAK_C_END
#endif
