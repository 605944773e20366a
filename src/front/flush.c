/* See flush.h. SPDX-License-Identifier: MIT */
#include "flush.h"

#include "../slab/batch.h"
#include "../slab/remote.h"
#include "../slab/slab.h"
#include "../support/tally.h"
#include "capacity.h"
#include "magazine.h"
#include "strip.h"

void flush_heap(heap_t *heap) {
  FOR_EACH_MAGAZINE(heap, c) magazine_flush(heap, (unsigned)c, SIZE_MAX);
  remote_flush(&heap->owner);
  remote_collect(&heap->owner, SIZE_MAX);
  slab_release_empty(&heap->owner);
}

/* So many of the newest blocks of a magazine stay for the next thread. */
static size_t kept(const heap_t *heap, unsigned size_class, size_t held) {
  enum { KEPT_MOST = 4 };
  if (size_class >= TINY_CLASS_COUNT || heap->magazines[size_class].capacity > FIRST_CAPACITY) return 0;
  size_t count = min_size(held, KEPT_MOST);
  return batch_is_sound(&heap->owner, size_class, heap->top[size_class] + 1 - count, count) ? count : 0;
}

/* Returns whether there is more. */
static bool flush_some(heap_t *heap, bool keeps) {
  enum { STEP_COST = 16384 }; /* about a tenth of a millisecond */
  size_t left = STEP_COST, sent = 0;
  bool has_more = false;
  FOR_EACH_MAGAZINE(heap, at) {
    unsigned c = (unsigned)at;
    size_t held = magazine_count(heap, c);
    if (held > 0 && keeps) held -= kept(heap, c, held);
    if (held == 0) continue;
    size_t count = min_size(held, left / capacity_block_cost(c));
    left -= magazine_flush(heap, c, count);
    sent += count * size_classes[c].block_bytes;
    has_more = held > count;
    if (has_more) break;
  }
  remote_flush(&heap->owner); /* where the thread has ended without a word */
  tally_add(TALLY_ENDED, sent);
  return has_more;
}

bool flush_step(owner_t *owner) {
  heap_t *heap = heap_of(owner);
  if (heap->id_word == 0) return false; /* its thread ended before it had one */
  if (owner->stripped) strip_mend(heap);
  return flush_some(heap, false);
}

void flush_at_end(heap_t *heap) {
  /* What others have freed comes first: a block that is among that and in a magazine as well is free by then. */
  bool keeps = pool_has_warm_room() && batch_collect(&heap->owner);
  flush_some(heap, keeps);
}
