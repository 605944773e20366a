/* See arena.h. SPDX-License-Identifier: MIT */
#include "arena.h"

#include "../support/tally.h"
#include "dense.h"
#include "dirty.h"
#include "pages.h"
#include "runs.h"
#include "zone.h"

hak_gate_t arena_gate;
atomic32 arena_is_strained;

enum {
  /* How long free memory stays resident, and how often `reused` is halved. */
  DIRTY_MS = 1000,
  TICK_MS = 250,
  /* Of one call, and of one call to the system: others wait for the kernel's map of the
   * process meanwhile. */
  PURGE_UNITS = SUPERSLAB_UNITS,
  PURGE_CALLS = 32,
};
/* Dirty memory that is kept, for its second: a quarter of what is in use, between these
 * two; an eighth of all that is in use; and what was reused lately: blocks of tens of MiB
 * that come and go leave gaps of that size, and to give those back at each free
 * costs 20 times the time. A heap that just shrinks has reused nothing. */
static const size_t dirty_least_bytes = HAK_MIB(1), dirty_floor_bytes = HAK_MIB(4);

/* All state of this file; guarded by arena_gate unless said otherwise. */
static struct {
  atomic32 is_ready;   /* release: pairs with the acquire in arena_ready */
  atomic64 used_units; /* read without the gate, too: relaxed            */
  size_t peak_units;   /* the most that it ever was                      */
  /* Taken while dirty, or so soon after a purge that it had better been so; what was purged
   * and not taken again. Both are halved at each tick. */
  size_t reused_units, purged_units;
  uint64_t next_tick_ms;
  size_t purging_units;      /* taken out of the free ones while they are purged */
  uint64_t refused_until_ms; /* the system refuses to purge: try again then     */
  bool has_forked;           /* this process is a child: see arena_after_fork    */
} arena;

/* With the bitmaps of slabs that may have been there: a 64th of the memory, where blocks
 * are small. */
static bool purge_slabs(void *at, size_t bytes) {
  unit_t first = (unit_t)map_unit_of(at);
  FOR_EACH_SUPERSLAB(c, first, bytes >> UNIT_SHIFT) {
    if (c.mask != UINT32_MAX) dense_thins_out(c.number * SUPERSLAB_UNITS, 1);
  }
  if (!os_purge(at, bytes)) return false;
  map_purge_bitmaps(first, bytes >> UNIT_SHIFT);
  return true;
}

static const zone_kind_t zone_kinds[ZONE_COUNT] = {
    [ZONE_SMALL] = {.granule_units = SUPERSLAB_UNITS,
                    .commit = map_commit_units,
                    .purge = purge_slabs,
                    .wants_huge_pages = dense_wants_huge_pages},
    [ZONE_HUGE] = {.granule_units = SUPERSLAB_UNITS, .commit = map_commit_units, .purge = os_purge},
};

static size_t used_units(void) { return atomic64_load_relaxed(&arena.used_units); }
static void use(size_t more_units) { atomic64_add_alone(&arena.used_units, more_units); }

static bool is_ready(void) { return HAK_LIKELY(atomic32_load_acquire(&arena.is_ready)); }

bool arena_ready(void) {
  if (is_ready()) return true;
  gate_enter(&arena_gate);
  bool ready = atomic32_load_relaxed(&arena.is_ready) || map_init();
  if (ready && !atomic32_load_relaxed(&arena.is_ready)) {
    zones_prepare(zone_kinds);
    atomic32_store_release(&arena.is_ready, 1);
  }
  gate_leave(&arena_gate);
  return ready;
}

/* ---- Taking and giving under the gate ------------------------------------------*/

/* Takes free units; returns how many of them were dirty. */
static size_t take_units(unit_t first, size_t units) {
  zone_cut(first, units);
  FOR_EACH_SUPERSLAB(c, first, units) map_superslab(c.number)->used |= c.mask;
  map_record(first)->run_units = (uint32_t)units;
  return dirty_take(first, units);
}

static void give_units(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    HAK_ASSERT((map_superslab(c.number)->used & c.mask) == c.mask);
    map_superslab(c.number)->used &= ~c.mask;
  }
  zone_join(first, units);
}

/* Of units that are taken, so many were dirty. */
static void note_taken(size_t units, size_t dirty) {
  use(units);
  arena.peak_units = max_size(arena.peak_units, used_units());
  size_t missed = min_size(units - dirty, arena.purged_units);
  arena.purged_units -= missed;
  arena.reused_units += dirty + missed;
}

