/*
 * The batch boundary: where the fast path ends, because a magazine is empty or full or
 * the block is another thread's.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_BOUNDARY_H
#define HAK_BOUNDARY_H

#include "../slab/depot.h"
#include "heap.h"
#include "magazine.h"
#include "sharing.h"
#include "travel.h"

HAK_C_BEGIN

/* A block when the class's magazine is empty, see magazine_refill. NULL and errno
 * = ENOMEM when there is no memory. `is_zero` as in batch_refill. */
void *boundary_refill(unsigned size_class, bool *is_zero);

/* Frees a block that the fast path did not take: the magazine is full, or the
 * word is another's. `word` is the block's, its kind a class. */
void boundary_free(void *block, uint32_t word);

/* Whether another's block of a class that travels (slab/depot.h) stays here: where its magazine does, or the
 * thread has no other block that it could hand out next, unless it would share its lines. Else it goes home, so
 * that a thread that was handed some once does not have them for ever: it takes time at each free to tell them
 * from its own, most of all where nobody can foretell which it is. A hint: who claims the owner changes its
 * slabs meanwhile. */
static inline HAK_LOOKS_ON bool boundary_keeps(const heap_t *heap, unsigned size_class) {
  return depot_serves(size_class) &&
         (heap->magazines[size_class].travels > 0 ||
          (!travel_shares_lines(size_class) && HAK_LOOK(heap->owner.slabs[size_class]) == 0));
}
/* Frees one that stays, when there is room in the magazine, as there is at most frees of such. false:
 * it has not been freed. The heap is the thread's, and does not sample. */
HAK_INLINE bool boundary_keep(heap_t *heap, void *block, uint32_t word) {
  return word_owner(word) != 0 && !sharing_has_begun() && magazine_push(heap, word_kind(word), block);
}
/* The same for one that goes home, when all there is to do is to add it to
 * the outbox, or to send it alone. false: it has not been freed. The heap is the thread's, and does not sample. */
bool boundary_free_quickly(heap_t *heap, void *block, uint32_t word);
/* The same for a thread that samples, or is to, or has no heap. A block of its own may be freed, too. */
bool boundary_free_sampled(void *block, uint32_t word);

HAK_C_END
#endif
