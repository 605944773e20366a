/* See purged.h. SPDX-License-Identifier: MIT */
#include "purged.h"

#include "../arena/arena.h"
#include "../arena/charge.h"
#include "../os/os.h"
#include "../support/tally.h"

static uint16_t *marks(unit_t slab, size_t offset) {
  return &map_record(slab + (unit_t)(offset >> UNIT_SHIFT))->slab.purged;
}
static uint16_t mark(size_t offset) { return (uint16_t)(1u << offset % UNIT_BYTES / os_page_bytes()); }
static size_t bytes_of(unit_t slab) { return map_record(slab)->slab.purged_pages * os_page_bytes(); }

bool purged_is_marked(unit_t slab, size_t offset) { return (*marks(slab, offset) & mark(offset)) != 0; }

void purged_mark(owner_t *owner, unit_t slab, size_t from, size_t to) {
  for (size_t at = from; at < to; at += os_page_bytes()) {
    HAK_ASSERT(!purged_is_marked(slab, at));
    *marks(slab, at) |= mark(at);
    map_record(slab)->slab.purged_pages++;
  }
  owner->purged_bytes += (int64_t)(to - from);
  charge_pages_gone(to - from);
}

static void forget(owner_t *owner, unit_t slab) {
  unit_record_t *r = map_record(slab);
  owner->purged_bytes -= (int64_t)bytes_of(slab);
  for (unsigned i = 0; i < size_classes[r->slab.size_class].slab_units; i++) map_record(slab + i)->slab.purged = 0;
  r->slab.purged_pages = 0;
  r->slab.idle_looks &= (uint8_t)~SLAB_PURGED;
}

HAK_COLD bool purged_may_be_taken(owner_t *owner, unit_t slab, bool makes_room) {
  size_t bytes = bytes_of(slab);
  while (!charge_pages_back(bytes))
    if (!makes_room || !arena_make_room(align_up(bytes, UNIT_BYTES) >> UNIT_SHIFT)) return false;
  owner->regret_bytes += (int64_t)bytes;
  forget(owner, slab);
  return true;
}

HAK_COLD size_t purged_note_released(owner_t *owner, unit_t slab) {
  size_t bytes = bytes_of(slab), slab_bytes = size_class_slab_bytes(&size_classes[map_record(slab)->slab.size_class]);
  bool may_stay = charge_pages_back(bytes), all_go = !may_stay && os_purge(map_address(slab), slab_bytes);
  if (all_go) tally_add(TALLY_LIMITED, slab_bytes - bytes);
  else if (!may_stay) charge_pages_back_anyway(bytes); /* what is locked may be more than a limit allows */
  forget(owner, slab);
  return all_go ? bytes : 0;
}

void purged_note_moved(owner_t *from, owner_t *to, unit_t slab) {
  from->purged_bytes -= (int64_t)bytes_of(slab);
  to->purged_bytes += (int64_t)bytes_of(slab);
}
