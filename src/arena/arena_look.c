/* See arena_look.h. SPDX-License-Identifier: MIT */
#include "arena_look.h"

#include "dirty.h"
#include "kept.h"
#include "zone.h"

size_t arena_needed_bytes(void) { return kept_needed_units() << UNIT_SHIFT; }

bool arena_has(size_t unit) {
  if (!arena_is_ready() || unit >= the_map.units) return false;
  arena_enter();
  bool has = zone_extent((unit_t)unit) != NULL;
  arena_leave();
  return has;
}

arena_usage_t arena_usage(void) {
  arena_usage_t usage = {0};
  if (!arena_is_ready()) return usage;
  arena_enter();
  for (zone_id_t z = 0; z < ZONE_COUNT; z++) {
    const zone_t *zone = zone_look(z);
    for (size_t i = 0; i < zone->extent_count; i++)
      usage.committed += (size_t)(zone_mapped_to(z, i) - zone->extents[i].first) << UNIT_SHIFT;
  }
  usage.metadata = map_table_bytes();
  size_t in_use = kept_in_use_units();
  usage.used = in_use << UNIT_SHIFT, usage.peak = kept_peak_units() << UNIT_SHIFT;
  usage.dirty = (dirty_units() + kept_used_units() - in_use) << UNIT_SHIFT;
  usage.takes = kept_takes();
  arena_leave();
  return usage;
}

bool arena_next_extent(zone_id_t zone, unit_t *first, unit_t *end) {
  bool found = false;
  arena_enter();
  const zone_t *z = zone_look(zone);
  for (size_t i = 0; i < z->extent_count && !found; i++) {
    if (z->extents[i].first < *end || z->extents[i].first == zone_mapped_to(zone, i)) continue;
    *first = z->extents[i].first;
    *end = zone_mapped_to(zone, i);
    found = true;
  }
  arena_leave();
  return found;
}
