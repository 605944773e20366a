/*
 * Ends in a thread with the smallest stack that the GNU C library lets it have, 16 KiB on x86-64, after the C
 * library's reports of the heap if "reports" is asked for. Links nothing of hakmem.
 *
 * SPDX-License-Identifier: MIT
 */
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *end(void *reports) {
#if defined(__GLIBC__)
  if (reports != NULL) {
    malloc_stats();
    if (mallinfo2().uordblks == 0) exit(1);
    if (malloc_info(0, stdout) != 0) exit(1);
  }
#else
  (void)reports;
#endif
  exit(0);
}

int main(int count, char **arguments) {
  pthread_t thread;
  pthread_attr_t smallest;
  const size_t least = 16 * 1024; /* musl's, 2 KiB, is too small for any line that is formatted */
  const size_t bytes = (size_t)PTHREAD_STACK_MIN > least ? (size_t)PTHREAD_STACK_MIN : least;
  if (pthread_attr_init(&smallest) != 0 || pthread_attr_setstacksize(&smallest, bytes) != 0) return 2;
  setvbuf(stdout, NULL, _IONBF, 0);
  if (pthread_create(&thread, &smallest, end, count > 1 ? arguments[1] : NULL) != 0) return 3;
  for (;;) pause();
}
