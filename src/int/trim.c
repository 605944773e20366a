/* See trim.h. SPDX-License-Identifier: MIT */
#include "trim.h"

#include "../arena/arena.h"
#include "../front/reclaim.h"
#include "../front/thread.h"
#include "../slab/tidy.h"
#include "../slab/purge.h"
#include "../support/error.h"

size_t trim_for(tally_t reason, size_t keep_bytes) {
  reclaim();
  size_t purged = tidy_purge_pages();
  if (the_heap != &the_null_heap) {
    heap_t *heap = thread_enter();
    if (heap != NULL) {
      purged += purge_pages(&heap->owner);
      thread_leave(heap);
    }
  }
  error_settle();
  return tally_add(reason, purged) + arena_purge_for(reason, keep_bytes);
}
