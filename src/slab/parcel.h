/*
 * Parcels: remote frees on the way to the owner of the slabs.
 *
 * A thread collects what it frees of others' blocks as bits of words of bitmaps: entries
 * (owner.h). Entries for the same owner travel together: up to PARCEL_ENTRIES of them are
 * packed into a parcel, and one compare-and-swap posts it, on the owner's mail. The owner
 * takes its mail as a whole, and puts the bits where they belong. Until then nobody
 * touches a line of a slab's tables that others write.
 *
 *   freer:   P1  the parcel is filled             owner:  T1  chain = exchange(mail, 0), acquire
 *            P2  mail: compare-and-swap, release          T2  its parcels are emptied
 *
 * Invariant: a parcel is one thread's alone, or lies on one owner's mail, and is written
 * before P2 and read after T1. Parcels are pushed one by one and taken all at once, so it
 * does no harm that the head which P2 compares may be the same parcel again: what is to
 * lie below it is what was compared.
 *
 * The word of the mail counts its parcels. There are MAIL_MOST at the most; who finds so
 * many puts the bits into the slabs' remote bitmaps instead (remote.h), which have room
 * for all. tests/model/weak/src/protocols/mail.rs explores the protocol.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_PARCEL_H
#define HAK_PARCEL_H

#include "owner.h"

HAK_C_BEGIN

enum { PARCEL_ENTRIES = 15, MAIL_MOST = 512 };

/* Its memory is a parcel's for ever, so whoever follows the numbers without being told of
 * changes (observe/census.c) comes from parcel to parcel, if not to the right ones. */
typedef struct parcel {
  uint32_t next;  /* number of the next one on the mail, or of its thread's spare ones; 0: none */
  uint32_t owner; /* whose mail it is for, by number */
  uint32_t count; /* of its entries                  */
  uint32_t bytes; /* in their blocks                 */
  outbox_entry_t entries[PARCEL_ENTRIES];
} parcel_t;
static_assert(sizeof(parcel_t) == 256, "a header of the size of an entry");

/* Arrays of the metadata are aligned to lines, and none lies at its start. */
HAK_INLINE parcel_t *parcel_by_number(uint32_t number) {
  return number != 0 ? (parcel_t *)(the_map.metadata + (size_t)number * HAK_CACHE_LINE) : NULL;
}
HAK_INLINE uint32_t parcel_number(const parcel_t *parcel) {
  return (uint32_t)((size_t)((const char *)parcel - the_map.metadata) / HAK_CACHE_LINE);
}
/* The first of the mail whose word this is. */
HAK_INLINE uint32_t parcel_mail_first(uint64_t mail) { return (uint32_t)mail; }

/* An empty one; NULL when there is no memory. The calling thread is the owning one of
 * `self`, as below. */
parcel_t *parcel_take(owner_t *self);
/* It is needed no more. */
void parcel_give(owner_t *self, parcel_t *parcel);
/* Spare ones that are too many, out of `self`; and what becomes of them. For claims, in
 * which parcel_give keeps them: a claimer waits for no gate. */
uint32_t parcel_surplus(owner_t *self);
void parcel_give_surplus(uint32_t first);

/* P2. false: so many wait already. */
bool parcel_post(parcel_t *parcel);
/* The next one of our mail; NULL: there is none. */
parcel_t *parcel_receive(owner_t *self);

HAK_C_END
#endif
