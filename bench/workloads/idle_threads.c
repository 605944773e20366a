/*
 * Idle threads: a server with 2000 threads, each of which used 200 small blocks
 * once, or several times one after the other, kept 10 of the first ones and waits. The
 * figure is the resident memory of the process while all of them wait; the threads'
 * stacks are part of it and the same for every allocator.
 *
 * `at_once_mib` is the same as soon as the last thread has begun to wait, `start_mib` before
 * the first has started.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

static uint64_t threads = 2000, blocks = 200, kept = 10, batches = 1, min_bytes = 16, max_bytes = 512, idle_ms = 1000;

enum { TOGETHER, IN_TURN };
static const char *const orders[] = {"together", "in-turn", NULL};
static uint64_t order = TOGETHER;

static const bench_option_t options[] = {
    {"threads", BENCH_NUMBER, &threads, 1, 20000, NULL, "that wait"},
    {"blocks", BENCH_NUMBER, &blocks, 1, 1000, NULL, "that each has used"},
    {"kept", BENCH_NUMBER, &kept, 0, 1000, NULL, "of them not freed"},
    {"batches", BENCH_NUMBER, &batches, 1, 1000000, NULL, "so many times; later ones are freed whole"},
    {"start", BENCH_CHOICE, &order, 0, 0, orders, "whether each begins when the one before waits"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_MIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_MIB, NULL, "largest block"},
    {"idle", BENCH_NUMBER, &idle_ms, 0, 600000, NULL, "milliseconds of waiting before the figure is taken"},
    {0},
};

static void fill(bench_rng_t *rng, void **own) {
  for (uint64_t i = 0; i < blocks; i++)
    own[i] = bench_alloc(bench_between(rng, min_bytes, max_bytes), bench_args.verify);
}

static void *idle_thread(void *argument) {
  bench_rng_t rng = bench_rng((uintptr_t)argument);
  void *own[2000];
  fill(&rng, own);
  /* The kept ones are spread over what was used, as they would be. */
  uint64_t left = 0;
  for (uint64_t i = 0; i < blocks; i++) {
    if ((i + 1) * kept / blocks > left) own[left++] = own[i];
    else bench_free(own[i], bench_args.verify);
  }
  for (uint64_t batch = 1; batch < batches; batch++) {
    fill(&rng, own + left);
    for (uint64_t i = 0; i < blocks; i++) bench_free(own[left + i], bench_args.verify);
  }

  bench_crowd_join();

  for (uint64_t i = 0; i < left; i++) bench_free(own[i], bench_args.verify);
  return NULL;
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "idle_threads", 0, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  if (kept > blocks) bench_usage("--kept is above --blocks");
  uintptr_t *ids = bench_pages(threads * sizeof *ids);
  double at_start = bench_resident_mib(0), start = bench_now();
  for (uint64_t i = 0; i < threads; i++) {
    ids[i] = bench_thread_start(idle_thread, (void *)i);
    if (order == IN_TURN) bench_crowd_await(i + 1);
  }
  bench_crowd_await(threads);
  double seconds = bench_now() - start, at_once = bench_resident_mib(threads * sizeof *ids);
  bench_sleep((double)idle_ms / 1000);
  double resident = bench_resident_mib(threads * sizeof *ids);

  bench_crowd_dismiss();
  for (uint64_t i = 0; i < threads; i++) bench_thread_join(ids[i]);
  bench_put_real("start_seconds", seconds);
  bench_put_real("start_mib", at_start);
  bench_put_real("at_once_mib", at_once);
  bench_put_memory("resident_mib", resident);
  bench_finish("resident_mib");
}
