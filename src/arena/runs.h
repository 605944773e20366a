/*
 * The tree of free runs of one zone: a treap (R. Seidel, C. Aragon,
 * "Randomized Search Trees", 1996) over the unit records themselves, ordered by
 * (length, first unit), its priorities a hash of the unit number. Expected
 * O(log n) for each operation, no memory of its own. Not thread-safe.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_RUNS_H
#define HAK_RUNS_H

#include "map.h"

HAK_C_BEGIN

/* The run's record holds its length in run_units already. */
void runs_insert(unit_t *root, unit_t run);
void runs_remove(unit_t *root, unit_t run);
/* The first run in order that is not before (units, first); 0 if none. */
unit_t runs_not_before(unit_t root, size_t units, unit_t first);
/* Checks order and priorities; returns the number of runs and adds up their
 * units. */
size_t runs_check(unit_t root, size_t *units);

HAK_C_END
#endif
