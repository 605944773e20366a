/*
 * Where a report is put together: the figures of all classes, and its text, are more than the
 * smallest stack of a thread has room for.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_DESK_H
#define HAK_DESK_H

#include "account.h"

HAK_C_BEGIN

enum { DESK_TEXT_BYTES = 4096 };
typedef struct {
  census_t census;
  hak_stats_t stats;
  hak_account_t account;
  char text[DESK_TEXT_BYTES];
} desk_t;

/* What is done at the desk, which holds figures of this moment. */
typedef void desk_fn(desk_t *desk, void *context);

/* There is one desk. Who finds another thread at it, or is a signal handler that has interrupted its own thread
 * there, waits for nobody: it is done on the stack. */
void desk_work(desk_fn *work, void *context);

HAK_C_END
#endif
