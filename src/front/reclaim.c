/* See reclaim.h. SPDX-License-Identifier: MIT */
#include "reclaim.h"

#include "../arena/arena_look.h"
#include "../os/os.h"
#include "../region/region.h"
#include "../slab/pool.h"
#include "../slab/purge.h"
#include "../slab/tidy.h"
#include "../support/error.h"
#include "../support/limit.h"
#include "../support/tally.h"
#include "flush.h"
#include "strip.h"
#include "thread.h"

static void reclaim_own(void) {
  thread_flush();
  region_release_empty();
}

void reclaim(void) {
  reclaim_own();
  tidy_sweep(flush_step);
  tidy_sweep_attached(strip_now);
}

size_t reclaim_pages(size_t *keep) {
  size_t purged = tidy_purge_pages(keep);
  if (the_heap != &the_null_heap) {
    heap_t *heap = thread_enter();
    if (heap != NULL) {
      purged += purge_pages(&heap->owner, keep);
      thread_leave(heap);
    }
  }
  error_settle();
  return purged;
}

/* Until when nobody goes round all threads again, unless something has changed: how much was needed, and how many
 * threads had a heap, when the rest began. Relaxed: hints. */
static atomic64 rests_until_ms, rest_needed, rest_attached;

/* Much has been freed since, or a thread has ended and left what its caches held. */
static bool has_changed(size_t bytes) {
  size_t before = atomic64_load_relaxed(&rest_needed), needed = arena_needed_bytes();
  return before - min_size(before, needed) >= max_size(min_size(bytes, before / 8), 1) ||
         pool_attached_count() < atomic64_load_relaxed(&rest_attached);
}

/* The system has refused it. false: it is more than the heap has in all. */
static bool reclaim_mapped(size_t bytes) {
  enum { REST_MS = 100 };
  if (bytes > arena_usage().committed) return false;
  uint64_t now_ms = os_now_ms();
  if (now_ms < atomic64_load_relaxed(&rests_until_ms) && !has_changed(bytes)) {
    reclaim_own();
    return true;
  }
  size_t before = arena_needed_bytes();
  reclaim();
  size_t needed = arena_needed_bytes();
  atomic64_store_relaxed(&rest_needed, needed);
  atomic64_store_relaxed(&rest_attached, pool_attached_count());
  if (before - min_size(before, needed) < bytes) atomic64_store_relaxed(&rests_until_ms, now_ms + REST_MS);
  return true;
}

HAK_COLD bool reclaim_for(size_t bytes) {
  if (!limit_exists() || !limit_is_hard()) return reclaim_mapped(bytes);
  if (!limit_could_ever_allow(bytes)) return false;
  reclaim();
  /* Room for a slab at the least, and for tables. What is dirty goes at the next try. */
  size_t wanted = bytes + bytes / 16 + HAK_MIB(1), dirty = arena_usage().dirty, keep = 0;
  if (wanted > dirty && !limit_allows(wanted - dirty)) tally_add(TALLY_LIMITED, reclaim_pages(&keep));
  return true;
}
