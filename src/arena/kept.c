/* See kept.h. SPDX-License-Identifier: MIT */
#include "kept.h"

#include "../support/limit.h"
#include "../support/profile.h"
#include "dense.h"
#include "dirty.h"
#include "shelf.h"

/* How often `reused` is halved; and how many times the most that was in use lately it counts for at most, or,
 * beside what is in use, what was given back and taken again at a time. */
enum { TICK_MS = 250, REUSED_MOST = 2, DIPS_MOST = 2 };
/* Free memory that is kept, for its second: a quarter of what is in use, between these
 * two; an eighth of all that is in use; and what was reused lately: blocks of tens of MiB
 * that come and go leave gaps of that size, and to give those back at each free
 * costs 20 times the time. A heap that just shrinks has reused nothing. */
static const size_t dirty_least_bytes = HAK_MIB(1), dirty_floor_bytes = HAK_MIB(4);

static struct {
  atomic64 used_units; /* read without the gate, too: relaxed */
  size_t takes;
  atomic64 peak_units; /* and this is written without it: relaxed */
  /* Of each zone: taken while dirty, or so soon after a purge that it had better been so; what was purged
   * and not taken again. Both are halved at each tick. */
  size_t reused_units[ZONE_COUNT], purged_units[ZONE_COUNT];
  /* What of a fall of what is in use was taken again, the most; halved, too. The highest and the lowest before
   * and since, which come nearer by half at each tick; the highest since then; and where it falls from. */
  uint32_t dip_units, high_units, low_units, tick_high_units, from_units;
  size_t passed_units;  /* clean ones that new huge blocks got where as many lay dirty; halved, too */
  size_t lately_needed; /* the most since then, which is halved at each tick, too */
  size_t lately_used;   /* so is this, the most in use when some of it was given back */
  uint64_t next_tick_ms;
  uint64_t rests_until_ms;
  atomic32 is_attended; /* written without the gate: relaxed, a hint */
  bool is_told;         /* by the program, how much it wants to stay: */
  size_t told_units;
} kept __attribute__((aligned(HAK_CACHE_LINE))); /* three of them, which follow whoever has the gate */

/* ---- In use ----------------------------------------------------------------------*/
size_t kept_used_units(void) { return atomic64_load_relaxed(&kept.used_units); }
size_t kept_takes(void) { return kept.takes; }
size_t kept_peak_units(void) { return atomic64_load_relaxed(&kept.peak_units); }
const inspect_field_t kept_inspected[1] = {HAK_INSPECT_VARIABLE("arena.peak_units", kept.peak_units)};

/* A run counts as shelved before it is, and until it is the arena's again. */
static size_t beside(size_t shelved) {
  size_t units = kept_used_units();
  return units - min_size(shelved, units);
}
size_t kept_in_use_units(void) { return beside(shelf_units()); }

size_t kept_needed_units(void) {
  size_t units = kept_in_use_units();
  return units - min_size(dense_free_in_slabs() >> UNIT_SHIFT, units);
}

void kept_note_peak(void) {
  uint64_t peak = atomic64_load_relaxed(&kept.peak_units);
  if (HAK_LIKELY(beside(shelf_units_least()) <= peak)) return;
  uint64_t units = beside(shelf_units_anew());
  while (units > peak && !atomic64_cas_relaxed(&kept.peak_units, &peak, units)) continue;
}

