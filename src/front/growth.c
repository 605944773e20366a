/* See growth.h. SPDX-License-Identifier: MIT */
#include "growth.h"

#include "../support/config.h"
#include "../support/tally.h"
#include "magazine.h"

enum { GROWTH_SHARE = 8 };

/* Of the classes that are left in this round, as far as a call has time for. */
static void flush_some(heap_t *heap, unsigned size_class) {
  enum { STEP_COST = 8192 }; /* see capacity_block_cost */
  for (size_t cost = 0; heap->owner.growth_classes > 0 && cost < STEP_COST;) {
    unsigned c = --heap->owner.growth_classes;
    size_t held = magazine_count(heap, c);
    if (held == 0 || c == size_class) continue;
    cost += magazine_flush(heap, c, held);
    tally_add(TALLY_UNUSED, (held - magazine_count(heap, c)) * size_classes[c].block_bytes);
  }
}

HAK_NOINLINE void growth_step(heap_t *heap, unsigned size_class) {
  owner_t *owner = &heap->owner;
  int64_t step = (int64_t)max_size(GROWTH_BYTES, (size_t)owner->grown_from / GROWTH_SHARE);
  if (owner->slab_bytes - owner->grown_from > step && config()->over_time != OVER_TIME_OFF) {
    owner->grown_from = owner->slab_bytes;
    owner->growth_classes = MID_CLASS_END;
  }
  flush_some(heap, size_class);
}
