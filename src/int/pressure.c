/* See pressure.h. SPDX-License-Identifier: MIT */
#include "pressure.h"

#include "../front/bell.h"
#include "container.h"
#include "trim.h"

#include <errno.h>

enum { LOOK_MS = 10000, LOOK_NEAR_MS = 1000 };

/* For the background thread, which looks when it begins, too: a program may grow faster than its
 * rounds follow each other. Relaxed: it is rung for it. */
static atomic32 look_is_due = {1};

static void look(void) {
  if (container_look_alone()) return;
  atomic32_store_relaxed(&look_is_due, 1);
  bell_ring();
}

HAK_COLD void pressure_answer(void) {
  int saved_errno = errno;
  limit_answer_t answer = limit_answer();
  if (answer.squeeze) trim_for(TALLY_LIMITED, 0);
  if (answer.look || (answer.squeeze && container_is_known())) look();
  errno = saved_errno;
}

void pressure_set_soft_limit(size_t bytes) {
  limit_set_soft(bytes);
  if (limit_is_near(0)) trim_for(TALLY_LIMITED, 0);
}

bool pressure_round(uint64_t now_ms) {
  static uint64_t looked_ms;
  static bool was_near;
  uint64_t interval_ms = limit_is_near(0) ? LOOK_NEAR_MS : LOOK_MS;
  bool is_due = atomic32_exchange_relaxed(&look_is_due, 0) != 0;
  if (is_due || (container_is_known() && now_ms >= looked_ms + interval_ms)) {
    looked_ms = now_ms;
    container_look_apart();
  }
  bool is_near = limit_is_near(0), has_come_near = is_near && !was_near;
  was_near = is_near;
  return has_come_near && trim_for(TALLY_LIMITED, 0) > 0;
}
