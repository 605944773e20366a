/*
 * Large churn: --threads threads keep --slots large blocks each and replace one
 * after the other at random; sizes are spread evenly over their logarithm. The
 * figure is the threads' processor time per operation, in and out of the calls,
 * so that the page faults of memory that was given back too early count, too.
 *
 * SPDX-License-Identifier: MIT
 */
#include "scenarios.h"

enum { SIZES = 4096 }; /* drawn beforehand; a power of two */

typedef struct churner {
  meter_t *meter;
  void **slots;
  uint64_t processor; /* nanoseconds of the timed section */
  uint64_t ops;
} churner_t;

static churner_t *churners;
static size_t *sizes;

static void setup(bench_worker_t *worker) {
  churner_t *churner = &churners[worker->index];
  churner->meter = meter_new();
  churner->slots = bench_pages(latency.slots * sizeof(void *));
  for (uint64_t i = 0; i < latency.slots; i++)
    churner->slots[i] = meter_alloc(churner->meter, sizes[bench_below(&worker->rng, SIZES)]);
}

static uint64_t work(bench_worker_t *worker) {
  churner_t *churner = &churners[worker->index];
  meter_t *meter = churner->meter;
  meter_clear(meter);
  uint64_t start = bench_clock(CLOCK_THREAD_CPUTIME_ID), ops = 0;
  do {
    for (unsigned i = 0; i < 16; i++) {
      void **slot = &churner->slots[bench_below(&worker->rng, latency.slots)];
      meter_free(meter, *slot);
      *slot = meter_alloc(meter, sizes[bench_below(&worker->rng, SIZES)]);
    }
    ops += 32;
  } while (bench_more(worker, ops));
  churner->processor = bench_clock(CLOCK_THREAD_CPUTIME_ID) - start;
  churner->ops = ops;
  return ops;
}

static void teardown(bench_worker_t *worker) {
  churner_t *churner = &churners[worker->index];
  for (uint64_t i = 0; i < latency.slots; i++) bench_free(churner->slots[i], bench_args.verify);
  bench_pages_drop(churner->slots, latency.slots * sizeof(void *));
}

meter_t *latency_large_churn(void) {
  sizes = bench_pages(SIZES * sizeof *sizes);
  churners = bench_pages(latency.threads * sizeof *churners);
  bench_rng_t rng = bench_rng(latency.threads);
  for (unsigned i = 0; i < SIZES; i++) sizes[i] = bench_log_between(&rng, latency.min_bytes, latency.max_bytes);

  bench_plan_t plan = {.setup = setup, .work = work, .teardown = teardown};
  bench_put_outcome(bench_run(&plan, (unsigned)latency.threads));

  meter_t *sum = meter_new();
  uint64_t processor = 0, ops = 0;
  for (uint64_t i = 0; i < latency.threads; i++) {
    processor += churners[i].processor;
    ops += churners[i].ops;
    meter_add(sum, churners[i].meter);
    meter_drop(churners[i].meter);
  }
  bench_put_real("processor_ns_per_op", (double)processor / (double)ops);
  bench_pages_drop(churners, latency.threads * sizeof *churners);
  bench_pages_drop(sizes, SIZES * sizeof *sizes);
  return sum;
}
