/*
 * Thread ends: --ends threads end, one after the other. Each has used many sizes
 * and freed its blocks again, so that its caches are full; and it has allocated
 * --total bytes of small blocks of which the main thread has freed one of --every
 * since, so that these wait for it to take them back. A bystander makes calls all the while.
 *
 * What counts is the processor time of an end, from the thread's last statement
 * until it is gone, and the bystander's calls. A thread cannot read its clock
 * after its last destructor, and nobody else can read it then; so an end is what
 * the process has used, less what the two other threads have. It includes what
 * the C library and the kernel do at the end of a thread, a few dozen
 * microseconds under any allocator.
 *
 * SPDX-License-Identifier: MIT
 */
#include "scenarios.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static struct {
  latency_heap_t heap;
  sem_t ready, go;
  atomic_bool over;
  meter_t *bystander;
  sem_t bystander_there;
} shared;

/* Sizes of every kind: 16 B–1 KiB, 1–32 KiB and 64–512 KiB, a few MiB in all. */
static void fill_caches(bench_rng_t *rng) {
  enum { COUNT = 4096 };
  static const struct {
    size_t min, max, count;
  } kinds[] = {{16, 1024, COUNT}, {1024, 32 * 1024, 256}, {64 * 1024, 512 * 1024, 16}};
  void *blocks[COUNT];
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
    for (size_t i = 0; i < kinds[kind].count; i++)
      blocks[i] = bench_alloc(bench_between(rng, kinds[kind].min, kinds[kind].max), bench_args.verify);
    for (size_t i = 0; i < kinds[kind].count; i++) bench_free(blocks[i], bench_args.verify);
  }
}

static void *ending_thread(void *index) {
  bench_rng_t rng = bench_rng((uintptr_t)index);
  if (latency.total_bytes) latency_heap_fill(&shared.heap, &rng);
  fill_caches(&rng);
  sem_post(&shared.ready);
  latency_wait(&shared.go);
  return NULL;
}

static void *bystander(void *unused) {
  (void)unused;
  shared.bystander = meter_new();
  latency_caller_t *caller = latency_caller_new(shared.bystander, 0);
  latency_caller_work(caller, 10000); /* until its slots are filled */
  meter_clear(shared.bystander);
  sem_post(&shared.bystander_there);
  while (!atomic_load_explicit(&shared.over, memory_order_acquire)) latency_caller_work(caller, 64);
  latency_caller_drop(caller);
  return NULL;
}

/* Processor time of all threads but this one and the bystander. The clocks cannot be
 * read at one moment: of some readings, the one in which the bystander did least counts. */
static uint64_t others_time(clockid_t bystander_clock) {
  enum { NEAR_NS = 3000, TRIES = 50 };
  uint64_t least = UINT64_MAX, time = 0;
  for (int i = 0; i < TRIES && least > NEAR_NS; i++) {
    uint64_t bystander = bench_clock(bystander_clock), own = bench_clock(CLOCK_THREAD_CPUTIME_ID);
    uint64_t all = bench_clock(CLOCK_PROCESS_CPUTIME_ID), passed = bench_clock(bystander_clock) - bystander;
    if (passed < least) {
      least = passed;
      time = all - own - bystander;
    }
  }
  return time;
}

static void one_end(meter_t *ends, uint64_t index, clockid_t bystander_clock) {
  uintptr_t thread = bench_thread_start(ending_thread, (void *)(uintptr_t)(index + 1));
  latency_wait(&shared.ready);
  latency_heap_free(&shared.heap, latency.every, NULL);

  uint64_t used = others_time(bystander_clock), begin = meter_wall();
  sem_post(&shared.go);
  bench_thread_join(thread);
  uint64_t passed = meter_wall() - begin;
  uint64_t used_then = others_time(bystander_clock);
  used = used_then > used ? used_then - used : 0;
  /* Who had the processor meanwhile is not known of a thread that is gone. */
  uint64_t wait = passed > used ? passed - used : 0;
  meter_record(ends, used, wait, wait);
  for (size_t i = 0; i < shared.heap.count; i++) bench_free(shared.heap.blocks[i], bench_args.verify);
  shared.heap.count = 0;
}

meter_t *latency_thread_ends(void) {
  meter_t *ends = meter_new();
  if (latency.total_bytes) shared.heap = latency_heap_new();
  sem_init(&shared.ready, 0, 0);
  sem_init(&shared.go, 0, 0);
  sem_init(&shared.bystander_there, 0, 0);
  uintptr_t thread = bench_thread_start(bystander, NULL);
  latency_wait(&shared.bystander_there);
  clockid_t bystander_clock;
  int error = pthread_getcpuclockid((pthread_t)thread, &bystander_clock);
  if (error) bench_die("no clock of the bystander: %s", strerror(error));

  for (uint64_t i = 0; i < latency.ends; i++) one_end(ends, i, bystander_clock);

  atomic_store_explicit(&shared.over, true, memory_order_release);
  bench_thread_join(thread);
  bench_put_real("end_p50_us", (double)meter_quantile(ends, 0.5) / 1000);
  bench_put_real("end_worst_us", (double)ends->worst / 1000);
  bench_put_real("bystander_worst_us", (double)shared.bystander->worst / 1000);
  meter_add(ends, shared.bystander);
  meter_drop(shared.bystander);
  if (latency.total_bytes) latency_heap_drop(&shared.heap);
  return ends;
}
