/*
 * Which runs of a region have spare units, and where enough of them lie in a row.
 *
 * A run with spare units is in one of six lists, by its longest aligned row of them: a power of two of units, from a
 * multiple of as many on. Slabs need just that. So the shortest row in which one has room is found without a search,
 * however many runs there are, and long rows stay for what needs them.
 *
 * Lone blocks of any length may lie anywhere. One has room, too, in some runs of the lists below, of which some
 * are looked at, or all.
 *
 * The functions are for the thread that has entered the region.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SPARE_H
#define HAK_SPARE_H

#include "registry.h"

HAK_C_BEGIN

/* The list of a run with these spare units, which are some: its longest aligned row has 1 << list of them. */
unsigned spare_list_of(uint32_t spare);
/* The run, which is no lone block's own, has these spare units now; before, those of its record. */
void spare_set(region_t *region, unit_t run, uint32_t spare);

/* So many spare units in a row, the first a multiple of `align_units`, which is 1 or as many: then the row is found if
 * there is one. If it is 1, no more than `looks` runs are looked at that may have no such row. `*run` is theirs; 0:
 * there are none. */
unit_t spare_find(const region_t *region, size_t units, size_t align_units, size_t looks, unit_t *run);

HAK_C_END
#endif
