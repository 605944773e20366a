/* See reclaim.h. SPDX-License-Identifier: MIT */
#include "reclaim.h"

#include "../region/region.h"
#include "../slab/tidy.h"
#include "../support/limit.h"
#include "flush.h"
#include "strip.h"
#include "thread.h"

void reclaim(void) {
  thread_flush();
  tidy_sweep(flush_step);
  tidy_sweep_attached(strip_now);
  region_release_empty();
}

HAK_COLD bool reclaim_at_hard_limit(size_t bytes) {
  if (!limit_exists() || !limit_is_hard() || !limit_could_ever_allow(bytes)) return false;
  reclaim();
  return true;
}
