/*
 * The pool in a forked child.
 *
 * Threads that a child does not have leave their owners attached, and perhaps the
 * stack in the middle of a change. The child's handler only takes note: a signal
 * handler may have forked, and the code that it interrupted may hold the gate.
 * Whoever enters the gate next puts things in order.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_POOL_FORK_H
#define HAK_POOL_FORK_H

#include "../base/inspected.h"
#include "owner.h"

HAK_C_BEGIN

/* Before a fork, and in the child, gates closed or missed. What threads that the child
 * does not have leave behind is put in order by whoever enters the gate next: their
 * owners are pooled, except those that were in use just then. `self`: the calling
 * thread's, NULL if it has none. false: it was claimed, and is lost. */
void pool_before_fork(void);
bool pool_after_fork(owner_t *self);
/* A handler forked while the calling thread was attaching that one, of which it could not know. The gate is held, and
 * what is pending still is. */
void pool_fork_survives(const owner_t *owner);

/* Whether there is something to put in order. Relaxed: what goes with it is read under the gate, or by the thread
 * that wrote it. */
bool pool_fork_is_pending(void);
/* Puts it in order. The gate is held. */
void pool_fork_settle(void);

extern const inspect_field_t pool_fork_inspected[3];

HAK_C_END
#endif
