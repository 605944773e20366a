/*
 * How much is in use, and how much that is free may stay dirty (dirty.h) beside it: a share of
 * what is in use, and as much as was reused lately. Near a limit (support/limit.h) no more
 * than fits.
 *
 * Everything here is guarded by the arena's gate unless said otherwise.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_KEPT_H
#define HAK_KEPT_H

#include "map.h"

HAK_C_BEGIN

/* Units are taken: of them, so many were dirty. */
void kept_note_taken(size_t units, size_t dirty);
void kept_note_given(size_t units);
/* Units went back to the system. If they are taken soon, they had better stayed. */
void kept_note_purged(size_t units);

/* In use; the first one and the last can be asked for without the gate, too. */
size_t kept_used_units(void);
size_t kept_peak_units(void);   /* the most that they ever were                                */
size_t kept_needed_units(void); /* without what lies free in slabs, as far as we have been told */
extern const inspect_field_t kept_inspected[1];

/* How many units may stay dirty; and if nothing had been reused. */
size_t kept_units(void);
size_t kept_least_units(void);
/* So much is to stay whatever its age: instead of the floor, a quarter of what is in use. Near a
 * limit no more than fits all the same. */
void kept_tell(size_t bytes);
size_t kept_for_good_units(void); /* 0 until then */

/* Time has passed: what is remembered of reuse fades. */
void kept_age(uint64_t now_ms);
/* Whether so much is dirty that some is to be purged, or, if that was so, still is. */
bool kept_is_exceeded(uint64_t now_ms, bool was_exceeded);
/* The system has refused to take anything back: until then nothing is to be purged for that. */
void kept_rest(uint64_t until_ms);

HAK_C_END
#endif
