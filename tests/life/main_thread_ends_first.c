/*
 * The main thread ends by pthread_exit; the process goes on in others, one of
 * which frees what the main thread allocated, and ends with status 0.
 *
 * SPDX-License-Identifier: MIT
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 2000 };
static char *blocks[BLOCKS];
static pthread_t main_thread;

static void *work(void *argument) {
  pthread_join(main_thread, NULL);
  for (size_t i = 0; i < BLOCKS; i++) {
    if (blocks[i][i * 20] != (char)i) abort();
    free(blocks[i]);
    free(malloc(i * 30));
  }
  puts("ok");
  return argument;
}

int main(void) {
  main_thread = pthread_self();
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(i * 20 + 1);
    blocks[i][i * 20] = (char)i;
  }
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_exit(NULL);
}
