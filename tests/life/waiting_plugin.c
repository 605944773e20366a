/*
 * A library whose constructor starts a thread and waits for its end, while the loader's lock is held. The thread
 * frees a block of the C library's own malloc.
 *
 * SPDX-License-Identifier: MIT
 */
#include <pthread.h>
#include <stdlib.h>

/* Of glibc alone. */
void *__libc_malloc(size_t bytes);
#pragma weak __libc_malloc

static void *free_it(void *block) {
  free(block);
  return NULL;
}

__attribute__((constructor)) static void start(void) {
  pthread_t thread;
  void *block = __libc_malloc != NULL ? __libc_malloc(100) : malloc(100);
  if (pthread_create(&thread, NULL, free_it, block) != 0) abort();
  pthread_join(thread, NULL);
}
