/*
 * What lies free in slabs in use, and goes back to the system.
 *
 * The functions are the owning thread's, as all that look into free bitmaps.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_PURGE_H
#define HAK_PURGE_H

#include "../support/tally.h"
#include "owner.h"

HAK_C_BEGIN

/* Gives the pages that lie wholly in free blocks of slabs in use back to the
 * system, but for `*keep` bytes that are resident, which are taken off that. Returns the bytes. */
size_t purge_pages(owner_t *owner, size_t *keep);

/* The same for one slab. Returns about how many calls to the system that took, 1 at least. `*pieces`, unless it is
 * NULL: of rows of pages that are shorter than PURGE_PIECE_BYTES no more go than that, which are taken off; whether
 * some have stayed is slab.has_pieces. */
size_t purge_slab(owner_t *owner, unit_t slab, tally_t reason, uint16_t *pieces);
#define PURGE_PIECE_BYTES HAK_KIB(32)
/* Of slab.idle_looks, beside its number: rounds of surplus.c since a block was taken or put. */
enum { SLAB_ROUND = 0x08, SLAB_ROUNDS = 2 * SLAB_ROUND };
/* The number itself: what is below all that lies beside it. */
enum { SLAB_LOOKS = SLAB_ROUND - 1 };

/* The same for all slabs with half of their blocks free, and for fuller ones that no huge page is asked for, to the
 * number of `most` slabs and calls to the system together; the next call goes on where this one stopped. */
void purge_unused(owner_t *owner, size_t most);

/* Gives back what lies in slabs that nobody took a block from, or put one into, for
 * half a second or a whole one: empty slabs whole, and the free pages of those with half of
 * their blocks free, or without a huge page. A part at a time: makes about `most_calls` calls to the system at the
 * most; rounds over all slabs begin half a second apart. Returns how many slabs it worked on. */
size_t purge_idle_step(owner_t *owner, uint64_t now_ms, size_t most_calls);
enum { PURGE_STEP_CALLS = 64 }; /* some tenths of a millisecond */
/* The same for whoever has other things to do: to be called often, does a little every few
 * ms, no more than some calls for each millisecond that has passed. */
size_t purge_idle(owner_t *owner, uint64_t now_ms, size_t most_calls);
/* Whether there is more to do in its round than the owning thread soon will, as it comes by some times a second: it
 * would take half a minute for what a peak has left. Of any thread. */
HAK_INLINE bool purge_wants_help(const owner_t *owner) { return atomic8_load_relaxed(&owner->wants_help) != 0; }
/* Whether a round over the owner's slabs has begun and not ended. */
HAK_INLINE bool purge_is_under_way(const owner_t *owner) { return owner->next_look != 0 || owner->look_class != 0; }
/* The owner is claimed, and its round has ended. */
HAK_INLINE void purge_has_help(owner_t *owner) { atomic8_store_relaxed(&owner->wants_help, 0); }

HAK_C_END
#endif
