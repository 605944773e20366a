/*
 * Threads that take turns, for coherence.py: one runs at a time, so that a trace of memory accesses is the same each
 * time, and says before and after its turn who it is by a store to a place that the trace is searched for. What it does
 * in a turn is what threads of a program do side by side; the order of turns makes every line that two of them write go
 * back and forth, which is the most that can happen.
 *
 *   turns SCENARIO THREADS ROUNDS
 *
 * Standard output: `place` NAME FIRST END, in bytes, for what the allocator has; `turn` FIRST, where a turn's store to
 * FIRST + n is thread n's; `ops` a turn.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/alloc.h"
#include "arena/arena.h"
#include "front/thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MOST = 256, HANDED = 64, BATCH = 1024, LARGE = 8, SHORT_LIVED = 10 };

/* What is decided over time waits for ever. */
int clock_gettime(clockid_t clock, struct timespec *now) {
  (void)clock;
  *now = (struct timespec){.tv_sec = 1000};
  return 0;
}

/* The last is nobody's: between turns. Threads that a turn starts are the upper half. */
static volatile char turn[2 * THREADS_MOST + 1];
static void says(unsigned who) { turn[who] = 1; }
enum { NOBODY = 2 * THREADS_MOST };

static unsigned threads, rounds;
static sem_t next[THREADS_MOST], done;
static void *box[THREADS_MOST][HANDED];

/* ---- What is done in a turn ---------------------------------------------------------*/
static void pairs(unsigned self) {
  (void)self;
  for (int i = 0; i < HANDED; i++) alloc_free(alloc_malloc(64));
}

static void batches(unsigned self) {
  static __thread void *blocks[BATCH];
  (void)self;
  for (int i = 0; i < BATCH; i++) blocks[i] = alloc_malloc(256);
  for (int i = 0; i < BATCH; i++) alloc_free(blocks[i]);
}

/* Frees what the thread before has allocated, and allocates for the next one. */
static void hand_over(unsigned self) {
  void **from = box[(self + threads - 1) % threads], **to = box[self];
  for (int i = 0; i < HANDED; i++) alloc_free(from[i]), from[i] = NULL;
  for (int i = 0; i < HANDED; i++) to[i] = alloc_malloc(64);
}

/* Of two threads one allocates what the other frees. */
static void pass_on(unsigned self) {
  if (self % 2 == 0)
    for (int i = 0; i < HANDED; i++) box[self][i] = alloc_malloc(256);
  else
    for (int i = 0; i < HANDED; i++) alloc_free(box[self - 1][i]);
}

static void large(unsigned self) {
  static __thread void *blocks[LARGE];
  (void)self;
  for (int i = 0; i < LARGE; i++) blocks[i] = alloc_malloc((size_t)(100 + 50 * i) << 10);
  for (int i = 0; i < LARGE; i++) alloc_free(blocks[i]);
}

static void huge(unsigned self) {
  (void)self;
  alloc_free(alloc_malloc((size_t)8 << 20));
}

static void *short_lived(void *self) {
  void *blocks[SHORT_LIVED];
  says(THREADS_MOST + (unsigned)(uintptr_t)self);
  for (int i = 0; i < SHORT_LIVED; i++) blocks[i] = alloc_malloc((size_t)(i + 1) * 32);
  for (int i = 0; i < SHORT_LIVED; i++) alloc_free(blocks[i]);
  return NULL; /* its heap is taken from it later, still in its name */
}
static void start_and_end(unsigned self) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, short_lived, (void *)(uintptr_t)self) != 0) abort();
  pthread_join(thread, NULL);
  says(self);
}

static const struct {
  const char *name;
  void (*turn)(unsigned self);
  unsigned ops;
} scenarios[] = {
    {"pairs", pairs, HANDED},         {"batches", batches, BATCH}, {"hand_over", hand_over, HANDED},
    {"pass_on", pass_on, HANDED / 2}, {"large", large, LARGE},     {"huge", huge, 1},
    {"threads", start_and_end, 1},
};
static void (*a_turn)(unsigned self);

static void *run(void *number) {
  unsigned self = (unsigned)(uintptr_t)number;
  for (unsigned i = 0; i < rounds; i++) {
    while (sem_wait(&next[self]) != 0) continue;
    says(self);
    a_turn(self);
    says(NOBODY);
    sem_post(&done);
  }
  return NULL;
}

/* ---- Where what lies -----------------------------------------------------------------*/
static void place(const char *name, const void *first, const void *end) {
  printf("place %s %p %p\n", name, first, end);
}

static void places(void) {
  const map_t *m = &the_map;
  place("words", m->base, m->records);
  place("records", m->records, m->shared);
  place("announcements", m->shared, m->free_bits);
  place("free_bits", m->free_bits, m->remote_bits);
  place("remote_bits", m->remote_bits, m->superslabs);
  place("superslabs", m->superslabs, m->heaps);
  place("heaps", m->heaps, m->heaps_end);
  place("magazines", m->metadata, m->metadata_end);
  place("blocks", map_address(m->zone_first[0]), m->base + (m->units << UNIT_SHIFT));
  printf("turn %p\n", (const void *)turn);
}

int main(int argc, char **argv) {
  pthread_t thread[THREADS_MOST];
  size_t chosen = 0, count = sizeof scenarios / sizeof *scenarios;
  threads = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
  rounds = argc == 4 ? (unsigned)atoi(argv[3]) : 0;
  while (chosen < count && argc == 4 && strcmp(argv[1], scenarios[chosen].name) != 0) chosen++;
  if (chosen == count || threads < 1 || threads > THREADS_MOST || rounds < 1) {
    fprintf(stderr, "usage: turns pairs|batches|hand_over|pass_on|large|huge|threads THREADS ROUNDS\n");
    return 2;
  }
  a_turn = scenarios[chosen].turn;
  alloc_free(alloc_malloc(1));
  places();
  printf("ops %u\n", scenarios[chosen].ops);
  fflush(stdout);
  says(NOBODY);
  sem_init(&done, 0, 0);
  for (unsigned i = 0; i < threads; i++) {
    sem_init(&next[i], 0, 0);
    if (pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)i) != 0) abort();
  }
  for (unsigned i = 0; i < threads * rounds; i++) {
    sem_post(&next[i % threads]);
    while (sem_wait(&done) != 0) continue;
  }
  for (unsigned i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  return 0;
}
