/*
 * Looks at the arena: what there is of it, and how much is in use.
 *
 * Thread-safe. Those that look at more than a sum take the arena's gate.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ARENA_LOOK_H
#define HAK_ARENA_LOOK_H

#include "arena_gate.h"
#include "map.h"

HAK_C_BEGIN

/* Whether the unit exists; what lies elsewhere in the window is not ours. */
bool arena_has(size_t unit);

/* In use, without what lies free in slabs. Without the gate: a moment old. */
size_t arena_needed_bytes(void);

typedef struct {
  size_t committed; /* may be written, with what zones have yet to grow into */
  size_t used;
  size_t peak;  /* the most that `used` ever was                        */
  size_t dirty; /* with what is shelved                                 */
  size_t metadata;
  size_t takes; /* times that somebody has taken units under the gate */
} arena_usage_t;
arena_usage_t arena_usage(void);
/* The next row of units of a zone that exist, or are mapped for it to grow into, behind `*end`; false if there is none.
 * Begin with both 0. */
bool arena_next_extent(zone_id_t zone, unit_t *first, unit_t *end);

HAK_C_END
#endif
