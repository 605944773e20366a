/*
 * Memory after a peak: a program fills 450 MB with small blocks, frees most of
 * them, and then does nothing for a while. The figure is the resident memory
 * after that.
 *   all        everything is freed
 *   random     90 % of the blocks are freed, picked at random: hardly a page is
 *              empty unless blocks are smaller than a tenth of it
 *   neighbour  90 % are freed in neighbourhoods of 1000 blocks that were
 *              allocated one after the other
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

enum { ALL, RANDOM, NEIGHBOUR };
static const char *const modes[] = {"all", "random", "neighbour", NULL};

static uint64_t mode = ALL, total_bytes = 450000000, min_bytes = 16, max_bytes = 256, idle_ms = 3000;

static const bench_option_t options[] = {
    {"freed", BENCH_CHOICE, &mode, 0, 0, modes, "what is freed"},
    {"total", BENCH_BYTES, &total_bytes, BENCH_MIB, 64 * BENCH_GIB, NULL, "bytes of all blocks"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_MIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_MIB, NULL, "largest block"},
    {"idle", BENCH_NUMBER, &idle_ms, 0, 600000, NULL, "milliseconds without a call"},
    {0},
};

enum { NEIGHBOURHOOD = 1000 };

static bool freed(bench_rng_t *rng, size_t index) {
  switch (mode) {
    case ALL: return true;
    case RANDOM: return bench_below(rng, 10) != 0;
    default: return index / NEIGHBOURHOOD % 10 != 0;
  }
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "memory_after_peak", 0, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  void **blocks = bench_pages((total_bytes / min_bytes + 1) * sizeof(void *));
  bench_rng_t rng = bench_rng(0);
  size_t count = 0, live = 0;

  double start = bench_now();
  while (live < total_bytes) {
    size_t bytes = bench_between(&rng, min_bytes, max_bytes);
    blocks[count++] = bench_alloc(bytes, bench_args.verify);
    live += bytes;
  }
  double filled = bench_now() - start, peak = bench_resident_mib(count * sizeof(void *));

  start = bench_now();
  size_t left = 0;
  for (size_t i = 0; i < count; i++) {
    if (!freed(&rng, i)) {
      blocks[left++] = blocks[i];
      continue;
    }
    bench_free(blocks[i], bench_args.verify);
  }
  double emptied = bench_now() - start;

  bench_sleep((double)idle_ms / 1000);
  double resident = bench_resident_mib(count * sizeof(void *));
  for (size_t i = 0; i < left; i++) bench_free(blocks[i], bench_args.verify);
  bench_put_number("blocks", count);
  bench_put_number("blocks_left", left);
  bench_put_real("fill_seconds", filled);
  bench_put_real("free_seconds", emptied);
  bench_put_real("highest_mib", peak);
  bench_put_memory("resident_mib", resident);
  bench_finish("resident_mib");
}
