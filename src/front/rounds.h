/*
 * One round over all threads' heaps at a time, however many threads want one.
 *
 * A round takes some microseconds for each thread. At the end of memory hundreds of threads may want one at once, and
 * if each went round itself, each would wait for all others at every gate on its way. So one goes, and of those that
 * come meanwhile one goes next, for all of them.
 *
 * Invariant: where rounds_begin returns 0, a round began after the call did, and has ended.
 *
 * Who goes round may be stopped for as long as a waiter lives (by a signal handler that waits for that one), or never
 * come to the end (where a handler jumps away). So who has waited ROUND_MOST_MS for one runner takes its place. A
 * thread that forks, or whose signal handler has interrupted its own round, goes at once: others wait for it.
 *
 * Thread-safe. The caller is behind no gate, and in no slow path.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ROUNDS_H
#define HAK_ROUNDS_H

#include "../base/base.h"

HAK_C_BEGIN

enum { ROUND_MOST_MS = 1000 };

/* Zero is valid. */
typedef struct {
  atomic32 runner;       /* the number of the thread that goes round, or 0; waiters sleep on it */
  atomic64 begun, ended; /* rounds that have begun; the latest of those that have ended         */
} rounds_t;

/* The number of a round, which rounds_end is to be told when the caller has gone round; or 0: somebody else has. */
uint64_t rounds_begin(rounds_t *rounds);
void rounds_end(rounds_t *rounds, uint64_t round);
/* In a forked child, where the others are not. */
void rounds_after_fork(rounds_t *rounds);

HAK_C_END
#endif
