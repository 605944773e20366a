/* See desk.h. SPDX-License-Identifier: MIT */
#include "desk.h"

static HAK_RARELY_USED desk_t the_desk;
static atomic32 is_taken; /* for good, if a callback never returns, or in the child of a fork meanwhile */

static void work_at(desk_t *desk, desk_fn *work, void *context) {
  census_take(&desk->census, true);
  stats_from(&desk->census, &desk->stats);
  account_from(&desk->census, &desk->account);
  work(desk, context);
}

/* Apart, so that who has the desk needs no room on the stack for another one. */
static HAK_COLD void work_on_the_stack(desk_fn *work, void *context) {
  desk_t desk;
  work_at(&desk, work, context);
}

void desk_work(desk_fn *work, void *context) {
  if (atomic32_exchange_acquire(&is_taken, 1) != 0) {
    work_on_the_stack(work, context);
    return;
  }
  work_at(&the_desk, work, context);
  atomic32_store_release(&is_taken, 0);
}
