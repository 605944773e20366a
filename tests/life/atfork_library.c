/*
 * A library whose constructor registers fork handlers that allocate. It links
 * nothing of hakmem; its constructor runs before those of the libraries and the
 * program that came before it in the link order.
 *
 * SPDX-License-Identifier: MIT
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int atfork_library_runs(void);

static int runs;
/* Several threads may fork at once; each runs its handlers itself. */
static __thread char *held[50];

static void prepare(void) {
  __atomic_fetch_add(&runs, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 50; i++) {
    size_t bytes = (size_t)i * 700 + 1;
    held[i] = malloc(bytes);
    if (held[i] == NULL) abort();
    memset(held[i], i, bytes);
  }
}

static void finish(void) {
  __atomic_fetch_add(&runs, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 50; i++) {
    if (held[i][i * 700] != i) abort();
    free(held[i]);
    free(malloc((size_t)i * 3000));
  }
}

int atfork_library_runs(void) { return __atomic_load_n(&runs, __ATOMIC_RELAXED); }

__attribute__((constructor(101))) static void start(void) {
  free(malloc(100));
  pthread_atfork(prepare, finish, finish);
}
