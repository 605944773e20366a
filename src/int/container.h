/*
 * The container that the process runs in: how much memory it may have (os/cgroup.h).
 *
 * It is looked at once, because that takes file descriptors, and the program may be about to
 * use the numbers that they would have: when the process has one thread, and from then on with all signals
 * blocked, so that nothing else happens in it before they are closed again (but for a thread that a handler has
 * started between the two, which handlers may not). That is when the heap has
 * reached 16 MiB, or before the program starts its first thread, whatever comes first. If
 * there is another thread by then, nobody looks; neither with HAKMEM_INT=inline or off, nor where the
 * program has installed a filter of system calls.
 *
 * A look takes a tenth of a millisecond, too much for each start of a program. But under a filter that was in
 * force at the start and hides whether there are others by now (os_hides_filters) that is the only moment to
 * open files: the loader has just opened some, beside other threads as well, if it has loaded this library
 * late. Those of a static program have been opened by nobody, so there nobody looks.
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
/* To be called at the start, after os_note_filter: the same, where it is then or never. */
void container_look_at_start(void);

HAK_C_END
#endif
