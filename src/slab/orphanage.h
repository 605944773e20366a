/*
 * The orphanage: slabs that are no thread's, of what threads that sleep do not use, of what those at work have
 * not used of late (spill.h), and of what many threads share.
 *
 * They belong to an owner in no stack of the pool, so no thread that begins ever gets it; there is one for each node on
 * which it was needed. A thread adopts slabs from there (adopt) or, where there are many threads, is lent blocks of
 * them, and has no slab. All of that is done behind the pool's gate. What holds for blocks that are lent:
 * - The thread ends: its magazines are flushed, and what was lent comes back with the rest. Lent blocks never stay in a
 *   heap that waits warm: batch_is_sound finds them another's. Blocks that stay in use are freed as any other's.
 * - A fork: a child's orphanage that another thread was at work in is lost, with the free blocks of its slabs; a
 *   block that was lent from them is out of use for ever when it is freed, as of any owner that was lost. The next
 *   thread that is lent to makes another one. If none was at work there, the child goes on with it.
 * - Memory runs out: without an orphanage, or a slab for it, or with the gate shut, nothing is lent, and the
 *   caller fills the magazine from its own slabs, adopted ones, and what it can regain. A slab that was made for the
 *   orphanage and did not get there is the thread's own.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ORPHANAGE_H
#define HAK_ORPHANAGE_H

#include "owner.h"

HAK_C_BEGIN

/* Hands slabs of an owner that is claimed (claim.h) to the orphanage, of which few blocks are in
 * use: its thread sleeps, and others may have use for the rest of them. Not where blocks
 * share lines of the cache, which would be two threads' then. Looks at a bounded number of
 * each class, and goes on there the next time. Returns whether there are classes left. There is an
 * orphanage (pool_make_orphanage), or nothing is handed over. The pool's gate is held. */
bool orphanage_disown(owner_t *owner);
/* The same for the calling thread's own owner, all of it, where there are other threads.
 * Enters the gate. */
void orphanage_disown_own(owner_t *owner);

/* Hands over slabs of a class, of the calling thread's owner, which lists one: all but the first that are half free at
 * least. Looks at a bounded number, and at none where somebody is behind the gate. */
void orphanage_disown_class(owner_t *owner, unsigned size_class);

/* Up to `wanted` blocks of the class, those with the lowest addresses, the lowest last, from slabs that
 * are the orphanage's and stay so: threads that have few blocks each share their pages. The owner is the
 * calling thread's. Returns how many; none where another thread is behind the gate, or there is no
 * memory. */
size_t orphanage_lend(owner_t *owner, unsigned size_class, void **blocks, size_t wanted);
/* Whether slabs with that number are such ones, from which the owner's thread is served. */
bool orphanage_has_id(const owner_t *owner, uint32_t id);
/* Whether a block of the class, whose word that is, is lent by them: to this thread or another one. */
HAK_INLINE bool orphanage_has_lent(const owner_t *owner, unsigned size_class, uint32_t word) {
  return size_class_is_shared(size_class) && word_kind(word) == size_class && orphanage_has_id(owner, word_owner(word));
}

/* The way home for lent blocks: the calling thread is the orphanage's owning thread from orphanage_enter to
 * orphanage_leave, which it calls if it got one. `owner` is its own, or one that it has claimed: then slabs that become
 * empty wait with the owner's for the end of the claim, as a claimer waits for no gate. What others put back while the
 * gate was shut is collected. NULL: another thread is behind the gate, or a fork has lost the orphanage. */
owner_t *orphanage_enter(owner_t *owner);
void orphanage_leave(owner_t *owner, owner_t *orphanage);

HAK_C_END
#endif
