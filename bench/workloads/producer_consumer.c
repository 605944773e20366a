/*
 * Producers and consumers: some threads only allocate, others only free, as in a
 * pipeline or an event loop. Allocators that cache freed blocks in the freeing
 * thread have to bring them back, again and again and in one direction.
 *
 * Blocks travel through rings, one from each producer to each consumer of its team;
 * positions are published in groups, so that a ring costs little beside the allocator.
 * With one producer and seven consumers one thread's blocks are freed by many (fan-out), with
 * seven producers one thread frees the blocks of many (fan-in).
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <sched.h>
#include <stdatomic.h>

static uint64_t pairs = 1, producers = 1, consumers = 1, min_bytes = 64, max_bytes = 64, backlog = 8192;
static uint64_t backlog_bytes = 16 * BENCH_GIB;

static const bench_option_t options[] = {
    {"pairs", BENCH_NUMBER, &pairs, 1, 512, NULL,
     "of producers and consumers: teams that have nothing to do with each other"},
    {"producers", BENCH_NUMBER, &producers, 1, 64, NULL, "of each team"},
    {"consumers", BENCH_NUMBER, &consumers, 1, 64, NULL, "of each team"},
    {"min", BENCH_BYTES, &min_bytes, 16, 4 * BENCH_MIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, 4 * BENCH_MIB, NULL, "largest block"},
    {"backlog", BENCH_NUMBER, &backlog, 2, 1 << 24, NULL,
     "blocks that may be on the way from a producer to a consumer; rounded down to a power of two"},
    {"backlog-bytes", BENCH_BYTES, &backlog_bytes, 1, 16 * BENCH_GIB, NULL,
     "the same in bytes of the largest block, but two blocks at least"},
    {0},
};

enum { GROUP_MOST = 64 };
static unsigned group; /* blocks that are published together: at most half of a ring */

typedef struct ring {
  _Alignas(128) _Atomic uint64_t filled;  /* written by the producer: release with the entries before it */
  _Atomic uint64_t sections;              /* sections that the producer has ended */
  _Alignas(128) _Atomic uint64_t drained; /* written by the consumer: its entries may be used again */
  uint64_t sections_seen;                 /* the consumer's own */
  _Alignas(128) void **entries;
} ring_t;

static ring_t *rings;

static ring_t *ring_between(uint64_t team, uint64_t producer, uint64_t consumer) {
  return &rings[(team * producers + producer) * consumers + consumer];
}

/* Spins a little, since the other side is usually at work, then lets others run:
 * there may be more threads than processors. */
static void wait_a_little(unsigned *spins) {
  if (++*spins < 64) __asm__ volatile("" ::: "memory");
  else sched_yield();
}

BENCH_INLINE void put_group(bench_worker_t *worker, ring_t *ring, bool verify) {
  uint64_t position = atomic_load_explicit(&ring->filled, memory_order_relaxed);
  unsigned spins = 0;
  while (position + group - atomic_load_explicit(&ring->drained, memory_order_acquire) > backlog) wait_a_little(&spins);
  for (unsigned i = 0; i < group; i++)
    ring->entries[position++ & (backlog - 1)] = bench_alloc(bench_between(&worker->rng, min_bytes, max_bytes), verify);
  atomic_store_explicit(&ring->filled, position, memory_order_release);
}

/* Gives each consumer a group in turn. */
BENCH_INLINE uint64_t produce(bench_worker_t *worker, uint64_t team, uint64_t producer, bool verify) {
  uint64_t ops = 0;
  do {
    for (uint64_t consumer = 0; consumer < consumers; consumer++)
      put_group(worker, ring_between(team, producer, consumer), verify);
    ops += 2 * group * consumers; /* the consumers free them all before the section ends */
  } while (bench_more(worker, ops));
  for (uint64_t consumer = 0; consumer < consumers; consumer++)
    atomic_fetch_add_explicit(&ring_between(team, producer, consumer)->sections, 1, memory_order_release);
  return ops;
}

typedef enum { TAKEN, EMPTY, ENDED } taken_t;

BENCH_INLINE taken_t take_group(ring_t *ring, bool verify) {
  uint64_t position = atomic_load_explicit(&ring->drained, memory_order_relaxed);
  /* In this order: what was filled before the section's end is seen after it. */
  bool ended = atomic_load_explicit(&ring->sections, memory_order_acquire) > ring->sections_seen;
  uint64_t filled = atomic_load_explicit(&ring->filled, memory_order_acquire);
  if (position == filled) return ended ? ENDED : EMPTY;
  for (unsigned i = 0; i < group; i++) bench_free(ring->entries[position++ & (backlog - 1)], verify);
  atomic_store_explicit(&ring->drained, position, memory_order_release);
  return TAKEN;
}

/* Takes a group from each producer in turn, if there is one. */
BENCH_INLINE uint64_t consume(uint64_t team, uint64_t consumer, bool verify) {
  unsigned spins = 0;
  for (uint64_t ended = 0; ended < producers;) {
    bool any = false;
    ended = 0;
    for (uint64_t producer = 0; producer < producers; producer++) {
      taken_t taken = take_group(ring_between(team, producer, consumer), verify);
      any |= taken == TAKEN;
      ended += taken == ENDED;
    }
    if (any) spins = 0;
    else if (ended < producers) wait_a_little(&spins);
  }
  for (uint64_t producer = 0; producer < producers; producer++) ring_between(team, producer, consumer)->sections_seen++;
  return 0; /* counted by the producers */
}

static uint64_t work(bench_worker_t *worker) {
  uint64_t team = worker->index / (producers + consumers), number = worker->index % (producers + consumers);
  bool verify = bench_args.verify;
  if (number < producers) return verify ? produce(worker, team, number, true) : produce(worker, team, number, false);
  number -= producers;
  return verify ? consume(team, number, true) : consume(team, number, false);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "producer_consumer", 0.5, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  if (backlog > backlog_bytes / max_bytes) backlog = backlog_bytes / max_bytes;
  if (backlog < 2) backlog = 2;
  while (backlog & (backlog - 1)) backlog &= backlog - 1; /* the highest bit is left */
  group = backlog / 2 < GROUP_MOST ? (unsigned)backlog / 2 : GROUP_MOST;
  uint64_t count = pairs * producers * consumers;
  rings = bench_pages(count * sizeof *rings);
  for (uint64_t i = 0; i < count; i++) rings[i].entries = bench_pages(backlog * sizeof(void *));
  bench_plan_t plan = {.work = work};
  bench_put_outcome(bench_run(&plan, (unsigned)(pairs * (producers + consumers))));
  bench_finish("ops_per_s");
}
