/*
 * What every workload shares: arguments, clock, random numbers, worker threads,
 * payload checks and the one result line.
 *
 * The harness keeps its own tables out of the heap under test (bench_pages), so
 * that what is measured is the workload's allocations and nothing else.
 *
 * A workload is:
 *   main:  bench_start(...)           parse arguments, find out who serves malloc
 *          bench_run(&plan, threads)  setup, warm-up, timed work, teardown
 *          bench_put_*(...)           what it wants to report
 *          bench_finish("ops_per_s")  prints the line; names the figure to compare
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAKMEM_BENCH_COMMON_H
#define HAKMEM_BENCH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifdef __cplusplus
#define BENCH_NORETURN [[noreturn]]
extern "C" {
#else
#define BENCH_NORETURN _Noreturn
#endif

#define BENCH_KIB ((uint64_t)1 << 10)
#define BENCH_MIB ((uint64_t)1 << 20)
#define BENCH_GIB ((uint64_t)1 << 30)
#define BENCH_INLINE static inline __attribute__((always_inline))

/* ---- Arguments -----------------------------------------------------------*/

typedef enum {
  BENCH_NUMBER, /* 42                                               */
  BENCH_BYTES,  /* 64, 8K, 2M, 1G                                   */
  BENCH_CHOICE, /* one of `choices`; the value is its index         */
} bench_kind_t;

/* One `--name value`. A table of them ends with a NULL name. `*value` holds the
 * default before bench_start and is printed in the result line. */
typedef struct bench_option {
  const char *name;
  bench_kind_t kind;
  uint64_t *value;
  uint64_t min, max;
  const char *const *choices;
  const char *help;
} bench_option_t;

/* What every workload understands: --seed, --seconds, --ops, --verify. */
typedef struct bench_args {
  uint64_t seed;
  double seconds; /* length of the timed section                            */
  uint64_t ops;   /* if not 0: operations per worker instead of a length,   */
                  /* so that instruction counts repeat exactly              */
  bool verify;    /* fill every block and check it before it is freed       */
} bench_args_t;

extern bench_args_t bench_args;

/* `default_seconds` 0: the amount of work is fixed, there is no --seconds or --ops.
 * Exits with status 2 and a message on bad arguments; exits with status 1 when
 * malloc and its relatives come from different objects. */
void bench_start(int argc, char **argv, const char *workload, double default_seconds, const bench_option_t *options);

/* printf-style message on stderr, exit status 1. */
BENCH_NORETURN void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with exit status 2, for argument combinations that make no sense. */
BENCH_NORETURN void bench_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Clock ---------------------------------------------------------------*/

BENCH_INLINE double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Nanoseconds of a processor-time clock. */
uint64_t bench_clock(clockid_t clock);
void bench_sleep(double seconds);

/* ---- Random numbers ------------------------------------------------------*/

/* Scatters the bits of x (the output function of splitmix64). */
BENCH_INLINE uint64_t bench_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* xorshift64*: three shifts and a product, cheap beside a malloc. */
typedef struct bench_rng {
  uint64_t state; /* never 0 */
} bench_rng_t;

BENCH_INLINE bench_rng_t bench_rng(uint64_t stream) {
  bench_rng_t rng = {bench_mix(bench_args.seed * 0x10001 + stream) | 1};
  return rng;
}

BENCH_INLINE uint64_t bench_random(bench_rng_t *rng) {
  uint64_t x = rng->state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  rng->state = x;
  return x * 0x2545f4914f6cdd1du;
}

/* Uniform in [0, n), n < 2^32: scales the upper half instead of dividing. */
BENCH_INLINE uint64_t bench_below(bench_rng_t *rng, uint64_t n) { return ((bench_random(rng) >> 32) * n) >> 32; }

/* Uniform in [min, max]. */
BENCH_INLINE uint64_t bench_between(bench_rng_t *rng, uint64_t min, uint64_t max) {
  return min + bench_below(rng, max - min + 1);
}

/* Uniform over the logarithm in [min, max]: as many blocks of 1–2 KiB as of
 * 1–2 MiB. For set-up; too slow for a hot loop. */
uint64_t bench_log_between(bench_rng_t *rng, uint64_t min, uint64_t max);

/* ---- Blocks --------------------------------------------------------------*/

/* Stops the compiler from reasoning about what happens to p, and makes the
 * stores before it happen. */
BENCH_INLINE void bench_keep(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }

/* First and last byte: the least that a program does with its memory. */
BENCH_INLINE void bench_touch(void *p, size_t bytes) {
  volatile unsigned char *block = (volatile unsigned char *)p;
  block[0] = 1;
  block[bytes - 1] = 2;
}

