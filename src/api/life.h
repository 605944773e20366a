/*
 * What is done around a fork, for who forks without handlers.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_LIFE_H
#define HAK_LIFE_H

#include "../base/base.h"

HAK_C_BEGIN

/* The first before it, then one of the others, by the same thread. May be called in a signal handler, as fork(2), and
 * between the two calls of another fork. */
void life_before_fork(void);
void life_after_fork_in_parent(void);
void life_after_fork_in_child(void);

HAK_C_END
#endif
