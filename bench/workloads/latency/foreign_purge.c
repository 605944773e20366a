/*
 * Foreign purge: a thread frees --total bytes in --blocks equal blocks, every page
 * of which was used, while the main thread makes small and large calls. What
 * counts are the main thread's calls: nobody's free may stop other threads,
 * neither by a lock that is held while memory goes back to the system nor by
 * leaving that work to them.
 *
 * The freeing thread's own worst call is told beside (freer_us): to unmap its own
 * huge block is its own affair.
 *
 * SPDX-License-Identifier: MIT
 */
#include "scenarios.h"

#include <stdatomic.h>

static struct {
  sem_t filled, go;
  atomic_bool freed;
  meter_t *meter;
} freer;

static void *freeing_thread(void *unused) {
  (void)unused;
  size_t bytes = latency.total_bytes / latency.blocks;
  void **blocks = bench_pages(latency.blocks * sizeof *blocks);
  for (uint64_t i = 0; i < latency.blocks; i++) {
    blocks[i] = bench_alloc(bytes, bench_args.verify);
    if (!bench_args.verify) bench_touch_pages(blocks[i], bytes);
  }
  freer.meter = meter_new();
  sem_post(&freer.filled);
  latency_wait(&freer.go);
  for (uint64_t i = 0; i < latency.blocks; i++) meter_free(freer.meter, blocks[i]);
  atomic_store_explicit(&freer.freed, true, memory_order_release);
  bench_pages_drop(blocks, latency.blocks * sizeof *blocks);
  return NULL;
}

meter_t *latency_foreign_purge(void) {
  if (latency.total_bytes / latency.blocks < BENCH_SEAL_MIN) bench_usage("--total is too little for --blocks");
  meter_t *meter = meter_new();
  sem_init(&freer.filled, 0, 0);
  sem_init(&freer.go, 0, 0);
  uintptr_t thread = bench_thread_start(freeing_thread, NULL);
  latency_wait(&freer.filled);

  latency_caller_t *caller = latency_caller_new(meter, 0);
  latency_caller_work(caller, 10000); /* until its slots are filled */
  meter_clear(meter);
  sem_post(&freer.go);
  while (!atomic_load_explicit(&freer.freed, memory_order_acquire)) latency_caller_work(caller, 64);
  bench_put_number("calls_meanwhile", meter->calls);
  latency_caller_go_on(caller);

  bench_thread_join(thread);
  latency_caller_drop(caller);
  bench_put_real("freer_us", (double)freer.meter->worst / 1000);
  meter_drop(freer.meter);
  return meter;
}
