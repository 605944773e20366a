/*
 * The bell: what the background thread (int/background.h) sleeps on. It is rung where
 * memory becomes free that nobody may ask for any more: at frees that reach a batch
 * boundary, and when a thread ends.
 *
 * A ring costs a look at one word, unless the listener has heard none since it looked last.
 * Invariant: who has rung wakes the listener, or keeps it from falling asleep, and it sees
 * what they have freed when it looks around next (tests/model/weak/src/protocols/bell.rs).
 * The look at the word is relaxed, and may be out of date by a moment: somebody may believe
 * that it has been rung already when the listener has just heard that. So the listener
 * looks around several times more before it falls asleep, some tenths of a second apart.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_BELL_H
#define HAK_BELL_H

#include "../base/base.h"

HAK_C_BEGIN

enum { BELL_NOBODY, BELL_LISTENED, BELL_RUNG, BELL_SLEEPER };
extern atomic32 bell_state; /* the futex word of a sleeper */

/* ---- Whoever has freed something ----------------------------------------------*/
void bell_ring_now(void);
HAK_INLINE void bell_ring(void) {
  uint32_t state = atomic32_load_relaxed(&bell_state);
  if (HAK_UNLIKELY(state == BELL_LISTENED || state == BELL_SLEEPER)) bell_ring_now();
}

/* Whether there is one that will look around. Relaxed: a hint. */
HAK_INLINE bool bell_has_listener(void) { return atomic32_load_relaxed(&bell_state) != BELL_NOBODY; }
/* Whether it has done so of late, and so will again: one that sleeps, or gets no processor, has not. Its own times
 * between two looks are some tenths of a second at most. Relaxed: a hint. */
bool bell_is_attended(uint64_t now_ms);

/* ---- The listener: one thread at a time ------------------------------------------*/

/* Listens from now on. Returns whether it has been rung since the last call. */
bool bell_listen(void);
/* Sleeps until it is rung, for `milliseconds` at the most or OS_FOR_EVER, unless it has been
 * since the last call of bell_listen. Returns whether it has: spurious returns are allowed. */
bool bell_sleep(int milliseconds);
/* Whether it has been rung since the last call of bell_listen. */
bool bell_is_rung(void);
/* Nobody listens any more; also in a forked child. */
void bell_leave(void);

HAK_C_END
#endif
