/* See bell.h. SPDX-License-Identifier: MIT */
#include "bell.h"

#include "../os/os.h"

atomic32 bell_state;
static atomic64 listened_ms; /* when bell_listen was called last */

/* Release: pairs with the acquire in bell_listen, so that the listener sees what was freed. */
HAK_COLD void bell_ring_now(void) {
  if (atomic32_exchange_release(&bell_state, BELL_RUNG) == BELL_SLEEPER) os_futex_wake(&bell_state, 1);
}

bool bell_is_attended(uint64_t now_ms) {
  enum { ATTENDED_MS = 1000 };
  return bell_has_listener() && now_ms < atomic64_load_relaxed(&listened_ms) + ATTENDED_MS;
}

bool bell_listen(void) {
  atomic64_store_relaxed(&listened_ms, os_now_ms());
  return atomic32_exchange_acquire(&bell_state, BELL_LISTENED) == BELL_RUNG;
}

/* Relaxed: what it was rung for, bell_listen acquires. */
bool bell_is_rung(void) { return atomic32_load_relaxed(&bell_state) == BELL_RUNG; }

bool bell_sleep(int milliseconds) {
  uint32_t state = BELL_LISTENED;
  if (atomic32_cas_relaxed(&bell_state, &state, BELL_SLEEPER) || state == BELL_SLEEPER)
    os_futex_wait(&bell_state, BELL_SLEEPER, milliseconds);
  return bell_is_rung();
}

void bell_leave(void) { atomic32_store_relaxed(&bell_state, BELL_NOBODY); }
