/*
 * What a thread gives back when it says that it will sleep.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_IDLE_H
#define HAK_IDLE_H

#include "../base/base.h"

HAK_C_BEGIN

/* hak_thread_idle of hakmem.h. A bounded amount of the thread's slabs; the next call goes on
 * where this one stopped. Returns the bytes that the thread held, unused, and holds no more. */
size_t idle(void);

HAK_C_END
#endif
