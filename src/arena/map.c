/* See map.h. SPDX-License-Identifier: MIT */
#include "map.h"

#include "../os/os.h"
#include "../support/config.h"

#include <unistd.h>

map_t the_map;

enum { TABLES = 6 }; /* the page map comes first and starts the window */

/* How far each table is committed, in bytes from its start, a zone at a time:
 * guarded by the arena's gate like every commit. */
static size_t committed_to[ZONE_COUNT][TABLES];

#define GUARD_BYTES HAK_MIB(2)

/* Smallest window worth having, and the largest that is asked for. */
static const size_t window_max = HAK_GIB(16 * 1024), window_min = HAK_GIB(1);

/* Bytes for 32 units: the SuperSlab table has one element for so many. */
static size_t table_bytes_x32(int table) {
  static const size_t sizes[TABLES] = {
      32 * sizeof(atomic32),     32 * sizeof(unit_record_t), 32 * sizeof(unit_shared_t),
      32 * UNIT_BITMAP_WORDS * 8, 32 * UNIT_BITMAP_WORDS * 8, sizeof(superslab_t),
  };
  return sizes[table];
}

static void *table_start(int table) {
  void *const starts[TABLES] = {the_map.base,      the_map.records,     the_map.shared,
                                the_map.free_bits, the_map.remote_bits, the_map.superslabs};
  return starts[table];
}

/* What a unit number must be a multiple of so that every table's element for it
 * starts a page: where zones start, so that committing the tables of one never
 * touches a page of the other's. The sparsest table has 32 bytes for 32 units. */
static size_t zone_granule_units(void) { return max_size(os_page_bytes(), SUPERSLAB_UNITS); }


size_t map_table_bytes_per_unit(void) {
  size_t bytes = 0;
  for (int i = 0; i < TABLES; i++) bytes += table_bytes_x32(i);
  return bytes / 32;
}

static size_t page_map_bytes(size_t window_bytes) {
  return align_up(table_bytes_x32(0) * (window_bytes >> UNIT_SHIFT) / 32, os_page_bytes());
}

/* Cuts the window into its parts. */
static void plan(char *base, size_t bytes, bool is_reserved) {
  size_t units = bytes >> UNIT_SHIFT;
  char *next = base, *parts[TABLES];
  for (int i = 0; i < TABLES; i++) {
    parts[i] = next;
    next += align_up(table_bytes_x32(i) * (units / 32), GUARD_BYTES) + GUARD_BYTES;
  }
  the_map.base = base;
  the_map.records = (void *)parts[1];
  the_map.shared = (void *)parts[2];
  the_map.free_bits = (void *)parts[3];
  the_map.remote_bits = (void *)parts[4];
  the_map.superslabs = (void *)parts[5];
  the_map.heaps = next;
  /* A heap's record for each 34 KiB or so of the machine's memory: a thread costs
   * the kernel more than that. */
  the_map.heaps_end = next + bytes / 64;
  the_map.metadata = the_map.heaps_end + GUARD_BYTES;
  the_map.metadata_end = the_map.metadata + bytes / 64;
  next = the_map.metadata_end + GUARD_BYTES;

  size_t granule = zone_granule_units();
  size_t first = align_up((size_t)(next - base) >> UNIT_SHIFT, granule);
  size_t middle = align_up(first + (units - first) / 2, granule);
  the_map.zone_first[ZONE_SMALL] = (unit_t)first;
  the_map.zone_end[ZONE_SMALL] = (unit_t)middle;
  the_map.zone_first[ZONE_HUGE] = (unit_t)middle;
  the_map.zone_end[ZONE_HUGE] = (unit_t)align_down(units, granule);
  the_map.is_reserved = is_reserved;
  /* Last: from here on addresses are found to be inside. Lookups outside the
   * committed part of the page map read zeroes, as it is readable throughout. */
  the_map.units = units;
}

/* Eight times the machine's memory is room for any heap that it can hold. More
 * costs nothing natively, but emulators keep a record for each reserved page, and
 * a program that locks all its memory or limits its address space later counts it. */
static size_t reserve_bytes(void) {
  if (config()->reserve_bytes != 0) return config()->reserve_bytes;
  size_t memory = max_size(os_physical_memory(), HAK_GIB(8));
  return min_size((size_t)1 << (log2_floor(8 * memory - 1) + 1), window_max);
}

/* A reserved window: one mapping, its page map readable. */
static bool init_reserved(void) {
  for (size_t bytes = reserve_bytes(); bytes >= window_min; bytes /= 4) {
    char *at = os_reserve(NULL, bytes + OS_HUGE_PAGE_BYTES);
    if (at == NULL) continue;
    char *base = (char *)align_up((uintptr_t)at, OS_HUGE_PAGE_BYTES);
    if (os_protect_readable(base, page_map_bytes(bytes))) {
      plan(base, bytes, true);
      return true;
    }
    os_release(at, bytes + OS_HUGE_PAGE_BYTES);
  }
  return false;
}

/* A planned window: only its page map is mapped. It lies below where the kernel
 * has just placed a page, farther than the process may ever map: the kernel
 * places mappings downwards from there, so the two never meet. */
static bool init_planned(size_t limit_bytes) {
  void *probe = os_reserve(NULL, os_page_bytes());
  if (probe == NULL) return false;
  os_release(probe, os_page_bytes());
  size_t limit = min_size(limit_bytes, window_max / 4);
  size_t granule_bytes = zone_granule_units() << UNIT_SHIFT;
  size_t wanted = max_size(window_min, (size_t)1 << (log2_floor(max_size(limit * 4, HAK_GIB(64)) - 1) + 1));
  for (size_t bytes = wanted; bytes >= max_size(window_min, 4 * granule_bytes); bytes /= 4) {
    size_t distance = bytes + 2 * limit + HAK_GIB(1);
    if ((uintptr_t)probe <= distance) continue;
    char *base = (char *)align_down((uintptr_t)probe - distance, OS_HUGE_PAGE_BYTES);
    if (os_reserve_readable(base, page_map_bytes(bytes)) != NULL) {
      plan(base, bytes, false);
      return true;
    }
  }
  return false;
}

bool map_init(void) {
  config_read(environ); /* a static program allocates before any constructor */
  size_t limit = os_address_space_limit();
  bool found = limit == SIZE_MAX ? init_reserved() || init_planned(SIZE_MAX) : init_planned(limit);
  return found;
}

bool map_commit(void *at, size_t bytes) { return the_map.is_reserved ? os_commit(at, bytes) : os_map(at, bytes); }

bool map_commit_tables(zone_id_t zone, unit_t to) {
  for (int i = 0; i < TABLES; i++) {
    size_t *done = &committed_to[zone][i];
    if (*done == 0) *done = table_bytes_x32(i) * (the_map.zone_first[zone] / 32);
    size_t wanted = align_up(table_bytes_x32(i) * align_up(to, SUPERSLAB_UNITS) / 32, os_page_bytes());
    if (wanted <= *done) continue;
    char *at = (char *)table_start(i) + *done;
    /* The page map is mapped already, readable, in both kinds of window. */
    if (!(i == 0 ? os_commit(at, wanted - *done) : map_commit(at, wanted - *done))) return false;
    *done = wanted;
  }
  return true;
}
