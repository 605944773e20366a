/* See arena.h. SPDX-License-Identifier: MIT */
#include "arena.h"

#include "../os/os.h"
#include "pages.h"
#include "runs.h"

hak_gate_t arena_gate;

enum {
  /* How long free memory stays resident, and how often we look. */
  DIRTY_MS = 1000,
  TICK_MS = 100,
  /* Commit steps: an eighth of what is there, within these bounds. */
  STEP_MIN_UNITS = SUPERSLAB_UNITS,
  STEP_MAX_UNITS = 32 * SUPERSLAB_UNITS,
  TABLE_STEP_UNITS = 1024,
  LONGEST_PURGE_UNITS = 16 * SUPERSLAB_UNITS, /* in one call: others wait meanwhile */
  PURGE_AT_ONCE_UNITS = 2 * SUPERSLAB_UNITS,  /* a call for each slab that is freed would cost more than the free */
};
/* Below this much heap a huge page would be a good part of it. */
static const size_t huge_pages_from_bytes = HAK_MIB(16);
/* Dirty memory that is kept, for its second, however small the heap. Beyond it,
 * an eighth of what is in use, and what was reused lately: blocks of tens of MiB
 * that come and go leave gaps of that size, and to give those back at each free
 * costs 20 times the time. A heap that just shrinks has reused nothing. */
static const size_t dirty_floor_bytes = HAK_MIB(4);

/* All state of the layer; guarded by arena_gate unless said otherwise. */
static struct {
  atomic32 is_ready; /* release: pairs with the acquire in arena_ready */
  struct zone {
    unit_t free_runs;             /* root of the tree                          */
    unit_t committed_to;          /* units [first, committed_to) exist         */
    unit_t tables_to;             /* the tables do, up to here                 */
  } zones[ZONE_COUNT];
  size_t used_units, dirty_units;
  size_t reused_units; /* taken while dirty; halved at each tick               */
  uint32_t dirty_oldest, dirty_newest; /* list of SuperSlabs, by dirtied_ms    */
  uint64_t next_tick_ms;
  int64_t free_in_slabs_bytes;
  bool has_forked; /* this process is a child: see arena_after_fork           */
} arena;

HAK_INLINE unit_record_t *record(unit_t unit) { return &the_map.records[unit]; }
HAK_INLINE zone_id_t zone_of(unit_t unit) { return unit < the_map.zone_first[ZONE_HUGE] ? ZONE_SMALL : ZONE_HUGE; }
HAK_INLINE superslab_t *superslab(uint32_t number) { return &the_map.superslabs[number]; }

bool arena_ready(void) {
  if (HAK_LIKELY(atomic32_load_acquire(&arena.is_ready))) return true;
  gate_enter(&arena_gate);
  bool ready = atomic32_load_relaxed(&arena.is_ready) || map_init();
  if (ready && !atomic32_load_relaxed(&arena.is_ready)) {
    for (int z = 0; z < ZONE_COUNT; z++)
      arena.zones[z].committed_to = arena.zones[z].tables_to = the_map.zone_first[z];
    atomic32_store_release(&arena.is_ready, 1);
  }
  gate_leave(&arena_gate);
  return ready;
}

/* ---- Masks over the SuperSlabs of a run --------------------------------------*/
typedef struct {
  uint32_t number, mask; /* a SuperSlab, and its units that belong to the run */
  unit_t next, end;
} run_cursor_t;

static bool cursor_next(run_cursor_t *c) {
  if (c->next >= c->end) return false;
  unsigned from = c->next % SUPERSLAB_UNITS;
  unsigned count = (unsigned)min_size(SUPERSLAB_UNITS - from, c->end - c->next);
  c->number = c->next / SUPERSLAB_UNITS;
  c->mask = bit_range32(from, count);
  c->next += count;
  return true;
}
#define FOR_EACH_SUPERSLAB(c, first, units) \
  for (run_cursor_t c = {.next = (first), .end = (unit_t)((first) + (units))}; cursor_next(&c);)

/* ---- The list of dirty SuperSlabs --------------------------------------------*/
static void dirty_unlink(uint32_t number) {
  superslab_t *s = superslab(number);
  *(s->dirty_previous ? &superslab(s->dirty_previous)->dirty_next : &arena.dirty_oldest) = s->dirty_next;
  *(s->dirty_next ? &superslab(s->dirty_next)->dirty_previous : &arena.dirty_newest) = s->dirty_previous;
  s->dirty_previous = s->dirty_next = 0;
}

