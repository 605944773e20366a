/*
 * Slow consumer: a producer could always go on, but a consumer frees only so much a second, and the queue between
 * them is full nearly all of the time. What is live is bounded by the program; is what the allocator needs for it?
 * A block that the consumer has freed serves nobody until the producer gets it back.
 *
 * Each time that the queue has been filled anew the sizes are of the next range, as when a server gets other
 * requests; after the last the first comes again. With --shapes 1 all are of one range.
 *
 * `live_mib` is the most that was live, in bytes that were asked for, and `highest_mib` the most that was
 * resident, less the workload's own tables, looked at 20 times a second; `quarter_mib` is the same of the first
 * quarter of the time. Every page of every block is written, so that what is live is resident.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static uint64_t min_bytes = 64, max_bytes = 64 * BENCH_KIB, queue_bytes = 32 * BENCH_MIB, rate_bytes = 64 * BENCH_MIB;
static uint64_t length_ms = 60000, shapes = 8;

static const bench_option_t options[] = {
    {"min", BENCH_BYTES, &min_bytes, 16, 4 * BENCH_MIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, 4 * BENCH_MIB, NULL, "largest block"},
    {"queue", BENCH_BYTES, &queue_bytes, 128 * BENCH_KIB, 16 * BENCH_GIB, NULL, "bytes that may be waiting"},
    {"rate", BENCH_BYTES, &rate_bytes, BENCH_KIB, 16 * BENCH_GIB, NULL, "bytes that are freed in a second"},
    {"shapes", BENCH_NUMBER, &shapes, 1, 64, NULL, "ranges of sizes that follow each other"},
    {"length", BENCH_NUMBER, &length_ms, 1, 3600000, NULL, "milliseconds"},
    {0},
};

typedef struct entry {
  void *block;
  uint64_t bytes;
} entry_t;

/* The queue. All but `entries` and what does not change is guarded by `lock`; an entry is the producer's before it
 * is counted in `filled`, and then the consumer's. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  entry_t *entries;
  uint64_t length, filled, drained, bytes, most_bytes;
  bool over;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

enum { PORTION = 64 * 1024, SIZES = 4096 }; /* bytes that are put into the queue together */

static void *produce(void *nothing) {
  bench_rng_t rng = bench_rng(0);
  uint32_t(*sizes)[SIZES] = bench_pages(shapes * sizeof *sizes);
  double step = log((double)max_bytes / (double)min_bytes) / (double)shapes;
  for (uint64_t shape = 0; shape < shapes; shape++) {
    uint64_t least = (uint64_t)((double)min_bytes * exp(step * (double)shape));
    uint64_t most = (uint64_t)((double)min_bytes * exp(step * (double)(shape + 1)));
    for (unsigned i = 0; i < SIZES; i++) sizes[shape][i] = (uint32_t)bench_log_between(&rng, least, most);
  }
  uint64_t spent = 0, position = 0;
  for (;;) {
    pthread_mutex_lock(&queue.lock);
    while (!queue.over && queue.bytes + PORTION > queue_bytes) pthread_cond_wait(&queue.changed, &queue.lock);
    bool over = queue.over;
    pthread_mutex_unlock(&queue.lock);
    if (over) break;
    uint64_t portion = 0;
    while (portion < PORTION) {
      size_t bytes = sizes[(spent + portion) / queue_bytes % shapes][bench_below(&rng, SIZES)];
      void *block = bench_alloc(bytes, bench_args.verify);
      if (!bench_args.verify) bench_touch_pages(block, bytes);
      queue.entries[position++ % queue.length] = (entry_t){block, bytes};
      portion += bytes;
    }
    spent += portion;
    pthread_mutex_lock(&queue.lock);
    queue.bytes += portion;
    if (queue.bytes > queue.most_bytes) queue.most_bytes = queue.bytes;
    queue.filled = position;
    pthread_mutex_unlock(&queue.lock);
  }
  bench_pages_drop(sizes, shapes * sizeof *sizes);
  return nothing;
}

/* Frees up to so many bytes and returns how many. */
static uint64_t consume(uint64_t wanted) {
  uint64_t bytes = 0, position = queue.drained;
  pthread_mutex_lock(&queue.lock);
  uint64_t filled = queue.filled;
  pthread_mutex_unlock(&queue.lock);
  while (position != filled && bytes < wanted) {
    entry_t *entry = &queue.entries[position++ % queue.length];
    bytes += entry->bytes;
    bench_free(entry->block, bench_args.verify);
  }
  pthread_mutex_lock(&queue.lock);
  queue.drained = position;
  queue.bytes -= bytes;
  pthread_cond_signal(&queue.changed);
  pthread_mutex_unlock(&queue.lock);
  return bytes;
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "slow_consumer", 0, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  queue.length = (queue_bytes + max_bytes) / min_bytes + 1;
  queue.entries = bench_pages(queue.length * sizeof *queue.entries);
  memset(queue.entries, 1,
         queue.length * sizeof *queue.entries); /* resident from the beginning, so that it can be told */
  uintptr_t producer = bench_thread_start(produce, NULL);

  enum { LOOKS = 20 }; /* in a second */
  double start = bench_now(), highest = 0, quarter = 0, length = (double)length_ms / 1000;
  uint64_t freed = 0;
  for (uint64_t look = 1; bench_now() < start + length || freed == 0; look++) {
    double until = start + (double)look / LOOKS, now;
    while ((now = bench_now()) < until) {
      uint64_t due = (uint64_t)((now - start) * (double)rate_bytes);
      if (due > freed) freed += consume(due - freed);
      bench_sleep(0.001);
    }
    double resident = bench_resident_mib(queue.length * sizeof *queue.entries);
    if (resident > highest) highest = resident;
    if (now < start + length / 4) quarter = highest;
  }

  pthread_mutex_lock(&queue.lock);
  queue.over = true;
  pthread_cond_signal(&queue.changed);
  pthread_mutex_unlock(&queue.lock);
  bench_thread_join(producer);
  consume(UINT64_MAX);
  bench_put_number("freed_bytes", freed);
  bench_put_real("live_mib", (double)queue.most_bytes / (double)BENCH_MIB);
  if (quarter > 0) bench_put_real("quarter_mib", quarter);
  bench_put_memory("highest_mib", highest);
  bench_finish("highest_mib");
}
