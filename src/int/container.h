/*
 * The container that the process runs in: how much memory it may have (os/cgroup.h).
 *
 * It is looked at once, because that takes file descriptors, and the program may be about to
 * use the numbers that they would have: while the process has one thread, with all signals
 * blocked, so that nothing else happens in it before they are closed again. That is when the heap has
 * reached 16 MiB, or before the program starts its first thread, whatever comes first. If
 * there is another thread by then, nobody looks; neither under a filter of system calls, nor
 * with HAKMEM_INT=inline or off.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_CONTAINER_H
#define HAK_CONTAINER_H

#include "../base/base.h"

HAK_C_BEGIN

/* Looks, if that is still to be done, and says what it has found to support/limit.h. Leaves errno
 * as it is. */
void container_look(void);

HAK_C_END
#endif
