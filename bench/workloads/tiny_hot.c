/*
 * Tiny hot: batches of equal small blocks, allocated and freed again and again,
 * so that nothing is measured but the allocator's shortest paths.
 *   lifo        free the newest first, as a stack of calls does
 *   fifo        free the oldest first, as a queue does
 *   interleave  free every second block, fill the holes, then free all: frees
 *               and allocations alternate and addresses lose their order
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

enum { LIFO, FIFO, INTERLEAVE };
static const char *const orders[] = {"lifo", "fifo", "interleave", NULL};

static uint64_t order = LIFO, bytes = 16, batch = 100, threads = 1;

static const bench_option_t options[] = {
    {"order", BENCH_CHOICE, &order, 0, 0, orders, "in which blocks are freed"},
    {"size", BENCH_BYTES, &bytes, 16, BENCH_MIB, NULL, "of every block"},
    {"batch", BENCH_NUMBER, &batch, 1, 1 << 20, NULL, "blocks live at the peak"},
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "each on its own"},
    {0},
};

static void setup(bench_worker_t *worker) { worker->state = bench_pages(batch * sizeof(void *)); }

/* `how` and `verify` are constants at each call below: one loop for each. */
BENCH_INLINE uint64_t cycle(void **blocks, size_t count, size_t size, uint64_t how, bool verify) {
  for (size_t i = 0; i < count; i++) blocks[i] = bench_alloc(size, verify);
  if (how == LIFO) {
    for (size_t i = count; i-- > 0;) bench_free(blocks[i], verify);
    return 2 * count;
  }
  if (how == FIFO) {
    for (size_t i = 0; i < count; i++) bench_free(blocks[i], verify);
    return 2 * count;
  }
  size_t holes = (count + 1) / 2;
  for (size_t i = 0; i < count; i += 2) bench_free(blocks[i], verify);
  for (size_t i = 0; i < count; i += 2) blocks[i] = bench_alloc(size, verify);
  for (size_t i = 1; i < count; i += 2) bench_free(blocks[i], verify);
  for (size_t i = 0; i < count; i += 2) bench_free(blocks[i], verify);
  return 2 * count + 2 * holes;
}

BENCH_INLINE uint64_t cycles(bench_worker_t *worker, uint64_t how, bool verify) {
  uint64_t ops = 0, per_look = 1 + 8192 / batch;
  do {
    for (uint64_t i = 0; i < per_look; i++) ops += cycle(worker->state, batch, bytes, how, verify);
  } while (bench_more(worker, ops));
  return ops;
}

static uint64_t work(bench_worker_t *worker) {
  if (bench_args.verify) return cycles(worker, order, true);
  if (order == LIFO) return cycles(worker, LIFO, false);
  if (order == FIFO) return cycles(worker, FIFO, false);
  return cycles(worker, INTERLEAVE, false);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "tiny_hot", 0.3, options);
  bench_plan_t plan = {.setup = setup, .work = work};
  bench_put_outcome(bench_run(&plan, (unsigned)threads));
  bench_finish("ops_per_s");
}
