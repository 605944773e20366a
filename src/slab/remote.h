/*
 * Remote frees: a block comes back to a slab of another owner.
 *
 * The freeing thread collects bits, and sends words of them to the owner in parcels
 * (parcel.h), which the owner empties into its free bitmaps. What follows is the way of
 * a word for which there is no parcel, or no room for one more on the owner's mail, or
 * whose slab has become another's on the way; and of one that would be alone in its parcel, as it fills that
 * or as no other has come for the same owner, or that goes alone at once, as packing has been in vain lately.
 *
 * The freeing thread puts the bits into the slab's remote bitmap and, if
 * the slab is not announced yet, announces it: pushes the slab on its owner's
 * pending stack. One compare-and-swap a slab, not a block. The owner takes the
 * whole stack, and for each slab first clears the announcement, then fetches the
 * bits. Neither reads or writes a line that the other needs on its fast path.
 *
 *   freer:   W1 remote_bits |= bits      owner:  R1 announced = 0
 *            R2 if !announced:                   R2 bits = exchange(remote_bits, 0)
 *                 exchange(announced, 1)
 *                 push on pending
 *
 * Invariant: whenever a slab's remote bits are not zero, the slab is on, or a
 * thread is about to push it on, some owner's pending stack, or its owner is
 * between R1 and the end of R2. All four are sequentially consistent: were they
 * not, the freer could miss R1 and the owner W1, and the block would be lost.
 *
 * A slab can change hands, or be gone, between a freer's look at its word and
 * its push. Therefore `announced` and `pending_next` belong to the unit, not to
 * the slab, and outlive it; and whoever takes a unit from a stack looks, after
 * R1, whose it is: another's slab is announced to that owner, no slab at all is
 * dropped. Whoever made it a slab did so before any freer could have found it
 * announced, so R1 comes before or the look finds it.
 *
 * A block that is freed twice, by its owner's thread and by another, may be the last
 * of a slab: the freer has seen the slab, and sets the bit when it is gone already.
 * Such a bit must not become one of the next slab there. The owner writes the word and
 * then looks at the bits, the freer sets the bit and then looks at the word, all four
 * sequentially consistent: one of the two sees it, and reports it.
 *
 * tests/model/remote_free.pml explores this exhaustively, tests/model/weak under weak
 * memory (docs/weak_memory.md).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_REMOTE_H
#define HAK_REMOTE_H

#include "owner.h"

HAK_C_BEGIN

/* Frees a block whose word is `word`, a class of several blocks and another
 * owner. It waits in `self`'s outbox for others of the same word, unless that has been in vain lately. Reports an
 * address that starts no block, and a block that waits in the outbox already. */
void remote_free(owner_t *self, void *address, uint32_t word);
/* The same of `count` blocks of that class, which are `bits` of one word of a slab's bitmap. The slab is
 * another owner's, or was when somebody looked last. */
void remote_free_row(owner_t *self, unsigned size_class, unit_t slab, unsigned word, uint64_t bits, size_t count);
/* As remote_free where that only adds a bit to what the outbox holds of the same word already, as most do, or
 * sends the block alone; else, and where the owner is claimed (claim.h), does nothing and returns false. The
 * owner need not be busy: it is for a moment. Settles errors. */
bool remote_free_quickly(owner_t *self, void *address, uint32_t word);
/* As remote_free at once, without an outbox: for a thread that can have no heap. */
void remote_free_directly(void *address, uint32_t word);
void remote_free_row_directly(unsigned size_class, unit_t slab, unsigned word, uint64_t bits);
/* Whether many of the blocks that have come since the outbox was sent as a whole found another word's bits in their
 * place: then few go home together. */
enum { EVICTIONS_MANY = 128 };
HAK_INLINE bool remote_is_crowded(const owner_t *self) { return self->evictions >= EVICTIONS_MANY; }
/* Sends what the outbox holds. Of a claimed owner's, entry by entry, as a claimer waits for no gate. */
void remote_flush(owner_t *self);
/* Only what is in parcels already: for a claimed owner whose thread may go on to fill the outbox. */
void remote_post(owner_t *self);
/* In blocks that the outbox and its parcels hold. */
size_t remote_outbox_bytes(const owner_t *self);

/* Whether other threads have freed into our slabs, or sent us what they have. */
HAK_INLINE bool remote_has_pending(const owner_t *self) {
  return self->pending_taken != 0 || atomic32_load_relaxed(&self->pending.head) != 0 || self->mail_taken != 0 ||
         atomic64_load_relaxed(&self->pending.mail) != 0;
}
/* Collects at most `most` parcels, and slabs' remote frees. Returns of how many. */
size_t remote_collect(owner_t *self, size_t most);

HAK_C_END
#endif
