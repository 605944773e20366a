/* See units.h. SPDX-License-Identifier: MIT */
#include "units.h"

#include "../arena/arena.h"
#include "../arena/arena_purge.h"
#include "../arena/huge_pages.h"
#include "../support/error.h"
#include "spare.h"

enum {
  OPEN_LOOKS = 8,      /* runs that a lone block's request looks at in vain, at most */
  SMALL_RUN_UNITS = 8, /* a run of a region that is small, at most      */
};

/* ---- Lists ---------------------------------------------------------------------*/
static void add_run(region_t *region, unit_t run, bool is_whole) {
  unit_record_t *r = map_record(run);
  r->region.spare = 0;
  r->region.is_whole = is_whole;
  r->region.run_previous = 0;
  r->region.run_next = region->runs;
  if (region->runs != 0) map_record(region->runs)->region.run_previous = run;
  region->runs = run;
}

/* It waits for the thread to leave. */
static void give_later(region_t *region, unit_t run) {
  map_record(run)->region.run_next = region->going;
  region->going = run;
}

static void remove_run(region_t *region, unit_t run) {
  unit_record_t *r = map_record(run);
  if (region->kept == run) region->kept = 0;
  if (r->region.run_next != 0) map_record(r->region.run_next)->region.run_previous = r->region.run_previous;
  if (r->region.run_previous != 0) map_record(r->region.run_previous)->region.run_next = r->region.run_next;
  else region->runs = r->region.run_next;
  give_later(region, run);
  region->taken_units -= r->run_units;
}

size_t units_give_all(unit_t runs) {
  size_t given = 0;
  for (unit_t run = runs, next; run != 0; run = next) {
    size_t units = map_record(run)->run_units;
    next = map_record(run)->region.run_next;
    if (map_record(run)->region.is_whole) huge_pages_learn(run, units);
    map_write_words(run, 0, units, 0);
    arena_give(run, units);
    given += units;
  }
  return given;
}

void units_leave(region_t *region) {
  unit_t going = region->going;
  region->going = 0;
  registry_leave(region);
  if (HAK_UNLIKELY(going != 0)) arena_relieve(units_give_all(going));
  error_settle();
}

/* ---- Spare units -----------------------------------------------------------------*/

static bool is_all_spare(unit_t run) {
  return map_record(run)->region.spare == bit_range32(0, (unsigned)map_record(run)->run_units);
}

unit_t units_cut(region_t *region, size_t units, size_t align_units, bool is_thorough) {
  if (region->spare_units < units) return 0;
  unit_t run, first = spare_find(region, units, align_units, is_thorough ? SIZE_MAX : OPEN_LOOKS, &run);
  if (first == 0) return 0;
  spare_set(region, run, map_record(run)->region.spare & ~bit_range32(first - run, (unsigned)units));
  map_record(first)->region.run = run;
  return first;
}

static void drop_spare_run(region_t *region, unit_t run) {
  spare_set(region, run, 0);
  remove_run(region, run);
}

void units_return(region_t *region, unit_t first, size_t units) {
  unit_t run = map_record(first)->region.run;
  map_write_words(first, 0, units, region_word(region->number, REGION_SPARE));
  spare_set(region, run, map_record(run)->region.spare | bit_range32(first - run, (unsigned)units));
  if (!is_all_spare(run)) return;
  /* One run is kept, so that a lone slab that comes and goes does not take and give one each time. */
  unit_t kept = region->kept;
  region->kept = run;
  if (kept != 0 && kept != run && is_all_spare(kept)) drop_spare_run(region, kept);
}

void units_return_tail(region_t *region, unit_t first, size_t units) {
  unit_t tail = (unit_t)(first + units);
  map_record(tail)->region.run = map_record(first)->region.run;
  units_return(region, tail, map_record(first)->region.units - units);
}

void units_drop_spare(region_t *region) {
  for (unsigned list = 0; list < OPEN_LISTS; list++) {
    for (unit_t run = region->open[list], next; run != 0; run = next) {
      next = map_record(run)->region.open_next;
      if (is_all_spare(run)) drop_spare_run(region, run);
    }
  }
}

/* ---- From the arena ----------------------------------------------------------------*/

/* Counts so many units as taken, if the limit allows it. */
static bool reserve(region_t *region, size_t units) {
  if (region->taken_units >= region->limit_units || units > region->limit_units - region->taken_units) return false;
  region->taken_units += units;
  return true;
}

/* What is only on its way may never come, and is in no peak. */
static void note_peak(region_t *region) {
  region->peak_units = max_size(region->peak_units, region->taken_units - region->coming_units);
}

static bool reserve_coming(region_t *region, size_t units) {
  if (!reserve(region, units)) return false;
  region->coming_units += units;
  return true;
}

/* Why it has not. A region that a fork has torn is given none; nothing can be entered in its books. */
static fetched_t why_refused(const region_t *region, size_t units) {
  if (region->is_lost) return UNITS_NO_MEMORY;
  size_t there = region->taken_units - region->coming_units;
  bool is_awaited = region->coming_units > 0 && there < region->limit_units && units <= region->limit_units - there;
  return is_awaited ? UNITS_AWAITED : UNITS_AT_LIMIT;
}

