/*
 * What the scenarios of `latency` share. Each one is a file of its own, which
 * says what it does; it returns a meter with the calls that count and puts
 * figures of its own into the result line.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAKMEM_BENCH_LATENCY_SCENARIOS_H
#define HAKMEM_BENCH_LATENCY_SCENARIOS_H

#include "meter.h"

#include <semaphore.h>

enum { FREER_OWNER, FREER_OTHER, FREER_SURVIVOR };
enum { ORDER_SAME, ORDER_RANDOM };

/* The options; the table in latency.c says what each one is. */
typedef struct latency_options {
  uint64_t scenario, min_bytes, max_bytes, total_bytes, blocks, slots, threads, ends, freer, order, every, own;
} latency_options_t;

extern latency_options_t latency;

meter_t *latency_growth(void);
meter_t *latency_mass_free(void);
meter_t *latency_thread_ends(void);
meter_t *latency_foreign_purge(void);
meter_t *latency_large_churn(void);
meter_t *latency_nothing(void);
meter_t *latency_lock(void);

/* `nothing`, but for what a step does and times: called after each 64 calls, with the number of those before. */
typedef void latency_step_t(meter_t *meter, uint64_t ops);
meter_t *latency_nothing_but(latency_step_t *step);

/* sem_wait that signals do not end. */
void latency_wait(sem_t *semaphore);

/* ---- Blocks --------------------------------------------------------------*/

/* `total_bytes` of blocks, sizes uniform in [min_bytes, max_bytes], none of them timed. */
typedef struct latency_heap {
  void **blocks;
  size_t count, capacity;
} latency_heap_t;

latency_heap_t latency_heap_new(void);
void latency_heap_fill(latency_heap_t *heap, bench_rng_t *rng);
void latency_heap_shuffle(latency_heap_t *heap, bench_rng_t *rng);
/* One block of `every`, timed unless `meter` is NULL; those that are left are now all that it has. */
void latency_heap_free(latency_heap_t *heap, uint64_t every, meter_t *meter);
/* What is left of it, not timed. */
void latency_heap_drop(latency_heap_t *heap);

/* ---- A thread at work ----------------------------------------------------*/

/* Small blocks (16–1024 B) and now and then a large one (64 KiB–1 MiB), each at a
 * random place where another one is freed first. Every call is timed. */
typedef struct latency_caller latency_caller_t;

latency_caller_t *latency_caller_new(meter_t *meter, uint64_t stream);
/* At least `calls` calls. */
void latency_caller_work(latency_caller_t *caller, uint64_t calls);
/* For bench_args.seconds, or bench_args.ops calls: bursts with a millisecond of
 * sleep between, so that whatever an allocator does by time or by turns comes up. */
void latency_caller_go_on(latency_caller_t *caller);
/* Frees what it has left, still timed. */
void latency_caller_drop(latency_caller_t *caller);

#endif
