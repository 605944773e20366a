/* See flush.h. SPDX-License-Identifier: MIT */
#include "flush.h"

#include "../slab/remote.h"
#include "../slab/slab.h"
#include "../support/tally.h"
#include "capacity.h"
#include "magazine.h"
#include "strip.h"

void flush_heap(heap_t *heap) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) magazine_flush(heap, c, SIZE_MAX);
  remote_flush(&heap->owner);
  remote_collect(&heap->owner, SIZE_MAX);
  slab_release_empty(&heap->owner);
}

bool flush_step(owner_t *owner) {
  enum { STEP_COST = 16384 }; /* about a tenth of a millisecond */
  heap_t *heap = heap_of(owner);
  size_t left = STEP_COST, sent = 0;
  bool has_more = false;
  if (heap->id_word == 0) return false; /* its thread ended before it had one */
  if (owner->stripped) strip_mend(heap);
  for (unsigned c = SIZE_CLASS_COUNT; c-- > 0 && !has_more;) {
    size_t held = magazine_count(heap, c);
    if (held == 0) continue;
    size_t most = left / capacity_block_cost(c);
    left -= magazine_flush(heap, c, most);
    sent += min_size(held, most) * size_classes[c].block_bytes;
    has_more = held > most;
  }
  remote_flush(owner); /* where the thread has ended without a word */
  tally_add(TALLY_ENDED, sent);
  return has_more;
}
