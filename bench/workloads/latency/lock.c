/*
 * Lock: --threads threads time calls that do nothing, as in `nothing`, but one of
 * EVERY takes a lock that all of them share, and holds it for HELD_NS. That is what
 * 256 threads do with the gate of an arena when they replace large blocks. Whoever
 * loses its processor while it has the lock lets others wait until it is its turn
 * again. No allocator with a lock that is taken as often can be believed to be better
 * than this.
 *
 * SPDX-License-Identifier: MIT
 */
#include "scenarios.h"

#include <pthread.h>

enum { EVERY = 8192, HELD_NS = 1500 }; /* some 9000 times in two seconds of two processors */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void hold(void) {
  pthread_mutex_lock(&lock);
  uint64_t begin = meter_wall();
  while (meter_wall() - begin < HELD_NS) {}
  pthread_mutex_unlock(&lock);
}

static void hold_now_and_then(meter_t *meter, uint64_t ops) {
  if (ops % EVERY != 0) return;
  uint64_t begin = meter_begin(meter);
  hold();
  meter_end(meter, begin);
}

meter_t *latency_lock(void) { return latency_nothing_but(hold_now_and_then); }