static void dirty_append(uint32_t number) {
  superslab_t *s = superslab(number);
  s->dirty_next = 0;
  s->dirty_previous = arena.dirty_newest;
  *(arena.dirty_newest ? &superslab(arena.dirty_newest)->dirty_next : &arena.dirty_oldest) = number;
  arena.dirty_newest = number;
}

static void dirty_clear(uint32_t number, uint32_t mask) {
  superslab_t *s = superslab(number);
  uint32_t cleared = s->dirty & mask;
  if (cleared == 0) return;
  s->dirty &= ~cleared;
  arena.dirty_units -= (size_t)__builtin_popcount(cleared);
  if (s->dirty == 0) dirty_unlink(number);
}

/* ---- Purging ---------------------------------------------------------------*/

/* Purges dirty units of the oldest SuperSlab and, in the same call to the system,
 * of those that follow it in memory and are old enough, too; `most_units` at the
 * most. Returns the units purged, 0 when the system refused. */
static size_t purge_oldest(size_t most_units, uint64_t dirtied_until_ms) {
  uint32_t number = arena.dirty_oldest;
  unit_t from = number * SUPERSLAB_UNITS + (unit_t)__builtin_ctz(superslab(number)->dirty), to = from;
  unit_t end = arena.zones[zone_of(from)].committed_to; /* the table may end there, too */
  while (to < end && to - from < most_units) {
    const superslab_t *s = superslab(to / SUPERSLAB_UNITS);
    if ((s->dirty >> to % SUPERSLAB_UNITS & 1) == 0) break;
    if (to % SUPERSLAB_UNITS == 0 && s->dirtied_ms > dirtied_until_ms) break;
    to++;
  }
  if (to == from) to++; /* the first was made dirty later than asked for: it is the oldest all the same */
  if (!os_purge(map_address(from), (size_t)(to - from) << UNIT_SHIFT)) return 0;
  FOR_EACH_SUPERSLAB(c, from, to - from) dirty_clear(c.number, c.mask);
  return to - from;
}

static size_t purge_while(size_t keep_units, uint64_t dirtied_until_ms) {
  size_t purged = 0;
  while (arena.dirty_oldest != 0 && arena.dirty_units > keep_units &&
         superslab(arena.dirty_oldest)->dirtied_ms <= dirtied_until_ms) {
    size_t units = purge_oldest(min_size(arena.dirty_units - keep_units, LONGEST_PURGE_UNITS), dirtied_until_ms);
    if (units == 0) break;
    purged += units;
  }
  return purged << UNIT_SHIFT;
}

static size_t tick(uint64_t now_ms) {
  if (now_ms < arena.next_tick_ms) return 0;
  uint64_t ticks = (now_ms - arena.next_tick_ms) / TICK_MS + 1;
  arena.reused_units = ticks < 32 ? arena.reused_units >> ticks : 0;
  arena.next_tick_ms = now_ms + TICK_MS;
  return now_ms < DIRTY_MS ? 0 : purge_while(0, now_ms - DIRTY_MS);
}

size_t arena_tick(uint64_t now_ms) {
  if (!atomic32_load_acquire(&arena.is_ready)) return 0;
  gate_enter(&arena_gate);
  size_t purged = tick(now_ms);
  gate_leave(&arena_gate);
  return purged;
}

size_t arena_purge(size_t keep_bytes) {
  if (!atomic32_load_acquire(&arena.is_ready)) return 0;
  gate_enter(&arena_gate);
  size_t purged = purge_while(keep_bytes >> UNIT_SHIFT, UINT64_MAX);
  gate_leave(&arena_gate);
  return purged;
}

/* ---- Free runs ---------------------------------------------------------------*/
static bool is_free(zone_id_t zone, unit_t unit) {
  if (unit < the_map.zone_first[zone] || unit >= arena.zones[zone].committed_to) return false;
  return (superslab(unit / SUPERSLAB_UNITS)->used >> unit % SUPERSLAB_UNITS & 1) == 0;
}

