/* See charge.h. SPDX-License-Identifier: MIT */
#include "charge.h"

#include "../os/os.h"
#include "../support/limit.h"
#include "dirty.h"
#include "zone.h"

/* Up to where units have been in use, in the last extent; and what the tables count for. */
static unit_t touched_to[ZONE_COUNT];
static size_t table_bytes;

static size_t bytes_of(size_t units) { return units << UNIT_SHIFT; }

/* What the tables are used of in addition when a run up to `end` is. */
static size_t more_tables(zone_id_t zone, unit_t first, unit_t end) {
  if (HAK_LIKELY(end <= touched_to[zone])) return 0;
  unit_t from = zone_extent(first)->first;
  bool is_first = touched_to[zone] <= from;
  if (!is_first) from = touched_to[zone];
  return map_table_bytes_of(end - from) + (is_first ? map_table_bytes_of_ends() : 0);
}

static void touch(zone_id_t zone, unit_t end, size_t tables) {
  if (end > touched_to[zone]) touched_to[zone] = end;
  table_bytes += tables;
}

bool charge_run(unit_t first, size_t units) {
  zone_id_t zone = zone_of(first);
  unit_t end = (unit_t)(first + units);
  size_t tables = more_tables(zone, first, end), clean = units - dirty_count(first, units);
  if (clean + tables > 0 && !limit_charge(bytes_of(clean) + tables)) return false;
  touch(zone, end, tables);
  return true;
}

void charge_taken(unit_t first, size_t units, size_t clean) {
  zone_id_t zone = zone_of(first);
  unit_t end = (unit_t)(first + units);
  size_t tables = more_tables(zone, first, end);
  touch(zone, end, tables);
  limit_charge_anyway(bytes_of(clean) + tables);
}

bool charge_may_allow(size_t units) { return units <= dirty_units() || limit_allows(bytes_of(units - dirty_units())); }

void charge_dirty(unit_t first, size_t units, size_t more) {
  if (HAK_LIKELY(more == 0)) return;
  unit_t end = (unit_t)align_up(first + units, SUPERSLAB_UNITS);
  charge_taken(first, end - first, more);
}

/* Of used units: what has gone. Relaxed: a sum, which orders nothing. Written by any thread, before or after what is
 * charged. */
static atomic64 gone_bytes;

void charge_gone(size_t units, size_t gone_before) {
  if (HAK_UNLIKELY(gone_before != 0)) atomic64_add_relaxed(&gone_bytes, (uint64_t)-gone_before);
  limit_credit(bytes_of(units) - gone_before);
}

size_t charge_tables(void) { return table_bytes; }

/* ---- Pages of used units ---------------------------------------------------------*/

void charge_pages_gone(size_t bytes) {
  atomic64_add_relaxed(&gone_bytes, bytes);
  limit_credit(bytes);
  if (limit_exists()) limit_watch_again();
}

bool charge_pages_back(size_t bytes) {
  if (!limit_charge(bytes)) return false;
  atomic64_add_relaxed(&gone_bytes, (uint64_t)-bytes);
  if (limit_exists()) limit_watch_again();
  return true;
}

void charge_pages_back_anyway(size_t bytes) {
  limit_charge_anyway(bytes);
  atomic64_add_relaxed(&gone_bytes, (uint64_t)-bytes);
}

bool charge_is_sound(size_t used_and_dirty) {
  enum { LOOKS = 1000 };
  for (int looks = 0; looks < LOOKS; looks++) {
    if (limit_charged() + atomic64_load_relaxed(&gone_bytes) == used_and_dirty) return true;
    os_sleep(1);
  }
  return false;
}
