/*
 * A region's units: runs from the arena, cut into what slabs and lone blocks need.
 *
 * A run of a region is longer the more the region has, up to 32 units, so that a large one is
 * given back in few steps; where there is no room for that, it is as short as serves. A run that only
 * spare units are left of goes back to the arena, but for one that is kept. Blocks of more than 1 MiB have
 * runs of their own.
 *
 * The arena is asked for a run, and gets it back, while nobody is inside the region: it may have to
 * wait for the system. What is on its way counts against the region's limit.
 *
 * The functions are for the thread that has entered the region, but for those that say otherwise.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_UNITS_H
#define HAK_UNITS_H

#include "registry.h"

HAK_C_BEGIN

enum { LONE_UNITS_MOST_IN_A_RUN = 16 };

typedef enum {
  UNITS_FETCHED,
  UNITS_NO_MEMORY,
  UNITS_AT_LIMIT,
  UNITS_AWAITED, /* at the limit with what other threads are fetching, which may leave room when it has come */
  UNITS_REGION_GONE
} fetched_t;

/* Of a lone block. */
HAK_INLINE size_t units_for_lone(size_t bytes) { return max_size(map_units_for(bytes), 1); }

/* Leaves the region, and then gives runs to the arena that became free meanwhile. */
void units_leave(region_t *region);

/* So many spare units in a row, the first a multiple of `align_units`, which is 1 or as many, of a run that is
 * there; 0 if there is none. `is_thorough`: however many runs have to be looked at, of which there are some otherwise.
 * Their words are the caller's to write. */
unit_t units_cut(region_t *region, size_t units, size_t align_units, bool is_thorough);
/* Units that were cut and are spare again. */
void units_return(region_t *region, unit_t first, size_t units);
/* Those of a lone block from its first `units` on. Its record is the caller's to write. */
void units_return_tail(region_t *region, unit_t first, size_t units);
/* Gives the run to the arena that is kept though all of it is spare. */
void units_drop_spare(region_t *region);

/* Nobody is inside: fetches a run, in which `units` can be cut. There is no memory for a region that a fork has
 * torn: nothing can be entered in its books. */
fetched_t units_fetch(uint64_t handle, size_t units);
/* The same for a run that will be one lone block, which the caller makes of it: then it is
 * inside the region. */
fetched_t units_fetch_whole(uint64_t handle, size_t units, size_t align_units, unit_t *first, bool *is_zero,
                            region_t **entered);
/* In a forked child: what threads were fetching that it has not never comes. */
void units_forget_coming(region_t *region);
/* Makes such a run longer in place, if the limit and what lies behind it allow it. The arena is waited for inside the
 * region. */
bool units_extend_whole(region_t *region, unit_t first, size_t new_units);
/* Makes it shorter; what is cut off goes to the arena when the thread leaves. */
void units_cut_whole(region_t *region, unit_t first, size_t units);
/* A lone block's run goes. */
void units_return_whole(region_t *region, unit_t first);

/* Nobody is inside, and it is no region's any more: gives all these runs to the arena. Returns the units. */
size_t units_give_all(unit_t runs);

HAK_C_END
#endif
