/*
 * The arena: runs of units, from the system and back.
 *
 * A run is a row of consecutive units. Zones (zone.h) keep slabs and large blocks
 * apart from huge blocks, which are too big to leave a gap that anything else fits
 * well. Where the system gives no more, each serves the other's requests; and before the huge
 * zone grows, what is dirty in the other one serves blocks that are longer than a large one.
 *
 * A run that is given back stays resident ("dirty", dirty.h) for about a second, for
 * whoever needs memory next; then its pages go back to the system. What is dirty
 * beyond a share of the heap goes sooner. Purging takes time, so giving a run back only takes
 * note, and arena_tick and arena_relieve purge (arena_purge.h), a bounded amount a call, with the gate open: the
 * units are taken out of the free ones meanwhile.
 *
 * Everything here is thread-safe, and mostly takes the arena's gate, inside which no other is
 * entered, for a microsecond or so, or for as long as the heap takes to grow. Where there are
 * more threads than processors, who is behind it may have lost its own. So giving a run back waits for nobody
 * (returns.h), arena_tick and arena_relieve leave the work to another time, and layers above
 * find what they need on the shelf, if anything is there.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ARENA_H
#define HAK_ARENA_H

#include "arena_gate.h"
#include "map.h"

HAK_C_BEGIN

/* Finds the window at the first call (arena_is_ready); false while the system refuses it. */
bool arena_ready(void);

/* A run of `units` whose first address is a multiple of `align_units`, a power of two, units. Of that zone
 * unless memory is short, or the zone of slabs has what is dirty for a huge block. `is_zero`, if not NULL:
 * whether every byte reads as zero. 0 when there is no memory. Page-map words are the caller's to write; they
 * are 0. */
unit_t arena_take(zone_id_t zone, size_t units, size_t align_units, bool *is_zero);
/* Writes zeroes over those units of a run that did not read as zero when it was
 * taken: a calloc touches no page more than it must. */
void arena_clear_stale(unit_t first, size_t units);
/* A run gets what a block holds that grows: pages may be moved to it. What is free of its SuperSlabs is
 * given back to the system by being mapped anew, until all of one is. */
void arena_note_grown(unit_t first, size_t units);
/* Whether a run that such a block has had is to be given back as it is, so that the next block which grows
 * finds its pages: what such blocks have left is little with it, and no more is in use and dirty together than
 * was in use lately. The run counts as grown then. If it is not to be, or the gate stays shut, the caller maps
 * it anew. */
bool arena_keeps_grown(unit_t first, size_t units);
/* A new huge block has got so many units, all of them clean. Nothing is noted if the gate stays shut. */
void arena_note_clean(size_t units);
/* Whether such blocks have lately got as many units or more while as many lay dirty in gaps that did not fit:
 * then what a block that is cut leaves dirty would serve none of them either. True as well if the gate stays
 * shut. */
bool arena_passes_gaps(size_t units);
/* Whether a huge page is to lie behind the SuperSlab that a run ends inside of, and does not begin
 * inside of; what is free of that is slack while one does. Only where nothing else is in it and
 * nothing resident. Returns whether that is news to the system, which the caller tells. */
bool arena_widen_end(unit_t first, size_t units, bool wanted);
/* Gives a run back whole, without waiting for the gate. The words of its units are 0 again. */
void arena_give(unit_t first, size_t units);
/* The same for a run that has been mapped anew, or purged: it reads as zero, and no huge pages
 * were asked for. Of its bytes so many are not charged any more (charge.h). */
void arena_give_clean(unit_t first, size_t units, size_t gone_bytes);
/* Takes a run of that length (shelf.h) that was put on the shelf, without the gate; 0 if there
 * is none. Its words are as they were then, and it may not read as zero. */
unit_t arena_take_shelved(unsigned length);
/* A run as arena_take's for who finds the gate shut: a part of a longer one that lies on the
 * shelf, without the gate. 0 if there is none. It may not read as zero, and arena_clear_stale
 * does not know what of it. `align_units`: SUPERSLAB_UNITS at most. */
unit_t arena_take_cut(size_t units, size_t align_units);
/* Makes a run longer in place if the units behind it are free or the zone can grow there. */
bool arena_extend(unit_t first, size_t old_units, size_t new_units);
/* The same for a large block, which stays one: not if it had better be copied to dirty units, where its next
 * place is looked for. */
bool arena_extend_large(unit_t first, size_t old_units, size_t new_units);

/* A hard limit may be what refuses so many units: purges as many that are dirty. Returns whether some went. */
bool arena_make_room(size_t units);

/* How many threads have a heap. Needs no gate; cheap where it is as many as before. */
void arena_note_threads(uint32_t count);

/* In a forked child. A thread of the parent that was about to write the words of
 * a run that it held has never done so: the check below then does not ask for them.
 * One that was purging has taken the units with it. */
void arena_after_fork(void);

/* Aborts through HAK_CHECK if an invariant is broken. Debug and tests. */
void arena_check(void);

HAK_C_END
#endif