static void note_rise(size_t used, size_t units) {
  kept.dip_units = (uint32_t)max_size(kept.dip_units, min_size(used, kept.high_units) - kept.low_units);
  if (used > kept.high_units) kept.high_units = kept.low_units = (uint32_t)used;
  kept.tick_high_units = (uint32_t)max_size(kept.tick_high_units, used);
  kept.from_units = (uint32_t)max_size(kept.from_units - min_size(units, kept.from_units), used);
}
/* How far it has fallen, while hardly any was taken, beyond any dip. */
static size_t below_dips(size_t used) {
  size_t fall = kept.from_units - min_size(used, kept.from_units);
  return fall - min_size(fall, kept.dip_units);
}
/* As deep as this is no dip: what comes now is another part of the program, of which nothing is known yet. */
static void note_fall(size_t used) {
  kept.low_units = (uint32_t)min_size(kept.low_units, used);
  if (below_dips(used) <= DIPS_MOST * (size_t)kept.dip_units) return;
  kept.dip_units = 0;
  kept.from_units = (uint32_t)used;
}
/* What is left of so much after so many ticks. */
static size_t faded(size_t units, uint64_t ticks) { return ticks < 32 ? units >> ticks : 0; }
static void come_nearer(size_t used, uint64_t ticks) {
  kept.high_units = (uint32_t)(kept.tick_high_units + faded(kept.high_units - kept.tick_high_units, ticks));
  kept.low_units = (uint32_t)(used - faded(used - kept.low_units, ticks));
  kept.from_units = (uint32_t)(used + faded(kept.from_units - used, ticks));
  kept.tick_high_units = (uint32_t)used;
}

void kept_note_taken(zone_id_t zone, size_t units, size_t dirty) {
  atomic64_add_alone(&kept.used_units, units);
  note_rise(kept_used_units(), units);
  kept_note_peak();
  kept.takes++;
  size_t missed = min_size(units - dirty, kept.purged_units[zone]);
  kept.purged_units[zone] -= missed;
  kept.reused_units[zone] += dirty + missed;
}

static size_t most_lately(void) { return max_size(kept.lately_used, kept_used_units()); }
void kept_note_full(void) { kept.lately_used = most_lately(); }
/* What is free by now of what was in use lately. To a program that works in rounds the first fall looks like
 * the last one, and it would fault in all of it once more. If somebody attends, it may wait: what is not wanted
 * goes when it has grown old, also where nobody calls. */
bool kept_lets_fallen_stay(void) { return atomic32_load_relaxed(&kept.is_attended) && !kept.is_told; }
static size_t fallen_units(void) {
  if (!kept_lets_fallen_stay()) return 0;
  return profile_keep(kept.lately_used - min_size(kept.lately_used, kept_in_use_units()));
}
void kept_attend(bool is_attended) { atomic32_store_relaxed(&kept.is_attended, is_attended); }

size_t kept_over_lately(void) {
  size_t held = kept_used_units() + dirty_units(), most = most_lately() + (dirty_floor_bytes >> UNIT_SHIFT);
  return held > most ? held - most : 0;
}

void kept_note_clean(size_t units) {
  if (units <= dirty_units()) kept.passed_units += units;
}
size_t kept_passed_units(void) { return kept.passed_units; }
void kept_note_given(size_t units) {
  atomic64_add_alone(&kept.used_units, -units);
  note_fall(kept_used_units());
}
void kept_note_purged(zone_id_t zone, size_t units) { kept.purged_units[zone] += units; }

/* ---- What may stay ---------------------------------------------------------------*/
static size_t bounded(size_t units) {
  return max_size(dirty_least_bytes >> UNIT_SHIFT, min_size(units, dirty_floor_bytes >> UNIT_SHIFT));
}
static size_t floor_of(size_t needed) {
  return HAK_UNLIKELY(kept.is_told) ? kept.told_units : profile_keep(bounded(needed / 4));
}
static size_t share_of(size_t needed) { return floor_of(needed) + profile_keep(needed / 8); }

static size_t within_slack(size_t units) {
  return limit_exists() ? min_size(units, limit_slack() >> UNIT_SHIFT) : units;
}
/* When a program frees all, only what has fallen and risen again before may be wanted; the deeper it falls below that,
 * the less of it. */
static size_t dips(size_t used) {
  size_t most = DIPS_MOST * kept.dip_units;
  return most - min_size(below_dips(used), most);
}
/* In either zone, and what of it may count for what lies there: slabs and large blocks that come and go do not reuse
 * what a huge block has left, nor the contrary. */