static bool take_from(zone_id_t zone, size_t units, size_t align_units, unit_t *first, bool *is_zero) {
  *first = zone_find(zone, units, align_units);
  if (*first == 0) *first = zone_grow(zone, units, align_units, used_units());
  if (*first == 0) return false;
  size_t dirty = take_units(*first, units);
  note_taken(units, dirty);
  *is_zero = dirty == 0;
  return true;
}

static bool take_from_any(zone_id_t zone, size_t units, size_t align_units, unit_t *first, bool *is_zero) {
  if (take_from(zone, units, align_units, first, is_zero)) return true;
  for (zone_id_t other = 0; other < ZONE_COUNT; other++)
    if (other != zone && take_from(other, units, align_units, first, is_zero)) return true;
  return false;
}

unit_t arena_take(zone_id_t zone, size_t units, size_t align_units, bool *is_zero) {
  enum { WAITS = 100, WAIT_MS = 1 };
  HAK_ASSERT(units > 0 && is_power_of_two(align_units));
  if (units > UINT32_MAX / 2 || align_units > UINT32_MAX / 2 || !arena_ready()) return 0;
  unit_t first = 0;
  bool zero = false, found = false;
  for (int waits = 0; !found && waits < WAITS; waits++) {
    gate_enter(&arena_gate);
    found = take_from_any(zone, units, align_units, &first, &zero);
    HAK_ASSERT(!found || atomic32_load_relaxed(map_word(first)) == 0);
    bool may_come = arena.purging_units > 0;
    gate_leave(&arena_gate);
    if (found || !may_come) break;
    os_sleep(WAIT_MS); /* what is being purged will be free again */
  }
  if (is_zero != NULL) *is_zero = zero;
  return found ? first : 0;
}

void arena_clear_stale(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    gate_enter(&arena_gate); /* other bits of the mask belong to others */
    uint32_t stale = map_superslab(c.number)->stale & c.mask;
    gate_leave(&arena_gate);
    while (stale != 0) {
      unsigned from = (unsigned)__builtin_ctz(stale);
      uint64_t rest = (uint64_t)stale >> from; /* 64 bits: its complement is never 0 */
      unsigned count = (unsigned)__builtin_ctzll(~rest);
      pages_clear(map_address(c.number * SUPERSLAB_UNITS + from), (size_t)count << UNIT_SHIFT);
      stale &= ~bit_range32(from, count);
    }
  }
}

/* Without what lies free in slabs, as far as we have been told. */
static size_t needed_units(void) {
  size_t units = used_units();
  return units - min_size(dense_free_in_slabs() >> UNIT_SHIFT, units);
}
size_t arena_needed_bytes(void) { return needed_units() << UNIT_SHIFT; }
static size_t floor_units(void) {
  return max_size(dirty_least_bytes >> UNIT_SHIFT, min_size(needed_units() / 4, dirty_floor_bytes >> UNIT_SHIFT));
}
static size_t keep_units(void) { return floor_units() + needed_units() / 8 + arena.reused_units; }

/* Halves what is remembered as often as time has passed for. */
static void age(uint64_t now_ms) {
  if (now_ms < arena.next_tick_ms) return;
  uint64_t ticks = (now_ms - arena.next_tick_ms) / TICK_MS + 1;
  arena.reused_units = ticks < 32 ? arena.reused_units >> ticks : 0;
  arena.purged_units = ticks < 32 ? arena.purged_units >> ticks : 0;
  arena.next_tick_ms = now_ms + TICK_MS;
}

/* `now_ms` was read under the gate, so that the list stays in order of time. */
static void note_strain(uint64_t now_ms) {
  age(now_ms);
  bool was_strained = atomic32_load_relaxed(&arena_is_strained) != 0;
  /* A call for each slab that is freed would cost more than the free. */
  size_t most = keep_units() + (was_strained ? 0 : floor_units());
  bool is_strained = dirty_units() > most && now_ms >= arena.refused_until_ms;
  if (is_strained != was_strained) atomic32_store_relaxed(&arena_is_strained, is_strained);
}

void arena_give(unit_t first, size_t units) {
  gate_enter(&arena_gate);
  uint64_t now_ms = os_now_ms();
  use(-units);
  give_units(first, units);
  dirty_add(first, units, now_ms);
  note_strain(now_ms);
  gate_leave(&arena_gate);
}

void arena_give_clean(unit_t first, size_t units) {
  gate_enter(&arena_gate);
  use(-units);
  FOR_EACH_SUPERSLAB(c, first, units) map_note_huge_page(c.number, false);
  give_units(first, units);
  gate_leave(&arena_gate);
}

