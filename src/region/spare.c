/* See spare.h. SPDX-License-Identifier: MIT */
#include "spare.h"

unsigned spare_list_of(uint32_t spare) {
  static const uint32_t starts[] = {0x55555555, 0x11111111, 0x01010101, 0x00010001, 0x00000001};
  /* A bit for the start of each aligned row of that list; those of the next one are two that lie side by side. */
  uint32_t rows = spare;
  unsigned list = 0;
  for (; list < OPEN_LISTS - 1; list++) {
    rows &= rows >> (1u << list) & starts[list];
    if (rows == 0) break;
  }
  return list;
}

/* ---- Lists ---------------------------------------------------------------------*/
static void open_run(region_t *region, unit_t run, unsigned list) {
  unit_record_t *r = map_record(run);
  unit_t first = region->open[list];
  r->region.open_previous = 0;
  r->region.open_next = first;
  if (first != 0) map_record(first)->region.open_previous = run;
  region->open[list] = run;
}

static void close_run(region_t *region, unit_t run, unsigned list) {
  unit_record_t *r = map_record(run);
  if (r->region.open_next != 0) map_record(r->region.open_next)->region.open_previous = r->region.open_previous;
  if (r->region.open_previous != 0) map_record(r->region.open_previous)->region.open_next = r->region.open_next;
  else region->open[list] = r->region.open_next;
}

void spare_set(region_t *region, unit_t run, uint32_t spare) {
  unit_record_t *r = map_record(run);
  uint32_t before = r->region.spare;
  r->region.spare = spare;
  region->spare_units += (size_t)__builtin_popcount(spare);
  region->spare_units -= (size_t)__builtin_popcount(before);
  if (before != 0 && spare != 0 && spare_list_of(before) == spare_list_of(spare)) return;
  if (before != 0) close_run(region, run, spare_list_of(before));
  if (spare != 0) open_run(region, run, spare_list_of(spare));
}

/* ---- Rows ----------------------------------------------------------------------*/

/* Where so many bits of the mask lie in a row, from a multiple of `align` on; 32: nowhere. */
static unsigned find_row(uint32_t mask, size_t units, size_t align) {
  static const uint32_t starts[] = {[1] = 0xffffffff, [2] = 0x55555555, [4] = 0x11111111, [8] = 0x01010101};
  for (size_t have = 1; have < units;) {
    size_t step = min_size(have, units - have);
    mask &= mask >> step;
    have += step;
  }
  mask &= starts[align];
  return mask != 0 ? (unsigned)__builtin_ctz(mask) : 32;
}

static unit_t find_in(unit_t run, size_t units, size_t align_units) {
  unsigned at = find_row(map_record(run)->region.spare, units, align_units);
  return at != 32 ? run + at : 0;
}

/* Where the row need not be aligned: a run of the list below may have one of up to 4 * 2^list - 2 units, between two
 * that are in use. */
static unit_t find_below(const region_t *region, unsigned list, size_t units, size_t looks, unit_t *run) {
  while (list-- > 0 && units <= ((size_t)4 << list) - 2) {
    for (*run = region->open[list]; *run != 0 && looks > 0; *run = map_record(*run)->region.open_next, looks--) {
      unit_t first = find_in(*run, units, 1);
      if (first != 0) return first;
    }
  }
  return 0;
}

unit_t spare_find(const region_t *region, size_t units, size_t align_units, size_t looks, unit_t *run) {
  unsigned list = units > 1 ? log2_floor(units - 1) + 1 : 0;
  unit_t first = align_units == 1 ? find_below(region, list, units, looks, run) : 0;
  while (first == 0 && list < OPEN_LISTS && region->open[list] == 0) list++;
  if (first != 0 || list == OPEN_LISTS) return first;
  *run = region->open[list];
  return find_in(*run, units, align_units);
}
