/* See claim.h. SPDX-License-Identifier: MIT */
#include "claim.h"

#include "../os/os.h"
#include "parcel.h"
#include "slab.h"

claimed_t claim_begin(owner_t *owner) {
  HAK_ASSERT(!owner->puts_aside && owner->put_aside == 0);
  /* It would be in vain; and a busy thread should not be interrupted for it. */
  if (atomic32_load_relaxed(&owner->busy) != 0) return CLAIM_BUSY;
  lock_acquire(&owner->claim);                            /* C1; nobody has it: the pool's gate is held */
  os_fenced_t fenced = os_fence_thread(owner->thread_id); /* C2 */
  if (fenced == OS_FENCED && atomic32_load_acquire(&owner->busy) == 0) { /* C3 */
    owner->puts_aside = true;
    /* A forked child that has this has what we change from here on, or a part of it:
     * compiler order is enough, as in owner_enter. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return CLAIMED;
  }
  lock_release(&owner->claim);
  return fenced == OS_FENCE_REFUSED ? CLAIM_REFUSED : fenced == OS_FENCE_RUNS ? CLAIM_RUNS : CLAIM_BUSY;
}

void claim_end(owner_t *owner) {
  unit_t aside = owner->put_aside;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  owner->put_aside = 0;
  uint32_t parcels = parcel_surplus(owner);
  owner->puts_aside = false;
  lock_release(&owner->claim); /* C4 */
  slab_give_aside(aside);
  parcel_give_surplus(parcels);
}

void claim_await(owner_t *owner) { lock_await(&owner->claim); }
