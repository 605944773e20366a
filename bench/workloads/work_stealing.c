/*
 * Work stealing: every thread has a deque of tasks, as in fork-join libraries. It takes the
 * youngest of its own; a task makes two smaller ones, each in a block of its own, and is freed by
 * the thread that has run it. Who has none left steals another's oldest. Only some threads begin trees of
 * tasks, and have many of them waiting; the others live on what they steal, and on what they make of it. So
 * some blocks are freed where they were allocated, and others elsewhere, one at a time and in no order.
 *
 * `stolen` are the tasks that were freed by another thread than the one that allocated them, of a thousand.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <sched.h>
#include <stdatomic.h>

static uint64_t threads = 8, starters = 4, min_bytes = 16, max_bytes = BENCH_KIB, depth = 1, backlog = 500;

enum { TASKS = 4096, SIZES = 4096, DEPTH_MOST = 15, TASK_ALIGNMENT = 16 };

static const bench_option_t options[] = {
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "that work and steal"},
    {"starters", BENCH_NUMBER, &starters, 1, 1024, NULL, "of them that begin trees of tasks"},
    {"min", BENCH_BYTES, &min_bytes, 16, 4 * BENCH_MIB, NULL, "smallest task"},
    {"max", BENCH_BYTES, &max_bytes, 16, 4 * BENCH_MIB, NULL, "largest task"},
    {"depth", BENCH_NUMBER, &depth, 0, DEPTH_MOST, NULL, "of a tree: 0 is a single task, 3 are 15"},
    {"backlog", BENCH_NUMBER, &backlog, 1, 4000, NULL,
     "trees that wait in a starter's deque, half of them at the least"},
    {0},
};

/* A task's block, and in the bits that its alignment leaves how many generations come after it. */
typedef uintptr_t task_t;

/* A worker's own. */
typedef struct state {
  uint64_t sections; /* that it has begun */
  uint32_t sizes[SIZES];
} state_t;

/* A deque as Chase and Lev have described it (SPAA 2005), with the orders of Lê, Pop, Cohen and Zappa Nardelli
 * (PPoPP 2013). It never grows: beside what has waited from the beginning a thread that takes its youngest task
 * first has at most two of each generation. */
typedef struct deque {
  _Alignas(128) _Atomic int64_t oldest; /* thieves and the owner, by compare-and-swap */
  _Alignas(128) _Atomic int64_t end;    /* the owner's */
  _Atomic task_t tasks[TASKS];
} deque_t;

static deque_t *deques;
static _Atomic uint64_t all_tasks, all_stolen; /* relaxed: read after the threads are joined */
static _Atomic uint64_t ended; /* sections that starters have ended, relaxed: a thief goes by it, no more */

static void push(deque_t *deque, task_t task) {
  int64_t end = atomic_load_explicit(&deque->end, memory_order_relaxed);
  atomic_store_explicit(&deque->tasks[(uint64_t)end % (uint64_t)TASKS], task, memory_order_relaxed);
  /* Release: the thief sees the task, and what was written to it. */
  atomic_store_explicit(&deque->end, end + 1, memory_order_release);
}

/* 0: none is left. */
static task_t pop(deque_t *deque) {
  int64_t end = atomic_load_explicit(&deque->end, memory_order_relaxed) - 1;
  atomic_store_explicit(&deque->end, end, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst); /* pairs with the one in steal: one of the two sees the other */
  int64_t oldest = atomic_load_explicit(&deque->oldest, memory_order_relaxed);
  task_t task = 0;
  if (oldest <= end) task = atomic_load_explicit(&deque->tasks[(uint64_t)end % (uint64_t)TASKS], memory_order_relaxed);
  if (oldest < end) return task;
  if (oldest == end && !atomic_compare_exchange_strong_explicit(&deque->oldest, &oldest, oldest + 1,
                                                                memory_order_seq_cst, memory_order_relaxed))
    task = 0; /* a thief was first */
  atomic_store_explicit(&deque->end, end + 1, memory_order_relaxed);
  return task;
}

