/*
 * How much is in use, and how much that is free may stay resident beside it, dirty (dirty.h) or
 * on the shelf (shelf.h): a share of what is in use, and as much as was reused lately, or, if somebody
 * attends, as there was in use. Near a limit (support/limit.h) no more than fits.
 *
 * Everything here is guarded by the arena's gate unless said otherwise.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_KEPT_H
#define HAK_KEPT_H

#include "map.h"

HAK_C_BEGIN

/* Units of the zone are taken: of them, so many were dirty. */
void kept_note_taken(zone_id_t zone, size_t units, size_t dirty);
/* A new huge block has got so many units, all of them clean. If as many lie dirty, in gaps that did not fit it,
 * it has passed those by. */
void kept_note_clean(size_t units);
/* How many units the blocks have that have lately passed dirty ones by. */
size_t kept_passed_units(void);
void kept_note_given(size_t units);
/* Some of what is in use is about to be given back. */
void kept_note_full(void);
/* How many units are in use or dirty beyond the most that were in use lately, when some were given back,
 * and a floor. Where it is 0, what stays dirty makes no new peak. */
size_t kept_over_lately(void);
/* Units of the zone went back to the system. If they are taken soon, they had better stayed. */
void kept_note_purged(zone_id_t zone, size_t units);

/* Somebody has taken units from the shelf. Needs no gate. */
void kept_note_peak(void);

/* In use; can be asked for without the gate, too. Used units are those that are no free run's. */
size_t kept_used_units(void);
size_t kept_in_use_units(void); /* without what lies on the shelf; never more than that         */
size_t kept_takes(void);        /* how often units were taken, since the process began          */
size_t kept_peak_units(void);   /* the most that these ever were                                */
size_t kept_needed_units(void); /* nor what lies free in slabs, as far as we have been told     */
extern const inspect_field_t kept_inspected[1];

/* How many units may stay; how many of them dirty, beside what lies on the shelf, of the zones that they were reused
 * in; the same if nothing had been reused. */
size_t kept_units(void);
size_t kept_dirty_units(void);
size_t kept_least_units(void);
/* So much that is dirty is to stay whatever its age: instead of the floor, a quarter of what is in use.
 * Near a limit no more than fits all the same. */
void kept_tell(size_t bytes);
size_t kept_for_good_units(void); /* 0 until then */
/* Whether somebody comes by as time passes, and gives back what has grown old. Needs no gate. */
void kept_attend(bool is_attended);
/* Whether what was in use lately and is free by now may stay for that alone: somebody attends, and the program
 * has not said itself how much is to stay. */
bool kept_lets_fallen_stay(void);
/* As kept_dirty_units, if nobody attended. */
size_t kept_unattended_units(void);
/* How many more than these are dirty; 0 where nothing is to be purged (kept_rest). */
size_t kept_unattended_surplus(void);

/* Time has passed: what is remembered of reuse fades. */
void kept_age(uint64_t now_ms);
/* Whether so much is kept that some is to be purged, or, if that was so, still is. Tells the shelf
 * how much it may hold: as much, but no more than was in use lately and the floor, as only who
 * wants a run of that very length can have what lies there. */
bool kept_is_exceeded(uint64_t now_ms, bool was_exceeded);
/* The system has refused to take anything back: until then nothing is to be purged for that. */
void kept_rest(uint64_t until_ms);
/* Whether that is so just now. */
bool kept_is_resting(void);

HAK_C_END
#endif
