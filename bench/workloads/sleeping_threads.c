/*
 * Sleeping threads: 32 threads, one after the other, fill 64 MiB with small blocks
 * and sleep; then the main thread frees all of it, and nobody calls the allocator any
 * more. The figure is the resident memory of the process after a pause. The blocks
 * belong to threads that do nothing, so an allocator has to go and fetch them.
 *
 * `at_once_mib` is the same without the pause, `start_mib` before the first thread has started.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

static uint64_t threads = 32, total = 64 * BENCH_MIB, size = 64, idle_ms = 3000;

static const bench_option_t options[] = {
    {"threads", BENCH_NUMBER, &threads, 1, 1000, NULL, "that fill memory and sleep"},
    {"total", BENCH_BYTES, &total, BENCH_KIB, 16 * BENCH_GIB, NULL, "bytes that each fills"},
    {"size", BENCH_BYTES, &size, 16, BENCH_MIB, NULL, "of a block"},
    {"idle", BENCH_NUMBER, &idle_ms, 0, 600000, NULL, "milliseconds of waiting before the figure is taken"},
    {0},
};

static void ***blocks;
static size_t count; /* of each thread's */

static void *sleeping_thread(void *argument) {
  void **own = blocks[(uintptr_t)argument];
  for (size_t i = 0; i < count; i++) own[i] = bench_alloc(size, bench_args.verify);
  bench_crowd_join();
  return NULL;
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "sleeping_threads", 0, options);
  count = total / size;
  if (count == 0) bench_usage("--total is below --size");
  uintptr_t *ids = bench_pages(threads * sizeof *ids);
  blocks = bench_pages(threads * sizeof *blocks);
  double at_start = bench_resident_mib(0);
  for (uint64_t i = 0; i < threads; i++) {
    blocks[i] = bench_pages(count * sizeof **blocks);
    ids[i] = bench_thread_start(sleeping_thread, (void *)i);
    bench_crowd_await(i + 1);
  }
  for (uint64_t i = 0; i < threads; i++) {
    for (size_t j = 0; j < count; j++) bench_free(blocks[i][j], bench_args.verify);
    bench_pages_drop(blocks[i], count * sizeof **blocks);
  }
  size_t tables = threads * (sizeof *ids + sizeof *blocks);
  double at_once = bench_resident_mib(tables);
  bench_sleep((double)idle_ms / 1000);
  double resident = bench_resident_mib(tables);

  bench_crowd_dismiss();
  for (uint64_t i = 0; i < threads; i++) bench_thread_join(ids[i]);
  bench_put_real("start_mib", at_start);
  bench_put_real("at_once_mib", at_once);
  bench_put_memory("resident_mib", resident);
  bench_finish("resident_mib");
}
