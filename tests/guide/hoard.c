/* Four threads draw pictures, which they show together, and wait for more. `hoard idle`: they say that they wait.
 * SPDX-License-Identifier: MIT */
#include "step.h"

enum { THREADS = 4, PICTURES = 4, TILES = 14, TILE_BYTES = 2 << 20 };

/* Of hakmem.h. Weak, so that the program runs under other allocators as well, where it is NULL. */
extern size_t hak_thread_idle(void) __attribute__((weak));

static pthread_barrier_t shown, drawn, more;
static bool idle;

static void *draw(void *unused) {
  void *tile[TILES];
  for (int picture = 0; picture < PICTURES; picture++) {
    for (int i = 0; i < TILES; i++) {
      tile[i] = filled(TILE_BYTES);
    }
    pthread_barrier_wait(&shown);
    for (int i = 0; i < TILES; i++) {
      free(tile[i]);
    }
  }
  if (idle && hak_thread_idle != NULL) {
    hak_thread_idle();
  }
  pthread_barrier_wait(&drawn);
  pthread_barrier_wait(&more);
  return unused;
}

int main(int count, char **words) {
  pthread_t thread[THREADS];
  idle = count > 1 && strcmp(words[1], "idle") == 0;
  steps_begin();
  pthread_barrier_init(&shown, NULL, THREADS);
  pthread_barrier_init(&drawn, NULL, THREADS + 1);
  pthread_barrier_init(&more, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++) {
    if (pthread_create(&thread[i], NULL, draw, NULL) != 0) {
      abort();
    }
  }
  pthread_barrier_wait(&drawn);
  step("four threads wait");
  pthread_barrier_wait(&more);
}
