/*
 * Dirty memory: units that are free and may not read as zero.
 *
 * Each SuperSlab has a bit for each of its dirty units and the time at which one was
 * last given back; SuperSlabs with dirty units are in a list by that time. So a
 * SuperSlab in which units come and go stays as a whole.
 *
 * Everything here is guarded by the arena's gate. Invariant: used & dirty = 0, a
 * SuperSlab is in the list <=> its dirty != 0, and grown units are the dirty ones of
 * SuperSlabs that have grown.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_DIRTY_H
#define HAK_DIRTY_H

#include "map.h"

HAK_C_BEGIN

/* Taken units are about to be used: with a huge page the first touch makes all of it resident, free
 * units, too. They are slack until they become dirty, also when the system is asked to do without
 * the huge page meanwhile, as for a neighbour that is purged. */
void dirty_note_used(unit_t first, size_t units);
/* Units that are free by now have become dirty, and with them what is slack beside them. `now_ms` is no earlier
 * than before. Returns how many have. */
size_t dirty_add(unit_t first, size_t units, uint64_t now_ms);
/* So has the slack of the SuperSlab that was used last, of which nothing need ever be given back.
 * Once; returns how many units, and one of that SuperSlab. */
size_t dirty_add_slack(uint64_t now_ms, unit_t *first);
/* Units are taken: those that were dirty are stale from now on, the others are not.
 * Returns how many were. */
size_t dirty_take(unit_t first, size_t units);
size_t dirty_units(void);
size_t dirty_units_of(zone_id_t zone); /* of these, in the zone */
/* A block that grew lies there: what of these SuperSlabs is dirty, now or later, counts as grown, until
 * all of one has been mapped anew (map_note_grown). */
void dirty_note_grown(unit_t first, size_t units);
size_t dirty_grown_units(void);
/* How many of those units are. */
size_t dirty_count(unit_t first, size_t units);
/* When the oldest became so; UINT64_MAX if there are none. */
uint64_t dirty_oldest_ms(void);

/* The first row of dirty units in the SuperSlab that is the oldest, if that became dirty no later than `until_ms`;
 * `most` units of it. It ends with the SuperSlab: else each after it would begin and end inside of one, and split a
 * huge page. A SuperSlab with a huge page that is dirty as a whole is that row, whatever `most` says, if it has no
 * more than `whole_most` units. Returns how many; 0 if there are none so old. */
size_t dirty_oldest_row(uint64_t until_ms, size_t most, size_t whole_most, unit_t *first);

/* Aborts through HAK_CHECK if the list is broken. */
void dirty_check(size_t superslabs, size_t units);

HAK_C_END
#endif
