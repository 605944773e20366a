/* See purge.h. SPDX-License-Identifier: MIT */
#include "purge.h"

#include "../arena/dense.h"
#include "../arena/pages.h"
#include "../os/os.h"
#include "../support/profile.h"
#include "../support/tally.h"
#include "claim.h"
#include "purged.h"
#include "slab.h"
#include "slab_list.h"

/* Whether blocks `first` to `last` are all free. */
static bool are_free(const uint64_t *bits, unsigned first, unsigned last) {
  for (unsigned w = first / 64; w <= last / 64; w++) {
    uint64_t meant = UINT64_MAX;
    if (w == first / 64) meant <<= first % 64;
    if (w == last / 64) meant &= UINT64_MAX >> (63 - last % 64);
    if ((~bits[w] & meant) != 0) return false;
  }
  return true;
}

/* Whether the page at that offset into the slab lies in free blocks alone, and is there. The
 * slab's tail, in which no block has room, is free as well: the last page of most slabs is
 * partly that, and one that is not given back stays for each of them. */
static bool is_free_page(unit_t slab, size_t offset) {
  const unit_record_t *r = map_record(slab);
  if (purged_is_marked(slab, offset)) return false;
  const size_class_t *c = &size_classes[r->slab.size_class];
  unsigned first = size_class_block_at(c, offset), last = size_class_block_at(c, offset + os_page_bytes() - 1);
  if (first >= r->slab.capacity) return false; /* tail alone, which the books of free bytes do not know */
  if (last >= r->slab.capacity) last = r->slab.capacity - 1u;
  return are_free(the_map.free_bits[slab], first, last);
}

/* A row of pages of a slab. */
typedef struct {
  size_t from, to; /* offsets */
} free_pages_t;

/* The next row of pages in free blocks of a slab, behind the last; false if there is none.
 * Begin with zeroes. */
static bool next_free_pages(unit_t slab, free_pages_t *pages) {
  size_t page = os_page_bytes();
  size_t length = size_class_slab_bytes(&size_classes[map_record(slab)->slab.size_class]);
  size_t from = pages->to;
  while (from < length && !is_free_page(slab, from)) from += page;
  size_t to = from;
  while (to < length && is_free_page(slab, to)) to += page;
  *pages = (free_pages_t){from, to};
  return to > from;
}

size_t purge_slab(owner_t *owner, unit_t slab, tally_t reason, uint16_t *pieces) {
  enum { PAGES_AS_A_CALL = 8 };
  map_record(slab)->slab.has_pieces = false;
  size_t calls = 1;
  for (free_pages_t pages = {0}; next_free_pages(slab, &pages);) {
    size_t bytes = pages.to - pages.from;
    if (pieces != NULL && bytes < PURGE_PIECE_BYTES) {
      if (*pieces == 0) {
        map_record(slab)->slab.has_pieces = true;
        continue;
      }
      --*pieces;
    }
    dense_thins_out(slab, 1);
    if (os_purge(map_address(slab) + pages.from, bytes)) { /* else they stay */
      purged_mark(owner, slab, pages.from, pages.to);
      tally_add(reason, bytes);
    }
    calls += 1 + bytes / os_page_bytes() / PAGES_AS_A_CALL;
  }
  return calls;
}

/* Of one slab. Whoever is refused at a hard limit comes here, and comes again: one whose pages have gone, and that was
 * not touched since, is passed by. */
static size_t purge_pages_of(owner_t *owner, unit_t slab, size_t *keep) {
  uint8_t *looks = &map_record(slab)->slab.idle_looks;
  if ((*looks & SLAB_PURGED) != 0) return 0;
  size_t purged = 0;
  bool all_gone = true;
  for (free_pages_t pages = {0}; next_free_pages(slab, &pages);) {
    bool are_gone;
    if (*keep < pages.to - pages.from) dense_thins_out(slab, 1);
    purged += pages_drop(map_address(slab) + pages.from, pages.to - pages.from, keep, &are_gone);
    if (are_gone) purged_mark(owner, slab, pages.from, pages.to);
    else all_gone = false;
  }
  if (all_gone) *looks |= SLAB_PURGED;
  return purged;
}

