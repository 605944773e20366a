/* See meter.h. SPDX-License-Identifier: MIT */
#include "meter.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Waiting -------------------------------------------------------------*/

/* The second number: nanoseconds that the thread could have run and did not. */
static uint64_t read_queued(int file) {
  char text[96];
  ssize_t bytes = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
  unsigned long long queued = 0;
  if (bytes > 0) {
    text[bytes] = 0;
    if (sscanf(text, "%*u %llu", &queued) != 1) queued = 0;
  }
  return queued;
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

enum { QUEUE_UNKNOWN_NS = 1000 }; /* less waiting than that is not worth reading the account */

/* The processor clock is read before the wall clock here and after it at the end
 * of a call, so that a preemption between the two readings is in no interval. */
void meter_checkpoint(meter_t *meter) {
  uint64_t processor = bench_clock(CLOCK_THREAD_CPUTIME_ID), wall = meter_wall();
  if (less(wall - meter->wall, processor - meter->processor) > QUEUE_UNKNOWN_NS)
    meter->queued = read_queued(meter->schedstat);
  meter->processor = processor;
  meter->wall = meter->latest = wall;
}

void meter_record_long(meter_t *meter, uint64_t begin, uint64_t end) {
  uint64_t processor = bench_clock(CLOCK_THREAD_CPUTIME_ID);
  uint64_t passed = end - begin;
  uint64_t wait = less(end - meter->wall, processor - meter->processor), queued = 0;
  if (wait > passed) wait = passed;
  if (wait > QUEUE_UNKNOWN_NS) {
    uint64_t all = read_queued(meter->schedstat);
    queued = less(all, meter->queued);
    if (queued > wait) queued = wait;
    meter->queued = all;
  }
  meter_record(meter, passed - wait, wait, queued);
  meter->processor = processor;
  meter->wall = meter->latest = meter_wall();
}

/* ---- Histogram -----------------------------------------------------------*/

/* Below 2^FINE one bucket a nanosecond, and above 2^FINE buckets for each power of two. */
static unsigned bucket_of(uint64_t ns) {
  if (ns >> METER_FINE_BITS == 0) return (unsigned)ns;
  unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - METER_FINE_BITS;
  unsigned bucket = ((shift + 1) << METER_FINE_BITS) + (unsigned)((ns >> shift) & ((1u << METER_FINE_BITS) - 1));
  return bucket < METER_BUCKETS ? bucket : METER_BUCKETS - 1;
}

/* The largest time in it. */
static uint64_t end_of(unsigned bucket) {
  if (bucket >> METER_FINE_BITS == 0) return bucket;
  unsigned shift = (bucket >> METER_FINE_BITS) - 1;
  uint64_t head = (bucket & ((1u << METER_FINE_BITS) - 1)) | 1u << METER_FINE_BITS;
  return ((head + 1) << shift) - 1;
}

void meter_record(meter_t *meter, uint64_t processor, uint64_t wait, uint64_t queued) {
  meter->calls++;
  meter->processor_sum += processor;
  meter->counts[bucket_of(processor)]++;
  if (processor > meter->worst) meter->worst = processor;
  if (wait > meter->worst_wait) meter->worst_wait = wait;
  if (processor + wait - queued > meter->worst_stall) meter->worst_stall = processor + wait - queued;
}

uint64_t meter_quantile(const meter_t *meter, double part) {
  uint64_t wanted = (uint64_t)ceil((double)meter->calls * part), seen = 0;
  for (unsigned i = 0; i < METER_BUCKETS; i++) {
    seen += meter->counts[i];
    if (seen >= wanted) return end_of(i) < meter->worst ? end_of(i) : meter->worst;
  }
  return meter->worst;
}

/* ---- Meters --------------------------------------------------------------*/

static uint64_t clock_cost(void) {
  enum { TRIES = 1001 };
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < TRIES; i++) {
    uint64_t begin = meter_wall(), end = meter_wall();
    if (end - begin < least) least = end - begin;
  }
  return least;
}

meter_t *meter_new(void) {
  meter_t *meter = bench_pages(sizeof *meter);
  meter->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  meter_checkpoint(meter);
  return meter;
}

void meter_drop(meter_t *meter) {
  if (meter->schedstat >= 0) close(meter->schedstat);
  bench_pages_drop(meter, sizeof *meter);
}

void meter_clear(meter_t *meter) {
  meter->calls = meter->processor_sum = 0;
  meter->worst = meter->worst_wait = meter->worst_stall = 0;
  memset(meter->counts, 0, sizeof meter->counts);
}

void meter_add(meter_t *sum, const meter_t *other) {
  sum->calls += other->calls;
  sum->processor_sum += other->processor_sum;
  if (other->worst > sum->worst) sum->worst = other->worst;
  if (other->worst_wait > sum->worst_wait) sum->worst_wait = other->worst_wait;
  if (other->worst_stall > sum->worst_stall) sum->worst_stall = other->worst_stall;
  for (unsigned i = 0; i < METER_BUCKETS; i++) sum->counts[i] += other->counts[i];
}

void meter_put(const meter_t *meter) {
  bench_put_number("calls", meter->calls);
  bench_put_number("clock_ns", clock_cost());
  bench_put_real("p50_us", (double)meter_quantile(meter, 0.5) / 1000);
  bench_put_real("p99_9_us", (double)meter_quantile(meter, 0.999) / 1000);
  bench_put_real("p99_999_us", (double)meter_quantile(meter, 0.99999) / 1000);
  bench_put_real("worst_us", (double)meter->worst / 1000);
  bench_put_real("wait_us", (double)meter->worst_wait / 1000);
  bench_put_real("stall_us", (double)meter->worst_stall / 1000);
}
