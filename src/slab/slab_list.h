/*
 * An owner's lists: for each class, of the slabs that have a free block.
 *
 * A slab that gets its first free block goes to the front: refills then fill the fullest slabs first, and the others
 * get a chance to become empty. Empty ones are the last. To find them, the first slab's `previous` is the last.
 *
 * For this layer's files alone. The functions are the owning thread's.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SLAB_LIST_H
#define HAK_SLAB_LIST_H

#include "owner.h"

HAK_C_BEGIN

/* Every block of it is free. */
HAK_INLINE bool slab_is_empty(unit_t slab) {
  return map_record(slab)->slab.free_count == map_record(slab)->slab.capacity;
}

/* The slab is in no list. It becomes the first, or the last if it is empty. */
void slab_enlist(owner_t *owner, unit_t slab);
/* It is in its class's list, and in none from then on. */
void slab_unlist(owner_t *owner, unit_t slab);
/* Blocks are about to be taken from a listed slab: it is the first from now on. Those that were before one with a block
 * in use become the last, so that nobody looks at them again soon, but for empty ones. */
HAK_COLD void slab_begin_with(owner_t *owner, unit_t slab);

HAK_C_END
#endif
