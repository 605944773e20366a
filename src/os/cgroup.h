/*
 * The process's control groups, as far as they limit its memory: version 2 and version 1, and
 * all groups above the process's own that can be seen.
 *
 * To ask takes descriptors. Whoever asks sees to it that the program does not notice: by
 * os_run_apart, or because no other thread is there, and no handler of
 * signals can run.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_CGROUP_H
#define HAK_CGROUP_H

#include "../base/base.h"

HAK_C_BEGIN

/* Of the group whose memory ends first: what it may have, at which it is slowed down or its
 * processes are killed, and what it has that the system cannot take back at once (the pages of
 * files do not count). */
typedef struct {
  uint64_t limit, used;
} cgroup_memory_t;

/* The tenth part of the limit from which on the end is near. */
HAK_INLINE uint64_t cgroup_reserve(uint64_t limit) { return limit / 10; }

/* false: no group limits the memory, or nobody says so. `root` is "" but in tests: what stands
 * before the path of each file. One thread at a time. */
bool cgroup_memory(const char *root, cgroup_memory_t *memory);

HAK_C_END
#endif
