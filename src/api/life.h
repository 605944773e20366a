/*
 * What is done around a fork, for who forks without handlers; and whose process it is.
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

/* Whether the program's malloc is this library's. In the shared library alone: elsewhere whoever links it knows. */
bool life_serves_malloc(void) __attribute__((weak, visibility("hidden")));

HAK_C_END
#endif
