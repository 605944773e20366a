/*
 * Producer and consumer: one thread only allocates, another only frees, as in a
 * pipeline or an event loop. Allocators that cache freed blocks in the freeing
 * thread have to bring them back, again and again and in one direction.
 *
 * Blocks travel through a ring between two threads; positions are published in
 * groups, so that the ring costs little beside the allocator.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <sched.h>
#include <stdatomic.h>

static uint64_t pairs = 1, min_bytes = 64, max_bytes = 64, backlog = 8192;

static const bench_option_t options[] = {
    {"pairs", BENCH_NUMBER, &pairs, 1, 512, NULL, "of one producer and one consumer"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_MIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_MIB, NULL, "largest block"},
    {"backlog", BENCH_NUMBER, &backlog, 128, 1 << 24, NULL,
     "blocks that may be on the way; rounded down to a power of two"},
    {0},
};

enum { GROUP = 64 };

typedef struct ring {
  _Alignas(128) _Atomic uint64_t filled;  /* written by the producer: release with the entries before it */
  _Atomic uint64_t sections;              /* sections that the producer has ended */
  _Alignas(128) _Atomic uint64_t drained; /* written by the consumer: its entries may be used again */
  uint64_t sections_seen;                 /* the consumer's own */
  _Alignas(128) void **entries;
} ring_t;

static ring_t *rings;

/* Spins a little, since the other side is usually at work, then lets others run:
 * there may be more threads than processors. */
static void wait_a_little(unsigned *spins) {
  if (++*spins < 64) __asm__ volatile("" ::: "memory");
  else sched_yield();
}

BENCH_INLINE uint64_t produce(bench_worker_t *worker, ring_t *ring, bool verify) {
  uint64_t position = atomic_load_explicit(&ring->filled, memory_order_relaxed), ops = 0;
  do {
    unsigned spins = 0;
    while (position + GROUP - atomic_load_explicit(&ring->drained, memory_order_acquire) > backlog)
      wait_a_little(&spins);
    for (unsigned i = 0; i < GROUP; i++)
      ring->entries[position++ & (backlog - 1)] = bench_alloc(bench_between(&worker->rng, min_bytes, max_bytes),
                                                              verify);
    atomic_store_explicit(&ring->filled, position, memory_order_release);
    ops += 2 * GROUP; /* the consumer frees them all before the section ends */
  } while (bench_more(worker, ops));
  atomic_fetch_add_explicit(&ring->sections, 1, memory_order_release);
  return ops;
}

BENCH_INLINE uint64_t consume(ring_t *ring, bool verify) {
  uint64_t position = atomic_load_explicit(&ring->drained, memory_order_relaxed);
  unsigned spins = 0;
  for (;;) {
    /* In this order: what was filled before the section's end is seen after it. */
    bool ended = atomic_load_explicit(&ring->sections, memory_order_acquire) > ring->sections_seen;
    uint64_t filled = atomic_load_explicit(&ring->filled, memory_order_acquire);
    if (position == filled) {
      if (ended) break;
      wait_a_little(&spins);
      continue;
    }
    spins = 0;
    for (unsigned i = 0; i < GROUP; i++) bench_free(ring->entries[position++ & (backlog - 1)], verify);
    atomic_store_explicit(&ring->drained, position, memory_order_release);
  }
  ring->sections_seen++;
  return 0; /* counted by the producer */
}

static uint64_t work(bench_worker_t *worker) {
  ring_t *ring = &rings[worker->index / 2];
  bool verify = bench_args.verify;
  if (worker->index % 2 == 0) return verify ? produce(worker, ring, true) : produce(worker, ring, false);
  return verify ? consume(ring, true) : consume(ring, false);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "producer_consumer", 0.5, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  while (backlog & (backlog - 1)) backlog &= backlog - 1; /* the highest bit is left */
  rings = bench_pages(pairs * sizeof *rings);
  for (uint64_t i = 0; i < pairs; i++) rings[i].entries = bench_pages(backlog * sizeof(void *));
  bench_plan_t plan = {.work = work};
  bench_put_outcome(bench_run(&plan, 2 * (unsigned)pairs));
  bench_finish("ops_per_s");
}
