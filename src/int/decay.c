/* See decay.h. SPDX-License-Identifier: MIT */
#include "decay.h"

#include "../arena/arena.h"
#include "../front/magazine.h"
#include "../os/os.h"
#include "../slab/pool.h"
#include "../slab/purge.h"
#include "../slab/remote.h"

enum {
  DECAY_MS = 1000,
  PURGES_AT_ONCE = 128, /* slabs: a millisecond or two */
};

void decay_now(heap_t *heap) {
  uint64_t now_ms = os_now_ms();
  purge_idle(&heap->owner, now_ms, PURGES_AT_ONCE);
  if (now_ms < heap->decayed_ms + DECAY_MS) return;
  heap->decayed_ms = now_ms;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    magazine_t *m = &heap->magazines[c];
    if (m->capacity > 0 && !m->used) magazine_shrink(heap, c);
    m->used = false;
  }
  remote_flush(&heap->owner);
  pool_tidy(now_ms);
  arena_tick(now_ms);
}
