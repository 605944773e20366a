/* See flush.h. SPDX-License-Identifier: MIT */
#include "flush.h"

#include "../slab/batch.h"
#include "../slab/remote.h"
#include "../slab/slab.h"
#include "../support/tally.h"
#include "capacity.h"
#include "room.h"
#include "strip.h"
#include "unload.h"

void flush_caches(heap_t *heap) {
  FOR_EACH_MAGAZINE(heap, c) unload(heap, (unsigned)c, SIZE_MAX);
  remote_flush(&heap->owner);
}

void flush_heap(heap_t *heap) {
  flush_caches(heap);
  remote_collect(&heap->owner, SIZE_MAX);
  slab_release_empty(&heap->owner);
}

bool flush_all_but(heap_t *heap, unsigned size_class, size_t stay, flush_step_t *step) {
  size_t held = magazine_count(heap, size_class);
  if (held <= stay) return false;
  size_t count = min_size(held - stay, step->left / capacity_block_cost(size_class));
  step->left -= unload(heap, size_class, count);
  step->sent += count * size_classes[size_class].block_bytes;
  return count < held - stay;
}

/* So many of a magazine's blocks may stay for the next thread. */
static size_t may_stay(const heap_t *heap, unsigned size_class) {
  enum { KEPT_MOST = 4 };
  return size_class < TINY_CLASS_COUNT && heap->magazines[size_class].capacity <= FIRST_CAPACITY ? KEPT_MOST : 0;
}

static bool is_sound(const heap_t *heap, unsigned size_class) {
  size_t held = magazine_count(heap, size_class);
  return held == 0 || batch_is_sound(&heap->owner, size_class, magazine_slots(heap, size_class) + 1, held);
}

/* Returns whether there is more. What stays is looked at when the rest has gone home: a block may be in both. */
static bool flush_some(heap_t *heap, bool keeps) {
  enum { STEP_COST = 16384 }; /* about a tenth of a millisecond */
  flush_step_t step = {.left = STEP_COST};
  bool has_more = false;
  FOR_EACH_MAGAZINE(heap, at) {
    unsigned c = (unsigned)at;
    has_more = flush_all_but(heap, c, keeps ? may_stay(heap, c) : 0, &step);
    if (!has_more && keeps && !is_sound(heap, c)) has_more = flush_all_but(heap, c, 0, &step);
    if (has_more) break;
  }
  remote_flush(&heap->owner); /* where the thread has ended without a word */
  tally_add(TALLY_ENDED, step.sent);
  return has_more;
}

bool flush_step(owner_t *owner) {
  heap_t *heap = heap_of(owner);
  if (!heap_has_begun(heap)) return false; /* its thread ended before it had one */
  if (owner->stripped) strip_mend(heap);
  bool has_more = flush_some(heap, false);
  room_count_out(heap);
  return has_more;
}

void flush_at_end(heap_t *heap) {
  /* What others have freed comes first: a block that is among that and in a magazine as well is free by then. */
  bool keeps = pool_has_warm_room() && batch_collect(&heap->owner);
  flush_some(heap, keeps);
}
