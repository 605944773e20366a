/*
 * Spill: what lies free in the slabs of a thread at work, and others have more use for.
 *
 * A thread whose sizes change has, of each size that it ever used, as much free in its slabs as it once had out
 * of them; and so has every other thread. What is used again within a second is not given back to the system,
 * so all of that stays, though each thread uses a few sizes at a time. So where much lies free, slabs of a
 * class that the thread has not used for a while go to the orphanage, all but one, and whoever needs one of the
 * class adopts it from there (orphanage.h).
 *
 * "A while" is counted in batch boundaries, not in time: a thread that waits for a processor does nothing
 * meanwhile, and loses nothing. A hand goes round the classes (the clock algorithm), and leaves a mark at the
 * first slab of each, of which refills take their blocks. Where it finds that again, nothing was taken or put
 * there meanwhile. Classes that come and go faster than the hand does lose no slab.
 *
 * The functions are the owning thread's.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SPILL_H
#define HAK_SPILL_H

#include "../support/profile.h"
#include "owner.h"

HAK_C_BEGIN

/* What may lie free and resident in a thread's slabs in any case, beside an eighth of what is out of them. */
#define SPILL_LEAST_BYTES HAK_MIB(1)
/* So few have little to hand each other, beside what lies in their magazines. */
enum { SPILL_FEW_THREADS = 4 };

/* A free has come to the batch boundary, in a process in which others may need slabs. May enter the pool's gate. */
void spill_now(owner_t *owner);
HAK_INLINE void spill_some(owner_t *owner) {
  size_t out_bytes = (size_t)(owner->slab_bytes - owner->free_bytes);
  int64_t least = (int64_t)profile_keep(SPILL_LEAST_BYTES + out_bytes / 8);
  if (HAK_UNLIKELY(owner->free_bytes - owner->purged_bytes > least)) spill_now(owner);
}

HAK_C_END
#endif