bool arena_extend(unit_t first, size_t old_units, size_t new_units) {
  unit_t behind = (unit_t)(first + old_units);
  size_t more = new_units - old_units;
  gate_enter(&arena_gate);
  /* At the end of the zone there is always more, if the system grants it. */
  bool there = zone_free_units_behind(behind) >= more ||
               (zone_grow_behind(behind, more, used_units()) && zone_free_units_behind(behind) >= more);
  if (there) {
    note_taken(more, take_units(behind, more));
    map_record(first)->run_units = (uint32_t)new_units;
  }
  gate_leave(&arena_gate);
  return there;
}

bool arena_has(size_t unit) {
  if (!is_ready() || unit >= the_map.units) return false;
  gate_enter(&arena_gate);
  bool has = zone_extent((unit_t)unit) != NULL;
  gate_leave(&arena_gate);
  return has;
}

/* ---- Purging with the gate open ------------------------------------------------*/

/* Takes units that are about to be purged out of the free ones. */
static size_t claim(uint64_t until_ms, size_t most, unit_t *first) {
  size_t units = dirty_oldest_row(until_ms, most, first);
  if (units == 0) return 0;
  take_units(*first, units);
  arena.purging_units += units;
  return units;
}

/* `rest`: units behind them that stay claimed, a run of their own from now on; in a child
 * that is forked meanwhile, for good. */
static void hand_back(unit_t first, size_t units, size_t rest, bool purged) {
  gate_enter(&arena_gate);
  if (rest > 0) map_record((unit_t)(first + units))->run_units = (uint32_t)rest;
  give_units(first, units);
  if (purged) arena.purged_units += units;
  else dirty_add(first, units, os_now_ms());                   /* last in the list: others have their turn */
  arena.purging_units -= min_size(units, arena.purging_units); /* a child has forgotten them */
  gate_leave(&arena_gate);
}

/* Where the system refuses, one locked page may be the reason: the others go. `rest`: as
 * in hand_back. Returns the units that went. */
static size_t purge_claimed(unit_t first, size_t units, size_t rest) {
  bool purged = zone_look(zone_of(first))->kind->purge(map_address(first), units << UNIT_SHIFT);
  if (purged || units == 1) {
    hand_back(first, units, rest, purged);
    return purged ? units : 0;
  }
  size_t half = units / 2;
  size_t purged_first = purge_claimed(first, half, units - half + rest);
  return purged_first + purge_claimed((unit_t)(first + half), units - half, rest);
}

/* How many units may be dirty after a purge: no fewer than this. */
typedef size_t keep_fn(size_t keep);
static size_t keep_given(size_t keep) { return keep; }
static size_t keep_share(size_t keep) { return keep + keep_units(); }

/* Purges what became dirty until then, `most` units in so many calls, and leaves as
 * many as `keep_least` says, of the newest. Returns the bytes. */
static size_t purge(uint64_t until_ms, size_t most, size_t calls, keep_fn *keep_least, size_t keep) {
  size_t purged = 0;
  for (size_t tried = 0; tried < most && calls > 0; calls--) {
    unit_t first;
    gate_enter(&arena_gate);
    size_t least = keep_least(keep), surplus = dirty_units() > least ? dirty_units() - least : 0;
    size_t units = surplus > 0 ? claim(until_ms, min_size(surplus, min_size(most - tried, PURGE_UNITS)), &first) : 0;
    gate_leave(&arena_gate);
    if (units == 0) break;
    tried += units;
    purged += purge_claimed(first, units, 0);
  }
  return purged << UNIT_SHIFT;
}

size_t arena_tick(uint64_t now_ms) {
  if (!is_ready()) return 0;
  gate_enter(&arena_gate);
  age(now_ms);
  bool is_due = now_ms >= DIRTY_MS && dirty_oldest_ms() <= now_ms - DIRTY_MS;
  gate_leave(&arena_gate);
  return is_due ? tally_add(TALLY_AGED, purge(now_ms - DIRTY_MS, PURGE_UNITS, PURGE_CALLS, keep_given, 0)) : 0;
}

size_t arena_relieve_now(size_t freed_units) {
  enum { REFUSED_MS = 1000 };
  if (!is_ready()) return 0;
  /* What is kept shrinks by an eighth of what was freed. */
  size_t most = 2 * PURGE_UNITS + freed_units + freed_units / 8, calls = PURGE_CALLS + freed_units / PURGE_UNITS * 2;
  size_t purged = tally_add(TALLY_STRAINED, purge(UINT64_MAX, most, calls, keep_share, 0));
  gate_enter(&arena_gate);
  uint64_t now_ms = os_now_ms();
  if (purged == 0 && dirty_units() > keep_units()) arena.refused_until_ms = now_ms + REFUSED_MS;
  note_strain(now_ms);
  gate_leave(&arena_gate);
  return purged;
}

