/*
 * Comprehensive: every size from 16 B to 1 MiB in every order of freeing, one
 * short section each, and the geometric mean of their throughputs, so that each
 * size counts the same however slow it is. --seconds and --ops are shared out
 * among the sections.
 *   pair        one block at a time
 *   lifo, fifo  a batch, newest or oldest first
 *   random      a batch, in an order drawn once
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <math.h>

static uint64_t threads = 1;

static const bench_option_t options[] = {
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "each on its own"},
    {0},
};

static const size_t sizes[] = {16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
enum { PAIR, LIFO, FIFO, RANDOM, ORDERS, SIZES = sizeof sizes / sizeof sizes[0], MAX_BATCH = 500 };

static size_t bytes, batch; /* of the section that runs */
static unsigned order;

typedef struct own {
  void *blocks[MAX_BATCH];
  uint32_t sequence[MAX_BATCH]; /* positions in the order of freeing */
} own_t;

static void setup(bench_worker_t *worker) {
  own_t *own = worker->state = bench_pages(sizeof *own);
  for (uint32_t i = 0; i < batch; i++) own->sequence[i] = order == LIFO ? (uint32_t)batch - 1 - i : i;
  if (order == RANDOM)
    for (uint32_t i = (uint32_t)batch; i > 1; i--) {
      uint32_t other = (uint32_t)bench_below(&worker->rng, i), swap = own->sequence[i - 1];
      own->sequence[i - 1] = own->sequence[other];
      own->sequence[other] = swap;
    }
}

BENCH_INLINE uint64_t section(bench_worker_t *worker, bool verify) {
  own_t *own = worker->state;
  uint64_t ops = 0, per_look = 1 + (verify ? 16 : 1024) / batch;
  do {
    for (uint64_t n = 0; n < per_look; n++) {
      for (size_t i = 0; i < batch; i++) own->blocks[i] = bench_alloc(bytes, verify);
      for (size_t i = 0; i < batch; i++) bench_free(own->blocks[own->sequence[i]], verify);
    }
    ops += 2 * batch * per_look;
  } while (bench_more(worker, ops));
  return ops;
}

static uint64_t work(bench_worker_t *worker) {
  return bench_args.verify ? section(worker, true) : section(worker, false);
}

static void teardown(bench_worker_t *worker) { bench_pages_drop(worker->state, sizeof(own_t)); }

int main(int argc, char **argv) {
  bench_start(argc, argv, "comprehensive", 0.7, options);
  bench_args.seconds /= ORDERS * SIZES;
  if (bench_args.ops) bench_args.ops = bench_args.ops / (ORDERS * SIZES) + 1;
  bench_plan_t plan = {.setup = setup, .work = work, .teardown = teardown};
  bench_outcome_t total = {0, 0};
  double logarithms = 0;
  for (unsigned i = 0; i < SIZES; i++)
    for (order = PAIR; order < ORDERS; order++) {
      bytes = sizes[i];
      /* At most 4 MiB live, so that the sections measure paths and not pages. */
      batch = order == PAIR ? 1 : (4 * BENCH_MIB) / bytes < MAX_BATCH ? (4 * BENCH_MIB) / bytes : MAX_BATCH;
      bench_outcome_t outcome = bench_run(&plan, (unsigned)threads);
      logarithms += log((double)outcome.ops / outcome.seconds);
      total.ops += outcome.ops;
      total.seconds += outcome.seconds;
    }
  bench_put_number("ops", total.ops);
  bench_put_real("seconds", total.seconds);
  bench_put_number("mean_ops_per_s", (uint64_t)exp(logarithms / (ORDERS * SIZES)));
  bench_finish("mean_ops_per_s");
}
