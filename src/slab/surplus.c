/* See surplus.h. SPDX-License-Identifier: MIT */
#include "surplus.h"

#include "../arena/arena_look.h"
#include "../arena/arena_purge.h"
#include "../os/os.h"
#include "../support/profile.h"
#include "purge.h"
#include "slab.h"

enum {
  REGRET_MS = 250,
  REGRET_WEIGHT = 16,
  /* Pieces, rows of a few pages, that may go in a millisecond, and at once: a quarter of a thread's time if it
   * does nothing else. Where blocks are freed in no order, what went in pieces would soon go as a whole. */
  PIECES_A_MS = 128,
  PIECES_MOST = 1024,
};

/* Halves what was regretted as often as time has passed for. */
static void age(owner_t *owner, uint32_t now_ms) {
  uint64_t half_life_ms = profile_wait(REGRET_MS), halvings = (now_ms - owner->regret_ms) / half_life_ms;
  if (halvings == 0) return;
  owner->regret_bytes = halvings < 63 ? owner->regret_bytes >> halvings : 0;
  owner->regret_ms = now_ms;
}

static void allow_pieces(owner_t *owner, uint32_t now_ms) {
  size_t passed_ms = now_ms - owner->pieces_ms;
  owner->pieces = (uint16_t)min_size(owner->pieces + passed_ms * PIECES_A_MS, PIECES_MOST);
  owner->pieces_ms = now_ms;
}

HAK_NOINLINE void surplus_begin_now(owner_t *owner) {
  uint32_t now_ms = (uint32_t)os_now_ms();
  age(owner, now_ms);
  allow_pieces(owner, now_ms);
  slab_tell_arena(owner);
  /* An eighth of what is in use, and what was regretted. */
  owner->surplus_from = (int64_t)profile_keep(SURPLUS_LEAST_BYTES + arena_needed_bytes() / 8) +
                        REGRET_WEIGHT * owner->regret_bytes;
  owner->has_surplus = owner->free_bytes - owner->purged_bytes > owner->surplus_from + (int64_t)SURPLUS_LEAST_BYTES;
}

/* Returns the calls to the system that it took, about. */
static size_t look(owner_t *owner, unit_t slab) {
  unit_record_t *r = map_record(slab);
  /* Again when half of those that are out have come back: where they do so in no order, most pages of small
   * blocks become free with the last few. */
  unsigned out = r->slab.capacity - (unsigned)r->slab.free_count;
  r->slab.look_at = (uint16_t)(r->slab.capacity - out / 2);
  size_t calls = purge_slab(owner, slab, TALLY_STRAINED, &owner->pieces);
  if (r->slab.has_pieces) owner_look_for_surplus(owner);
  return calls;
}

static bool is_ours(const owner_t *owner, unit_t slab) {
  uint32_t word = atomic32_load_relaxed(map_word(slab));
  return word_owner(word) == owner->id && slab_starts_shared(slab, word);
}
/* Mostly free since it was looked at last, and still so. */
static bool is_due(unit_t slab) {
  return map_record(slab)->slab.listed && map_record(slab)->slab.look_at == LOOK_IS_DUE;
}

/* Of a heap that is freed as a whole, in whatever order, each slab gets blocks back in each round. One that does not
 * for some is left, and what it has kept goes. */
static size_t look_for_pieces(owner_t *owner, unit_t slab) {
  uint8_t *looks = &map_record(slab)->slab.idle_looks;
  if ((*looks & SLAB_ROUNDS) == SLAB_ROUNDS) return purge_slab(owner, slab, TALLY_STRAINED, NULL);
  *looks += SLAB_ROUND;
  owner_look_for_surplus(owner);
  return 0;
}

static void look_for_next_class(owner_t *owner) {
  owner->surplus_class = (uint8_t)((owner->surplus_class + 1) % MID_CLASS_END);
  owner->surplus_next = owner->slabs[owner->surplus_class];
  if (owner->surplus_class == 0) owner->surplus_rounds--;
}

HAK_NOINLINE void surplus_end_now(owner_t *owner) {
  enum { SURPLUS_CALLS = 64, SURPLUS_LOOKS = 8 }; /* a tenth of a millisecond or two */
  size_t calls = 0;
  owner->has_surplus = false;
  /* Those that this free made so; a few may be gone by now, or be others. */
  while (owner->mostly_free_count > 0 && calls < SURPLUS_CALLS) {
    unit_t slab = owner->mostly_free[--owner->mostly_free_count];
    if (is_ours(owner, slab) && is_due(slab)) calls += look(owner, slab);
  }
  owner->mostly_free_count = 0;
  /* And some that were so before there was a surplus, or have kept pieces. */
  for (int looks = 0; owner->surplus_rounds > 0 && looks < SURPLUS_LOOKS && calls < SURPLUS_CALLS; looks++) {
    unit_t slab = owner->surplus_next;
    if (slab == 0) {
      look_for_next_class(owner);
      continue;
    }
    owner->surplus_next = map_record(slab)->slab.next;
    if (is_due(slab)) calls += look(owner, slab);
    else if (map_record(slab)->slab.has_pieces) calls += look_for_pieces(owner, slab);
  }
  if (calls > 0) arena_need_less(); /* what stays dirty is a part of what is needed */
}
