/*
 * Thread churn: threads that live for a moment. Each allocates some blocks,
 * frees most of them and what the thread before it in its lane left over, leaves
 * a few itself, and ends. What is measured is how dearly an allocator pays for
 * a thread's first allocation and for its end.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

static uint64_t lanes = 4, blocks = 100, max_bytes = 1024;

static const bench_option_t options[] = {
    {"threads", BENCH_NUMBER, &lanes, 1, 1024, NULL, "alive at a time"},
    {"blocks", BENCH_NUMBER, &blocks, 1, 1000, NULL, "that a thread allocates"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_MIB, NULL, "largest block"},
    {0},
};

typedef struct lane {
  bench_rng_t rng;
  uintptr_t thread; /* 0: none is running */
  unsigned left_count;
  void *left[1000]; /* by the previous thread; ordered by its join */
} lane_t;

static void *churn_thread(void *argument) {
  lane_t *lane = argument;
  bool verify = bench_args.verify;
  void *own[1000];
  for (uint64_t i = 0; i < blocks; i++) own[i] = bench_alloc(bench_between(&lane->rng, 16, max_bytes), verify);
  for (unsigned i = 0; i < lane->left_count; i++) bench_free(lane->left[i], verify);
  lane->left_count = 0;
  for (uint64_t i = 0; i < blocks; i++) {
    if (i % 8 == 7) lane->left[lane->left_count++] = own[i];
    else bench_free(own[i], verify);
  }
  return NULL;
}

/* Starts and ends threads until the time or the operations are over. */
static uint64_t section(lane_t *all, double seconds, uint64_t ops) {
  uint64_t started = 0;
  double deadline = bench_now() + seconds;
  do {
    lane_t *lane = &all[started % lanes];
    if (lane->thread) bench_thread_join(lane->thread);
    lane->thread = bench_thread_start(churn_thread, lane);
    started++;
  } while (ops ? started * 2 * blocks < ops * lanes : bench_now() < deadline);
  for (uint64_t i = 0; i < lanes; i++) {
    if (all[i].thread) bench_thread_join(all[i].thread);
    all[i].thread = 0;
  }
  return started;
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "thread_churn", 0.5, options);
  lane_t *all = bench_pages(lanes * sizeof *all);
  for (uint64_t i = 0; i < lanes; i++) all[i].rng = bench_rng(i);
  section(all, bench_warmup_seconds(), bench_warmup_ops());
  double start = bench_now();
  uint64_t started = section(all, bench_args.seconds, bench_args.ops);
  double seconds = bench_now() - start;
  for (uint64_t i = 0; i < lanes; i++)
    for (unsigned k = 0; k < all[i].left_count; k++) bench_free(all[i].left[k], bench_args.verify);
  bench_put_number("started", started);
  bench_put_real("seconds", seconds);
  bench_put_real("threads_per_s", (double)started / seconds);
  bench_finish("threads_per_s");
}
