/*
 * Heaps for tests/inspect.rs to look at: heap_program quiet|child|regions|torn|churn|grow.
 *
 * Says what it thinks of itself (hak_stats_json) or "ready" on standard output, and goes on when a line comes
 * in or standard input ends.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef bool write_fn(void *context, const char *text, size_t bytes);
#ifdef LINKED
void hak_stats_json(write_fn *write, void *context);
#endif

enum { BLOCKS = 30000, PASSED_ON = 1000, WORKERS = 3, HELD = 20000, HELD_BYTES = 64, BURST = 500 };
static char *blocks[BLOCKS], *passed_on[PASSED_ON];
static pthread_barrier_t barrier;

static void check(bool is_fine) {
  if (!is_fine) _exit(9);
}
static char *filled(size_t bytes) {
  char *block = malloc(bytes);
  check(block != NULL);
  return memset(block, 1, bytes);
}
static void await_line(void) {
  char c = 0;
  while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n') {}
}

/* ---- A heap of all kinds of memory, of which nobody changes anything ------------------------*/

static bool to_stdout(void *context, const char *text, size_t bytes) {
  (void)context;
  return write(STDOUT_FILENO, text, bytes) == (ssize_t)bytes;
}

static void say_json(void) {
#ifdef LINKED
  hak_stats_json(to_stdout, NULL);
#else
  static void (*json)(write_fn *, void *);
  if (json == NULL) *(void **)&json = dlsym(RTLD_DEFAULT, "hak_stats_json");
  check(json != NULL);
  json(to_stdout, NULL);
#endif
  check(write(STDOUT_FILENO, ".\n", 2) == 2);
}

/* Frees blocks of the first thread's: they wait in the outbox and in remote bitmaps, and many of one class in the
 * depot. */
static void *work(void *name) {
  prctl(PR_SET_NAME, name, 0, 0, 0);
  size_t from = (size_t)((char *)name)[7] - '0';
  for (size_t i = 0; from == 0 && i < PASSED_ON; i++) free(passed_on[i]);
  for (size_t i = from; i < BLOCKS / 3; i += 7) free(blocks[i]), blocks[i] = NULL;
  char *kept[200];
  for (size_t i = 0; i < 200; i++) kept[i] = filled(100 + i * 10);
  for (size_t i = 0; i < 200; i += 3) free(kept[i]);
  pthread_barrier_wait(&barrier);
  for (;;) pause();
  return NULL;
}

static void *end(void *nothing) {
  for (size_t i = 0; i < 1000; i++) free(filled(i));
  return nothing;
}

static void quiet(void) {
  static char names[WORKERS][16] = {"worker 0", "worker 1", "worker 2"};
  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, WORKERS + 1);
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = filled(16 + i % 40 * 24);
  for (size_t i = 0; i < PASSED_ON; i++) passed_on[i] = filled(1000);
  char *large[8], *huge[3];
  for (size_t i = 0; i < 8; i++) large[i] = filled(((size_t)i + 1) * 100000);
  for (size_t i = 0; i < 3; i++) huge[i] = malloc((size_t)(5 + i) << 20);
  memset(huge[0], 1, 3u << 20), memset(huge[2], 1, 512u << 10);
  /* Pages that are only read are nobody's memory. */
  unsigned sum = 0;
  for (size_t at = 0; at < 4u << 20; at += 4096) sum += ((volatile unsigned char *)huge[1])[at];
  check(sum == 0);
  free(large[2]), free(huge[2]);
  for (size_t i = BLOCKS / 2; i < BLOCKS; i++)
    if (i % 5 != 0) free(blocks[i]);
  for (size_t i = 0; i < WORKERS; i++) check(pthread_create(&thread, NULL, work, names[i]) == 0);
  pthread_barrier_wait(&barrier);
  check(pthread_create(&thread, NULL, end, NULL) == 0 && pthread_join(thread, NULL) == 0);
  usleep(50000); /* workers have gone to sleep; nothing depends on it but that they do not run any more */
  say_json();
  await_line();
  /* What has changed then is known. */
  for (size_t i = 0; i < 10; i++) filled(3000);
  filled(20u << 20);
  malloc_trim(0); /* also takes blocks out of the middle of the workers' magazines */
  say_json();
  await_line();
}

/* ---- A child, which nothing has told yet that its parent's other threads are not there -------*/

static void child(void) {
  static char name[] = "worker 0";
  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, 2);
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = filled(16 + i % 40 * 24);
  check(pthread_create(&thread, NULL, work, name) == 0);
  pthread_barrier_wait(&barrier);
  pid_t process = fork();
  check(process >= 0);
  if (process > 0) {
    int status;
    check(waitpid(process, &status, 0) == process && status == 0);
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  prctl(PR_SET_NAME, "the child", 0, 0, 0);
  char text[32];
  int length = snprintf(text, sizeof text, "%d\n", getpid());
  check(write(STDOUT_FILENO, text, (size_t)length) == length);
  await_line();
  say_json();
  await_line();
  _exit(0);
}

#ifndef LINKED
/* ---- Tables as no moment has them: the allocator is not used any more behind this ------------*/

