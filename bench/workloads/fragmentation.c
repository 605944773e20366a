/*
 * Fragmentation over time: the live bytes stay the same, the sizes shift from
 * phase to phase, up and down again, and blocks die at random. What a phase
 * leaves behind is memory that the next one can use or not. The memory figure is
 * what is resident at the end, when as many bytes are live as at the beginning.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

static uint64_t live_bytes = 64 * BENCH_MIB, laps = 2;

static const bench_option_t options[] = {
    {"live", BENCH_BYTES, &live_bytes, BENCH_MIB, 4 * BENCH_GIB, NULL, "bytes alive at any time"},
    {"laps", BENCH_NUMBER, &laps, 1, 1000, NULL, "times through all sizes"},
    {0},
};

static const struct {
  uint32_t min, max;
} phases[] = {
    {16, 128}, {96, 512}, {384, 2048}, {1536, 8 << 10}, {6 << 10, 32 << 10}, {1536, 8 << 10}, {384, 2048}, {96, 512},
};
enum { PHASES = sizeof phases / sizeof phases[0] };

typedef struct entry {
  void *block;
  size_t bytes;
} entry_t;

static entry_t *entries;
static size_t count, most, live;

static void add(bench_rng_t *rng, size_t min, size_t max) {
  entry_t fresh = {NULL, bench_between(rng, min, max)};
  fresh.block = bench_alloc(fresh.bytes, bench_args.verify);
  if (!bench_args.verify) bench_touch_pages(fresh.block, fresh.bytes);
  entries[count++] = fresh;
  if (count > most) most = count;
  live += fresh.bytes;
}

static void drop(size_t index) {
  bench_free(entries[index].block, bench_args.verify);
  live -= entries[index].bytes;
  entries[index] = entries[--count];
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "fragmentation", 0, options);
  size_t capacity = live_bytes / 16 + 1;
  entries = bench_pages(capacity * sizeof *entries);
  bench_rng_t rng = bench_rng(0);
  uint64_t ops = 0;
  double peak = 0, resident = 0, seconds = 0;
  for (uint64_t phase = 0; phase < laps * PHASES; phase++) {
    size_t min = phases[phase % PHASES].min, max = phases[phase % PHASES].max;
    double start = bench_now();
    /* As many new bytes as are live: a good third of the old blocks stay. */
    for (size_t fresh = 0; fresh < live_bytes; ops++) {
      add(&rng, min, max);
      fresh += entries[count - 1].bytes;
      for (; live > live_bytes; ops++) drop(bench_below(&rng, count));
    }
    seconds += bench_now() - start;
    resident = bench_resident_mib(most * sizeof *entries);
    if (resident > peak) peak = resident;
  }
  double live_mib = (double)live / (double)BENCH_MIB;
  while (count) drop(count - 1);
  bench_put_outcome((bench_outcome_t){ops, seconds});
  bench_put_real("live_mib", live_mib);
  bench_put_real("highest_mib", peak);
  bench_put_memory("resident_mib", resident);
  bench_finish("ops_per_s");
}
