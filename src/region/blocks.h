/*
 * A region's blocks: slabs, whose free blocks are bits of the bitmaps that other slabs have, too, and
 * lone blocks of whole units. No block is ever read or written here.
 *
 * A slab is in the list of its class as long as it has a free block. Of a class, one slab stays
 * that is empty. A free bit that is set again is a double free, and is reported when
 * the thread leaves the region.
 *
 * The functions are for the thread that has entered the region.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_BLOCKS_H
#define HAK_BLOCKS_H

#include "registry.h"

HAK_C_BEGIN

/* Takes up to `wanted` free blocks of the slabs that there are, and of a new one if its units are
 * there. Returns how many. */
size_t blocks_take(region_t *region, unsigned size_class, void **blocks, size_t wanted);
/* Puts a block back; an address that is no block's of the class, or is free, is reported. */
void blocks_put(region_t *region, unsigned size_class, const void *block);
/* Gives empty slabs' units back, and the run that is spare. */
void blocks_release_empty(region_t *region);

/* Makes a lone block of units that were cut, or of a run of its own. */
void blocks_make_lone(region_t *region, unit_t first, size_t units);
/* false: there is none that starts there. */
bool blocks_free_lone(region_t *region, unit_t first);
/* A lone block is no block for others until who has claimed it frees it. false: there is none. */
bool blocks_claim_lone(region_t *region, unit_t first);
/* Does nothing if it is not there: somebody has destroyed its region meanwhile, by mistake, and this one may have its
 * number. */
void blocks_free_claimed(region_t *region, unit_t first);

/* Aborts through HAK_CHECK if an invariant is broken; for all regions. Nothing may run meanwhile. */
void blocks_check_all(void);

HAK_C_END
#endif
