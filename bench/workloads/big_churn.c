/*
 * Big churn: blocks of 1–25 MiB, some kept, some dropped, every page used. What
 * is measured is what an allocator does with dropped pages: one that gives them
 * back at once pays for them again, one that never does stays large.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

static uint64_t slots = 8, min_bytes = BENCH_MIB, max_bytes = 25 * BENCH_MIB, threads = 1;

static const bench_option_t options[] = {
    {"slots", BENCH_NUMBER, &slots, 1, 1024, NULL, "kept blocks, per thread"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_GIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_GIB, NULL, "largest block"},
    {"threads", BENCH_NUMBER, &threads, 1, 64, NULL, "each on its own"},
    {0},
};

static void *new_block(bench_worker_t *worker) {
  size_t bytes = bench_between(&worker->rng, min_bytes, max_bytes);
  void *block = bench_alloc(bytes, bench_args.verify);
  if (!bench_args.verify) bench_touch_pages(block, bytes);
  return block;
}

static void setup(bench_worker_t *worker) {
  void **table = worker->state = bench_pages(slots * sizeof(void *));
  for (uint64_t i = 0; i < slots; i++) table[i] = new_block(worker);
}

static uint64_t work(bench_worker_t *worker) {
  void **table = worker->state;
  uint64_t ops = 0;
  do {
    void **slot = &table[bench_below(&worker->rng, slots)];
    bench_free(*slot, bench_args.verify);
    *slot = new_block(worker);
    ops += 2;
  } while (bench_more(worker, ops));
  return ops;
}

static void teardown(bench_worker_t *worker) {
  void **table = worker->state;
  for (uint64_t i = 0; i < slots; i++) bench_free(table[i], bench_args.verify);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "big_churn", 0.8, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  bench_plan_t plan = {.setup = setup, .work = work, .teardown = teardown};
  bench_put_outcome(bench_run(&plan, (unsigned)threads));
  bench_finish("ops_per_s");
}
