/* See rounds.h. SPDX-License-Identifier: MIT */
#include "rounds.h"

#include "../os/lock.h"
#include "../os/os.h"

/* Who is woken wakes as many, so that nobody wakes hundreds. Each of those that sleep when the last runner leaves is
 * woken, as none of them sleeps again. */
enum { WOKEN = 4 };

/* Relaxed: of what was freed in the same moment a round may miss some. */
static uint64_t begin(rounds_t *rounds) { return atomic64_add_relaxed(&rounds->begun, 1) + 1; }

/* Acquire: pairs with the release in rounds_end, so that what that round has given back is seen. */
static bool has_ended_since(const rounds_t *rounds, uint64_t before) {
  return atomic64_load_acquire(&rounds->ended) > before;
}

/* Acquire: pairs with the release in leave, so that the round which ended before is seen. */
static bool take_place(rounds_t *rounds, uint32_t of) {
  return atomic32_cas_acquire(&rounds->runner, &of, thread_number());
}
/* Release: pairs with the acquire in take_place. Somebody may have taken our place. */
static void leave(rounds_t *rounds) {
  uint32_t self = thread_number();
  if (atomic32_cas_acq_rel(&rounds->runner, &self, 0)) os_futex_wake(&rounds->runner, WOKEN);
}

uint64_t rounds_begin(rounds_t *rounds) {
  if (gates_are_held_by_this_fork() || atomic32_load_relaxed(&rounds->runner) == thread_number()) return begin(rounds);
  uint64_t before = atomic64_load_relaxed(&rounds->begun), since_ms = 0;
  for (uint32_t last = 0;;) {
    uint32_t runner = atomic32_load_relaxed(&rounds->runner);
    uint64_t now_ms = os_now_ms();
    if (runner != last) {
      if (last != 0) os_futex_wake(&rounds->runner, WOKEN);
      last = runner;
      since_ms = now_ms;
    }
    if (has_ended_since(rounds, before)) return 0;
    if ((runner == 0 || now_ms >= since_ms + ROUND_MOST_MS) && take_place(rounds, runner)) {
      if (!has_ended_since(rounds, before)) return begin(rounds);
      leave(rounds);
      return 0;
    }
    if (runner != 0) os_futex_wait(&rounds->runner, runner, ROUND_MOST_MS);
  }
}

void rounds_end(rounds_t *rounds, uint64_t round) {
  uint64_t ended = atomic64_load_relaxed(&rounds->ended);
  while (ended < round && !atomic64_cas_acq_rel(&rounds->ended, &ended, round)) continue;
  leave(rounds);
}

void rounds_after_fork(rounds_t *rounds) {
  if (atomic32_load_relaxed(&rounds->runner) != thread_number()) atomic32_store_relaxed(&rounds->runner, 0);
}
