/* See trim.h. SPDX-License-Identifier: MIT */
#include "trim.h"

#include "../arena/arena_look.h"
#include "../arena/arena_purge.h"
#include "../arena/metadata.h"
#include "../front/reclaim.h"

/* Of pages of slabs in use that are free and resident, `keep_pages` bytes stay. */
static size_t purge(tally_t reason, size_t keep_dirty, size_t keep_pages) {
  size_t purged = reclaim_pages(&keep_pages);
  return tally_add(reason, purged) + arena_purge_for(reason, keep_dirty);
}

size_t trim_for(tally_t reason, size_t keep_dirty) {
  reclaim();
  return purge(reason, keep_dirty, 0);
}

size_t trim(size_t keep_bytes) {
  reclaim();
  size_t keep_dirty = min_size(align_down(keep_bytes, UNIT_BYTES), arena_usage().dirty);
  return purge(TALLY_TRIMMED, keep_dirty, keep_bytes - keep_dirty) + metadata_purge();
}
