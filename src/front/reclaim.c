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
#include "rounds.h"
#include "strip.h"
#include "thread.h"

static void reclaim_own(void) {
  thread_flush();
  region_release_empty();
}

/* What is done to all heaps, by one thread for all that want it at once; the last two pass over other threads that have
 * done nothing since. */
typedef enum { SWEEP, PURGE, SWEEP_CHANGED, PURGE_CHANGED, ERRANDS } errand_t;
static rounds_t rounds[ERRANDS];

void reclaim_after_fork(void) {
  for (int i = 0; i < ERRANDS; i++) rounds_after_fork(&rounds[i]);
}

/* Returns the bytes whose pages went, if that is the errand. */
static size_t run_errand(errand_t errand) {
  size_t keep = 0;
  if (errand == PURGE) return tidy_purge_pages(&keep);
  if (errand == PURGE_CHANGED) return tidy_purge_changed();
  tidy_sweep(flush_step);
  if (errand == SWEEP) tidy_sweep_attached(strip_now);
  else tidy_sweep_changed(strip_now);
  return 0;
}

/* The same, 0 where somebody else has gone. */
static size_t go_round(errand_t errand) {
  uint64_t round = rounds_begin(&rounds[errand]);
  if (round == 0) return 0;
  size_t purged = run_errand(errand);
  rounds_end(&rounds[errand], round);
  return purged;
}

void reclaim(void) {
  reclaim_own();
  go_round(SWEEP);
}

static size_t purge_own(size_t *keep) {
  size_t purged = 0;
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

/* Where some are to stay it matters who counts them. */
size_t reclaim_pages(size_t *keep) {
  size_t purged = *keep > 0 ? tidy_purge_pages(keep) : go_round(PURGE);
  return purged + purge_own(keep);
}

enum { REST_MS = 100 };

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
  if (bytes > arena_usage().committed) return false;
  if (os_now_ms() < atomic64_load_relaxed(&rests_until_ms) && !has_changed(bytes)) {
    reclaim_own();
    return true;
  }
  size_t before = arena_needed_bytes();
  reclaim();
  size_t needed = arena_needed_bytes();
  atomic64_store_relaxed(&rest_needed, needed);
  atomic64_store_relaxed(&rest_attached, pool_attached_count());
  if (before - min_size(before, needed) < bytes) atomic64_store_relaxed(&rests_until_ms, os_now_ms() + REST_MS);
  return true;
}

/* Until when a hard limit passes over other threads that have done nothing since. That is looked at of each, as
 * what is freed makes room again at once; but what they put into their magazines alone is not seen. Relaxed: a hint. */
static atomic64 passes_until_ms;

/* A thread that sleeps takes some microseconds to look at, and there may be thousands. */
static bool is_to_pass(void) {
  uint64_t now_ms = os_now_ms();
  if (now_ms < atomic64_load_relaxed(&passes_until_ms)) return true;
  atomic64_store_relaxed(&passes_until_ms, now_ms + REST_MS);
  return false;
}

HAK_COLD bool reclaim_for(size_t bytes) {
  if (!limit_exists() || !limit_is_hard()) return reclaim_mapped(bytes);
  if (!limit_could_ever_allow(bytes)) return false;
  bool passes = is_to_pass();
  reclaim_own();
  go_round(passes ? SWEEP_CHANGED : SWEEP);
  /* Room for a slab at the least, and for tables. What is dirty goes at the next try. */
  size_t wanted = bytes + bytes / 16 + HAK_MIB(1), dirty = arena_usage().dirty, keep = 0;
  if (wanted > dirty && !limit_allows(wanted - dirty))
    tally_add(TALLY_LIMITED, go_round(passes ? PURGE_CHANGED : PURGE) + purge_own(&keep));
  return true;
}
