/*
 * What hakmem promises, tried by a program of musl's in C, whichever way it got hakmem: preloaded, linked with
 * either library, or without a dynamic linker.
 *
 *   promises CASE      0: kept; 1: with a line that says what was not
 *
 * SPDX-License-Identifier: MIT
 */
#include "expect.h"

#include <hakmem.h>

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(HAK_LINKED) /* of the preloaded library: not known when this is linked */
#pragma weak hak_owns
#pragma weak hak_stats
#pragma weak hak_heap_new
#pragma weak hak_heap_malloc
#pragma weak hak_heap_destroy
#endif

static void fill(unsigned char *block, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; i += 61) block[i] = (unsigned char)(seed + i);
  if (bytes > 0) block[bytes - 1] = (unsigned char)seed;
}
static bool is_filled(const unsigned char *block, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; i += 61)
    if (i != bytes - 1 && block[i] != (unsigned char)(seed + i)) return false;
  return bytes == 0 || block[bytes - 1] == (unsigned char)seed;
}

static hak_stats_t stats_now(void) {
  hak_stats_t stats;
  hak_stats(&stats, sizeof stats);
  return stats;
}

/* ---- Blocks ------------------------------------------------------------------*/
static void blocks(void) {
  static const size_t sizes[] = {0, 1, 16, 100, 1024, 1025, 5000, 65536, 65537, 1 << 20, 5 << 20, 40 << 20};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  unsigned char *held[SIZES];
  for (unsigned i = 0; i < SIZES; i++) {
    held[i] = malloc(sizes[i]);
    EXPECT(held[i] != NULL && hak_owns(held[i]) && (uintptr_t)held[i] % 16 == 0);
    EXPECT(malloc_usable_size(held[i]) >= sizes[i]);
    fill(held[i], sizes[i], i);
  }
  for (unsigned i = 0; i < SIZES; i++) {
    EXPECT(is_filled(held[i], sizes[i], i));
    held[i] = realloc(held[i], sizes[i] + 70000);
    EXPECT(held[i] != NULL && (sizes[i] == 0 || held[i][0] == (unsigned char)i));
    fill(held[i], sizes[i] + 70000, i + 1);
  }
  for (unsigned i = 0; i < SIZES; i++) {
    EXPECT(is_filled(held[i], sizes[i] + 70000, i + 1));
    free(held[i]);
    unsigned char *zeros = calloc(3, sizes[i]);
    EXPECT(zeros != NULL);
    for (size_t at = 0; at < 3 * sizes[i]; at++) EXPECT(zeros[at] == 0);
    free(zeros);
  }
}

