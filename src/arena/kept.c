/* See kept.h. SPDX-License-Identifier: MIT */
#include "kept.h"

#include "../support/limit.h"
#include "../support/profile.h"
#include "dense.h"
#include "dirty.h"

/* How often `reused` is halved. */
enum { TICK_MS = 250 };
/* Dirty memory that is kept, for its second: a quarter of what is in use, between these
 * two; an eighth of all that is in use; and what was reused lately: blocks of tens of MiB
 * that come and go leave gaps of that size, and to give those back at each free
 * costs 20 times the time. A heap that just shrinks has reused nothing. */
static const size_t dirty_least_bytes = HAK_MIB(1), dirty_floor_bytes = HAK_MIB(4);

static struct {
  atomic64 used_units; /* read without the gate, too: relaxed */
  size_t peak_units;
  /* Taken while dirty, or so soon after a purge that it had better been so; what was purged
   * and not taken again. Both are halved at each tick. */
  size_t reused_units, purged_units;
  uint64_t next_tick_ms;
  uint64_t rests_until_ms;
  bool is_told; /* by the program, how much it wants to stay: */
  size_t told_units;
} kept;

/* ---- In use ----------------------------------------------------------------------*/
size_t kept_used_units(void) { return atomic64_load_relaxed(&kept.used_units); }
size_t kept_peak_units(void) { return kept.peak_units; }
const inspect_field_t kept_inspected[1] = {HAK_INSPECT_VARIABLE("arena.peak_units", kept.peak_units)};

size_t kept_needed_units(void) {
  size_t units = kept_used_units();
  return units - min_size(dense_free_in_slabs() >> UNIT_SHIFT, units);
}

void kept_note_taken(size_t units, size_t dirty) {
  atomic64_add_alone(&kept.used_units, units);
  kept.peak_units = max_size(kept.peak_units, kept_used_units());
  size_t missed = min_size(units - dirty, kept.purged_units);
  kept.purged_units -= missed;
  kept.reused_units += dirty + missed;
}

void kept_note_given(size_t units) { atomic64_add_alone(&kept.used_units, -units); }
void kept_note_purged(size_t units) { kept.purged_units += units; }

/* ---- What may stay ---------------------------------------------------------------*/
static size_t bounded(size_t units) {
  return max_size(dirty_least_bytes >> UNIT_SHIFT, min_size(units, dirty_floor_bytes >> UNIT_SHIFT));
}
static size_t floor_units(void) {
  if (HAK_UNLIKELY(kept.is_told)) return kept.told_units;
  return profile_keep(bounded(kept_needed_units() / 4));
}

static size_t within_slack(size_t units) {
  return limit_exists() ? min_size(units, limit_slack() >> UNIT_SHIFT) : units;
}
static size_t share_units(void) { return floor_units() + profile_keep(kept_needed_units() / 8); }
size_t kept_units(void) { return within_slack(share_units() + kept.reused_units); }
size_t kept_least_units(void) { return within_slack(share_units()); }
size_t kept_for_good_units(void) { return kept.is_told ? within_slack(kept.told_units) : 0; }

void kept_tell(size_t bytes) {
  kept.is_told = true;
  kept.told_units = bytes >> UNIT_SHIFT;
}

/* ---- Time ------------------------------------------------------------------------*/
void kept_age(uint64_t now_ms) {
  if (now_ms < kept.next_tick_ms) return;
  uint64_t tick_ms = profile_wait(TICK_MS), ticks = (now_ms - kept.next_tick_ms) / tick_ms + 1;
  kept.reused_units = ticks < 32 ? kept.reused_units >> ticks : 0;
  kept.purged_units = ticks < 32 ? kept.purged_units >> ticks : 0;
  kept.next_tick_ms = now_ms + tick_ms;
}

bool kept_is_exceeded(uint64_t now_ms, bool was_exceeded) {
  kept_age(now_ms);
  /* A call for each slab that is freed would cost more than the free. */
  size_t more = kept.is_told ? bounded(kept.told_units) : floor_units();
  size_t most = kept_units() + (was_exceeded || (limit_exists() && limit_is_tight()) ? 0 : more);
  return dirty_units() > most && now_ms >= kept.rests_until_ms;
}

void kept_rest(uint64_t until_ms) { kept.rests_until_ms = until_ms; }
