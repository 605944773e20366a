/*
 * A C program: nothing of C++ may be needed to link or to run it.
 *
 * SPDX-License-Identifier: MIT
 */
#include <hakmem.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *argument) {
  for (size_t i = 0; i < 20000; i++) {
    char *block = malloc(i);
    if (block == NULL) abort();
    memset(block, 1, i);
    block = realloc(block, i * 2 + 1);
    if (block == NULL || (i > 0 && block[i - 1] != 1)) abort();
    free(block);
  }
  return argument;
}

int main(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  void *mine = malloc(100), *theirs = hak_malloc(100);
  int served = hak_owns(mine) && hak_owns(theirs);
  free(theirs); /* one heap under two names */
  hak_free(mine);
  printf("hakmem %s %s\n", hak_version(), served ? "serves malloc" : "does not serve malloc");
  return served ? 0 : 1;
}
