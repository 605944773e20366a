/* See purged.h. SPDX-License-Identifier: MIT */
#include "purged.h"

#include "../os/os.h"

static uint16_t *marks(unit_t slab, size_t offset) {
  return &map_record(slab + (unit_t)(offset >> UNIT_SHIFT))->slab.purged;
}
static uint16_t mark(size_t offset) { return (uint16_t)(1u << offset % UNIT_BYTES / os_page_bytes()); }
static int64_t bytes_of(unit_t slab) {
  return (int64_t)((size_t)map_record(slab)->slab.purged_pages * os_page_bytes());
}

bool purged_is_marked(unit_t slab, size_t offset) { return (*marks(slab, offset) & mark(offset)) != 0; }

void purged_mark(owner_t *owner, unit_t slab, size_t from, size_t to) {
  for (size_t at = from; at < to; at += os_page_bytes()) {
    HAK_ASSERT(!purged_is_marked(slab, at));
    *marks(slab, at) |= mark(at);
    map_record(slab)->slab.purged_pages++;
  }
  owner->purged_bytes += (int64_t)(to - from);
}

HAK_COLD void purged_note_gone(owner_t *owner, unit_t slab) {
  unit_record_t *r = map_record(slab);
  owner->purged_bytes -= bytes_of(slab);
  for (unsigned i = 0; i < size_classes[r->slab.size_class].slab_units; i++) map_record(slab + i)->slab.purged = 0;
  r->slab.purged_pages = 0;
}

HAK_COLD void purged_note_taken(owner_t *owner, unit_t slab) {
  owner->regret_bytes += bytes_of(slab);
  purged_note_gone(owner, slab);
}

void purged_note_moved(owner_t *from, owner_t *to, unit_t slab) {
  from->purged_bytes -= bytes_of(slab);
  to->purged_bytes += bytes_of(slab);
}
