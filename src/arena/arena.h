/*
 * The arena: runs of units, from the system and back.
 *
 * A run is a row of consecutive units. Free runs of a zone are kept in a tree
 * ordered by length, then address: a request takes the shortest run that is
 * long enough, the lowest of those, and cuts it. Neighbouring free runs are one
 * run. So small requests fill the gaps of SuperSlabs in use, and untouched
 * memory, one long run at the end, comes last.
 *
 * A run that is given back stays resident ("dirty") for about a second, for
 * whoever needs memory next; then its pages go back to the system. arena_tick
 * does that; what is dirty beyond a share of the heap goes at once.
 *
 * Zones keep slabs and large blocks apart from huge blocks, which are too big
 * to leave a gap that anything else fits well. Where the system gives no more,
 * each serves the other's requests.
 *
 * Everything here takes the arena's gate, the innermost but for metadata's, and
 * is thread-safe.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ARENA_H
#define HAK_ARENA_H

#include "../os/lock.h"
#include "map.h"

HAK_C_BEGIN

extern hak_gate_t arena_gate;

/* Finds the window at the first call; false while the system refuses it. */
bool arena_ready(void);

/* A run of `units`, of that zone unless memory is short, whose first address is a multiple of
 * `align_units`, a power of two, units. `is_zero`, if not NULL: whether
 * every byte reads as zero. 0 when there is no memory. Page-map words are the
 * caller's to write; they are 0. */
unit_t arena_take(zone_id_t zone, size_t units, size_t align_units, bool *is_zero);
/* Writes zeroes over those units of a run that did not read as zero when it was
 * taken: a calloc touches no page more than it must. */
void arena_clear_stale(unit_t first, size_t units);
/* Gives a run back whole. The words of its units are 0 again. */
void arena_give(unit_t first, size_t units);
/* The same for a run whose pages are gone already (read as zero). */
void arena_give_clean(unit_t first, size_t units);
/* Makes a run longer in place if the units behind it are free. */
bool arena_extend(unit_t first, size_t old_units, size_t new_units);

/* Gives the pages of dirty free units back to the system: those older than a
 * second (tick, cheap when there is nothing to do); all but `keep_bytes`
 * (purge). Return the bytes that went. */
size_t arena_tick(uint64_t now_ms);
size_t arena_purge(size_t keep_bytes);

/* Free bytes inside slabs: the slab layer reports changes, so that the arena
 * knows how dense the heap is before it asks for huge pages. */
void arena_note_free_in_slabs(int64_t change_bytes);

typedef struct {
  size_t committed, used, dirty, metadata;
} arena_usage_t;
arena_usage_t arena_usage(void);
/* One past the last unit of a zone that exists. */
unit_t arena_zone_end(zone_id_t zone);

/* In a forked child. A thread of the parent that was about to write the words of
 * a run that it held has never done so: the check below then does not ask for them. */
void arena_after_fork(void);

/* Aborts through HAK_CHECK if an invariant is broken. Debug and tests. */
void arena_check(void);

HAK_C_END
#endif