static void insert_free(zone_id_t zone, unit_t first, size_t units) {
  record(first)->run_units = (uint32_t)units;
  record((unit_t)(first + units - 1))->run_first = first;
  runs_insert(&arena.zones[zone].free_runs, first);
}

/* Makes units free that no run holds, joined with free neighbours. */
static void add_free(zone_id_t zone, unit_t first, size_t units) {
  unit_t *root = &arena.zones[zone].free_runs;
  if (is_free(zone, first - 1)) {
    unit_t left = record(first - 1)->run_first;
    runs_remove(root, left);
    units += first - left;
    first = left;
  }
  unit_t right = (unit_t)(first + units);
  if (is_free(zone, right)) {
    runs_remove(root, right);
    units += record(right)->run_units;
  }
  insert_free(zone, first, units);
}

/* Takes [first, first + units) out of the free run that contains it. Returns
 * whether every byte of it reads as zero. */
static bool cut(zone_id_t zone, unit_t run, unit_t first, size_t units) {
  size_t run_units = record(run)->run_units;
  runs_remove(&arena.zones[zone].free_runs, run);
  if (first > run) insert_free(zone, run, first - run);
  size_t after = run + run_units - (first + units);
  if (after > 0) insert_free(zone, (unit_t)(first + units), after);

  size_t dirty_before = arena.dirty_units;
  FOR_EACH_SUPERSLAB(c, first, units) {
    superslab_t *s = superslab(c.number);
    uint32_t stale = s->dirty & c.mask;
    dirty_clear(c.number, c.mask);
    s->stale = (s->stale & ~c.mask) | stale;
    s->used |= c.mask;
  }
  arena.used_units += units;
  arena.reused_units += dirty_before - arena.dirty_units;
  record(first)->run_units = (uint32_t)units;
  return dirty_before == arena.dirty_units;
}

/* Where an aligned run would start inside a free one; 0 if it does not fit. */
static unit_t fit(unit_t run, size_t units, size_t align_units) {
  /* Alignment is of addresses: the window itself is aligned to 2 MiB only. */
  size_t base_units = (uintptr_t)the_map.base >> UNIT_SHIFT;
  size_t first = align_up(base_units + run, align_units) - base_units;
  return first + units <= (size_t)run + record(run)->run_units ? (unit_t)first : 0;
}

/* The best run that fits; 0 if none does. */
static unit_t find_fitting(zone_id_t zone, size_t units, size_t align_units) {
  enum { TRIES = 16 };
  unit_t root = arena.zones[zone].free_runs, run = runs_not_before(root, units, 0);
  for (int i = 0; run != 0 && fit(run, units, align_units) == 0; i++) {
    /* The next best; after some, one that fits however it lies. */
    size_t at_least = i < TRIES ? record(run)->run_units : max_size(units + align_units - 1, record(run)->run_units);
    run = runs_not_before(root, at_least, run + 1);
  }
  return run;
}

/* ---- Growing ---------------------------------------------------------------*/

/* Huge pages only behind a heap that is large and dense, so that what they keep
 * resident without need stays below an eighth of it: a step is an eighth. */
static bool wants_huge_pages(zone_id_t zone) {
  if (zone != ZONE_SMALL) return false;
  size_t used = arena.used_units << UNIT_SHIFT;
  return used >= huge_pages_from_bytes && arena.free_in_slabs_bytes < (int64_t)(used / 4);
}

static bool grow_by(zone_id_t zone, size_t units) {
  struct zone *z = &arena.zones[zone];
  if (units > the_map.zone_end[zone] - z->committed_to) return false;
  unit_t to = (unit_t)(z->committed_to + units);
  if (to > z->tables_to) {
    size_t tables = max_size(TABLE_STEP_UNITS, (z->tables_to - the_map.zone_first[zone]) / 2) + z->tables_to;
    tables = min_size(max_size(tables, to), the_map.zone_end[zone]);
    if (!map_commit_tables(zone, (unit_t)tables)) {
      tables = to;
      if (!map_commit_tables(zone, to)) return false;
    }
    z->tables_to = (unit_t)tables;
  }
  char *at = map_address(z->committed_to);
  if (!map_commit(at, units << UNIT_SHIFT)) return false;
  if (wants_huge_pages(zone)) os_want_huge_pages(at, units << UNIT_SHIFT);
  unit_t first = z->committed_to;
  z->committed_to = to;
  add_free(zone, first, units);
  return true;
}

