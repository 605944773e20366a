/*
 * Calloc of large blocks, with a few alive at a time.
 *   ends   only first and last byte are used: fresh memory from the system is
 *          zero already, and clearing it again would touch every page
 *   pages  every page is used, so that blocks come back dirty and have to be
 *          cleared or replaced
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <string.h>

enum { ENDS, PAGES };
static const char *const touches[] = {"ends", "pages", NULL};

static uint64_t touch = ENDS, min_bytes = 64 * BENCH_KIB, max_bytes = 16 * BENCH_MIB, slots = 4, threads = 1;

static const bench_option_t options[] = {
    {"touch", BENCH_CHOICE, &touch, 0, 0, touches, "which bytes are used"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_GIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_GIB, NULL, "largest block"},
    {"slots", BENCH_NUMBER, &slots, 1, 1024, NULL, "blocks alive, per thread"},
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "each on its own"},
    {0},
};

enum { SIZES = 256 };

typedef struct own {
  uint32_t sizes[SIZES];
  void *table[];
} own_t;

static void setup(bench_worker_t *worker) {
  own_t *own = worker->state = bench_pages(sizeof *own + slots * sizeof(void *));
  for (unsigned i = 0; i < SIZES; i++) own->sizes[i] = (uint32_t)bench_log_between(&worker->rng, min_bytes, max_bytes);
}

static void check_zero(const unsigned char *block, size_t bytes) {
  /* A block equals itself shifted by one byte only if all its bytes are equal. */
  if (block[0] != 0 || memcmp(block, block + 1, bytes - 1) != 0) bench_die("calloc gave a block that is not zero");
}

static uint64_t work(bench_worker_t *worker) {
  own_t *own = worker->state;
  uint64_t ops = 0;
  do {
    void **slot = &own->table[bench_below(&worker->rng, slots)];
    free(*slot);
    size_t bytes = own->sizes[bench_below(&worker->rng, SIZES)];
    unsigned char *block = *slot = calloc(1, bytes);
    if (!block) bench_out_of_memory(bytes);
    if (bench_args.verify) {
      check_zero(block, bytes);
      memset(block, 0xa5, bytes);
    } else if (block[0] | block[bytes - 1]) {
      bench_die("calloc gave a block that is not zero");
    }
    if (touch == PAGES) bench_touch_pages(block, bytes);
    else bench_touch(block, bytes);
    ops += 2;
  } while (bench_more(worker, ops));
  return ops;
}

static void teardown(bench_worker_t *worker) {
  own_t *own = worker->state;
  for (uint64_t i = 0; i < slots; i++) free(own->table[i]);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "calloc_large", 0.4, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  bench_plan_t plan = {.setup = setup, .work = work, .teardown = teardown, .warmup_seconds_min = 0.15};
  bench_put_outcome(bench_run(&plan, (unsigned)threads));
  bench_finish("ops_per_s");
}
