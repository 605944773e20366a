/*
 * Allocates known amounts at known places, for `hak profile` to find.
 *   work     keeps 40000 blocks of 1024 bytes; another thread has 2 million of 96 bytes come and go. Ends with 7.
 *   forever  the latter, until it is killed
 *   ways     has some MiB in each of the ways there are, each in a function of its name
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile kept[40000];

/* Both with pauses, in which the reader keeps up with more samples than anybody wants otherwise. */
__attribute__((noinline)) static void keeps(void) {
  for (int i = 0; i < 40000; i++) {
    if (i % 1000 == 0) usleep(4000);
    kept[i] = malloc(1024);
  }
}

__attribute__((noinline)) static void comes_and_goes(void) {
  for (int i = 0; i < 2000000; i++) {
    void *volatile block = malloc(96);
    free(block);
    if (i % 10000 == 0) usleep(2000);
  }
}

static int next;
static void keep(void *block) { kept[next++ % 40000] = block; }
#define MANY for (int i = 0; i < 2000; i++)
#define FEW for (int i = 0; i < 20; i++)

__attribute__((noinline)) static void mallocs(void) { MANY keep(malloc(2000)); }
__attribute__((noinline)) static void larges(void) { FEW keep(malloc(300000)); }
__attribute__((noinline)) static void huges(void) { FEW keep(malloc(9000000)); }
__attribute__((noinline)) static void callocs(void) { MANY keep(calloc(20, 100)); }
__attribute__((noinline)) static void huge_callocs(void) { FEW keep(calloc(9, 1000000)); }
__attribute__((noinline)) static void aligneds(void) { MANY keep(aligned_alloc(256, 2048)); }
__attribute__((noinline)) static void huge_aligneds(void) { FEW keep(aligned_alloc(4096, 9000000 / 4096 * 4096)); }
__attribute__((noinline)) static void *grown(void *block, size_t bytes) { return realloc(block, bytes); }
__attribute__((noinline)) static void reallocs(void) {
  for (int i = 0; i < 20; i++) {
    void *block = NULL;
    for (size_t bytes = 100; bytes < 30000000; bytes *= 2) block = grown(block, bytes);
    keep(block);
    usleep(10000);
  }
}

/* Pauses, as above. */
static void ways(void) {
  void (*const all[])(void) = {mallocs, larges, huges, callocs, huge_callocs, aligneds, huge_aligneds, reallocs};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    all[i]();
    usleep(100000);
  }
}

static void *worker(void *nothing) {
  pthread_setname_np(pthread_self(), "worker");
  comes_and_goes();
  return nothing;
}

int main(int count, char **words) {
  if (count > 1 && strcmp(words[1], "forever") == 0)
    for (;;) comes_and_goes();
  if (count > 1 && strcmp(words[1], "ways") == 0) return ways(), 0;
  pthread_t thread;
  usleep(200000);
  keeps();
  pthread_create(&thread, NULL, worker, NULL);
  pthread_join(thread, NULL);
  puts("done");
  return 7;
}
