/*
 * Realloc growth: blocks that become larger, in the three ways programs do it.
 *   vector  full arrays double, from 64 B to --max (default 1 MiB)
 *   string  texts grow by 1–64 bytes at a time, by exactly that much, up to
 *           --max (default 64 KiB): most steps should stay in place
 *   huge    64 B to --max (default 1 GiB) by half its size each time, every page
 *           used: who copies instead of moving pages pays twice
 * Vectors and strings grow eight at a time in turn, so that none of them has the
 * end of the heap for itself. Each malloc, realloc and free is one operation.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

enum { VECTOR, STRING, HUGE_BLOCK };
static const char *const modes[] = {"vector", "string", "huge", NULL};

static uint64_t mode = VECTOR, max_bytes = 0, threads = 1;

static const bench_option_t options[] = {
    {"mode", BENCH_CHOICE, &mode, 0, 0, modes, "how blocks grow"},
    {"max", BENCH_BYTES, &max_bytes, 128, 4 * BENCH_GIB - 1, NULL, "where growth ends; 0: the mode's own"},
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "each on its own"},
    {0},
};

enum { START_BYTES = 64, AT_A_TIME = 8 };

typedef struct growing {
  unsigned char *block;
  size_t bytes;
} growing_t;

static size_t next_size(bench_rng_t *rng, size_t bytes) {
  size_t next = mode == VECTOR ? 2 * bytes : mode == STRING ? bytes + bench_between(rng, 1, 64) : bytes + bytes / 2;
  return next < max_bytes ? next : max_bytes;
}

/* In verify mode every byte follows from its place and the block it belongs to,
 * so that a part that was not carried along shows. */
static unsigned char content(size_t place, unsigned which) { return (unsigned char)bench_mix(place + which); }

/* The program uses what it has just got. */
static void use(const growing_t *one, size_t from, unsigned which) {
  if (bench_args.verify)
    for (size_t i = from; i < one->bytes; i++) one->block[i] = content(i, which);
  else if (mode == HUGE_BLOCK) bench_touch_pages(one->block + from, one->bytes - from);
  else bench_touch(one->block + from, one->bytes - from);
}

static void grow(growing_t *one, size_t bytes, unsigned which) {
  unsigned char *block = realloc(one->block, bytes);
  if (!block) bench_out_of_memory(bytes);
  size_t from = one->bytes;
  *one = (growing_t){block, bytes};
  use(one, from, which);
  bench_keep(block);
}

static void drop(growing_t *one, unsigned which) {
  if (bench_args.verify)
    for (size_t i = 0; i < one->bytes; i++)
      if (one->block[i] != content(i, which)) bench_die("byte %zu of %zu was lost in a realloc", i, one->bytes);
  free(one->block);
}

static uint64_t grow_all(bench_rng_t *rng, unsigned count) {
  growing_t all[AT_A_TIME] = {0};
  uint64_t ops = 2 * count; /* first malloc and free */
  for (unsigned i = 0; i < count; i++) grow(&all[i], START_BYTES, i);
  for (unsigned full = 0; full < count;) {
    full = 0;
    for (unsigned i = 0; i < count; i++) {
      if (all[i].bytes == max_bytes) {
        full++;
        continue;
      }
      grow(&all[i], next_size(rng, all[i].bytes), i);
      ops++;
    }
  }
  for (unsigned i = 0; i < count; i++) drop(&all[i], i);
  return ops;
}

static uint64_t work(bench_worker_t *worker) {
  uint64_t ops = 0;
  do ops += grow_all(&worker->rng, mode == HUGE_BLOCK ? 1 : AT_A_TIME);
  while (bench_more(worker, ops));
  return ops;
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "realloc_growth", 0.4, options);
  if (!max_bytes) max_bytes = mode == VECTOR ? BENCH_MIB : mode == STRING ? 64 * BENCH_KIB : BENCH_GIB;
  bench_plan_t plan = {.work = work};
  bench_put_outcome(bench_run(&plan, (unsigned)threads));
  bench_finish("ops_per_s");
}