/* As src/base/inspected.h has them. */
typedef struct {
  char name[32];
  unsigned kind, bytes, count, stride;
  char *at;
} field_t;
typedef struct {
  char mark[16];
  const void *self;
  unsigned layout, root_bytes, field_bytes, group_count;
  char version[16];
  struct {
    const field_t *fields;
    size_t count;
  } groups[];
} root_t;

/* ---- Heaps of the program's own, with a free unit and nothing in caches ------------------------*/

static void *found(const char *name) {
  void *function = dlsym(RTLD_DEFAULT, name);
  check(function != NULL);
  return function;
}

static void regions(void) {
  void *(*make)(size_t) = (void *(*)(size_t))found("hak_heap_new");
  void *(*allocate)(void *, size_t) = (void *(*)(void *, size_t))found("hak_heap_malloc");
  void *heap = make(0);
  char *tiny[3000];
  for (size_t i = 0; i < 3000; i++) tiny[i] = memset(allocate(heap, 100), 1, 100);
  for (size_t i = 0; i < 3000; i += 3) free(tiny[i]);
  memset(allocate(heap, 150000), 1, 150000);
  memset(allocate(heap, 9000000), 1, 4000000);
  free(allocate(heap, 200000)); /* its units are spare */
  ((void (*)(void))found("hak_thread_flush"))();
  say_json();
  await_line();
}

static const field_t *named(const char *name) {
  const root_t *root = dlsym(RTLD_DEFAULT, "hak_inspect_root");
  check(root != NULL);
  for (unsigned g = 0; g < root->group_count; g++)
    for (size_t i = 0; i < root->groups[g].count; i++)
      if (strcmp(root->groups[g].fields[i].name, name) == 0) return &root->groups[g].fields[i];
  _exit(9);
}

static void torn(void) {
  char *block = filled(48);
  char *base = *(char **)named("map.base")->at, *bits = *(char **)named("map.free_bits")->at;
  char *heaps = *(char **)named("map.heaps")->at;
  /* A free block more than the slab's record has, and a magazine whose top lies behind its limit. */
  size_t unit = (size_t)(block - base) >> 16, number = ((size_t)(block - base) & 0xffff) / 48;
  bits[unit * 512 + number / 8] ^= (char)(1 << number % 8);
  const field_t *limit = named("heap.limit"), *top = named("heap.top");
  *(char **)(heaps + (size_t)limit->at + 3 * limit->stride) = *(char **)(heaps + (size_t)top->at + 3 * top->stride) - 8;
  check(write(STDOUT_FILENO, "ready\n", 6) == 6);
  await_line();
  _exit(0);
}
#else
static void regions(void) { _exit(2); }
static void torn(void) { _exit(2); }
#endif

/* ---- Threads that never rest -----------------------------------------------------------------*/

static volatile bool ends;

static void *churn(void *number) {
  char **held = calloc(HELD, sizeof *held), *burst[BURST];
  unsigned random = (unsigned)(size_t)number * 2654435761u + 1;
  check(held != NULL);
  for (size_t i = 0; i < HELD; i++) held[i] = filled(HELD_BYTES);
  pthread_barrier_wait(&barrier);
  while (!ends) {
    random = random * 1664525u + 1013904223u;
    size_t at = random % HELD;
    free(held[at]);
    held[at] = filled(HELD_BYTES);
    /* Slabs come and go. */
    if (random >> 20 != 0) continue;
    size_t bytes = 100 + (random & 0x7fff);
    for (size_t i = 0; i < BURST; i++) burst[i] = filled(bytes);
    for (size_t i = 0; i < BURST; i++) free(burst[i]);
  }
  for (size_t i = 0; i < HELD; i++) {
    for (size_t b = 0; b < HELD_BYTES; b++) check(held[i][b] == 1);
    free(held[i]);
  }
  free(held);
  return NULL;
}

static void churn_in_threads(void) {
  pthread_t threads[WORKERS];
  pthread_barrier_init(&barrier, NULL, WORKERS + 1);
  for (size_t i = 0; i < WORKERS; i++) check(pthread_create(&threads[i], NULL, churn, (void *)i) == 0);
  pthread_barrier_wait(&barrier);
  check(write(STDOUT_FILENO, "ready\n", 6) == 6);
  await_line();
  ends = true;
  for (size_t i = 0; i < WORKERS; i++) check(pthread_join(threads[i], NULL) == 0);
}

/* ---- A heap that grows by blocks of one size, and by nothing else -------------------------------*/

static void grow(void) {
  enum { GROWING = 1000, GROWING_MIB = 20 };
  check(write(STDOUT_FILENO, "ready\n", 6) == 6);
  for (int i = 0; i < GROWING; i++) {
    check(malloc((size_t)GROWING_MIB << 20) != NULL);
    usleep(200);
  }
  check(write(STDOUT_FILENO, "ready\n", 6) == 6);
  await_line();
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "quiet") == 0) quiet();
  else if (argc == 2 && strcmp(argv[1], "child") == 0) child();
  else if (argc == 2 && strcmp(argv[1], "regions") == 0) regions();
  else if (argc == 2 && strcmp(argv[1], "torn") == 0) torn();
  else if (argc == 2 && strcmp(argv[1], "churn") == 0) churn_in_threads();
  else if (argc == 2 && strcmp(argv[1], "grow") == 0) grow();
  else return 2;
  return 0;
}
