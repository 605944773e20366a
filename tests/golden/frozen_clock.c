/*
 * Preloaded before the library: its coarse clock stands still, so that what is
 * decided over time (decay) does not depend on how fast the machine is.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (clock != CLOCK_MONOTONIC_COARSE) return (int)syscall(SYS_clock_gettime, clock, now);
  *now = (struct timespec){.tv_sec = 1000};
  return 0;
}
