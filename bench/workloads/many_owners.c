/*
 * Many owners: each of 200 threads allocates some blocks, and one thread frees all of them, again and
 * again, as a logger does or a thread that drops what requests have left. The owners live on and want
 * their blocks back, so the one thread has something for each of them all the time.
 *
 * It frees them as the threads have allocated them, one thread after the other (--order in-turn), or shuffled
 * over all threads, which is as bad as it gets for whoever collects what it frees.
 *
 * While it frees, the owners wait, and while they allocate, it does. Operations per second are those of the
 * processor time that threads spend in these two parts, so that waking 200 threads does not count; `malloc_ns`
 * and `free_ns` are the two parts, for each block.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <pthread.h>

enum { IN_TURN, SHUFFLED };
static const char *const orders[] = {"in-turn", "shuffled", NULL};

static uint64_t threads = 200, blocks_each = 500, bytes_each = 16 * BENCH_GIB, min_bytes = 64, max_bytes = 64,
                order = SHUFFLED;

static const bench_option_t options[] = {
    {"threads", BENCH_NUMBER, &threads, 1, 1000, NULL, "that allocate, beside the one that frees"},
    {"blocks", BENCH_NUMBER, &blocks_each, 1, 1 << 20, NULL, "that each of them has"},
    {"bytes", BENCH_BYTES, &bytes_each, 1, 16 * BENCH_GIB, NULL,
     "the same in bytes of the largest block, but two blocks at least"},
    {"min", BENCH_BYTES, &min_bytes, 16, 4 * BENCH_MIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, 4 * BENCH_MIB, NULL, "largest block"},
    {"order", BENCH_CHOICE, &order, 0, 0, orders, "in which they are freed"},
    {0},
};

static pthread_barrier_t allocated, freed; /* of the owners and the thread that frees */
static void **blocks;                      /* the owners' one after the other */
static uint32_t *turns;                    /* in which blocks are freed */
static uint64_t malloc_ns;                 /* of all owners together, relaxed additions */
static bool over;                          /* written while the owners wait at `freed` */

static void *owner(void *argument) {
  void **own = blocks + (uintptr_t)argument * blocks_each;
  bench_rng_t rng = bench_rng((uintptr_t)argument);
  for (;;) {
    pthread_barrier_wait(&freed);
    if (over) return NULL;
    uint64_t start = bench_clock(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t i = 0; i < blocks_each; i++)
      own[i] = bench_alloc(bench_between(&rng, min_bytes, max_bytes), bench_args.verify);
    __atomic_fetch_add(&malloc_ns, bench_clock(CLOCK_THREAD_CPUTIME_ID) - start, __ATOMIC_RELAXED);
    pthread_barrier_wait(&allocated);
  }
}

typedef struct spent {
  uint64_t blocks, malloc_ns, free_ns;
} spent_t;

static spent_t rounds(double seconds, uint64_t ops) {
  spent_t spent = {0};
  double end = bench_now() + seconds;
  uint64_t count = threads * blocks_each;
  malloc_ns = 0;
  do {
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&allocated);
    uint64_t start = bench_clock(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t i = 0; i < count; i++) bench_free(blocks[turns[i]], bench_args.verify);
    spent.free_ns += bench_clock(CLOCK_THREAD_CPUTIME_ID) - start;
    spent.blocks += count;
  } while (ops ? spent.blocks * 2 < ops : bench_now() < end);
  spent.malloc_ns = malloc_ns;
  return spent;
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "many_owners", 0.5, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  if (blocks_each > 2 && blocks_each > bytes_each / max_bytes)
    blocks_each = bytes_each / max_bytes > 2 ? bytes_each / max_bytes : 2;
  if (threads * blocks_each > UINT32_MAX) bench_usage("--threads times --blocks is too much");
  uint32_t count = (uint32_t)(threads * blocks_each);
  blocks = bench_pages(count * sizeof *blocks);
  turns = bench_pages(count * sizeof *turns);
  bench_rng_t rng = bench_rng(threads);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t j = order == SHUFFLED ? (uint32_t)bench_below(&rng, i + 1) : i;
    turns[i] = turns[j];
    turns[j] = i;
  }
  pthread_barrier_init(&allocated, NULL, (unsigned)threads + 1);
  pthread_barrier_init(&freed, NULL, (unsigned)threads + 1);
  uintptr_t *ids = bench_pages(threads * sizeof *ids);
  for (uint64_t i = 0; i < threads; i++) ids[i] = bench_thread_start(owner, (void *)i);

  rounds(bench_warmup_seconds(), bench_warmup_ops());
  spent_t spent = rounds(bench_args.seconds, bench_args.ops);

  over = true;
  pthread_barrier_wait(&freed);
  for (uint64_t i = 0; i < threads; i++) bench_thread_join(ids[i]);
  bench_put_real("malloc_ns", (double)spent.malloc_ns / (double)spent.blocks);
  bench_put_real("free_ns", (double)spent.free_ns / (double)spent.blocks);
  bench_put_outcome((bench_outcome_t){2 * spent.blocks, (double)(spent.malloc_ns + spent.free_ns) / 1e9});
  bench_finish("ops_per_s");
}