/* What the arena has given, or 0, for a region that may have been destroyed meanwhile, or torn by a fork: then it
 * goes back, and is 0. */
static region_t *come_back(uint64_t handle, unit_t *first, size_t units) {
  region_t *region = registry_enter(handle);
  bool is_lost = region != NULL && region->is_lost;
  if (*first != 0 && (region == NULL || is_lost)) {
    if (is_lost) registry_leave(region);
    arena_give(*first, units);
    *first = 0;
    if (is_lost) region = registry_enter(handle);
  }
  if (region == NULL) return NULL;
  if (region->coming_units >= units) region->coming_units -= units;
  else region->taken_units += units; /* forgotten by a child that a signal handler has forked */
  if (*first == 0) region->taken_units -= units;
  note_peak(region);
  return region;
}

void units_forget_coming(region_t *region) {
  region->taken_units -= region->coming_units;
  region->coming_units = 0;
}

/* A power of two. */
static size_t least_run_units(size_t units) { return (size_t)1 << (units > 1 ? log2_floor(units - 1) + 1 : 0); }

/* As well, an eighth of what the region has or, of a small one, a half, so that runs are not many: what is not touched
 * takes no memory. */
static size_t run_units_for(const region_t *region) {
  size_t share = max_size(region->taken_units / 8, min_size(region->taken_units / 2, SMALL_RUN_UNITS));
  return min_size(share > 0 ? (size_t)1 << log2_floor(share) : 1, RUN_UNITS_MOST);
}

/* Of `least` units or more, up to `*most`, which becomes what it asked for. */
static fetched_t fetch_run(uint64_t handle, size_t least, size_t *most) {
  region_t *region = registry_enter(handle);
  if (region == NULL) return UNITS_REGION_GONE;
  size_t run_units = *most = max_size(least, min_size(run_units_for(region), *most));
  bool is_allowed = !region->is_lost && reserve_coming(region, run_units);
  fetched_t why_not = is_allowed ? UNITS_FETCHED : why_refused(region, run_units);
  registry_leave(region);
  if (!is_allowed) return why_not;
  unit_t first = arena_take(ZONE_SMALL, run_units, run_units, NULL);
  region = come_back(handle, &first, run_units);
  if (region == NULL) return UNITS_REGION_GONE;
  if (first != 0) {
    map_write_words(first, 0, run_units, region_word(region->number, REGION_SPARE));
    add_run(region, first, false);
    spare_set(region, first, bit_range32(0, (unsigned)run_units));
  }
  registry_leave(region);
  return first != 0 ? UNITS_FETCHED : UNITS_NO_MEMORY;
}

/* Neither the region's limit nor the arena need have room for as long a run as the region's size wants: then the
 * least that serves is asked for. */
fetched_t units_fetch(uint64_t handle, size_t units) {
  size_t least = least_run_units(units), run_units = RUN_UNITS_MOST;
  fetched_t fetched = fetch_run(handle, least, &run_units);
  if (fetched == UNITS_FETCHED || fetched == UNITS_REGION_GONE || run_units == least) return fetched;
  run_units = least;
  return fetch_run(handle, least, &run_units);
}

fetched_t units_fetch_whole(uint64_t handle, size_t units, size_t align_units, unit_t *first, bool *is_zero,
                            region_t **entered) {
  region_t *region = registry_enter(handle);
  if (region == NULL) return UNITS_REGION_GONE;
  bool is_allowed = !region->is_lost && reserve_coming(region, units);
  fetched_t why_not = is_allowed ? UNITS_FETCHED : why_refused(region, units);
  registry_leave(region);
  if (!is_allowed) return why_not;
  *first = 0;
  if (units >= SUPERSLAB_UNITS) *first = arena_take(ZONE_HUGE, units, max_size(align_units, SUPERSLAB_UNITS), is_zero);
  if (*first == 0) *first = arena_take(ZONE_HUGE, units, align_units, is_zero);
  if (*first != 0) huge_pages_use(*first, units);
  region = come_back(handle, first, units);
  if (region == NULL) return UNITS_REGION_GONE;
  *entered = region;
  if (*first == 0) {
    registry_leave(region);
    return UNITS_NO_MEMORY;
  }
  add_run(region, *first, true);
  map_record(*first)->region.run = *first;
  return UNITS_FETCHED;
}

bool units_extend_whole(region_t *region, unit_t first, size_t new_units) {
  size_t old_units = map_record(first)->run_units, more = new_units - old_units;
  if (!reserve(region, more)) return false;
  bool extended = arena_extend(first, old_units, new_units);
  if (!extended) region->taken_units -= more;
  note_peak(region);
  return extended;
}

void units_cut_whole(region_t *region, unit_t first, size_t units) {
  size_t rest = map_record(first)->run_units - units;
  unit_t tail = (unit_t)(first + units);
  map_record(tail)->region.is_whole = false; /* nothing is learnt from what was not wanted */
  map_split_run(first, units, rest);
  give_later(region, tail);
  region->taken_units -= rest;
}

void units_return_whole(region_t *region, unit_t first) { remove_run(region, first); }