/* 0: there is none, or somebody else was first. */
static task_t steal(deque_t *deque) {
  int64_t oldest = atomic_load_explicit(&deque->oldest, memory_order_acquire);
  atomic_thread_fence(memory_order_seq_cst);
  int64_t end = atomic_load_explicit(&deque->end, memory_order_acquire);
  if (oldest >= end) return 0;
  task_t task = atomic_load_explicit(&deque->tasks[(uint64_t)oldest % (uint64_t)TASKS], memory_order_relaxed);
  bool is_ours = atomic_compare_exchange_strong_explicit(&deque->oldest, &oldest, oldest + 1, memory_order_seq_cst,
                                                         memory_order_relaxed);
  return is_ours ? task : 0;
}

BENCH_INLINE task_t make_task(bench_worker_t *worker, uint64_t generations, bool verify) {
  const state_t *state = worker->state;
  task_t block = (task_t)bench_alloc(state->sizes[bench_below(&worker->rng, SIZES)], verify);
  return block | generations;
}

/* What thieves have taken meanwhile may not be known yet. */
static uint64_t waiting(deque_t *deque) {
  return (uint64_t)(atomic_load_explicit(&deque->end, memory_order_relaxed) -
                    atomic_load_explicit(&deque->oldest, memory_order_relaxed));
}

/* The youngest of its own, or another's oldest; 0: a thief that has found nothing. */
BENCH_INLINE task_t next_task(bench_worker_t *worker, bool is_starter, uint64_t *stolen, uint64_t *ops, bool verify) {
  deque_t *own = &deques[worker->index];
  if (is_starter && waiting(own) < (backlog + 1) / 2)
    for (uint64_t i = waiting(own); i < backlog; i++, ++*ops) push(own, make_task(worker, depth, verify));
  task_t task = pop(own);
  if (task != 0 || is_starter) return task;
  deque_t *other = &deques[bench_below(&worker->rng, threads)];
  if (other != own) task = steal(other);
  *stolen += task != 0;
  return task;
}

BENCH_INLINE uint64_t tasks(bench_worker_t *worker, bool verify) {
  bool is_starter = worker->index < starters;
  uint64_t ops = 0, run = 0, stolen = 0, *sections = &((state_t *)worker->state)->sections;
  ++*sections;
  do {
    for (unsigned i = 0, in_vain = 0; i < 1024; i++) {
      task_t task = next_task(worker, is_starter, &stolen, &ops, verify);
      if (task == 0) {
        if (++in_vain % 64 == 0) sched_yield(); /* there may be more threads than processors */
        continue;
      }
      uint64_t generations = task % TASK_ALIGNMENT;
      if (generations > 0) {
        push(&deques[worker->index], make_task(worker, generations - 1, verify));
        push(&deques[worker->index], make_task(worker, generations - 1, verify));
        ops += 2;
      }
      bench_free((void *)(task - generations), verify);
      ops++;
      run++;
    }
  } while (is_starter ? bench_more(worker, ops)
                      : atomic_load_explicit(&ended, memory_order_relaxed) < *sections * starters);
  if (is_starter) atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&all_tasks, run, memory_order_relaxed);
  atomic_fetch_add_explicit(&all_stolen, stolen, memory_order_relaxed);
  return ops;
}

static void setup(bench_worker_t *worker) {
  state_t *state = worker->state = bench_pages(sizeof *state);
  for (unsigned i = 0; i < SIZES; i++)
    state->sizes[i] = (uint32_t)bench_log_between(&worker->rng, min_bytes, max_bytes);
}

static uint64_t work(bench_worker_t *worker) { return bench_args.verify ? tasks(worker, true) : tasks(worker, false); }

/* What is left in the deques, by the threads that own them. */
static void teardown(bench_worker_t *worker) {
  for (task_t task; (task = pop(&deques[worker->index])) != 0;)
    bench_free((void *)(task - task % TASK_ALIGNMENT), bench_args.verify);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "work_stealing", 0.5, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  if (starters > threads) bench_usage("--starters is above --threads");
  deques = bench_pages(threads * sizeof *deques);
  bench_plan_t plan = {.setup = setup, .work = work, .teardown = teardown};
  bench_put_outcome(bench_run(&plan, (unsigned)threads));
  bench_put_number("stolen", all_stolen * 1000 / all_tasks);
  bench_finish("ops_per_s");
}
