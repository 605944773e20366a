/* See bell.h. SPDX-License-Identifier: MIT */
#include "bell.h"

#include "../os/os.h"

atomic32 bell_state;

/* Sequentially consistent, as in bell_sleep and bell_listen: the listener that hears this
 * one sees what was freed before it. */
HAK_COLD void bell_ring_now(void) {
  if (atomic32_exchange_seq(&bell_state, BELL_RUNG) == BELL_SLEEPER) os_futex_wake(&bell_state, 1);
}

bool bell_listen(void) { return atomic32_exchange_seq(&bell_state, BELL_LISTENED) == BELL_RUNG; }

bool bell_sleep(int milliseconds) {
  uint32_t state = BELL_LISTENED;
  if (atomic32_cas_acq_rel(&bell_state, &state, BELL_SLEEPER) || state == BELL_SLEEPER)
    os_futex_wait(&bell_state, BELL_SLEEPER, milliseconds);
  return atomic32_load_seq(&bell_state) == BELL_RUNG;
}

void bell_leave(void) { atomic32_store_seq(&bell_state, BELL_NOBODY); }
