/*
 * Random mixed: a table of slots; each step picks a slot at random and frees
 * what it holds or, when it is empty, puts a block of random size there. About
 * half the slots are live at any time. The main row of the original reports.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

static uint64_t slots = 256, min_bytes = 16, max_bytes = 1024, threads = 1;

static const bench_option_t options[] = {
    {"slots", BENCH_NUMBER, &slots, 1, 1 << 24, NULL, "places for blocks, per thread"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_GIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_GIB, NULL, "largest block"},
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "each with a table of its own"},
    {0},
};

static void setup(bench_worker_t *worker) { worker->state = bench_pages(slots * sizeof(void *)); }

BENCH_INLINE uint64_t steps(bench_worker_t *worker, bool verify) {
  void **table = worker->state;
  uint64_t ops = 0;
  do {
    for (unsigned i = 0; i < 4096; i++) {
      void **slot = &table[bench_below(&worker->rng, slots)];
      if (*slot) {
        bench_free(*slot, verify);
        *slot = NULL;
      } else {
        *slot = bench_alloc(bench_between(&worker->rng, min_bytes, max_bytes), verify);
      }
    }
    ops += 4096;
  } while (bench_more(worker, ops));
  return ops;
}

static uint64_t work(bench_worker_t *worker) { return bench_args.verify ? steps(worker, true) : steps(worker, false); }

static void teardown(bench_worker_t *worker) {
  void **table = worker->state;
  for (uint64_t i = 0; i < slots; i++)
    if (table[i]) bench_free(table[i], bench_args.verify);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "random_mixed", 0.5, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  bench_plan_t plan = {.setup = setup, .work = work, .teardown = teardown};
  bench_put_outcome(bench_run(&plan, (unsigned)threads));
  bench_finish("ops_per_s");
}
