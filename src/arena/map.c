/* See map.h. SPDX-License-Identifier: MIT */
#include "map.h"

#include "../support/config.h"

#include <unistd.h>

/* Every free reads it: no line of it is another variable's, which somebody may write. */
map_t the_map __attribute__((aligned(HAK_CACHE_LINE))) = {.base = MAP_NOWHERE};
static_assert(offsetof(map_t, units) < HAK_CACHE_LINE, "the first line has what free reads");

enum { TABLES = 6 }; /* the page map comes first and starts the window */

/* How far each table is mapped, in bytes from its start, a zone at a time: guarded by
 * the arena's gate like every commit. */
static size_t mapped_to[ZONE_COUNT][TABLES];
static size_t mapped_bytes; /* of all tables */

const inspect_field_t map_inspected[1] = {HAK_INSPECT_VARIABLE("map.table_bytes", mapped_bytes)};

#define GUARD_BYTES HAK_MIB(2)

/* Smallest window worth having, and the largest that is asked for. */
static const size_t window_max = HAK_GIB(16 * 1024), window_min = HAK_GIB(1);

/* ---- The tables' sizes ---------------------------------------------------------*/

/* Bytes for 32 units: the SuperSlab table has one element for so many. */
static size_t table_bytes_x32(int table) {
  static const size_t sizes[TABLES] = {
      32 * sizeof(atomic32),      32 * sizeof(unit_record_t), 32 * sizeof(unit_shared_t),
      32 * UNIT_BITMAP_WORDS * 8, 32 * UNIT_BITMAP_WORDS * 8, sizeof(superslab_t),
  };
  return sizes[table];
}

static char *table_start(int table) {
  void *const starts[TABLES] = {the_map.base,      the_map.records,     the_map.shared,
                                the_map.free_bits, the_map.remote_bits, the_map.superslabs};
  return starts[table];
}

/* Where in a table the elements of a unit and those after it begin: `unit` is a
 * multiple of 32. */
static size_t table_offset(int table, size_t unit) { return table_bytes_x32(table) * (unit / SUPERSLAB_UNITS); }

/* What a unit number must be a multiple of so that every table's element for it
 * starts a page. The sparsest table has 32 bytes for 32 units. */
static size_t page_granule_units(void) { return max_size(os_page_bytes(), SUPERSLAB_UNITS); }

static size_t page_map_bytes(size_t window_bytes) {
  return align_up(table_offset(0, window_bytes >> UNIT_SHIFT), os_page_bytes());
}

size_t map_table_bytes(void) { return mapped_bytes; }

size_t map_table_bytes_of(size_t units) {
  size_t bytes = 0;
  for (int i = 0; i < TABLES; i++) bytes += table_bytes_x32(i);
  return (units * bytes + SUPERSLAB_UNITS - 1) / SUPERSLAB_UNITS;
}

/* A page at each end, and one for the record at the end of the free run behind it. */
size_t map_table_bytes_of_ends(void) { return 3 * TABLES * os_page_bytes(); }

HAK_LOOKS_ON bool map_table_piece(unsigned index, char **at, size_t *bytes) {
  if (index >= ZONE_COUNT * TABLES) return false;
  zone_id_t zone = (zone_id_t)(index / TABLES);
  int table = (int)(index % TABLES);
  size_t from = align_down(table_offset(table, the_map.zone_first[zone]), os_page_bytes());
  *at = table_start(table) + from;
  size_t to = HAK_LOOK(mapped_to[zone][table]);
  *bytes = to > from ? to - from : 0;
  return true;
}

/* What /proc/self/maps calls a part of the window: one name for what lies side by side, so
 * that it stays one mapping. */
static const char *part_name(const char *at) {
  if (at < the_map.heaps) return "hakmem tables";
  if (at < the_map.heaps_end) return "hakmem threads";
  return at < the_map.metadata_end ? "hakmem magazines" : "hakmem heap";
}

/* ---- Committing ------------------------------------------------------------------*/
os_mapped_t map_commit(void *at, size_t bytes) {
  if (!the_map.is_held) return os_map(at, bytes, part_name(at));
  if (os_map_over(at, bytes, part_name(at))) return OS_MAPPED;
  os_reserve_over(at, bytes); /* it may have been lost: something of the program's would come to lie there */
  return OS_REFUSED;
}

