/* See growth.h. SPDX-License-Identifier: MIT */
#include "growth.h"

#include "../support/config.h"
#include "../support/tally.h"
#include "flush.h"

enum { GROWTH_SHARE = 8 };

/* Of the classes that are left in this round, as far as a call has time for. */
static void flush_some(heap_t *heap, unsigned size_class) {
  enum { STEP_COST = 1024 }; /* each block may be the last of a slab, which goes to the arena then */
  uint8_t *left = &heap->owner.growth_classes;
  flush_step_t step = {.left = STEP_COST};
  bool has_more = false;
  for (int c; !has_more && (c = magazine_below(heap, *left)) >= 0; *left = (uint8_t)(c + has_more))
    has_more = (unsigned)c != size_class && flush_all_but(heap, (unsigned)c, 0, &step);
  if (!has_more) *left = 0;
  tally_add(TALLY_UNUSED, step.sent);
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
