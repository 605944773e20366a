/* What the examples of docs/memory.md share. They are compiled by the commands in that document.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Comes before the first thread begins: SIGUSR1 waits for `step` then, in whatever thread. */
static inline void steps_begin(void) {
  sigset_t go_on;
  sigemptyset(&go_on);
  sigaddset(&go_on, SIGUSR1);
  if (pthread_sigmask(SIG_BLOCK, &go_on, NULL) != 0) {
    abort();
  }
}

/* Says where the program is, and waits for SIGUSR1. Standard error has no buffer, which would be a block. */
static inline void step(const char *done) {
  sigset_t go_on;
  int number;
  fprintf(stderr, "%s\n", done);
  sigemptyset(&go_on);
  sigaddset(&go_on, SIGUSR1);
  if (sigwait(&go_on, &number) != 0) {
    abort();
  }
}

/* A block that is written to from end to end, so that all of it is resident. Where the compiler could look into
 * this function, it would leave out writes that nobody reads. */
__attribute__((noinline, unused)) static void *filled(size_t bytes) {
  void *block = malloc(bytes);
  if (block == NULL) {
    abort();
  }
  return memset(block, 1, bytes);
}
