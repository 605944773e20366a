/*
 * Times single calls: how much processor time each one took and how long it
 * waited, into a histogram with a relative error below 3.2 %.
 *
 * Reading the thread's processor clock is a system call and takes longer than
 * most of what is measured. So every call is timed by the wall clock, which needs
 * none, and the processor clock is read at checkpoints only: at least every
 * METER_FRESH_NS, and after everything that took longer than METER_SHORT_NS. A
 * longer call begins at most METER_FRESH_NS behind a checkpoint, with nothing but
 * short calls between; what passed since then and was not processor time is
 * therefore this call's waiting. A short call counts as processor time whole,
 * although it may have waited for a part of those few microseconds.
 *
 * Waiting has two parts, told apart by the kernel's account of the run queue
 * (/proc/thread-self/schedstat): the thread slept, for a lock or for the kernel,
 * or it could have run and others had the processor. The latter says nothing
 * about an allocator. A call's `stall` is its processor time and its sleep.
 *
 * A meter belongs to one thread. Its memory is not from malloc.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAKMEM_BENCH_METER_H
#define HAKMEM_BENCH_METER_H

#include "../common.h"

enum {
  METER_SHORT_NS = 5000,
  METER_FRESH_NS = 100000,
  METER_FINE_BITS = 5,                                       /* buckets per power of two, as its logarithm */
  METER_BUCKETS = (40 - METER_FINE_BITS) << METER_FINE_BITS, /* up to 2^39 ns, nine minutes */
};

typedef struct meter {
  /* The clocks at the latest checkpoint. */
  uint64_t wall, processor, queued;
  uint64_t latest; /* wall clock at the end of the latest call */
  int schedstat;   /* open file, or -1 where the kernel keeps no account */

  uint64_t calls, processor_sum;
  uint64_t worst, worst_wait, worst_stall;
  uint64_t counts[METER_BUCKETS];
} meter_t;

/* For the calling thread. */
meter_t *meter_new(void);
void meter_drop(meter_t *meter);
/* Forgets what was counted, as after a warm-up. */
void meter_clear(meter_t *meter);
void meter_add(meter_t *sum, const meter_t *other);

void meter_checkpoint(meter_t *meter);
void meter_record(meter_t *meter, uint64_t processor, uint64_t wait, uint64_t queued);
void meter_record_long(meter_t *meter, uint64_t begin, uint64_t end);

/* The smallest time that `part` of the calls did not exceed, in nanoseconds of processor time. */
uint64_t meter_quantile(const meter_t *meter, double part);

/* calls, clock_ns (what every time below includes for the clock itself), p50_us,
 * p99_9_us, p99_999_us, worst_us (processor time), and wait_us and stall_us, the
 * worst of their kind. */
void meter_put(const meter_t *meter);

BENCH_INLINE uint64_t meter_wall(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

BENCH_INLINE uint64_t meter_begin(meter_t *meter) {
  uint64_t now = meter_wall();
  if (__builtin_expect(now - meter->latest > METER_SHORT_NS || now - meter->wall > METER_FRESH_NS, 0)) {
    meter_checkpoint(meter);
    now = meter_wall();
  }
  __asm__ volatile("" ::: "memory");
  return now;
}

BENCH_INLINE void meter_end(meter_t *meter, uint64_t begin) {
  __asm__ volatile("" ::: "memory");
  uint64_t now = meter_wall(), passed = now - begin;
  meter->latest = now;
  if (__builtin_expect(passed > METER_SHORT_NS, 0)) meter_record_long(meter, begin, now);
  else meter_record(meter, passed, 0, 0);
}

/* malloc and free, timed; what is written to the block and read from it is not. */
BENCH_INLINE void *meter_alloc(meter_t *meter, size_t bytes) {
  uint64_t begin = meter_begin(meter);
  void *p = malloc(bytes);
  meter_end(meter, begin);
  if (__builtin_expect(!p, 0)) bench_out_of_memory(bytes);
  if (bench_args.verify) bench_seal(p, bytes, (uintptr_t)p);
  else bench_touch(p, bytes);
  bench_keep(p);
  return p;
}

BENCH_INLINE void meter_free(meter_t *meter, void *p) {
  if (bench_args.verify) bench_break_seal(p);
  uint64_t begin = meter_begin(meter);
  free(p);
  meter_end(meter, begin);
}

#endif