bool map_commit_again(void *at, size_t bytes) { return os_map_over(at, bytes, part_name(at)); }
os_mapped_t map_commit_moved(void *at, size_t bytes) { return os_map(at, bytes, part_name(at)); }

/* A part of the page map, which can be read already and stays so: it may have been lost, and any thread may
 * look there. */
static os_mapped_t commit_page_map(void *at, size_t bytes) {
  if (map_commit_again(at, bytes)) return OS_MAPPED;
  if (!os_is_readable(at)) os_map_readable_over(at, bytes, part_name(at));
  return OS_REFUSED;
}

static void uncommit(void *at, size_t bytes) {
  if (the_map.is_held) os_reserve_over(at, bytes);
  else os_release(at, bytes);
}

/* How far `table` of the zone has to be mapped for units below `to`. The page where the
 * next zone's elements begin is mapped already (share_pages). */
static size_t table_wanted(zone_id_t zone, int table, size_t to) {
  size_t page = os_page_bytes(), wanted = align_up(table_offset(table, align_up(to, SUPERSLAB_UNITS)), page);
  return zone + 1 < ZONE_COUNT ? min_size(wanted, align_down(table_offset(table, the_map.zone_end[zone]), page))
                               : wanted;
}

/* Maps `table` of the zone for units below `to`. `at` and `bytes` say what was mapped. */
static os_mapped_t commit_table(zone_id_t zone, int table, size_t to, char **at, size_t *bytes) {
  size_t *done = &mapped_to[zone][table];
  size_t wanted = table_wanted(zone, table, to);
  *at = table_start(table) + *done;
  *bytes = wanted > *done ? wanted - *done : 0;
  if (*bytes == 0) return OS_MAPPED;
  os_mapped_t mapped = table == 0 ? commit_page_map(*at, *bytes) : map_commit(*at, *bytes);
  if (mapped != OS_MAPPED) *bytes = 0;
  *done += *bytes;
  return mapped;
}

/* All tables or none. */
static os_mapped_t commit_tables(zone_id_t zone, size_t to) {
  char *at[TABLES];
  size_t bytes[TABLES];
  os_mapped_t mapped = OS_MAPPED;
  int table = TABLES;
  /* The page map last: it is not taken back. */
  while (mapped == OS_MAPPED && table > 0) table--, mapped = commit_table(zone, table, to, &at[table], &bytes[table]);
  for (int done = TABLES - 1; done >= table; done--) {
    if (mapped == OS_MAPPED) {
      mapped_bytes += bytes[done];
    } else if (bytes[done] > 0) {
      uncommit(at[done], bytes[done]);
      mapped_to[zone][done] -= bytes[done];
    }
  }
  return mapped;
}

static bool tables_reach(zone_id_t zone, size_t to) {
  for (int i = 0; i < TABLES; i++)
    if (table_wanted(zone, i, to) > mapped_to[zone][i]) return false;
  return true;
}

/* Farther than is needed, so that they are rarely grown; a half, or 64 MiB's. */
static os_mapped_t commit_tables_ahead(zone_id_t zone, size_t to) {
  enum { AHEAD_UNITS = 1024 };
  if (tables_reach(zone, to)) return OS_MAPPED;
  size_t ahead = to + max_size(AHEAD_UNITS, (to - the_map.zone_first[zone]) / 2);
  if (commit_tables(zone, min_size(ahead, the_map.zone_end[zone])) == OS_MAPPED) return OS_MAPPED;
  return commit_tables(zone, to);
}

os_mapped_t map_commit_units(zone_id_t zone, unit_t from, unit_t to) {
  char *at = map_address(from);
  size_t bytes = (size_t)(to - from) << UNIT_SHIFT;
  /* Memory first: a request that is much too large is refused before tables are made
   * for it. */
  os_mapped_t mapped = map_commit(at, bytes);
  if (mapped != OS_MAPPED) return mapped;
  for (int i = 0; i < TABLES; i++) /* nothing of what was left out behind the last call's end is needed */
    mapped_to[zone][i] = max_size(mapped_to[zone][i], align_down(table_offset(i, from), os_page_bytes()));
  mapped = commit_tables_ahead(zone, to);
  if (mapped != OS_MAPPED) uncommit(at, bytes);
  return mapped;
}

