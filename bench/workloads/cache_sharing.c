/*
 * Cache sharing: whether an allocator puts blocks of different threads into one
 * cache line. After cache-thrash and cache-scratch of Berger et al. ("Hoard",
 * ASPLOS 2000): each thread allocates a small block, writes to it many times,
 * frees it, and again.
 *   thrash   blocks of the threads' own: an allocator that hands one line to
 *            two threads induces false sharing actively
 *   scratch  each thread first frees a block that the main thread allocated
 *            beside the others': one that reuses those blocks induces it passively
 * The figure is writes per second, since the writes are what suffers.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

enum { THRASH, SCRATCH };
static const char *const modes[] = {"thrash", "scratch", NULL};

static uint64_t mode = THRASH, threads = 2, bytes = 16, writes = 1000;

static const bench_option_t options[] = {
    {"mode", BENCH_CHOICE, &mode, 0, 0, modes, "active or passive false sharing"},
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "that write"},
    {"size", BENCH_BYTES, &bytes, 8, 4096, NULL, "of every block"},
    {"writes", BENCH_NUMBER, &writes, 1, 1u << 30, NULL, "to a block before it is freed"},
    {0},
};

static unsigned char *handed[1024];

static void setup(bench_worker_t *worker) { free(handed[worker->index]); }

static uint64_t work(bench_worker_t *worker) {
  uint64_t blocks = 0;
  do {
    for (unsigned n = 0; n < 16; n++) {
      volatile unsigned char *block = malloc(bytes);
      if (!block) bench_out_of_memory(bytes);
      for (uint64_t i = 0; i < bytes; i++) block[i] = (unsigned char)worker->index;
      for (uint64_t i = 0, k = 0; i < writes; i++) {
        block[k]++;
        if (++k == bytes) k = 0;
      }
      if (bench_args.verify)
        for (uint64_t i = 0; i < bytes; i++) {
          uint64_t rounds = writes / bytes + (i < writes % bytes);
          if (block[i] != (unsigned char)(worker->index + rounds)) bench_die("another thread wrote into a block");
        }
      free((void *)block);
    }
    blocks += 16;
  } while (bench_more(worker, 2 * blocks));
  return blocks;
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "cache_sharing", 0.4, options);
  if (mode == SCRATCH)
    for (uint64_t i = 0; i < threads; i++) handed[i] = bench_alloc(bytes, false);
  bench_plan_t plan = {.setup = setup, .work = work};
  bench_outcome_t outcome = bench_run(&plan, (unsigned)threads);
  bench_put_number("ops", 2 * outcome.ops);
  bench_put_real("seconds", outcome.seconds);
  bench_put_real("writes_per_s", (double)(outcome.ops * writes) / outcome.seconds);
  bench_finish("writes_per_s");
}
