/*
 * Nothing: --threads threads time calls that do nothing. What shows up is the
 * machine: its interrupts, other programs, and the host that it is a guest of. No
 * allocator's worst call can be believed to be better than this.
 *
 * SPDX-License-Identifier: MIT
 */
#include "scenarios.h"

static meter_t **meters;
static latency_step_t *between;

static void setup(bench_worker_t *worker) { meters[worker->index] = meter_new(); }

static uint64_t work(bench_worker_t *worker) {
  meter_t *meter = meters[worker->index];
  uint64_t ops = 0;
  do {
    for (unsigned i = 0; i < 64; i++) meter_end(meter, meter_begin(meter));
    if (between) between(meter, ops);
    ops += 64;
  } while (bench_more(worker, ops));
  return ops;
}

meter_t *latency_nothing_but(latency_step_t *step) {
  bench_free(bench_alloc(latency.min_bytes, bench_args.verify), bench_args.verify); /* who would have answered */
  between = step;
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

meter_t *latency_nothing(void) { return latency_nothing_but(NULL); }
