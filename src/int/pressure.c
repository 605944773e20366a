/* See pressure.h. SPDX-License-Identifier: MIT */
#include "pressure.h"

#include "../base/probe.h"
#include "container.h"
#include "trim.h"

#include <errno.h>

HAK_COLD void pressure_answer(void) {
  int saved_errno = errno;
  limit_answer_t answer = limit_answer();
  if (answer.look) container_look();
  if (answer.squeeze) {
    size_t slack = limit_slack(), returned = trim_for(TALLY_LIMITED, slack);
    HAK_PROBE(squeeze, slack, returned);
  }
  errno = saved_errno;
}

void pressure_set_soft_limit(size_t bytes) {
  limit_set_soft(bytes);
  if (limit_is_tight()) trim_for(TALLY_LIMITED, 0);
}