/* One byte in every page: the program uses its memory, page faults and all. */
void bench_touch_pages(void *p, size_t bytes);

/* A payload over the whole block (any size), and the check that it is still
 * there; exits with status 1 and a message when it is not. */
void bench_fill(void *p, size_t bytes, uint64_t tag);
void bench_check(const void *p, size_t bytes, uint64_t tag);

/* A payload that knows its own size and tag, for blocks of >= BENCH_SEAL_MIN
 * bytes that another thread or a later phase will check. Breaking the seal
 * checks alignment and every byte and then wipes the header, so that a block
 * given out twice is caught by its second holder. */
#define BENCH_SEAL_MIN 16
void bench_seal(void *p, size_t bytes, uint64_t tag);
void bench_break_seal(void *p);

BENCH_NORETURN void bench_out_of_memory(size_t bytes);

/* malloc and a write; with `verify` (a constant where it is called, so that the
 * timed loop carries no trace of it) the write is a seal. */
BENCH_INLINE void *bench_alloc(size_t bytes, bool verify) {
  void *p = malloc(bytes);
  if (__builtin_expect(!p, 0)) bench_out_of_memory(bytes);
  if (verify) bench_seal(p, bytes, (uintptr_t)p);
  else bench_touch(p, bytes);
  bench_keep(p);
  return p;
}

BENCH_INLINE void bench_free(void *p, bool verify) {
  if (verify) bench_break_seal(p);
  free(p);
}

/* Zeroed memory for the harness itself, straight from the system and in small
 * pages, so that what is resident of it is what was used. */
void *bench_pages(size_t bytes);
void bench_pages_drop(void *p, size_t bytes);

/* ---- Workers -------------------------------------------------------------*/

typedef struct bench_worker {
  unsigned index;
  bench_rng_t rng;
  void *state; /* the workload's own */
  double deadline;
  uint64_t ops_limit;
} bench_worker_t;

/* Each member is called once per worker, on the worker's thread; `work` twice
 * (warm-up, then timed) and must be able to go on where it stopped. It returns
 * the operations done: one per malloc, free, calloc or realloc. */
typedef struct bench_plan {
  void (*setup)(bench_worker_t *); /* may be NULL */
  uint64_t (*work)(bench_worker_t *);
  void (*teardown)(bench_worker_t *); /* may be NULL */
  /* The least length of the warm-up, unless --ops gives one. For large blocks: a
   * tenth of the timed section may end before the allocator has touched the
   * memory that it goes on with. */
  double warmup_seconds_min;
} bench_plan_t;

typedef struct bench_outcome {
  uint64_t ops;
  double seconds; /* first start to last end */
} bench_outcome_t;

/* Runs every worker and waits for them. A single one runs on the main thread, so
 * that the process stays single-threaded and an allocator may profit from it. */
bench_outcome_t bench_run(const bench_plan_t *plan, unsigned threads);

/* Whether the worker shall go on after `ops` operations. Reads the clock: ask
 * every few thousand operations. */
BENCH_INLINE bool bench_more(const bench_worker_t *worker, uint64_t ops) {
  return worker->ops_limit ? ops < worker->ops_limit : bench_now() < worker->deadline;
}

/* Length of the warm-up that goes with the timed section; with --ops, its number
 * of operations (0 without). */
double bench_warmup_seconds(void);
uint64_t bench_warmup_ops(void);

/* For workloads that run threads of their own; both exit on failure.
 * The stack is small, so that thousands of threads fit. */
uintptr_t bench_thread_start(void *(*body)(void *), void *argument);
void bench_thread_join(uintptr_t thread);

/* Threads that have done their part and wait, until the main thread lets all of them go. */
void bench_crowd_join(void);
/* The main thread: returns when so many wait; and lets them go. */
void bench_crowd_await(uint64_t waiting);
void bench_crowd_dismiss(void);

/* ---- Result --------------------------------------------------------------*/

/* Exact resident set of the process right now, less `harness_bytes`: tables from
 * bench_pages that the workload knows to be resident. */
double bench_resident_mib(size_t harness_bytes);

void bench_put_number(const char *key, uint64_t value);
void bench_put_real(const char *key, double value);
void bench_put_text(const char *key, const char *value);
/* ops, seconds, ops_per_s */
void bench_put_outcome(bench_outcome_t outcome);
/* Memory in MiB to compare instead of the process's peak; the line then says
 * memory=KEY. */
void bench_put_memory(const char *key, double mib);

/* Prints the line: workload, options, everything put, metric, memory if any, malloc_from (the path of the
 * object that answers malloc), check. The key named by `metric` is the one to compare; more is better when it
 * ends in _per_s, less otherwise. */
void bench_finish(const char *metric);

#ifdef __cplusplus
}
#endif
#endif
