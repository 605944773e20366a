/*
 * The process's control groups, as far as they limit its memory: version 2 and version 1, and
 * all groups above the process's own that can be seen.
 *
 * To ask takes descriptors. Whoever asks sees to it that the program does not notice: no other
 * thread is there, and no handler of signals can run.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_CGROUP_H
#define HAK_CGROUP_H

#include "../base/base.h"

HAK_C_BEGIN

/* Bytes: the least at which one of the groups is slowed down, or its processes are killed. false:
 * none limits the memory, or nobody says so. `root` is "" but in tests: what stands before the path
 * of each file. One thread at a time. */
bool cgroup_memory_limit(const char *root, uint64_t *bytes);

HAK_C_END
#endif
