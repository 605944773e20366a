/* See reclaim.h. SPDX-License-Identifier: MIT */
#include "reclaim.h"

#include "../arena/arena_look.h"
#include "../os/os.h"
#include "../region/region.h"
#include "../slab/tidy.h"
#include "../support/limit.h"
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

/* Until when nobody goes round all threads again. Relaxed: a hint. */
static atomic64 rests_until_ms;

/* The system has refused it. false: it is more than the heap has in all. */
static bool reclaim_mapped(size_t bytes) {
  enum { REST_MS = 100 };
  if (bytes > arena_usage().committed) return false;
  uint64_t now_ms = os_now_ms();
  if (now_ms < atomic64_load_relaxed(&rests_until_ms)) {
    reclaim_own();
    return true;
  }
  size_t before = arena_needed_bytes();
  reclaim();
  if (before - min_size(before, arena_needed_bytes()) < bytes)
    atomic64_store_relaxed(&rests_until_ms, now_ms + REST_MS);
  return true;
}

HAK_COLD bool reclaim_for(size_t bytes) {
  if (!limit_exists() || !limit_is_hard()) return reclaim_mapped(bytes);
  if (!limit_could_ever_allow(bytes)) return false;
  reclaim();
  return true;
}
