/* See zone.h. SPDX-License-Identifier: MIT */
#include "zone.h"

#include "../base/probe.h"
#include "pages.h"
#include "runs.h"

/* Steps of growth are an eighth of what is there: a granule at least, and no more than
 * this or a granule. */
enum { STEP_MAX_UNITS = 32 * SUPERSLAB_UNITS };

/* What is mapped at once: as much as a step, or so much for each thread, but no more than is there. Each
 * mapping locks all mappings of the process, and waits for every thread that reads them and has lost its
 * processor, while the others wait at the gate. */
enum { AHEAD_UNITS_EACH = 2 * SUPERSLAB_UNITS, AHEAD_MAX_UNITS = 512 * SUPERSLAB_UNITS };

static zone_t zones[ZONE_COUNT];

const inspect_field_t zone_inspected[5] = {
    HAK_INSPECT_NUMBER("zone.bytes", sizeof(zone_t)),
    HAK_INSPECT_ARRAY("zone.extent_count", zones[0].extent_count, ZONE_COUNT, sizeof(zone_t)),
    /* Of the first zone; those of the next lie zone.bytes behind. */
    HAK_INSPECT_ARRAY("zone.extent_first", zones[0].extents[0].first, ZONE_EXTENTS_MOST, sizeof(extent_t)),
    HAK_INSPECT_ARRAY("zone.extent_end", zones[0].extents[0].end, ZONE_EXTENTS_MOST, sizeof(extent_t)),
    HAK_INSPECT_ARRAY("zone.mapped_to", zones[0].mapped_to, ZONE_COUNT, sizeof(zone_t)),
};

void zones_prepare(const zone_kind_t kinds[ZONE_COUNT]) {
  for (int z = 0; z < ZONE_COUNT; z++) {
    unit_t first = the_map.zone_first[z];
    /* Of the table no more is touched than is used. */
    zones[z].kind = &kinds[z];
    zones[z].extent_count = 1;
    zones[z].extents[0] = (extent_t){first, first};
    zones[z].mapped_to = first;
  }
}

const zone_t *zone_look(zone_id_t zone) { return &zones[zone]; }

bool run_cursor_next(run_cursor_t *c) {
  if (c->next >= c->end) return false;
  unsigned from = c->next % SUPERSLAB_UNITS;
  unsigned count = (unsigned)min_size(SUPERSLAB_UNITS - from, c->end - c->next);
  c->number = c->next / SUPERSLAB_UNITS;
  c->mask = bit_range32(from, count);
  c->next += count;
  return true;
}

/* ---- Extents ---------------------------------------------------------------------*/
static extent_t *last_extent(zone_t *zone) { return &zone->extents[zone->extent_count - 1]; }

unit_t zone_mapped_to(zone_id_t zone, size_t extent) {
  const zone_t *z = &zones[zone];
  return extent + 1 == z->extent_count ? z->mapped_to : z->extents[extent].end;
}

const extent_t *zone_extent(unit_t unit) {
  const zone_t *zone = &zones[zone_of(unit)];
  for (size_t i = 0; i < zone->extent_count; i++)
    if (unit >= zone->extents[i].first && unit < zone->extents[i].end) return &zone->extents[i];
  return NULL;
}

/* Of a unit that exists. */
static bool is_free(unit_t unit) {
  return (map_superslab(unit / SUPERSLAB_UNITS)->used >> unit % SUPERSLAB_UNITS & 1) == 0;
}

bool zone_is_free(unit_t unit) { return zone_extent(unit) != NULL && is_free(unit); }

/* ---- Free runs -------------------------------------------------------------------*/
static void insert(zone_t *zone, unit_t first, size_t units) {
  map_record(first)->run_units = (uint32_t)units;
  map_record((unit_t)(first + units - 1))->run_first = first;
  runs_insert(&zone->free_runs, first);
  zone->last_run = first;
}

static void take_out(zone_t *zone, unit_t run) {
  runs_remove(&zone->free_runs, run);
  if (zone->last_run == run) zone->last_run = 0;
}

/* Where the free run begins that a free unit lies in: behind the nearest used unit. A long
 * run is purged piece by piece: each is cut out of what the last one was joined to. */
static unit_t run_start(unit_t unit) {
  unit_t last = zones[zone_of(unit)].last_run;
  if (last != 0 && unit >= last && unit - last < map_record(last)->run_units) return last;
  unit_t least = zone_extent(unit)->first;
  uint32_t number = unit / SUPERSLAB_UNITS, used = map_superslab(number)->used & bit_range32(0, unit % SUPERSLAB_UNITS);
  while (used == 0) {
    if (number * SUPERSLAB_UNITS == least) return least;
    used = map_superslab(--number)->used;
  }
  return number * SUPERSLAB_UNITS + log2_floor(used) + 1;
}

