/*
 * Allocates known amounts at known places, for `hak profile` to find.
 *   work     keeps 40000 blocks of 1024 bytes; another thread has 2 million of 96 bytes come and go. Ends with 7.
 *   forever  the latter, until it is killed
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

static void *worker(void *nothing) {
  pthread_setname_np(pthread_self(), "worker");
  comes_and_goes();
  return nothing;
}

int main(int count, char **words) {
  if (count > 1 && strcmp(words[1], "forever") == 0)
    for (;;) comes_and_goes();
  pthread_t thread;
  usleep(200000);
  keeps();
  pthread_create(&thread, NULL, worker, NULL);
  pthread_join(thread, NULL);
  puts("done");
  return 7;
}
