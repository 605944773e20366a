/*
 * Larson: the model of a long-running server by Larson and Krishnan ("Memory
 * allocation for long-running server applications", ISMM 1998). Every lane has a
 * table of live blocks, replaced one by one at random. After a number of
 * replacements the lane's thread starts a successor, hands it the table and
 * ends: the successor frees what its predecessors allocated.
 *
 * The first threads wait for each other, so that every section begins in the same
 * state. Without that, some lanes started successors while others were not yet
 * there, by chance few or many: where an allocator takes a spin lock in the start
 * of a thread, one run was 30 times slower than the next.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <math.h>
#include <pthread.h>

static uint64_t lanes = 2, slots = 1000, min_bytes = 16, max_bytes = 512, rounds = 20000;

static const bench_option_t options[] = {
    {"threads", BENCH_NUMBER, &lanes, 1, 1024, NULL, "lanes, each with one thread at a time"},
    {"slots", BENCH_NUMBER, &slots, 1, 1 << 24, NULL, "live blocks of a lane"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_MIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_MIB, NULL, "largest block"},
    {"rounds", BENCH_NUMBER, &rounds, 1, 1u << 30, NULL, "replacements before the hand-over"},
    {0},
};

typedef struct lane {
  bench_rng_t rng;
  void **table;
  double seconds, start, end, deadline;
  uint64_t ops, ops_limit, generations;
  uintptr_t predecessor; /* 0 for the first thread of a section */
  pthread_mutex_t lock;
  pthread_cond_t ended;
  bool finished;
  pthread_barrier_t *line_up; /* where the first threads meet */
  uintptr_t last;             /* the thread that finished the section */
} lane_t;

BENCH_INLINE void replace(lane_t *lane, bool verify) {
  for (uint64_t i = 0; i < rounds; i++) {
    void **slot = &lane->table[bench_below(&lane->rng, slots)];
    if (*slot) bench_free(*slot, verify);
    *slot = bench_alloc(bench_between(&lane->rng, min_bytes, max_bytes), verify);
  }
  lane->ops += 2 * rounds;
}

static void start_together(lane_t *lane) {
  pthread_barrier_wait(lane->line_up);
  lane->start = bench_now();
  lane->deadline = lane->start + lane->seconds;
}

static void *lane_thread(void *argument) {
  lane_t *lane = argument;
  if (lane->predecessor) bench_thread_join(lane->predecessor);
  else start_together(lane);
  if (bench_args.verify) replace(lane, true);
  else replace(lane, false);
  lane->generations++;

  uintptr_t self = (uintptr_t)pthread_self();
  bool more = lane->ops_limit ? lane->ops < lane->ops_limit : bench_now() < lane->deadline;
  if (more) {
    lane->predecessor = self;
    bench_thread_start(lane_thread, lane); /* from here on the lane is the successor's */
  } else {
    lane->end = bench_now();
    pthread_mutex_lock(&lane->lock);
    lane->last = self;
    lane->finished = true;
    pthread_cond_signal(&lane->ended);
    pthread_mutex_unlock(&lane->lock);
  }
  return NULL;
}

static bench_outcome_t section(lane_t *all, double seconds, uint64_t ops) {
  bench_outcome_t outcome = {0, 0};
  pthread_barrier_t line_up;
  pthread_barrier_init(&line_up, NULL, (unsigned)lanes);
  for (uint64_t i = 0; i < lanes; i++) {
    lane_t *lane = &all[i];
    lane->line_up = &line_up;
    lane->seconds = seconds;
    lane->ops = lane->generations = lane->predecessor = 0;
    lane->ops_limit = ops;
    lane->finished = false;
    bench_thread_start(lane_thread, lane);
  }
  double start = INFINITY, end = 0;
  for (uint64_t i = 0; i < lanes; i++) {
    pthread_mutex_lock(&all[i].lock);
    while (!all[i].finished) pthread_cond_wait(&all[i].ended, &all[i].lock);
    pthread_mutex_unlock(&all[i].lock);
    bench_thread_join(all[i].last);
    outcome.ops += all[i].ops;
    start = fmin(start, all[i].start);
    end = fmax(end, all[i].end);
  }
  outcome.seconds = end - start;
  pthread_barrier_destroy(&line_up);
  return outcome;
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "larson", 0.6, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  lane_t *all = bench_pages(lanes * sizeof *all);
  for (uint64_t i = 0; i < lanes; i++) {
    all[i].rng = bench_rng(i);
    all[i].table = bench_pages(slots * sizeof(void *));
    pthread_mutex_init(&all[i].lock, NULL);
    pthread_cond_init(&all[i].ended, NULL);
  }
  section(all, bench_warmup_seconds(), bench_warmup_ops());
  bench_outcome_t outcome = section(all, bench_args.seconds, bench_args.ops);
  uint64_t generations = 0;
  for (uint64_t i = 0; i < lanes; i++) {
    generations += all[i].generations;
    for (uint64_t k = 0; k < slots; k++)
      if (all[i].table[k]) bench_free(all[i].table[k], bench_args.verify);
  }
  bench_put_outcome(outcome);
  bench_put_number("generations", generations);
  bench_finish("ops_per_s");
}
