/* See bell.h. SPDX-License-Identifier: MIT */
#include "bell.h"

#include "../os/os.h"

atomic32 bell_state;

/* Release: pairs with the acquire in bell_listen, so that the listener sees what was freed. */
HAK_COLD void bell_ring_now(void) {
  if (atomic32_exchange_release(&bell_state, BELL_RUNG) == BELL_SLEEPER) os_futex_wake(&bell_state, 1);
}

bool bell_listen(void) { return atomic32_exchange_acquire(&bell_state, BELL_LISTENED) == BELL_RUNG; }

bool bell_sleep(int milliseconds) {
  uint32_t state = BELL_LISTENED;
  if (atomic32_cas_relaxed(&bell_state, &state, BELL_SLEEPER) || state == BELL_SLEEPER)
    os_futex_wait(&bell_state, BELL_SLEEPER, milliseconds);
  return atomic32_load_relaxed(&bell_state) == BELL_RUNG; /* what it was rung for, bell_listen acquires */
}

void bell_leave(void) { atomic32_store_relaxed(&bell_state, BELL_NOBODY); }