/* The free run at the end of the zone; where the zone ends if there is none. */
static unit_t last_free(zone_id_t zone) {
  unit_t end = arena.zones[zone].committed_to;
  return is_free(zone, end - 1) ? record(end - 1)->run_first : end;
}

/* Grows so that the last free run has room for `units` at that alignment. */
static bool grow(zone_id_t zone, size_t units, size_t align_units) {
  struct zone *z = &arena.zones[zone];
  size_t base_units = (uintptr_t)the_map.base >> UNIT_SHIFT;
  size_t aligned = align_up(base_units + last_free(zone), align_units) - base_units;
  if (aligned + units <= z->committed_to) return true;
  size_t needed = align_up(aligned + units - z->committed_to, SUPERSLAB_UNITS);
  size_t existing = z->committed_to - the_map.zone_first[zone];
  size_t step = align_down(min_size(max_size(existing / 8, STEP_MIN_UNITS), STEP_MAX_UNITS), SUPERSLAB_UNITS);
  if (step > needed && grow_by(zone, step)) return true;
  return grow_by(zone, needed);
}

/* ---- The layer's functions -----------------------------------------------------*/
static bool take(zone_id_t zone, size_t units, size_t align_units, unit_t *first, bool *is_zero) {
  unit_t run = find_fitting(zone, units, align_units);
  if (run == 0 && grow(zone, units, align_units)) run = last_free(zone);
  if (run == 0) return false;
  *first = fit(run, units, align_units);
  *is_zero = cut(zone, run, *first, units);
  return true;
}

unit_t arena_take(zone_id_t zone, size_t units, size_t align_units, bool *is_zero) {
  HAK_ASSERT(units > 0 && is_power_of_two(align_units));
  if (units > UINT32_MAX / 2 || align_units > UINT32_MAX / 2 || !arena_ready()) return 0;
  unit_t first = 0;
  bool zero = false;
  gate_enter(&arena_gate);
  bool found = take(zone, units, align_units, &first, &zero) ||
               take((zone_id_t)!zone, units, align_units, &first, &zero);
  HAK_ASSERT(!found || atomic32_load_relaxed(map_word(first)) == 0);
  gate_leave(&arena_gate);
  if (is_zero != NULL) *is_zero = zero;
  return found ? first : 0;
}

