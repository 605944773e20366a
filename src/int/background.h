/*
 * The background thread: gives back what the program's threads do not ask for any more,
 * although none of them reaches a batch boundary.
 *
 * It exists only while there is something to do. A thread of the program that has been
 * at a batch boundary wants it (background_want); if the process has several threads
 * and none of ours, one is started. It visits the owners of threads that sleep or have
 * ended, and the arena's dirty memory, every half second, and ends when nobody has
 * wanted it and nothing was left to do for some seconds. So an idle process has no
 * thread of ours and is not woken by one; a process with a single thread never has one.
 *
 * All signals are blocked in it. It is not there in a forked child, which starts its
 * own when it has a second thread. Where it cannot be started (limits, a filter of
 * system calls, HAKMEM_INT=off), the program's threads do its work at batch boundaries,
 * as they do beside it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_BACKGROUND_H
#define HAK_BACKGROUND_H

#include "../base/base.h"

HAK_C_BEGIN

/* From now on threads that reach a batch boundary start it. Before the second thread. */
void background_prepare(void);
/* The calling thread has changed something that may be worth a visit. May start the
 * thread, and allocate; leaves errno as it is. */
void background_want(void);
/* In a forked child, before anything else of this layer. */
void background_after_fork(void);

HAK_C_END
#endif
