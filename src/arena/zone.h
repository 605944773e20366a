/*
 * A zone: its free runs, and how it grows.
 *
 * Free runs are kept in a tree ordered by length, then address: a request takes the
 * shortest run that is long enough, the lowest of those, and cuts it. Neighbouring
 * free runs are one run. So small requests fill the gaps of SuperSlabs in use, and
 * untouched memory, one long run at the end, comes last.
 *
 * A zone grows upwards from its first unit. Where something of the program's lies in
 * the way, it goes on behind it: so a zone is a row of extents, mostly one. Where it shall grow
 * by little (dense.h), more is mapped than that, as each mapping waits for all threads that look
 * at the process's mappings, or touch a page for the first time, and keeps others from that meanwhile.
 *
 * Everything here is guarded by the arena's gate.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ZONE_H
#define HAK_ZONE_H

#include "map.h"

HAK_C_BEGIN

/* PURGE_REFUSED: all may be as it was. PURGE_LOST: nothing is mapped there any more. */
typedef enum { PURGE_DONE, PURGE_REFUSED, PURGE_LOST } purge_t;

/* What the memory of a zone is: an entry for each zone is in arena.c. */
typedef struct {
  /* It grows by multiples of so many units, which are a multiple of a SuperSlab. */
  size_t granule_units;
  /* Makes the units [from, to) and their elements in the tables usable, as
   * map_commit_units. */
  os_mapped_t (*commit)(zone_id_t zone, unit_t from, unit_t to);
  /* Gives the pages of free units, which are the caller's meanwhile, back to the system. */
  purge_t (*purge)(void *at, size_t bytes);
  /* Gives what the tables have of free units back as well. NULL: they have nothing. */
  void (*purge_tables)(unit_t first, size_t units);
  /* How many units the zone shall grow by, instead of so many, where less are needed; with so many of it in
   * use. NULL: that many. The arena's gate is held. */
  size_t (*step_units)(size_t step_units, size_t used_units);
  /* Whether new units shall have huge pages, with so many of the zone in use. NULL: whoever
   * takes them decides. The arena's gate is held. */
  bool (*wants_huge_pages)(unit_t first, size_t units, size_t used_units);
} zone_kind_t;

/* Units [first, end) exist; multiples of a SuperSlab. */
typedef struct {
  unit_t first, end;
} extent_t;

/* A zone that meets more obstacles does not grow any more: pages of the program's own, or of another library,
 * that lie within it. */
enum { ZONE_EXTENTS_MOST = 64 };

typedef struct {
  const zone_kind_t *kind;
  unit_t free_runs; /* root of the tree */
  unit_t last_run;  /* in it: what was inserted last, if it is there still; else 0 */
  uint32_t extent_count, free_units;
  extent_t extents[ZONE_EXTENTS_MOST]; /* in order of address; the last one grows */
  unit_t mapped_to;                    /* from the last one's end on: what it grows into */
} zone_t;

/* When the window has been found. */
void zones_prepare(const zone_kind_t kinds[ZONE_COUNT]);
const zone_t *zone_look(zone_id_t zone);
extern const inspect_field_t zone_inspected[5];
HAK_INLINE zone_id_t zone_of(unit_t unit) {
  unsigned zone = ZONE_COUNT - 1;
  while (zone > 0 && unit < the_map.zone_first[zone]) zone--;
  return (zone_id_t)zone;
}
/* The extent that the unit lies in; NULL if it does not exist. */
const extent_t *zone_extent(unit_t unit);
/* Whether a unit exists and is free. */
bool zone_is_free(unit_t unit);

/* The best free run that holds `units` at that alignment, and where they would lie in
 * it; 0 if there is none. */
unit_t zone_find(zone_id_t zone, size_t units, size_t align_units);
/* How far an extent is mapped, by number: beyond its end, if it is the last. The words and SuperSlabs of those
 * units are zero. */
unit_t zone_mapped_to(zone_id_t zone, size_t extent);
/* How many units of the zone exist and are not free. What is being purged counts, too. */
size_t zone_used_units(zone_id_t zone);
/* How many units are free right behind a run of the same zone that ends there. */
size_t zone_free_units_behind(unit_t end);
/* Takes [first, first + units) out of the free run that contains them. */
void zone_cut(unit_t first, size_t units);
/* Makes units free that no run holds, joined with free neighbours. */
void zone_join(unit_t first, size_t units);

/* How many threads have a heap, 0 if few: the more, the more is mapped at once. Needs no gate. */
void zone_note_threads(uint32_t count);
/* By how much it grows at the most, where less is needed: an eighth of what is there, but 2 MiB at least, 64 at the
 * most, and 2 where what is mapped is resident at once. */
size_t zone_step_units(zone_id_t zone);
/* Grows so that there are `units` at that alignment at the end, and says where: by an
 * eighth of what is there, or by what is needed if the system refuses that. 0 if it
 * refuses that as well. */
unit_t zone_grow(zone_id_t zone, size_t units, size_t align_units);
/* Grows so that the units behind `end`, which is where a run ends, are free, if that
 * is where the zone ends. */
bool zone_grow_behind(unit_t end, size_t units);

/* Goes through the SuperSlabs of a run: the number of each, and its units that belong to
 * the run. */
typedef struct {
  uint32_t number, mask;
  unit_t next, end;
} run_cursor_t;
bool run_cursor_next(run_cursor_t *c);
#define FOR_EACH_SUPERSLAB(c, first, units) \
  for (run_cursor_t c = {.next = (first), .end = (unit_t)((first) + (units))}; run_cursor_next(&c);)

HAK_C_END
#endif