static char *superslab_address(size_t number) { return map_address((unit_t)(number * SUPERSLAB_UNITS)); }

void map_want_huge_pages(size_t from, size_t to) {
  for (size_t n = from; n < to; n++) map_note_huge_page(n, true);
  os_want_huge_pages(superslab_address(from), (to - from) * SUPERSLAB_UNITS << UNIT_SHIFT);
}

void map_refuse_huge_pages(size_t from, size_t to) {
  for (size_t n = from; n < to; n++) map_note_huge_page(n, false);
  os_refuse_huge_pages(superslab_address(from), (to - from) * SUPERSLAB_UNITS << UNIT_SHIFT);
}

static void purge_bitmaps(char *table, unit_t first, size_t units) {
  const size_t each = UNIT_BITMAP_WORDS * sizeof(uint64_t);
  uintptr_t from = align_up((uintptr_t)table + first * each, os_page_bytes());
  uintptr_t to = align_down((uintptr_t)table + (first + units) * each, os_page_bytes());
  if (from < to) os_purge((char *)from, to - from); /* where it is refused, the pages stay */
}

void map_purge_bitmaps(unit_t first, size_t units) {
  purge_bitmaps((char *)the_map.free_bits, first, units);
  purge_bitmaps((char *)the_map.remote_bits, first, units);
}

/* ---- The plan ----------------------------------------------------------------------*/

/* Cuts the window into its parts. */
static void plan(char *base, size_t bytes, bool is_held) {
  size_t units = bytes >> UNIT_SHIFT;
  char *next = base, *parts[TABLES];
  for (int i = 0; i < TABLES; i++) {
    parts[i] = next;
    next += align_up(table_offset(i, units), GUARD_BYTES) + GUARD_BYTES;
  }
  the_map.base = base;
  the_map.records = (void *)parts[1];
  the_map.shared = (void *)parts[2];
  the_map.free_bits = (void *)parts[3];
  the_map.remote_bits = (void *)parts[4];
  the_map.superslabs = (void *)parts[5];
  the_map.heaps = next;
  /* A heap's record for each 16 to 32 KiB of the machine's memory: a thread costs the kernel
   * as much at least. */
  the_map.heaps_end = next + bytes / 64;
  the_map.metadata = the_map.heaps_end + GUARD_BYTES;
  the_map.metadata_end = the_map.metadata + bytes / 64;
  next = the_map.metadata_end + GUARD_BYTES;

  /* The rest is the zones', in equal parts. Where they meet, their tables' elements had
   * better not share pages; in a small window they may (share_pages). */
  size_t granule = page_granule_units();
  if (granule > units / 64) granule = SUPERSLAB_UNITS;
  size_t first = align_up((size_t)(next - base) >> UNIT_SHIFT, granule);
  for (zone_id_t z = 0; z < ZONE_COUNT; z++) {
    the_map.zone_first[z] = (unit_t)align_up(first + (units - first) / ZONE_COUNT * z, granule);
    if (z > 0) the_map.zone_end[z - 1] = the_map.zone_first[z];
  }
  the_map.zone_end[ZONE_COUNT - 1] = (unit_t)align_down(units, SUPERSLAB_UNITS);
  the_map.is_held = is_held;
}

/* The page in which a table has the first elements of a zone and others before; NULL: there is none. */
static char *shared_page(zone_id_t zone, int table) {
  size_t start = table_offset(table, the_map.zone_first[zone]), page = os_page_bytes();
  return start % page != 0 ? table_start(table) + align_down(start, page) : NULL;
}

/* Maps it. */
static bool share_page(zone_id_t zone, int table) {
  size_t page = os_page_bytes();
  char *at = shared_page(zone, table);
  mapped_to[zone][table] = align_up(table_offset(table, the_map.zone_first[zone]), page);
  if (at == NULL) return true;
  if ((table == 0 ? commit_page_map(at, page) : map_commit(at, page)) != OS_MAPPED) return false;
  mapped_bytes += page;
  return true;
}

