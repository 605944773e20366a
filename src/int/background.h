/*
 * The background thread: gives back what the program's threads do not ask for any more,
 * although none of them comes by to do it.
 *
 * It is started where the program itself has just started a thread, and nowhere else:
 * malloc and free may be called with any lock of the C library held, which
 * pthread_create(3) may want. It sleeps until memory has become free (front/bell.h). Then it
 * visits the owners of threads that sleep or have ended, and the arena's dirty memory, some
 * times a second, until there has been nothing to do for two. In an idle process it
 * wakes every ten seconds, to see whether it is alone: when the program has been down to one
 * thread for two seconds, and has started none meanwhile, it ends, and is started again with the next.
 *
 * All signals are blocked in it. It is not there in a forked child until that starts a thread. Where there is
 * none (programs with one thread, static programs, threads that are started otherwise than by pthread_create
 * and thrd_create, where it cannot be started, where the program has installed a filter of system calls, with
 * HAKMEM_INT=inline) the program's threads do its work at batch boundaries. Where it comes round they leave it
 * all but their own magazines and slabs.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_BACKGROUND_H
#define HAK_BACKGROUND_H

#include "../os/own_thread.h"

HAK_C_BEGIN

/* Before the program starts a thread: prepares what costs much more when there are several. */
void background_prepare(void);
/* The program has just started a thread by `create`. Starts ours by it, if there is none.
 * Leaves errno as it is. */
void background_start(own_thread_create_fn *create);
/* In a forked child, before anything else of this layer. */
void background_after_fork(void);

/* Whether it runs. Relaxed: it may have ended meanwhile. */
bool background_runs(void);

HAK_C_END
#endif
