/*
 * Pairs: allocate a block (or a small batch), use it, free it. Families of the
 * original reports that differ only in sizes are presets of this one program:
 *   mid_large  8–32 KiB
 *   large      64 KiB–2 MiB
 * --min and --max narrow the preset; equal, they give one size. Sizes come from
 * a table drawn before the clock starts, uniform over the logarithm.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

enum { MID_LARGE, LARGE };
static const char *const families[] = {"mid_large", "large", NULL};
enum { ENDS, PAGES };
static const char *const touches[] = {"ends", "pages", NULL};

static uint64_t family = MID_LARGE, min_bytes = 0, max_bytes = 0, batch = 1, touch = ENDS, threads = 1;

static const bench_option_t options[] = {
    {"family", BENCH_CHOICE, &family, 0, 0, families, "preset of the size range"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_GIB, NULL, "smallest block; 0: the preset's"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_GIB, NULL, "largest block; 0: the preset's"},
    {"batch", BENCH_NUMBER, &batch, 1, 1 << 16, NULL, "blocks live at the peak; freed oldest first"},
    {"touch", BENCH_CHOICE, &touch, 0, 0, touches, "write first and last byte, or a byte in each page"},
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "each on its own"},
    {0},
};

enum { SIZES = 1024 }; /* a power of two: the table is walked round and round */

typedef struct own {
  unsigned next;
  uint32_t sizes[SIZES];
  void *blocks[];
} own_t;

static void setup(bench_worker_t *worker) {
  own_t *own = worker->state = bench_pages(sizeof(own_t) + batch * sizeof(void *));
  for (unsigned i = 0; i < SIZES; i++) own->sizes[i] = (uint32_t)bench_log_between(&worker->rng, min_bytes, max_bytes);
}

BENCH_INLINE void *take(own_t *own, bool pages, bool verify) {
  size_t bytes = own->sizes[own->next++ % SIZES];
  void *p = bench_alloc(bytes, verify);
  if (pages && !verify) bench_touch_pages(p, bytes);
  return p;
}

BENCH_INLINE uint64_t pairs(bench_worker_t *worker, bool single, bool pages, bool verify) {
  own_t *own = worker->state;
  uint64_t ops = 0;
  uint64_t per_look = 1 + (pages || verify ? 16 : 1024) / batch;
  do {
    for (uint64_t i = 0; i < per_look; i++) {
      if (single) {
        bench_free(take(own, pages, verify), verify);
      } else {
        for (size_t k = 0; k < batch; k++) own->blocks[k] = take(own, pages, verify);
        for (size_t k = 0; k < batch; k++) bench_free(own->blocks[k], verify);
      }
    }
    ops += 2 * batch * per_look;
  } while (bench_more(worker, ops));
  return ops;
}

static uint64_t work(bench_worker_t *worker) {
  if (bench_args.verify) return pairs(worker, false, false, true);
  if (touch == PAGES) return pairs(worker, false, true, false);
  return batch == 1 ? pairs(worker, true, false, false) : pairs(worker, false, false, false);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "pairs", 0.3, options);
  if (!min_bytes) min_bytes = family == LARGE ? 64 * BENCH_KIB : 8 * BENCH_KIB;
  if (!max_bytes) max_bytes = family == LARGE ? 2 * BENCH_MIB : 32 * BENCH_KIB;
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  bench_plan_t plan = {.setup = setup, .work = work};
  bench_put_outcome(bench_run(&plan, (unsigned)threads));
  bench_finish("ops_per_s");
}
