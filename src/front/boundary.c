/* See boundary.h. SPDX-License-Identifier: MIT */
#include "boundary.h"

#include "../arena/arena_purge.h"
#include "../slab/depot.h"
#include "../slab/orphanage.h"
#include "../slab/remote.h"
#include "../slab/single.h"
#include "../slab/spill.h"
#include "../slab/surplus.h"
#include "../support/error.h"
#include "bell.h"
#include "capacity.h"
#include "decay.h"
#include "growth.h"
#include "magazine.h"
#include "reclaim.h"
#include "sample.h"
#include "thread.h"
#include "travel.h"

#include <errno.h>

/* Whether it is worth another try, once. */
static HAK_COLD bool has_more_at_the_end(unsigned size_class, bool *tried) {
  bool worth = !*tried && reclaim_for(size_classes[size_class].block_bytes);
  *tried = true;
  errno = ENOMEM; /* who reclaims may have waited */
  return worth;
}

void *boundary_refill(unsigned size_class, bool *is_zero) {
  bool tried = false;
  for (;;) {
    heap_t *heap = thread_enter();
    void *block = NULL;
    if (HAK_LIKELY(heap != NULL)) {
      decay_step(heap, false);
      growth_look(heap, size_class);
      block = magazine_refill(heap, size_class, is_zero);
      thread_leave(heap);
    }
    if (HAK_LIKELY(block != NULL) || !has_more_at_the_end(size_class, &tried)) return block;
  }
}

/* A lone block of a slab that is another's: the slab becomes ours with it. It is
 * freed at once if there is no heap. false: it was a mistake. */
static bool take_over(heap_t *heap, void *block, uint32_t word) {
  unit_t slab = (unit_t)map_unit_of(block);
  if (block != map_address(slab)) error_note(ERROR_INTERIOR_FREE, block, size_classes[word_kind(word)].block_bytes, 0);
  else if (!(heap != NULL ? slab_take_over_single(&heap->owner, slab, word) : slab_free_single(NULL, slab, word)))
    error_note(ERROR_DOUBLE_FREE, block, size_classes[word_kind(word)].block_bytes, 0);
  else return true;
  return false;
}

/* There is no memory for the thread's first heap. The block is another's, then,
 * and goes home. */
static HAK_COLD void free_without_heap(void *block, uint32_t word) {
  if (size_class_is_single(word_kind(word))) take_over(NULL, block, word);
  else remote_free_directly(block, word);
}

/* As take_over, but where there is no magazine to keep it in it is freed at once, by that one step: a thread that
 * only frees has none. Returns whether it is to be kept. */
static bool take_in(heap_t *heap, unsigned size_class, void *block, uint32_t word) {
  if (heap->magazines[size_class].capacity > 0 || sample_may_be_on(heap)) return take_over(heap, block, word);
  magazine_pass_by(heap, size_class, block, word);
  return false;
}

/* Before there are many threads nothing is, and blocks of the orphanage's slabs are what sleeping threads have left. */
static bool is_lent(const heap_t *heap, unsigned size_class, uint32_t word) {
  return sharing_has_begun() && orphanage_has_lent(&heap->owner, size_class, word);
}

/* Another's block of a slab of several. Where there is no room in the magazine for one that stays there are too many
 * here. Returns whether it stays. */
static bool stays_or_goes_home(heap_t *heap, unsigned size_class, void *block, uint32_t word) {
  bool stays = boundary_keeps(heap, size_class), is_full = heap->slots[size_class].top == heap->slots[size_class].limit;
  bool travels = (stays ? is_full : travel_is_wanted(heap, size_class)) && !is_lent(heap, size_class, word);
  if (travels) travel_begin(heap, size_class);
  else if (!stays) remote_free(&heap->owner, block, word);
  return stays || travels;
}

/* Units of slabs for which this free gives memory back: as much as an overflow frees. Many may have gone at refills,
 * which give nothing back; the frees that follow do it by and by, for half of what is left each time, as the arena
 * has others for some of it by then. */
static size_t take_released(owner_t *owner) {
  uint32_t units = (uint32_t)min_size(owner->released_units, FLUSH_BYTES >> UNIT_SHIFT);
  owner->released_units = (owner->released_units - units) / 2;
  return units;
}

void boundary_free(void *block, uint32_t word) {
  heap_t *heap = thread_enter();
  if (HAK_UNLIKELY(heap == NULL)) {
    free_without_heap(block, word);
    error_settle();
    return;
  }
  decay_step(heap, true);
  if (bell_has_listener()) spill_some(&heap->owner);
  else surplus_begin(&heap->owner);
  unsigned size_class = word_kind(word);
  bool keep = true;
  if (word_owner(word) != heap->owner.id)
    keep = size_class_is_single(size_class) ? take_in(heap, size_class, block, word)
                                            : stays_or_goes_home(heap, size_class, block, word);
  if (keep && sample_may_be_on(heap)) magazine_push_sampled(heap, size_class, block);
  else if (keep && !magazine_push(heap, size_class, block)) magazine_overflow(heap, size_class, block);
  surplus_end(&heap->owner);
  size_t freed_units = size_class_is_single(size_class) ? size_classes[size_class].slab_units
                                                        : take_released(&heap->owner);
  thread_leave(heap);
  arena_relieve(freed_units);
  bell_ring();
}

bool boundary_free_quickly(heap_t *heap, void *block, uint32_t word) {
  return word_owner(word) != heap->owner.id && remote_free_quickly(&heap->owner, block, word);
}

bool boundary_free_sampled(void *block, uint32_t word) {
  heap_t *heap = the_heap;
  if (record_mean() != 0) record_freed(block);
  if (heap == &the_null_heap) return false;
  if (word_owner(word) == heap->owner.id) return sample_free(heap, block, word);
  return !boundary_keeps(heap, word_kind(word)) && remote_free_quickly(&heap->owner, block, word);
}
