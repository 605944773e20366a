/*
 * Exchange ring: threads share a table of slots. Each step allocates a block of
 * 16 B to 16 KiB, swaps it into a slot and frees what was there, which another
 * thread may have allocated. With two threads about half of all frees are
 * remote, at every size at once.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <stdatomic.h>

static uint64_t threads = 2, slots = 1024, min_bytes = 16, max_bytes = 16 * BENCH_KIB;

static const bench_option_t options[] = {
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "that share the slots"},
    {"slots", BENCH_NUMBER, &slots, 1, 1 << 24, NULL, "in the ring"},
    {"min", BENCH_BYTES, &min_bytes, 16, 4 * BENCH_MIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, 4 * BENCH_MIB, NULL, "largest block"},
    {0},
};

enum { SIZES = 4096 };

static _Atomic(void *) *ring;

static void setup(bench_worker_t *worker) {
  uint32_t *sizes = worker->state = bench_pages(SIZES * sizeof *sizes);
  for (unsigned i = 0; i < SIZES; i++) sizes[i] = (uint32_t)bench_log_between(&worker->rng, min_bytes, max_bytes);
}

BENCH_INLINE uint64_t steps(bench_worker_t *worker, bool verify) {
  const uint32_t *sizes = worker->state;
  uint64_t ops = 0;
  do {
    for (unsigned i = 0; i < 1024; i++) {
      uint64_t random = bench_random(&worker->rng);
      void *fresh = bench_alloc(sizes[random % SIZES], verify);
      /* Acquire: the content that the other thread wrote; release: ours. */
      void *old = atomic_exchange_explicit(&ring[((random >> 32) * slots) >> 32], fresh, memory_order_acq_rel);
      if (old) bench_free(old, verify);
    }
    ops += 2048;
  } while (bench_more(worker, ops));
  return ops;
}

static uint64_t work(bench_worker_t *worker) { return bench_args.verify ? steps(worker, true) : steps(worker, false); }

int main(int argc, char **argv) {
  bench_start(argc, argv, "exchange_ring", 0.5, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  ring = bench_pages(slots * sizeof *ring);
  bench_plan_t plan = {.setup = setup, .work = work};
  bench_outcome_t outcome = bench_run(&plan, (unsigned)threads);
  for (uint64_t i = 0; i < slots; i++)
    if (ring[i]) bench_free(ring[i], bench_args.verify);
  bench_put_outcome(outcome);
  bench_finish("ops_per_s");
}
