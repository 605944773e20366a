/* Processors. See os.h. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE 1
#include "os.h"

#include <errno.h>
#include <sched.h>

/* 0: not known yet. Relaxed: every thread would store the same value, or that of who may not ask, or of
 * a process that has been given others meanwhile. */
static atomic32 processor_count;

/* Room for as many as a kernel can be built for, so that it does not refuse the call for want of room. */
static uint32_t count_processors(void) {
  enum { PROCESSORS = 8192 };
  unsigned long allowed[PROCESSORS / (8 * sizeof(unsigned long))] = {0};
  if (!os_is_unfiltered()) return OS_MANY_PROCESSORS;
  int saved_errno = errno;
  uint32_t count = 0;
  if (sched_getaffinity(0, sizeof allowed, (cpu_set_t *)allowed) == 0)
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) count += (uint32_t)__builtin_popcountl(allowed[i]);
  errno = saved_errno;
  return count > 0 ? count : OS_MANY_PROCESSORS;
}

uint32_t os_processor_count(void) {
  uint32_t count = atomic32_load_relaxed(&processor_count);
  if (HAK_LIKELY(count != 0)) return count;
  count = count_processors();
  atomic32_store_relaxed(&processor_count, count);
  return count;
}