size_t arena_purge(size_t keep_bytes) {
  if (!is_ready()) return 0;
  gate_enter(&arena_gate);
  size_t most = dirty_units(); /* each once, should the system refuse some */
  gate_leave(&arena_gate);
  return tally_add(TALLY_TRIMMED, purge(UINT64_MAX, most, SIZE_MAX, keep_given, keep_bytes >> UNIT_SHIFT));
}

/* ---- Looking ---------------------------------------------------------------------*/
arena_usage_t arena_usage(void) {
  arena_usage_t usage = {0};
  if (!is_ready()) return usage;
  gate_enter(&arena_gate);
  for (zone_id_t z = 0; z < ZONE_COUNT; z++) {
    const zone_t *zone = zone_look(z);
    for (size_t i = 0; i < zone->extent_count; i++)
      usage.committed += (size_t)(zone->extents[i].end - zone->extents[i].first) << UNIT_SHIFT;
  }
  usage.metadata = map_table_bytes();
  usage.used = used_units() << UNIT_SHIFT, usage.peak = arena.peak_units << UNIT_SHIFT;
  usage.dirty = dirty_units() << UNIT_SHIFT;
  gate_leave(&arena_gate);
  return usage;
}

bool arena_next_extent(zone_id_t zone, unit_t *first, unit_t *end) {
  bool found = false;
  gate_enter(&arena_gate);
  const zone_t *z = zone_look(zone);
  for (size_t i = 0; i < z->extent_count && !found; i++) {
    if (z->extents[i].first < *end || z->extents[i].first == z->extents[i].end) continue;
    *first = z->extents[i].first;
    *end = z->extents[i].end;
    found = true;
  }
  gate_leave(&arena_gate);
  return found;
}

void arena_after_fork(void) {
  arena.has_forked = true;
  arena.purging_units = 0;
}

/* ---- Checking ----------------------------------------------------------------*/
typedef struct {
  size_t used, dirty, dirty_superslabs, free_runs, free_units;
} census_t;

static void check_run(unit_t first, size_t units, bool is_free) {
  for (unit_t u = first; u < first + units; u++) {
    HAK_CHECK(zone_is_free(u) == is_free);
    HAK_CHECK(!is_free || atomic32_load_relaxed(map_word(u)) == 0);
    HAK_CHECK(is_free || atomic32_load_relaxed(map_word(u)) != 0 || arena.has_forked);
  }
  if (is_free) HAK_CHECK(map_record((unit_t)(first + units - 1))->run_first == first);
}

static void check_extent(const extent_t *extent, census_t *census) {
  bool was_free = false;
  for (unit_t unit = extent->first; unit < extent->end;) {
    bool is_free = zone_is_free(unit);
    size_t units = map_record(unit)->run_units;
    HAK_CHECK(units > 0 && unit + units <= extent->end);
    HAK_CHECK(!is_free || !was_free); /* neighbours are joined */
    check_run(unit, units, is_free);
    if (is_free) census->free_runs++, census->free_units += units;
    else census->used += units;
    was_free = is_free;
    unit += (unit_t)units;
  }
  for (uint32_t n = extent->first / SUPERSLAB_UNITS; n < extent->end / SUPERSLAB_UNITS; n++) {
    HAK_CHECK((map_superslab(n)->used & map_superslab(n)->dirty) == 0);
    census->dirty += (size_t)__builtin_popcount(map_superslab(n)->dirty);
    census->dirty_superslabs += map_superslab(n)->dirty != 0;
  }
}

void arena_check(void) {
  if (!is_ready()) return;
  gate_enter(&arena_gate);
  while (arena.purging_units > 0) { /* by another thread: they are neither free nor anybody's */
    gate_leave(&arena_gate);
    os_sleep(1);
    gate_enter(&arena_gate);
  }
  census_t all = {0};
  for (zone_id_t z = 0; z < ZONE_COUNT; z++) {
    const zone_t *zone = zone_look(z);
    census_t census = {0};
    size_t in_tree = 0;
    for (size_t i = 0; i < zone->extent_count; i++) check_extent(&zone->extents[i], &census);
    size_t runs_in_tree = runs_check(zone->free_runs, &in_tree);
    HAK_CHECK(census.free_runs == runs_in_tree && census.free_units == in_tree);
    all.used += census.used;
    all.dirty += census.dirty;
    all.dirty_superslabs += census.dirty_superslabs;
  }
  dirty_check(all.dirty_superslabs, all.dirty);
  HAK_CHECK(all.used == used_units() || arena.has_forked);
  gate_leave(&arena_gate);
}
