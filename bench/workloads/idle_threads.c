/*
 * Idle threads: a server with 2000 threads, each of which used 200 small blocks
 * once, kept 10 of them and waits. The figure is the resident memory of the
 * process while all of them wait; the threads' stacks are part of it and the
 * same for every allocator.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

static uint64_t threads = 2000, blocks = 200, kept = 10, min_bytes = 16, max_bytes = 512, idle_ms = 1000;

static const bench_option_t options[] = {
    {"threads", BENCH_NUMBER, &threads, 1, 20000, NULL, "that wait"},
    {"blocks", BENCH_NUMBER, &blocks, 1, 1000, NULL, "that each has used"},
    {"kept", BENCH_NUMBER, &kept, 0, 1000, NULL, "of them not freed"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_MIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_MIB, NULL, "largest block"},
    {"idle", BENCH_NUMBER, &idle_ms, 0, 600000, NULL, "milliseconds of waiting before the figure is taken"},
    {0},
};

static void *idle_thread(void *argument) {
  bench_rng_t rng = bench_rng((uintptr_t)argument);
  void *own[1000];
  for (uint64_t i = 0; i < blocks; i++)
    own[i] = bench_alloc(bench_between(&rng, min_bytes, max_bytes), bench_args.verify);
  /* The kept ones are spread over what was used, as they would be. */
  uint64_t left = 0;
  for (uint64_t i = 0; i < blocks; i++) {
    if ((i + 1) * kept / blocks > left) own[left++] = own[i];
    else bench_free(own[i], bench_args.verify);
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
  double start = bench_now();
  for (uint64_t i = 0; i < threads; i++) ids[i] = bench_thread_start(idle_thread, (void *)i);
  bench_crowd_await(threads);
  double seconds = bench_now() - start;
  bench_sleep((double)idle_ms / 1000);
  double resident = bench_resident_mib(0);

  bench_crowd_dismiss();
  for (uint64_t i = 0; i < threads; i++) bench_thread_join(ids[i]);
  bench_put_real("start_seconds", seconds);
  bench_put_memory("resident_mib", resident);
  bench_finish("resident_mib");
}