size_t purge_pages(owner_t *owner, size_t *keep) {
  size_t purged = 0;
  for (unsigned c = 0; c < MID_CLASS_END; c++) {
    for (unit_t slab = owner->slabs[c]; slab != 0; slab = map_record(slab)->slab.next) {
      purged += purge_pages_of(owner, slab, keep);
      if (HAK_UNLIKELY(claim_is_awaited(owner))) return purged;
    }
  }
  return purged;
}

/* Where there are huge pages a fuller one has little to gain, and those to lose. */
static bool is_worth_purging(unit_t slab) {
  return slab_is_half_free(slab) ||
         (!map_wants_huge_page(slab / SUPERSLAB_UNITS) && slab_free_bytes(slab) >= (int64_t)os_page_bytes());
}

/* What lies in a slab that nothing was taken from or put into between two rounds.
 * Returns the calls to the system that it took, 1 at least for what takes as long. */
static size_t look(owner_t *owner, unit_t slab) {
  enum { PURGE_AT = 2 };
  unit_record_t *r = map_record(slab);
  unsigned looks = r->slab.idle_looks & SLAB_LOOKS;
  if (looks == PURGE_AT) return 0;
  if (looks + 1 == PURGE_AT && !is_worth_purging(slab)) return 0; /* yet: a neighbour may end its huge page */
  r->slab.idle_looks++;
  if (looks + 1 < PURGE_AT) return 0;
  if (slab_is_empty(slab)) {
    slab_release(owner, slab);
    return 1;
  }
  return purge_slab(owner, slab, TALLY_IDLE, NULL);
}

/* The cursor of an owner that looks at one slab after the other, class by class. */
static void look_at_next_class(owner_t *owner) {
  owner->next_look = owner->slabs[owner->look_class];
  owner->look_class = (uint8_t)((owner->look_class + 1) % MID_CLASS_END);
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
      if (now_ms < owner->round_ms + profile_wait(ROUND_MS)) break;
      owner->round_ms = now_ms;
      slab_age_empty(owner);
    }
    look_at_next_class(owner);
  }
  slab_tell_arena(owner);
  return slabs;
}

/* By the same cursor as purge_idle_step: a slab that goes takes it along. */
void purge_unused(owner_t *owner, size_t most) {
  if (!owner->goes_on) owner->next_look = owner->slabs[0], owner->look_class = 1;
  owner->goes_on = true;
  for (size_t cost = 0; cost < most; cost++) {
    unit_t slab = owner->next_look;
    if (slab != 0) {
      owner->next_look = map_record(slab)->slab.next;
      if (is_worth_purging(slab)) cost += purge_slab(owner, slab, TALLY_TRIMMED, NULL);
    } else if (owner->look_class != 0) {
      look_at_next_class(owner);
    } else {
      owner->goes_on = false;
      break;
    }
  }
}

size_t purge_idle(owner_t *owner, uint64_t now_ms, size_t most_calls) {
  /* A look takes some tens of nanoseconds, a call to the system a microsecond or
   * several: a few hundredths of the time. */
  enum { STEP_MS = 10, SELDOM_MS = 20, CALLS_A_MS = 8 };
  if (now_ms < owner->look_ms + STEP_MS) return 0;
  uint64_t since_ms = now_ms - owner->look_ms;
  size_t most = min_size(since_ms * CALLS_A_MS, most_calls);
  owner->look_ms = now_ms;
  size_t slabs = purge_idle_step(owner, now_ms, most);
  atomic8_store_relaxed(&owner->wants_help, since_ms >= SELDOM_MS && purge_is_under_way(owner));
  return slabs;
}
