/*
 * Mass free: --total bytes of small blocks are freed at once, all of them or one
 * of --every, in the order of their allocation or in a random one.
 *   owner     by the thread that allocated them
 *   other     by another thread, while the owner waits; the owner finds all its
 *             blocks freed when it goes on
 *   survivor  by another thread, after the owner has ended
 * In the latter two the owner may have freed one of --own before, so that much of
 * its memory is partly free already when the others come.
 * Afterwards the threads that are left go on for a while, one after the other,
 * since an allocator may leave the work to later calls.
 *
 * SPDX-License-Identifier: MIT
 */
#include "scenarios.h"

static struct {
  latency_heap_t heap;
  sem_t filled, freed;
  meter_t *owner; /* the calls after its blocks were freed; NULL if it has ended before */
} shared;

static void go_on(meter_t *meter, uint64_t stream) {
  latency_caller_t *caller = latency_caller_new(meter, stream);
  latency_caller_go_on(caller);
  latency_caller_drop(caller);
}

static void *owner(void *unused) {
  (void)unused;
  bench_rng_t rng = bench_rng(0);
  latency_heap_fill(&shared.heap, &rng);
  if (latency.own) latency_heap_free(&shared.heap, latency.own, NULL);
  if (latency.freer == FREER_SURVIVOR) return NULL;
  shared.owner = meter_new();
  sem_post(&shared.filled);
  latency_wait(&shared.freed);
  go_on(shared.owner, 1);
  return NULL;
}

meter_t *latency_mass_free(void) {
  meter_t *meter = meter_new();
  bench_rng_t rng = bench_rng(2);
  uintptr_t thread = 0;
  shared.heap = latency_heap_new();
  sem_init(&shared.filled, 0, 0);
  sem_init(&shared.freed, 0, 0);

  if (latency.freer == FREER_OWNER) {
    latency_heap_fill(&shared.heap, &rng);
  } else {
    thread = bench_thread_start(owner, NULL);
    if (latency.freer == FREER_OTHER) latency_wait(&shared.filled);
    else bench_thread_join(thread);
  }

  if (latency.order == ORDER_RANDOM) latency_heap_shuffle(&shared.heap, &rng);
  latency_heap_free(&shared.heap, latency.every, meter);
  go_on(meter, 3);

  if (latency.freer == FREER_OTHER) {
    sem_post(&shared.freed);
    bench_thread_join(thread);
    meter_add(meter, shared.owner);
    meter_drop(shared.owner);
  }
  latency_heap_drop(&shared.heap);
  return meter;
}