void zone_join(unit_t first, size_t units) {
  zone_t *zone = &zones[zone_of(first)];
  const extent_t *extent = zone_extent(first); /* the next one may be another zone's, right behind */
  zone->free_units += (uint32_t)units;
  if (first > extent->first && is_free(first - 1)) {
    unit_t left = map_record(first - 1)->run_first;
    take_out(zone, left);
    units += first - left;
    first = left;
  }
  unit_t right = (unit_t)(first + units);
  if (right < extent->end && is_free(right)) {
    take_out(zone, right);
    units += map_record(right)->run_units;
  }
  insert(zone, first, units);
}

void zone_cut(unit_t first, size_t units) {
  zone_t *zone = &zones[zone_of(first)];
  unit_t run = run_start(first);
  size_t after = run + map_record(run)->run_units - (first + units);
  zone->free_units -= (uint32_t)units;
  take_out(zone, run);
  if (first > run) insert(zone, run, first - run);
  if (after > 0) insert(zone, (unit_t)(first + units), after);
}

size_t zone_used_units(zone_id_t zone) {
  size_t units = 0;
  for (size_t i = 0; i < zones[zone].extent_count; i++)
    units += zones[zone].extents[i].end - zones[zone].extents[i].first;
  return units - zones[zone].free_units;
}

size_t zone_free_units_behind(unit_t end) {
  if (end == zone_extent(end - 1)->end || !is_free(end)) return 0;
  return map_record(end)->run_units;
}

/* Alignment is of addresses: the window itself is aligned to 2 MiB only. */
static size_t align_unit(size_t unit, size_t align_units) {
  size_t base_units = (uintptr_t)the_map.base >> UNIT_SHIFT;
  return align_up(base_units + unit, align_units) - base_units;
}

/* Where an aligned run would start inside a free one; 0 if it does not fit. */
static unit_t fit(unit_t run, size_t units, size_t align_units) {
  size_t first = align_unit(run, align_units);
  return first + units <= (size_t)run + map_record(run)->run_units ? (unit_t)first : 0;
}

unit_t zone_find(zone_id_t zone, size_t units, size_t align_units) {
  enum { TRIES = 16 };
  unit_t root = zones[zone].free_runs, run = runs_not_before(root, units, 0);
  for (int i = 0; run != 0 && fit(run, units, align_units) == 0; i++) {
    /* The next best; after some, one that fits however it lies. */
    size_t run_units = map_record(run)->run_units;
    size_t at_least = i < TRIES ? run_units : max_size(units + align_units - 1, run_units);
    run = runs_not_before(root, at_least, at_least == run_units ? run + 1 : 0);
  }
  return run != 0 ? fit(run, units, align_units) : 0;
}

/* ---- Growing ---------------------------------------------------------------------*/

/* The last extent is longer by units that are mapped. */
static void lengthen(zone_id_t id, size_t units) {
  extent_t *last = last_extent(&zones[id]);
  unit_t first = last->end;
  last->end = (unit_t)(first + units);
  zone_join(first, units);
}

/* Begins another extent, behind something that lies in the way of the last one, which has what is mapped up to
 * there. How far that goes nobody says: `skip` units farther this time, twice as far the next. */
static bool begin_extent(zone_id_t id, size_t *skip) {
  zone_t *zone = &zones[id];
  extent_t *last = last_extent(zone);
  if (last->end < zone->mapped_to) lengthen(id, zone->mapped_to - last->end);
  size_t next = last->end + align_up(*skip, zone->kind->granule_units);
  if (next >= the_map.zone_end[id]) return false;
  if (last->first != last->end) {
    if (zone->extent_count == ZONE_EXTENTS_MOST) return false;
    last = &zone->extents[zone->extent_count++];
  }
  last->first = last->end = zone->mapped_to = (unit_t)next;
  *skip *= 2;
  return true;
}

/* Whether the program has locked whatever it will map (MCL_FUTURE of mlockall(2)), so that it is faulted in: then
 * no more is mapped than must be. Looked at after each step that is more, and while it is so. Guarded by the arena's
 * gate. */
static bool maps_resident;

