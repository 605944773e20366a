/* Blocks and callers of the scenarios; see scenarios.h. SPDX-License-Identifier: MIT */
#include "scenarios.h"

#include <errno.h>

void latency_wait(sem_t *semaphore) {
  while (sem_wait(semaphore) != 0 && errno == EINTR) {}
}

/* ---- Blocks --------------------------------------------------------------*/

latency_heap_t latency_heap_new(void) {
  size_t capacity = latency.total_bytes / latency.min_bytes + 1;
  return (latency_heap_t){.blocks = bench_pages(capacity * sizeof(void *)), .capacity = capacity};
}

void latency_heap_fill(latency_heap_t *heap, bench_rng_t *rng) {
  heap->count = 0;
  for (uint64_t live = 0; live < latency.total_bytes;) {
    size_t bytes = bench_between(rng, latency.min_bytes, latency.max_bytes);
    heap->blocks[heap->count++] = bench_alloc(bytes, bench_args.verify);
    live += bytes;
  }
}

void latency_heap_shuffle(latency_heap_t *heap, bench_rng_t *rng) {
  for (size_t i = heap->count; i > 1; i--) {
    size_t other = bench_below(rng, i);
    void *block = heap->blocks[other];
    heap->blocks[other] = heap->blocks[i - 1];
    heap->blocks[i - 1] = block;
  }
}

void latency_heap_free(latency_heap_t *heap, uint64_t every, meter_t *meter) {
  size_t left = 0;
  for (size_t i = 0; i < heap->count; i++) {
    if (i % every != 0) heap->blocks[left++] = heap->blocks[i];
    else if (meter) meter_free(meter, heap->blocks[i]);
    else bench_free(heap->blocks[i], bench_args.verify);
  }
  heap->count = left;
}

void latency_heap_drop(latency_heap_t *heap) {
  for (size_t i = 0; i < heap->count; i++) bench_free(heap->blocks[i], bench_args.verify);
  bench_pages_drop(heap->blocks, heap->capacity * sizeof(void *));
}

/* ---- A thread at work ----------------------------------------------------*/

enum { SMALL_SLOTS = 1024, LARGE_SLOTS = 16, LARGE_EVERY = 32, BURST = 256 };

struct latency_caller {
  meter_t *meter;
  bench_rng_t rng;
  void *small[SMALL_SLOTS], *large[LARGE_SLOTS];
};

latency_caller_t *latency_caller_new(meter_t *meter, uint64_t stream) {
  latency_caller_t *caller = bench_pages(sizeof *caller);
  caller->meter = meter;
  caller->rng = bench_rng(stream);
  return caller;
}

/* Two calls, or one where the slot was empty. */
static void replace(latency_caller_t *caller, void **slot, size_t bytes) {
  if (*slot) meter_free(caller->meter, *slot);
  *slot = meter_alloc(caller->meter, bytes);
}

void latency_caller_work(latency_caller_t *caller, uint64_t calls) {
  bench_rng_t *rng = &caller->rng;
  for (uint64_t i = 0; i < calls; i++)
    if (bench_below(rng, LARGE_EVERY) == 0)
      replace(caller, &caller->large[bench_below(rng, LARGE_SLOTS)], bench_between(rng, 64 * BENCH_KIB, BENCH_MIB));
    else replace(caller, &caller->small[bench_below(rng, SMALL_SLOTS)], bench_between(rng, 16, BENCH_KIB));
}

void latency_caller_go_on(latency_caller_t *caller) {
  double end = bench_now() + bench_args.seconds;
  for (uint64_t calls = 0; bench_args.ops ? calls < bench_args.ops : bench_now() < end; calls += BURST) {
    latency_caller_work(caller, BURST);
    bench_sleep(0.001);
  }
}

void latency_caller_drop(latency_caller_t *caller) {
  for (size_t i = 0; i < SMALL_SLOTS + LARGE_SLOTS; i++) {
    void *block = i < SMALL_SLOTS ? caller->small[i] : caller->large[i - SMALL_SLOTS];
    if (block) meter_free(caller->meter, block);
  }
  bench_pages_drop(caller, sizeof *caller);
}
