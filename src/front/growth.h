/*
 * What a thread's slabs grow by while blocks of other sizes lie in its magazines.
 *
 * A slab goes back when all of its blocks are free, and a block in a magazine is not: blocks that were freed in no
 * order keep a slab each. Programs that work in phases, each with other sizes, would have the slabs of all phases
 * that they were through. To wait for a second (decay.h) is too long: a heap grows by some MiB in a millisecond. So
 * at each step by which a thread's slabs have grown the magazines of all other classes to 64 KiB go home, some at a
 * refill.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_GROWTH_H
#define HAK_GROWTH_H

#include "heap.h"

HAK_C_BEGIN

/* A step, but a share of what is there where that is more. Smaller heaps need their magazines: blocks in these are a
 * good part of what is out, which says how many large ones may be cached (room.h). */
#define GROWTH_BYTES HAK_MIB(16)

void growth_step(heap_t *heap, unsigned size_class);
/* The owning thread is about to refill the magazine of that class. */
HAK_INLINE void growth_look(heap_t *heap, unsigned size_class) {
  owner_t *owner = &heap->owner;
  int64_t grown = owner->slab_bytes - owner->grown_from;
  if (HAK_UNLIKELY(grown > (int64_t)GROWTH_BYTES || owner->growth_classes != 0)) growth_step(heap, size_class);
  else if (HAK_UNLIKELY(grown < 0)) owner->grown_from = owner->slab_bytes;
}

HAK_C_END
#endif