/* What the last extent grows into reaches as far. */
static os_mapped_t map_to(zone_id_t id, size_t end) {
  zone_t *zone = &zones[id];
  unit_t from = zone->mapped_to;
  if (end <= from) return OS_MAPPED;
  if (end > the_map.zone_end[id]) return OS_REFUSED;
  os_mapped_t mapped = zone->kind->commit(id, from, (unit_t)end);
  HAK_PROBE(grow, map_address(from), (end - from) << UNIT_SHIFT, mapped == OS_MAPPED);
  if (mapped != OS_MAPPED) return mapped;
  zone->mapped_to = (unit_t)end;
  if (maps_resident || end - from > zone->kind->granule_units)
    maps_resident = page_is_resident(map_address((unit_t)end) - 1);
  return OS_MAPPED;
}

/* From the zone's beginning to where the last extent ends. */
static size_t reach(zone_id_t id) { return last_extent(&zones[id])->end - the_map.zone_first[id]; }
/* At least one. */
static size_t whole_granules(zone_id_t id, size_t units) {
  size_t granule = zones[id].kind->granule_units;
  return align_down(max_size(units, granule), granule);
}

size_t zone_step_units(zone_id_t id) {
  return whole_granules(id, maps_resident ? 0 : min_size(reach(id) / 8, STEP_MAX_UNITS));
}

static atomic32 threads; /* relaxed: a hint */
void zone_note_threads(uint32_t count) {
  if (HAK_UNLIKELY(atomic32_load_relaxed(&threads) != count)) atomic32_store_relaxed(&threads, count);
}

/* How much is mapped at once, instead of a step. */
static size_t ahead_units(zone_id_t id, size_t step) {
  size_t most = min_size(reach(id), AHEAD_MAX_UNITS);
  size_t ahead = min_size(atomic32_load_relaxed(&threads) * (size_t)AHEAD_UNITS_EACH, most);
  return ahead <= step || maps_resident || os_mapping_is_limited() ? step : whole_granules(id, ahead);
}

/* More than reaches `end`. false: that is no less, or the system refuses it. */
static bool map_ahead(zone_id_t id, size_t end) {
  size_t ahead = zones[id].mapped_to + ahead_units(id, zone_step_units(id));
  return ahead > end && map_to(id, ahead) == OS_MAPPED;
}

/* By so many units. What is mapped beyond them is for the next steps. */
static os_mapped_t grow_by(zone_id_t id, size_t units, bool may_map_ahead) {
  unit_t first = last_extent(&zones[id])->end;
  size_t end = first + units;
  bool is_ahead = may_map_ahead && end > zones[id].mapped_to && map_ahead(id, end);
  os_mapped_t mapped = is_ahead ? OS_MAPPED : map_to(id, end);
  if (mapped != OS_MAPPED) return mapped;
  const zone_kind_t *kind = zones[id].kind;
  if (kind->wants_huge_pages != NULL && kind->wants_huge_pages(first, units, zone_used_units(id)))
    map_want_huge_pages(first / SUPERSLAB_UNITS, end / SUPERSLAB_UNITS);
  lengthen(id, units);
  return OS_MAPPED;
}

/* Where the last extent's free run at its end begins; its end if there is none. */
static unit_t last_free(const extent_t *last) {
  return last->end > last->first && zone_is_free(last->end - 1) ? map_record(last->end - 1)->run_first : last->end;
}

/* Grows the last extent so that its last free run has room. */
static os_mapped_t grow_last(zone_id_t id, size_t units, size_t align_units) {
  const extent_t *last = last_extent(&zones[id]);
  size_t aligned = align_unit(last_free(last), align_units);
  if (aligned + units <= last->end) return OS_MAPPED;
  const zone_kind_t *kind = zones[id].kind;
  size_t granule = kind->granule_units;
  size_t needed = align_up(aligned + units - last->end, granule);
  size_t step = zone_step_units(id);
  if (kind->step_units != NULL) step = whole_granules(id, kind->step_units(step, zone_used_units(id)));
  if (step <= needed) return grow_by(id, needed, true);
  return grow_by(id, step, true) == OS_MAPPED ? OS_MAPPED
                                              : grow_by(id, needed, false); /* to go far was refused just now */
}

unit_t zone_grow(zone_id_t zone, size_t units, size_t align_units) {
  size_t skip = SUPERSLAB_UNITS;
  for (;;) {
    os_mapped_t mapped = grow_last(zone, units, align_units);
    if (mapped == OS_MAPPED) return (unit_t)align_unit(last_free(last_extent(&zones[zone])), align_units);
    if (mapped == OS_REFUSED || !begin_extent(zone, &skip)) return 0;
  }
}

bool zone_grow_behind(unit_t end, size_t units) {
  zone_id_t id = zone_of(end - 1);
  const extent_t *last = last_extent(&zones[id]);
  if (last_free(last) != end && end != last->end) return false;
  return grow_last(id, units, 1) == OS_MAPPED;
}
