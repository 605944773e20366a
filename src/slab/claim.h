/*
 * Claims: work on an owner whose thread is elsewhere.
 *
 * A thread that sleeps, or whose magazines serve it alone, reaches no batch boundary:
 * what others free into its slabs waits, and what lies free in them stays resident;
 * one that is there a few times a second gives back little of it.
 * Another thread may do that work while the owning thread is outside the allocator's
 * slow paths, and keeps it out meanwhile.
 *
 *   owning thread:  E1  busy = busy + 1              claimer:  C1  claim taken
 *                   E2  if claim is taken, wait                C2  os_fence_thread
 *                   …   work                                   C3  if busy != 0, let go
 *                   E3  busy = busy - 1, release               …   work
 *                                                              C4  claim let go, release
 *
 * Invariant: of the owning thread between E2 and E3 and a claimer between C3 and C4 at
 * most one is there. Either must see the other's first step. The owner has no more
 * than compiler order between E1 and E2, and pays two loads and a branch for claims; the
 * system makes up for it: at some moment between the begin and the end of C2 the owner
 * carries out a fence, or is off its processor, which is one, too. If that comes before
 * E2, it sees C1; if it comes after E1, C3 sees that. (The asymmetric Dekker of
 * biased locks; docs/design.md.) C3 acquires what E3 releases, E2 what C4 releases.
 * tests/model/weak/src/protocols/claim.rs explores it.
 *
 * The claimer holds the pool's gate: so there is one claim at a time, the owner stays
 * attached to its thread, and a fork waits for the end of the claim. While it works
 * the claimer waits for no other gate: code of the owning thread that a signal handler
 * interrupted may hold one, and the handler wait for the claim. Slabs that become empty are put
 * aside (slab_release) and given to the arena after the claim.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_CLAIM_H
#define HAK_CLAIM_H

#include "owner.h"

HAK_C_BEGIN

/* Claims an owner that is attached to another thread. The pool's gate is held. */
typedef enum {
  CLAIM_REFUSED, /* the system has no fence for that thread, or may not be asked for it */
  CLAIM_BUSY,    /* the thread is in the allocator                                      */
  CLAIM_RUNS,    /* it runs, where it has to be seen asleep                             */
  CLAIMED,
} claimed_t;
claimed_t claim_begin(owner_t *owner);
/* Lets go, after CLAIMED. The slabs that were put aside go to the arena. */
void claim_end(owner_t *owner);
/* Whether the owning thread waits, and has done so for longer than a spin: for work that
 * may take long, to let go. */
HAK_INLINE bool claim_is_awaited(const owner_t *owner) {
  return (atomic32_load_relaxed(&owner->claim.state) & LOCK_CONTENDED) != 0;
}

/* ---- The owning thread's side --------------------------------------------------*/

/* E2, after E1. Acquire: pairs with C4. */
HAK_INLINE bool claim_is_taken(const owner_t *owner) { return atomic32_load_acquire(&owner->claim.state) != 0; }
/* Returns when nobody claims the owner. */
void claim_await(owner_t *owner);

HAK_C_END
#endif