/* Gives back what share_page has mapped before it failed for that zone and table, unless it goes with the
 * place: what is within it, and in any case the page map's. */
static void unshare_pages(zone_id_t zone, int table) {
  if (the_map.is_held) return;
  for (int i = TABLES - 1; i >= table && i > 0; i--)
    for (zone_id_t z = 1; z < (i == table ? zone : ZONE_COUNT); z++) {
      char *at = shared_page(z, i);
      if (at != NULL) os_release(at, os_page_bytes());
    }
}

/* Maps the pages in which two zones have elements, if there are any. The first zone
 * maps its own. The page map is the last, as everywhere. */
static bool share_pages(void) {
  mapped_bytes = 0;
  for (int i = TABLES - 1; i >= 0; i--) {
    mapped_to[0][i] = align_down(table_offset(i, the_map.zone_first[0]), os_page_bytes());
    for (zone_id_t z = 1; z < ZONE_COUNT; z++)
      if (!share_page(z, i)) {
        unshare_pages(z, i);
        return false;
      }
  }
  return true;
}

/* ---- The place ----------------------------------------------------------------------*/

/* Eight times the machine's memory is room for any heap that it can hold; where address
 * space is limited, four times the limit, as the page map counts. */
static size_t wanted_bytes(void) {
  if (config()->reserve_bytes != 0) return config()->reserve_bytes;
  size_t memory = max_size(os_physical_memory(), HAK_GIB(8)), limit = os_address_space_limit();
  size_t wanted = 8 * memory;
  if (limit < wanted / 4) wanted = max_size(4 * limit, HAK_GIB(64));
  return min_size((size_t)1 << (log2_floor(wanted - 1) + 1), window_max);
}

/* Knuth's multiplicative hash: as random as the number, which is. */
static size_t scatter(size_t number) { return (number * 0x9E3779B97F4A7C15u) >> 20; }

/* The system puts mappings below each other from where it has just put one, or above
 * each other from a third or a quarter of the address space on, and programs that are
 * not to be moved far below or above. What lies between a quarter and a half of the
 * next power of two below that place is left alone; its upper half is better, as some
 * virtual machines of languages begin at a quarter. Random, as the probe is. */
static bool place_planned(size_t bytes) {
  enum { TRIES = 4 };
  const char *probe = os_probe();
  if (probe == NULL) return false;
  size_t span = (size_t)1 << log2_floor((uintptr_t)probe), from = span / 8 * 3;
  if (bytes > span / 8) from = span / 4;
  if (bytes > span / 2 - from) return false;
  size_t places = (span / 2 - from - bytes) / OS_HUGE_PAGE_BYTES + 1;
  for (size_t i = 0; i < TRIES; i++) {
    char *base = (char *)from + scatter(((uintptr_t)probe >> 12) + i) % places * OS_HUGE_PAGE_BYTES;
    if (os_map_readable(base, page_map_bytes(bytes), "hakmem tables") != OS_MAPPED) continue;
    plan(base, bytes, false);
    if (share_pages()) return true;
    os_release(base, page_map_bytes(bytes));
  }
  return false;
}

static bool place_held(size_t bytes) {
  char *at = os_reserve(bytes + OS_HUGE_PAGE_BYTES);
  if (at == NULL) return false;
  char *base = (char *)align_up((uintptr_t)at, OS_HUGE_PAGE_BYTES);
  if (os_map_readable_over(base, page_map_bytes(bytes), "hakmem tables")) {
    plan(base, bytes, true);
    if (share_pages()) return true;
  }
  os_release(at, bytes + OS_HUGE_PAGE_BYTES);
  return false;
}

bool map_init(void) {
  config_read(environ); /* a static program allocates before any constructor */
  for (size_t bytes = wanted_bytes(); bytes >= window_min; bytes /= 4) {
    if (!place_planned(bytes) && !place_held(bytes)) continue;
    /* Last: from here on addresses are found to be inside. Lookups outside the mapped
     * parts read zeroes, as the page map is readable throughout. */
    the_map.units = bytes >> UNIT_SHIFT;
    return true;
  }
  return false;
}