void arena_clear_stale(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    gate_enter(&arena_gate); /* other bits of the mask belong to others */
    uint32_t stale = superslab(c.number)->stale & c.mask;
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

static void give(unit_t first, size_t units, bool dirty) {
  gate_enter(&arena_gate);
  uint64_t now_ms = os_now_ms(); /* inside, so that the list stays in order of time */
  FOR_EACH_SUPERSLAB(c, first, units) {
    superslab_t *s = superslab(c.number);
    HAK_ASSERT((s->used & c.mask) == c.mask);
    s->used &= ~c.mask;
    if (!dirty) {
      s->huge_page = false; /* it was a property of the mapping that was renewed */
      continue;
    }
    if (s->dirty != 0) dirty_unlink(c.number);
    s->dirty |= c.mask;
    s->dirtied_ms = now_ms;
    dirty_append(c.number);
  }
  arena.used_units -= units;
  add_free(zone_of(first), first, units);
  if (dirty) {
    arena.dirty_units += units;
    size_t keep = (dirty_floor_bytes >> UNIT_SHIFT) + arena.used_units / 8 + arena.reused_units;
    if (arena.dirty_units > keep + PURGE_AT_ONCE_UNITS) purge_while(keep, UINT64_MAX);
    tick(now_ms);
  }
  gate_leave(&arena_gate);
}

void arena_give(unit_t first, size_t units) { give(first, units, true); }
void arena_give_clean(unit_t first, size_t units) { give(first, units, false); }

bool arena_extend(unit_t first, size_t old_units, size_t new_units) {
  zone_id_t zone = zone_of(first);
  bool extended = false;
  unit_t behind = (unit_t)(first + old_units);
  size_t more = new_units - old_units;
  gate_enter(&arena_gate);
  struct zone *z = &arena.zones[zone];
  size_t there = is_free(zone, behind) ? record(behind)->run_units : 0;
  /* At the end of the zone there is always more, if the system grants it. */
  if (there < more && behind + there == z->committed_to) {
    grow(zone, more, 1);
    there = is_free(zone, behind) ? record(behind)->run_units : 0;
  }
  if (there >= more) {
    cut(zone, behind, behind, more);
    record(first)->run_units = (uint32_t)new_units;
    extended = true;
  }
  gate_leave(&arena_gate);
  return extended;
}

void arena_note_free_in_slabs(int64_t change_bytes) {
  gate_enter(&arena_gate);
  arena.free_in_slabs_bytes += change_bytes;
  gate_leave(&arena_gate);
}

arena_usage_t arena_usage(void) {
  arena_usage_t usage = {0};
  if (!atomic32_load_acquire(&arena.is_ready)) return usage;
  gate_enter(&arena_gate);
  for (int z = 0; z < ZONE_COUNT; z++) {
    usage.committed += (size_t)(arena.zones[z].committed_to - the_map.zone_first[z]) << UNIT_SHIFT;
    usage.metadata += (arena.zones[z].tables_to - the_map.zone_first[z]) * map_table_bytes_per_unit();
  }
  usage.used = arena.used_units << UNIT_SHIFT;
  usage.dirty = arena.dirty_units << UNIT_SHIFT;
  gate_leave(&arena_gate);
  return usage;
}

unit_t arena_zone_end(zone_id_t zone) {
  gate_enter(&arena_gate);
  unit_t end = arena.zones[zone].committed_to;
  gate_leave(&arena_gate);
  return end;
}

void arena_after_fork(void) { arena.has_forked = true; }

/* ---- Checking ----------------------------------------------------------------*/
void arena_check(void) {
  if (!atomic32_load_acquire(&arena.is_ready)) return;
  gate_enter(&arena_gate);
  size_t used = 0, dirty = 0, dirty_superslabs = 0, listed = 0;
  for (zone_id_t zone = 0; zone < ZONE_COUNT; zone++) {
    size_t in_tree = 0, runs_walked = 0, free_units = 0;
    size_t runs_in_tree = runs_check(arena.zones[zone].free_runs, &in_tree);
    unit_t unit = the_map.zone_first[zone], end = arena.zones[zone].committed_to;
    bool was_free = false;
    while (unit < end) {
      bool free_here = is_free(zone, unit);
      size_t units = record(unit)->run_units;
      HAK_CHECK(units > 0 && unit + units <= end);
      for (unit_t u = unit; u < unit + units; u++) {
        HAK_CHECK(is_free(zone, u) == free_here);
        HAK_CHECK(!free_here || atomic32_load_relaxed(map_word(u)) == 0);
        HAK_CHECK(free_here || atomic32_load_relaxed(map_word(u)) != 0 || arena.has_forked);
      }
      if (free_here) {
        HAK_CHECK(!was_free); /* neighbours are joined */
        HAK_CHECK(record((unit_t)(unit + units - 1))->run_first == unit);
        runs_walked++;
        free_units += units;
      } else {
        used += units;
      }
      was_free = free_here;
      unit += (unit_t)units;
    }
    HAK_CHECK(runs_walked == runs_in_tree && free_units == in_tree);
    for (uint32_t n = the_map.zone_first[zone] / SUPERSLAB_UNITS; n < end / SUPERSLAB_UNITS; n++) {
      HAK_CHECK((superslab(n)->used & superslab(n)->dirty) == 0);
      dirty += (size_t)__builtin_popcount(superslab(n)->dirty);
      dirty_superslabs += superslab(n)->dirty != 0;
    }
  }
  uint64_t last_ms = 0;
  for (uint32_t n = arena.dirty_oldest, before = 0; n != 0; before = n, n = superslab(n)->dirty_next) {
    HAK_CHECK(superslab(n)->dirty_previous == before && superslab(n)->dirty != 0);
    HAK_CHECK(superslab(n)->dirtied_ms >= last_ms);
    last_ms = superslab(n)->dirtied_ms;
    listed++;
  }
  HAK_CHECK(listed == dirty_superslabs && dirty == arena.dirty_units && used == arena.used_units);
  gate_leave(&arena_gate);
}
