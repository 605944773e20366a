/* See purge.h. SPDX-License-Identifier: MIT */
#include "purge.h"

#include "../arena/dense.h"
#include "../arena/pages.h"
#include "../os/os.h"
#include "../support/tally.h"
#include "claim.h"
#include "slab.h"

/* The first block from `number` on that is free, or that is not; capacity if none. */
static unsigned next_block(const uint64_t *bits, unsigned capacity, unsigned number, bool is_free) {
  while (number < capacity) {
    uint64_t meant = (is_free ? bits[number / 64] : ~bits[number / 64]) >> number % 64;
    if (meant != 0) return (unsigned)min_size(number + (unsigned)__builtin_ctzll(meant), capacity);
    number = (number / 64 + 1) * 64;
  }
  return capacity;
}

/* The whole pages in a row of free blocks. */
typedef struct {
  char *at;
  size_t bytes;
} free_pages_t;

/* The next row of free blocks in a slab from block *number on that holds a whole
 * page; false if there is none. Moves *number behind the row. */
static bool next_free_pages(unit_t slab, unsigned *number, free_pages_t *pages) {
  const unit_record_t *r = map_record(slab);
  const uint64_t *bits = the_map.free_bits[slab];
  unsigned size_class = r->slab.size_class, capacity = r->slab.capacity;
  size_t page = os_page_bytes();
  for (;;) {
    unsigned from = next_block(bits, capacity, *number, true);
    if (from == capacity) return false;
    *number = next_block(bits, capacity, from, false);
    uintptr_t start = align_up((uintptr_t)slab_block_address(slab, size_class, from), page);
    uintptr_t end = align_down((uintptr_t)slab_block_address(slab, size_class, *number), page);
    if (start >= end) continue;
    *pages = (free_pages_t){(char *)start, end - start};
    return true;
  }
}

size_t purge_pages(owner_t *owner) {
  size_t purged = 0;
  for (unsigned c = 0; c < MID_CLASS_END; c++) {
    for (unit_t slab = owner->slabs[c]; slab != 0; slab = map_record(slab)->slab.next) {
      free_pages_t pages;
      for (unsigned number = 0; next_free_pages(slab, &number, &pages);) {
        dense_thins_out(slab, 1);
        purged += pages_drop(pages.at, pages.bytes);
      }
      if (HAK_UNLIKELY(claim_is_awaited(owner))) return purged;
    }
  }
  return purged;
}

/* What lies in a slab that nothing was taken from or put into between two rounds.
 * Returns the calls to the system that it took, 1 at least for what takes as long. */
static size_t look(owner_t *owner, unit_t slab) {
  enum { PURGE_AT = 2, PAGES_AS_A_CALL = 8 };
  unit_record_t *r = map_record(slab);
  if (r->slab.idle_looks >= PURGE_AT || ++r->slab.idle_looks < PURGE_AT) return 0;
  if (r->slab.free_count < r->slab.capacity / 2) return 0; /* little to gain, and huge pages to lose */
  if (r->slab.free_count == r->slab.capacity) {
    slab_release(owner, slab);
    return 1;
  }
  size_t calls = 1;
  free_pages_t pages;
  for (unsigned number = 0; next_free_pages(slab, &number, &pages);) {
    dense_thins_out(slab, 1);
    if (os_purge(pages.at, pages.bytes)) tally_add(TALLY_IDLE, pages.bytes); /* where it is refused, the pages stay */
    calls += 1 + pages.bytes / os_page_bytes() / PAGES_AS_A_CALL;
  }
  return calls;
}

size_t purge_idle_step(owner_t *owner, uint64_t now_ms, size_t most_calls) {
  enum { ROUND_MS = 500, LOOKS = 1024 };
  size_t calls = 0, slabs = 0;
  for (size_t looks = 0; looks < LOOKS && calls < most_calls; looks++) {
    unit_t slab = owner->next_look;
    if (slab != 0) {
      owner->next_look = map_record(slab)->slab.next;
      size_t taken = look(owner, slab);
      calls += taken;
      slabs += taken > 0;
      continue;
    }
    if (owner->look_class == 0) {
      if (now_ms < owner->round_ms + ROUND_MS) break;
      owner->round_ms = now_ms;
    }
    owner->next_look = owner->slabs[owner->look_class];
    owner->look_class = (uint8_t)((owner->look_class + 1) % MID_CLASS_END);
  }
  slab_tell_arena(owner);
  return slabs;
}

size_t purge_idle(owner_t *owner, uint64_t now_ms, size_t most_calls) {
  /* A look takes some tens of nanoseconds, a call to the system a microsecond or
   * several: a few hundredths of the time. */
  enum { STEP_MS = 10, CALLS_A_MS = 8 };
  if (now_ms < owner->look_ms + STEP_MS) return 0;
  size_t most = min_size((now_ms - owner->look_ms) * CALLS_A_MS, most_calls);
  owner->look_ms = now_ms;
  return purge_idle_step(owner, now_ms, most);
}