static void alignments(void) {
  for (size_t alignment = 8; alignment <= 8 << 20; alignment *= 2)
    for (size_t bytes = 1; bytes <= 3 << 20; bytes = bytes * 7 + 1) {
      void *block = NULL;
      EXPECT(posix_memalign(&block, alignment, bytes) == 0 && (uintptr_t)block % alignment == 0 && hak_owns(block));
      fill(block, bytes, 1);
      free(block);
      block = aligned_alloc(alignment, bytes);
      EXPECT(block != NULL && (uintptr_t)block % alignment == 0);
      free(block);
    }
  void *block = &block;
  EXPECT(posix_memalign(&block, 24, 1) == EINVAL && block == &block);
  errno = 0;
  EXPECT(malloc(PTRDIFF_MAX) == NULL && errno == ENOMEM);
  errno = 0;
  EXPECT(calloc(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
  EXPECT(reallocarray(NULL, SIZE_MAX / 2, 3) == NULL);
}

/* What the C library allocates for the program comes from us, and can be freed. */
static void library(void) {
  char *copy = strdup("some text"), *line = NULL, *printed = NULL;
  EXPECT(hak_owns(copy));
  FILE *file = tmpfile();
  EXPECT(file != NULL && fputs("a line\nanother\n", file) >= 0);
  rewind(file);
  size_t room = 0;
  EXPECT(getline(&line, &room, file) == 7 && hak_owns(line));
  EXPECT(asprintf(&printed, "%01000d", 7) == 1000 && hak_owns(printed));
  fclose(file);
  free(copy), free(line), free(printed);
  EXPECT(setenv("HAK_A_VARIABLE", "1", 1) == 0 && unsetenv("HAK_A_VARIABLE") == 0);
}

static void no_memory(void) {
  struct rlimit limit = {3ull << 30, 3ull << 30};
  EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
  enum { MOST = 4000 };
  static void *held[MOST];
  int count = 0;
  while (count < MOST && (held[count] = malloc(1 << 20)) != NULL) count++;
  EXPECT(count > 500 && count < MOST && errno == ENOMEM);
  for (int i = 0; i < count; i++) free(held[i]);
  void *again = malloc(100u << 20);
  EXPECT(again != NULL);
  free(again);
}

static void heaps(void) {
  hak_heap_t *heap = hak_heap_new(16 << 20);
  EXPECT(heap != NULL);
  unsigned char *block = NULL;
  for (unsigned i = 0; i < 10000; i++) {
    block = hak_heap_malloc(heap, i % 300 + 1);
    EXPECT(block != NULL);
    fill(block, i % 300 + 1, i);
  }
  free(block);
  while (hak_heap_malloc(heap, 60000) != NULL) continue;
  EXPECT(errno == ENOMEM);
  hak_heap_destroy(heap);
}

/* ---- Threads -----------------------------------------------------------------*/
enum { PLACES = 512, THREADS = 4, STEPS = 20, TURNS = 2000 };
static _Atomic(unsigned char *) places[PLACES];

static size_t size_of(unsigned random) { return random % 64 == 0 ? random % 100000 + 8 : random % 1000 + 8; }

/* Each block holds its size, and is taken and freed by whoever comes by. */
static void exchange(unsigned random, int turns) {
  for (int i = 0; i < turns; i++) {
    random = random * 1664525 + 1013904223;
    size_t bytes = size_of(random >> 8);
    unsigned char *block = malloc(bytes);
    EXPECT(block != NULL);
    memcpy(block, &bytes, sizeof bytes);
    block[bytes - 1] = (unsigned char)bytes;
    if (bytes == 8) memcpy(block, &bytes, sizeof bytes);
    block = __atomic_exchange_n((unsigned char **)&places[random % PLACES], block, __ATOMIC_ACQ_REL);
    if (block == NULL) continue;
    memcpy(&bytes, block, sizeof bytes);
    EXPECT(bytes >= 8 && bytes < 200000 && (bytes == 8 || block[bytes - 1] == (unsigned char)bytes));
    free(block);
  }
}
/* In step, so that each finds blocks of the others. */
static pthread_barrier_t step;
static void *exchange_in_thread(void *seed) {
  for (unsigned i = 0; i < STEPS; i++) {
    pthread_barrier_wait(&step);
    exchange((unsigned)(uintptr_t)seed + i * THREADS, TURNS);
  }
  return NULL;
}
static void threads(void) {
  EXPECT(pthread_barrier_init(&step, NULL, THREADS) == 0);
  for (int round = 0; round < 3; round++) { /* those that end leave what others use */
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
      EXPECT(pthread_create(&thread[i], NULL, exchange_in_thread, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(thread[i], NULL) == 0);
  }
  EXPECT(stats_now().remote_frees > 0);
}

static _Atomic bool is_over;
static void *sleep_until_over(void *unused) {
  while (!is_over) poll(NULL, 0, 50);
  return unused;
}
static void *exchange_until_over(void *seed) {
  for (unsigned i = 0; !is_over; i++) exchange((unsigned)(uintptr_t)seed + i, 100);
  return NULL;
}
static void forks(void) {
  pthread_t thread[2];
  for (uintptr_t i = 0; i < 2; i++) EXPECT(pthread_create(&thread[i], NULL, exchange_until_over, (void *)i) == 0);
  for (int i = 0; i < 200; i++) {
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      exchange(1, 200);
      pthread_t own;
      EXPECT(pthread_create(&own, NULL, sleep_until_over, NULL) == 0);
      _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
  }
  is_over = true;
  for (int i = 0; i < 2; i++) EXPECT(pthread_join(thread[i], NULL) == 0);
}

static void *use_little_stack(void *unused) {
  (void)unused;
  blocks();
  exchange(5, 1000);
  return NULL;
}
static void small_stacks(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  EXPECT(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 16384) == 0);
  EXPECT(pthread_create(&thread, &attributes, use_little_stack, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

/* Free memory goes back while the program's threads sleep: the background thread's doing. */
static void background(void) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, sleep_until_over, NULL) == 0);
  enum { BLOCKS = 2000 };
  static void *held[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    held[i] = malloc(20000);
    EXPECT(held[i] != NULL);
    memset(held[i], 1, 20000);
  }
  for (int i = 0; i < BLOCKS; i++) free(held[i]);
  int looks = 0;
  while (stats_now().purged_aged == 0 && looks < 600) poll(NULL, 0, 50), looks++;
  hak_stats_t stats = stats_now();
  EXPECT(stats.purged_aged > 0);
  EXPECT(stats.refused_threads == 0 && stats.refused_membarriers == 0);
  is_over = true;
  EXPECT(pthread_join(thread, NULL) == 0);
}

/* ---- Mistakes ------------------------------------------------------------------*/
static void free_twice(void) {
  char *volatile block = malloc(100);
  free(block), free(block);
}
static void free_inside(void) {
  char *volatile block = malloc(100);
  free(block + 16);
}
static void free_no_block(void) {
  static _Alignas(64) char array[256];
  char *volatile no_block = array + 64;
  free(no_block);
}
/* The child ends with SIGABRT and a line that has the words; another C library's malloc is never asked. */
static void mistake(void (*make)(void), const char *words) {
  int ends[2];
  char said[500];
  EXPECT(pipe(ends) == 0);
  pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], STDERR_FILENO);
    make();
    exit(0);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t got; (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0;) length += (size_t)got;
  said[length] = '\0';
  close(ends[0]);
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(said, words) == NULL) {
    dprintf(STDERR_FILENO, "instead of '%s': status %d, '%s'\n", words, status, said);
    _exit(1);
  }
}
static void mistakes(void) {
  mistake(free_twice, "double free");
  mistake(free_inside, "an interior pointer");
  mistake(free_no_block, "no allocated block is there");
}

static void served(void) {
  void *block = malloc(1);
#if !defined(HAK_LINKED)
  EXPECT(hak_owns != NULL);
#endif
  EXPECT(hak_owns(block));
  free(block);
}

int main(int count, char **words) {
  static const case_t cases[] = {
      {"blocks", blocks},     {"alignments", alignments}, {"library", library}, {"no_memory", no_memory},
      {"heaps", heaps},       {"threads", threads},       {"forks", forks},     {"small_stacks", small_stacks},
      {"mistakes", mistakes}, {"background", background}};
  served();
  return run_case(cases, sizeof cases / sizeof *cases, count, words);
}
