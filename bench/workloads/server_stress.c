/*
 * Server stress: generations of threads. Each thread of a generation serves a
 * number of requests with its own live objects and sessions, leaves some objects
 * behind in a shared table (a session that outlives its thread), frees what it
 * finds there from earlier generations, and ends. Sizes are mostly small, with
 * some of many KiB.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <stdatomic.h>

static uint64_t threads = 8, requests = 400, survivors = 4096;

static const bench_option_t options[] = {
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "of a generation"},
    {"requests", BENCH_NUMBER, &requests, 1, 1 << 24, NULL, "that a thread serves before it ends"},
    {"survivors", BENCH_NUMBER, &survivors, 1, 1 << 24, NULL, "objects that outlive their thread"},
    {0},
};

enum { OBJECTS = 16, LOCAL = 64 }; /* of a request; that a thread keeps over requests */

static _Atomic(void *) *shared;
static _Atomic uint64_t total_ops; /* relaxed: read after the threads are joined */

static size_t object_size(uint64_t random) {
  uint64_t kind = random % 64, spread = random >> 32;
  if (kind < 48) return 16 + spread % 240;
  if (kind < 60) return 256 + spread % 1792;
  if (kind < 63) return 2048 + spread % (14 * 1024);
  return 16 * 1024 + spread % (48 * 1024);
}

BENCH_INLINE uint64_t serve(bench_rng_t *rng, bool verify) {
  void *local[LOCAL] = {0};
  uint64_t ops = 0;
  for (uint64_t request = 0; request < requests; request++) {
    void *objects[OBJECTS];
    for (unsigned i = 0; i < OBJECTS; i++) objects[i] = bench_alloc(object_size(bench_random(rng)), verify);
    ops += 2 * OBJECTS;

    /* One object of a request stays with the thread, one of another outlives it. */
    void **keep = &local[bench_below(rng, LOCAL)];
    void *old = *keep;
    *keep = objects[0];
    objects[0] = old;
    _Atomic(void *) *slot = &shared[bench_below(rng, survivors)];
    objects[1] = atomic_exchange_explicit(slot, objects[1], memory_order_acq_rel); /* content of both goes along */

    for (unsigned i = 0; i < OBJECTS; i++)
      if (objects[i]) bench_free(objects[i], verify);
  }
  for (unsigned i = 0; i < LOCAL; i++)
    if (local[i]) bench_free(local[i], verify);
  return ops;
}

static void *server_thread(void *argument) {
  bench_rng_t rng = bench_rng((uintptr_t)argument);
  uint64_t ops = bench_args.verify ? serve(&rng, true) : serve(&rng, false);
  atomic_fetch_add_explicit(&total_ops, ops, memory_order_relaxed);
  return NULL;
}

static uint64_t generation(uint64_t number) {
  uintptr_t ids[1024];
  for (uint64_t i = 0; i < threads; i++) ids[i] = bench_thread_start(server_thread, (void *)(number * threads + i));
  for (uint64_t i = 0; i < threads; i++) bench_thread_join(ids[i]);
  return atomic_load(&total_ops);
}

/* Generations until the time or the operations are over. */
static bench_outcome_t section(uint64_t *number, double seconds, uint64_t ops) {
  bench_outcome_t outcome = {0, 0};
  atomic_store(&total_ops, 0);
  double start = bench_now();
  do {
    outcome.ops = generation((*number)++);
    outcome.seconds = bench_now() - start;
  } while (ops ? outcome.ops < ops * threads : outcome.seconds < seconds);
  return outcome;
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "server_stress", 0.6, options);
  shared = bench_pages(survivors * sizeof *shared);
  uint64_t number = 0;
  section(&number, bench_warmup_seconds(), bench_warmup_ops());
  uint64_t first = number;
  bench_outcome_t outcome = section(&number, bench_args.seconds, bench_args.ops);

  for (uint64_t i = 0; i < survivors; i++)
    if (shared[i]) bench_free(shared[i], bench_args.verify);
  bench_put_outcome(outcome);
  bench_put_number("generations", number - first);
  bench_finish("ops_per_s");
}
