/*
 * Growth: a program that only allocates, until it holds --total bytes. Whatever
 * an allocator does by the size of its heap (larger steps, tables that are
 * copied or scanned) makes single calls long here.
 *
 * Sizes are uniform up to 64 KiB, and above as many of one power of two as of
 * another. Every page of a block is written to, outside of the timed call.
 *
 * SPDX-License-Identifier: MIT
 */
#include "scenarios.h"

static size_t draw(bench_rng_t *rng) {
  if (latency.max_bytes <= 64 * BENCH_KIB) return bench_between(rng, latency.min_bytes, latency.max_bytes);
  return bench_log_between(rng, latency.min_bytes, latency.max_bytes);
}

meter_t *latency_growth(void) {
  meter_t *meter = meter_new();
  bench_rng_t rng = bench_rng(0);
  latency_heap_t heap = latency_heap_new();
  for (uint64_t live = 0; live < latency.total_bytes;) {
    size_t bytes = draw(&rng);
    void *block = meter_alloc(meter, bytes);
    if (!bench_args.verify) bench_touch_pages(block, bytes);
    heap.blocks[heap.count++] = block;
    live += bytes;
  }
  latency_heap_drop(&heap);
  return meter;
}
