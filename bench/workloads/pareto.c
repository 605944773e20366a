/*
 * Pareto: sizes and lifetimes after the law that programs are found to follow:
 * most blocks are small and die young, a few are large or stay. A step picks a
 * slot, the low ones far more often than the high ones, and frees what it holds
 * or fills it when it is empty.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <math.h>

static uint64_t slots = 32768, max_bytes = 256 * BENCH_KIB, threads = 1;

static const bench_option_t options[] = {
    {"slots", BENCH_NUMBER, &slots, 1, 1 << 24, NULL, "places for blocks, per thread"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_GIB, NULL, "largest block"},
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "each with a table of its own"},
    {0},
};

/* Drawn before the clock starts; walked in order, so that reading them is free.
 * Odd and even lengths apart, so that slot and size do not repeat together. */
enum { SIZES = 16381, PICKS = 16384 };

typedef struct own {
  uint32_t next_size, next_pick;
  uint32_t sizes[SIZES], picks[PICKS];
  void *table[];
} own_t;

/* Inverse of the distribution function: 1 - (scale / x) ^ shape. */
static double pareto(bench_rng_t *rng, double scale, double shape) {
  double unit = (double)((bench_random(rng) >> 11) + 1) * 0x1p-53; /* (0, 1] */
  return scale / pow(unit, 1 / shape);
}

static void setup(bench_worker_t *worker) {
  own_t *own = worker->state = bench_pages(sizeof *own + slots * sizeof(void *));
  for (unsigned i = 0; i < SIZES; i++) {
    double size = pareto(&worker->rng, 16, 1.0);
    own->sizes[i] = size > (double)max_bytes ? (uint32_t)max_bytes : (uint32_t)size;
  }
  for (unsigned i = 0; i < PICKS; i++) {
    double pick = pareto(&worker->rng, 64, 0.7) - 64;
    own->picks[i] = pick < (double)slots ? (uint32_t)pick : (uint32_t)bench_below(&worker->rng, slots);
  }
}

BENCH_INLINE uint64_t steps(bench_worker_t *worker, bool verify) {
  own_t *own = worker->state;
  uint64_t ops = 0;
  do {
    for (unsigned i = 0; i < 1024; i++) {
      void **slot = &own->table[own->picks[own->next_pick++ % PICKS]];
      if (*slot) {
        bench_free(*slot, verify);
        *slot = NULL;
      } else {
        if (own->next_size == SIZES) own->next_size = 0;
        *slot = bench_alloc(own->sizes[own->next_size++], verify);
      }
    }
    ops += 1024;
  } while (bench_more(worker, ops));
  return ops;
}

static uint64_t work(bench_worker_t *worker) { return bench_args.verify ? steps(worker, true) : steps(worker, false); }

static void teardown(bench_worker_t *worker) {
  own_t *own = worker->state;
  for (uint64_t i = 0; i < slots; i++)
    if (own->table[i]) bench_free(own->table[i], bench_args.verify);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "pareto", 0.5, options);
  bench_plan_t plan = {.setup = setup, .work = work, .teardown = teardown};
  bench_put_outcome(bench_run(&plan, (unsigned)threads));
  bench_finish("ops_per_s");
}
