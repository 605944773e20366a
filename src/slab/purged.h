/*
 * Books of pages that lie free in slabs and have been given back.
 *
 * A slab's marked pages were given back since a block was last taken from it: each unit's record has a bit for
 * each of its pages, the first one their number, and the owner the sum in bytes. The last page may lie in the
 * slab's tail, too, and counts whole. When blocks are taken all marks go, since pages may be there again: so
 * the sum is below the truth. A unit that is in no slab has no marks. What is marked is not charged
 * (arena/charge.h).
 *
 * The functions are the owning thread's.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_PURGED_H
#define HAK_PURGED_H

#include "owner.h"

HAK_C_BEGIN

/* Of slab.idle_looks, beside its number: no block was taken or put since all pages in free blocks had gone. */
enum { SLAB_PURGED = 0x40 };

/* Offsets are multiples of a page, from the slab's first byte. */
bool purged_is_marked(unit_t slab, size_t offset);
void purged_mark(owner_t *owner, unit_t slab, size_t from, size_t to);

/* Blocks are about to be taken from a slab with marks, which go. false: a hard limit does not allow that, and
 * nothing has changed. `makes_room`: what is dirty goes before that is said. */
HAK_COLD bool purged_may_be_taken(owner_t *owner, unit_t slab, bool makes_room);
/* The slab is another owner's now. */
void purged_note_moved(owner_t *from, owner_t *to, unit_t slab);
/* A slab with marks is one no more, and is charged as a whole again: returns 0. Where a hard limit does not allow that,
 * the rest of its pages goes as well, so that it reads as zero: returns how many of its bytes are not charged. Waits
 * for no gate. */
HAK_COLD size_t purged_note_released(owner_t *owner, unit_t slab);

HAK_C_END
#endif
