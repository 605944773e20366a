/* See drop.h. SPDX-License-Identifier: MIT */
#include "drop.h"

#include "dense.h"

bool drop_has_grown(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    if (map_has_grown(c.number)) return true;
  }
  return false;
}

void drop_note_anew(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    if (c.mask != UINT32_MAX) continue;
    map_note_huge_page(c.number, false);
    map_note_grown(c.number, false);
  }
}

/* To the system, pages that were moved stay those of another place: what lies beside them is another mapping,
 * of which a process may have 65 530, for as long as they are mapped. So where a block has grown, pages are not
 * purged but mapped anew, also those that are locked. If that is refused, they go as others do. */
purge_t drop_pages(void *at, size_t bytes) {
  unit_t first = (unit_t)map_unit_of(at);
  size_t units = bytes >> UNIT_SHIFT;
  if (HAK_UNLIKELY(drop_has_grown(first, units))) {
    if (map_commit_again(at, bytes)) {
      drop_note_anew(first, units);
      return PURGE_DONE;
    }
    if (!os_is_readable(at)) return PURGE_LOST;
  }
  return os_purge(at, bytes) ? PURGE_DONE : PURGE_REFUSED;
}

/* Bitmaps are a 64th of the memory, where blocks are small. */
purge_t drop_slabs(void *at, size_t bytes) {
  unit_t first = (unit_t)map_unit_of(at);
  FOR_EACH_SUPERSLAB(c, first, bytes >> UNIT_SHIFT) {
    if (c.mask != UINT32_MAX) dense_thins_out(c.number * SUPERSLAB_UNITS, 1);
  }
  purge_t purged = drop_pages(at, bytes);
  if (purged == PURGE_DONE) map_purge_bitmaps(first, bytes >> UNIT_SHIFT);
  return purged;
}
