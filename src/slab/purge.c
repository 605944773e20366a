/* See purge.h. SPDX-License-Identifier: MIT */
#include "purge.h"

#include "../arena/pages.h"
#include "../os/os.h"
#include "slab.h"

HAK_INLINE unit_record_t *record(unit_t slab) { return &the_map.records[slab]; }

/* The first block from `number` on that is free, or that is not; capacity if none. */
static unsigned next_block(const uint64_t *bits, unsigned capacity, unsigned number, bool is_free) {
  while (number < capacity) {
    uint64_t meant = (is_free ? bits[number / 64] : ~bits[number / 64]) >> number % 64;
    if (meant != 0) return (unsigned)min_size(number + (unsigned)__builtin_ctzll(meant), capacity);
    number = (number / 64 + 1) * 64;
  }
  return capacity;
}

static size_t purge_slab(unit_t slab) {
  const unit_record_t *r = record(slab);
  const uint64_t *bits = the_map.free_bits[slab];
  unsigned size_class = r->slab.size_class, capacity = r->slab.capacity;
  size_t purged = 0, page = os_page_bytes();
  for (unsigned from = next_block(bits, capacity, 0, true), to; from < capacity;
       from = next_block(bits, capacity, to, true)) {
    to = next_block(bits, capacity, from, false);
    uintptr_t start = align_up((uintptr_t)slab_block_address(slab, size_class, from), page);
    uintptr_t end = align_down((uintptr_t)slab_block_address(slab, size_class, to), page);
    if (start < end) purged += pages_drop((void *)start, end - start);
  }
  return purged;
}

size_t purge_pages(owner_t *owner) {
  size_t purged = 0;
  for (unsigned c = 0; c < MID_CLASS_END; c++)
    for (unit_t slab = owner->slabs[c]; slab != 0; slab = record(slab)->slab.next) purged += purge_slab(slab);
  return purged;
}

/* What lies in a slab that nothing was taken from or put into between two rounds. */
static bool look(owner_t *owner, unit_t slab) {
  enum { PURGE_AT = 2 };
  unit_record_t *r = record(slab);
  if (r->slab.idle_looks >= PURGE_AT || ++r->slab.idle_looks < PURGE_AT) return false;
  if (r->slab.free_count < r->slab.capacity / 2) return false; /* little to gain, and huge pages to lose */
  if (r->slab.free_count == r->slab.capacity)
    slab_release(owner, slab);
  else
    purge_slab(slab);
  return true;
}

size_t purge_idle(owner_t *owner, uint64_t now_ms, size_t most_purges) {
  /* A look takes some tens of nanoseconds, a purge of a slab as many microseconds: at
   * one a millisecond a few hundredths of the time. */
  enum { ROUND_MS = 1000, STEP_MS = 10, LOOKS = 1024 };
  if (now_ms < owner->look_ms + STEP_MS) return 0;
  size_t most = min_size(now_ms - owner->look_ms, most_purges), purges = 0;
  owner->look_ms = now_ms;
  for (size_t looks = 0; looks < LOOKS && purges < most; looks++) {
    unit_t slab = owner->next_look;
    if (slab != 0) {
      owner->next_look = record(slab)->slab.next;
      purges += look(owner, slab);
      continue;
    }
    if (owner->look_class == 0) {
      if (now_ms < owner->round_ms + ROUND_MS) break;
      owner->round_ms = now_ms;
    }
    owner->next_look = owner->slabs[owner->look_class];
    owner->look_class = (owner->look_class + 1) % MID_CLASS_END;
  }
  slab_tell_arena(owner);
  return purges;
}