static size_t reused(void) { return kept.reused_units[ZONE_SMALL] + kept.reused_units[ZONE_HUGE]; }
static size_t reused_there(void) {
  size_t small = dirty_units_of(ZONE_SMALL) + shelf_units(), huge = dirty_units_of(ZONE_HUGE);
  return min_size(kept.reused_units[ZONE_SMALL], small) + min_size(kept.reused_units[ZONE_HUGE], huge);
}
/* What was reused says how often, not how much: a program that replaces its blocks all the time has had each
 * place many times over, and what it once left beside them would stay for ever. */
static size_t reused_most(void) {
  size_t used = kept_used_units();
  return min_size(REUSED_MOST * most_lately(), used + dips(used));
}
static size_t keep_of(size_t share, size_t fallen, size_t reused_units) {
  return within_slack(share + max_size(fallen, min_size(reused_units, reused_most())));
}
static size_t beside_shelf(size_t units) { return units - min_size(shelf_units(), units); }

size_t kept_units(void) { return keep_of(share_of(kept_needed_units()), fallen_units(), reused()); }
size_t kept_dirty_units(void) {
  return beside_shelf(keep_of(share_of(kept_needed_units()), fallen_units(), reused_there()));
}
size_t kept_unattended_units(void) { return beside_shelf(keep_of(share_of(kept_needed_units()), 0, reused_there())); }
size_t kept_unattended_surplus(void) {
  size_t dirty = dirty_units();
  return kept_is_resting() ? 0 : dirty - min_size(dirty, kept_unattended_units());
}
size_t kept_least_units(void) { return beside_shelf(within_slack(share_of(kept_needed_units()))); }
size_t kept_for_good_units(void) { return kept.is_told ? within_slack(kept.told_units) : 0; }

void kept_tell(size_t bytes) {
  kept.is_told = true;
  kept.told_units = bytes >> UNIT_SHIFT;
}

/* ---- Time ------------------------------------------------------------------------*/
void kept_age(uint64_t now_ms) {
  kept.reused_units[ZONE_SMALL] += shelf_reused();
  if (now_ms < kept.next_tick_ms) return;
  uint64_t tick_ms = profile_wait(TICK_MS), ticks = (now_ms - kept.next_tick_ms) / tick_ms + 1;
  for (int z = 0; z < ZONE_COUNT; z++) {
    kept.reused_units[z] = faded(kept.reused_units[z], ticks);
    kept.purged_units[z] = faded(kept.purged_units[z], ticks);
  }
  kept.dip_units = (uint32_t)faded(kept.dip_units, ticks);
  come_nearer(kept_used_units(), ticks);
  kept.passed_units = faded(kept.passed_units, ticks);
  kept.lately_needed = faded(kept.lately_needed, ticks);
  kept.lately_used = faded(kept.lately_used, ticks);
  kept.next_tick_ms = now_ms + tick_ms;
}

bool kept_is_exceeded(uint64_t now_ms, bool was_exceeded) {
  kept_age(now_ms);
  size_t needed = kept_needed_units(), least = floor_of(needed), share = share_of(needed), fallen = fallen_units();
  kept.lately_needed = max_size(kept.lately_needed, needed);
  size_t most = keep_of(share, fallen, reused_there()), may_be_shelved = least + kept.lately_needed;
  shelf_limit(most >= may_be_shelved ? may_be_shelved : min_size(may_be_shelved, keep_of(share, fallen, reused())));
  /* A call for each slab that is freed would cost more than the free. */
  if (!was_exceeded && !(limit_exists() && limit_is_tight())) most += kept.is_told ? bounded(kept.told_units) : least;
  return dirty_units() + shelf_units() > most && now_ms >= kept.rests_until_ms;
}

void kept_rest(uint64_t until_ms) { kept.rests_until_ms = until_ms; }
bool kept_is_resting(void) { return os_now_ms() < kept.rests_until_ms; }
