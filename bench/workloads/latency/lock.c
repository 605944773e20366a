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

static meter_t **meters;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void setup(bench_worker_t *worker) { meters[worker->index] = meter_new(); }

static void hold(void) {
  pthread_mutex_lock(&lock);
  uint64_t begin = meter_wall();
  while (meter_wall() - begin < HELD_NS) {}
  pthread_mutex_unlock(&lock);
}

static uint64_t work(bench_worker_t *worker) {
  meter_t *meter = meters[worker->index];
  uint64_t ops = 0;
  do {
    for (unsigned i = 0; i < 64; i++) meter_end(meter, meter_begin(meter));
    if (ops % EVERY == 0) {
      uint64_t begin = meter_begin(meter);
      hold();
      meter_end(meter, begin);
    }
    ops += 64;
  } while (bench_more(worker, ops));
  return ops;
}

meter_t *latency_lock(void) {
  bench_free(bench_alloc(latency.min_bytes, bench_args.verify), bench_args.verify); /* who would have answered */
  meters = bench_pages(latency.threads * sizeof *meters);
  bench_plan_t plan = {.setup = setup, .work = work};
  bench_put_outcome(bench_run(&plan, (unsigned)latency.threads));
  meter_t *sum = meter_new();
  for (uint64_t i = 0; i < latency.threads; i++) {
    meter_add(sum, meters[i]);
    meter_drop(meters[i]);
  }
  bench_pages_drop(meters, latency.threads * sizeof *meters);
  return sum;
}
