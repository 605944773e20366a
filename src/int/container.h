/*
 * The container that the process runs in (os/cgroup.h): how near the end of its memory is.
 *
 * To look takes file descriptors, and the program may be about to use the numbers that they
 * would have. So it is done in one of two ways, and otherwise not at all:
 *   alone  where the process has one thread, with all signals blocked: nothing else happens
 *          in the process before they are closed again;
 *   apart  by a thread made for it, which has an empty table of descriptors of its own
 *          (os_run_apart). Not by the background thread itself: the program's exit handlers
 *          may have to run in that one.
 * Neither under a filter of system calls, nor with HAKMEM_INT=off.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_CONTAINER_H
#define HAK_CONTAINER_H

#include "../base/base.h"

HAK_C_BEGIN

/* Each looks and says what it has found to support/limit.h; false if it cannot. They leave errno
 * as it is. apart: the caller is the background thread, or one that may wait as long as it
 * takes to start a thread. */
bool container_look_alone(void);
bool container_look_apart(void);

/* Whether a limit was found when somebody looked last. */
bool container_is_known(void);

/* In a forked child. */
void container_after_fork(void);

HAK_C_END
#endif
