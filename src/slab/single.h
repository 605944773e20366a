/*
 * Single blocks: of a large class, whose block fills its slab.
 *
 * Such a slab is in no list, so whoever frees its block may take it over. It is the page map's word that says
 * so: who makes a live block his own, frees it, or changes its run, takes the word by compare-and-swap, and one alone
 * gets it. A free run waits on the shelf (arena/shelf.h) before the arena has it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SINGLE_H
#define HAK_SINGLE_H

#include "owner.h"

HAK_C_BEGIN

/* A fresh block of a single class; NULL if there is no memory. `is_zero`, if not NULL:
 * whether it reads as zero. */
void *slab_make_single(owner_t *owner, unsigned size_class, bool *is_zero);
/* Makes a live single block the owner's own. false: the word is not `word` any
 * more, another thread freed the block first. */
bool slab_take_over_single(owner_t *owner, unit_t slab, uint32_t word);

/* Frees a live single block. `owner`: whose it is, or NULL for a thread that can have no
 * heap. false: as above. */
bool slab_free_single(owner_t *owner, unit_t slab, uint32_t word);

/* Claims a single block, whose word is `word`, while its run is changed: a thread that
 * frees it meanwhile, by mistake, finds no block, and does not give the run back. false:
 * as above. A run whose memory is gone stays claimed, and so out of use. */
bool slab_claim_single(unit_t slab, uint32_t word);
/* It is a block again, with that word. */
void slab_unclaim_single(unit_t slab, uint32_t word);

/* Grows a single block, whose word is `word`, in place to the size of another
 * single class. The caller holds the block. */
bool slab_extend_single(unit_t slab, uint32_t word, unsigned new_class);
/* Shrinks one in place; the tail goes to the arena. */
bool slab_cut_single(unit_t slab, uint32_t word, unsigned new_class);

HAK_C_END
#endif
