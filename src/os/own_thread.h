/*
 * How a thread of the library's own is started: with the stack, the schedule and the processors that suit it,
 * and not with those of whoever starts it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_OWN_THREAD_H
#define HAK_OWN_THREAD_H

#include "../base/base.h"

#include <pthread.h>

HAK_C_BEGIN

/* pthread_create(3), as the next library in order has it. */
typedef int own_thread_create_fn(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                                 void *argument);

/* Starts a detached one by `create`: with a stack of so many bytes at the most, not with a realtime priority,
 * and on the processors of the process's first thread. Where that is refused, with what its starter has:
 * thread-local variables may need a larger stack, and the processors be others by now. Under a filter of system
 * calls the latter two are the starter's. */
bool own_thread_start(own_thread_create_fn *create, size_t stack_bytes, void *(*body)(void *));
/* The first that such a thread does. */
void own_thread_begins(const char *name);

HAK_C_END
#endif
