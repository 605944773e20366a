/* See arena.h. SPDX-License-Identifier: MIT */
#include "arena.h"

#include "../support/limit.h"
#include "../support/profile.h"
#include "charge.h"
#include "dense.h"
#include "dirty.h"
#include "invariants.h"
#include "kept.h"
#include "metadata.h"
#include "pages.h"
#include "returns.h"
#include "shelf.h"
#include "zone.h"

hak_gate_t arena_gate;
atomic32 arena_is_strained;

enum {
  /* How long free memory stays resident, and how long it lies on the shelf before. */
  DIRTY_MS = 1000,
  SHELF_MS = 250,
  LOOK_MS = 20,        /* between looks that found neither that old */
  UNSHELVED_MOST = 32, /* runs that a call takes down */
  RETURNS_MOST = 64,   /* and that who enters the gate takes in */
  /* Of one call, and of one call to the system: others wait for the kernel's map of the
   * process meanwhile. */
  PURGE_UNITS = SUPERSLAB_UNITS,
  PURGE_CALLS = 32,
  GROWN_MOST_UNITS = 256, /* of blocks that have grown, dirty at most */
};

/* All state of this file; guarded by arena_gate unless said otherwise. */
static struct {
  atomic32 is_ready; /* release: pairs with the acquire in arena_ready */
  /* Rows that were taken out of the free ones to be purged, and those that are back. */
  uint64_t purges_begun, purges_ended;
  atomic64 next_look_ms; /* of arena_tick; without the gate, too: relaxed           */
  bool has_forked;       /* this process is a child: see arena_after_fork */
} arena;

bool arena_has_grown(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    if (map_has_grown(c.number)) return true;
  }
  return false;
}

/* Units that are the caller's have been mapped anew. The rest of a SuperSlab is as it was. */
static void note_anew(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    if (c.mask != UINT32_MAX) continue;
    map_note_huge_page(c.number, false);
    map_note_grown(c.number, false);
  }
}

/* To the system, pages that were moved stay those of another place: what lies beside them is another mapping,
 * of which a process may have 65 530, for as long as they are mapped. So where a block has grown, pages are not
 * purged but mapped anew, also those that are locked. If that is refused, they go as others do. */
static purge_t purge_pages(void *at, size_t bytes) {
  unit_t first = (unit_t)map_unit_of(at);
  size_t units = bytes >> UNIT_SHIFT;
  if (HAK_UNLIKELY(arena_has_grown(first, units))) {
    if (map_commit_again(at, bytes)) {
      note_anew(first, units);
      return PURGE_DONE;
    }
    if (!os_is_readable(at)) return PURGE_LOST;
  }
  return os_purge(at, bytes) ? PURGE_DONE : PURGE_REFUSED;
}

/* With the bitmaps of slabs that may have been there: a 64th of the memory, where blocks
 * are small. */
static purge_t purge_slabs(void *at, size_t bytes) {
  unit_t first = (unit_t)map_unit_of(at);
  FOR_EACH_SUPERSLAB(c, first, bytes >> UNIT_SHIFT) {
    if (c.mask != UINT32_MAX) dense_thins_out(c.number * SUPERSLAB_UNITS, 1);
  }
  purge_t purged = purge_pages(at, bytes);
  if (purged == PURGE_DONE) map_purge_bitmaps(first, bytes >> UNIT_SHIFT);
  return purged;
}

static const zone_kind_t zone_kinds[ZONE_COUNT] = {
    [ZONE_SMALL] = {.granule_units = SUPERSLAB_UNITS,
                    .commit = map_commit_units,
                    .purge = purge_slabs,
                    .step_units = dense_step_units,
                    .wants_huge_pages = dense_wants_huge_pages},
    [ZONE_HUGE] = {.granule_units = SUPERSLAB_UNITS, .commit = map_commit_units, .purge = purge_pages},
};

bool arena_is_ready(void) { return HAK_LIKELY(atomic32_load_acquire(&arena.is_ready)); }

bool arena_ready(void) {
  if (arena_is_ready()) return true;
  gate_enter(&arena_gate);
  bool ready = atomic32_load_relaxed(&arena.is_ready) || map_init();
  if (ready && !atomic32_load_relaxed(&arena.is_ready)) {
    zones_prepare(zone_kinds);
    atomic32_store_release(&arena.is_ready, 1);
  }
  gate_leave(&arena_gate);
  return ready;
}

/* ---- Taking and giving under the gate ------------------------------------------*/

/* Takes free units; returns how many of them were dirty. */
static size_t take_units(unit_t first, size_t units) {
  zone_cut(first, units);
  FOR_EACH_SUPERSLAB(c, first, units) map_superslab(c.number)->used |= c.mask;
  map_record(first)->run_units = (uint32_t)units;
  return dirty_take(first, units);
}

/* The same, if the hard limit allows it. */
static bool take_charged(unit_t first, size_t units, size_t *dirty) {
  bool is_hard = limit_exists() && limit_is_hard();
  if (is_hard && !charge_run(first, units)) return false;
  *dirty = take_units(first, units);
  if (!is_hard && *dirty != units) charge_taken(first, units, units - *dirty);
  dirty_note_used(first, units);
  return true;
}

static bool may_grow(size_t units) { return !limit_exists() || charge_may_allow(units); }

static void give_units(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    HAK_ASSERT((map_superslab(c.number)->used & c.mask) == c.mask);
    map_superslab(c.number)->used &= ~c.mask;
  }
  zone_join(first, units);
}

/* `now_ms` was read under the gate, so that the list stays in order of time. */
static void note_strain(uint64_t now_ms) {
  bool was_strained = atomic32_load_relaxed(&arena_is_strained) != 0;
  bool is_strained = kept_is_exceeded(now_ms, was_strained);
  if (is_strained != was_strained) atomic32_store_relaxed(&arena_is_strained, is_strained);
}

/* For the limits: what is charged and serves speed alone. */
static size_t slack_bytes(void) { return (dirty_units() + shelf_units()) << UNIT_SHIFT; }

/* What is in use, or dirty, is no longer what it was. */
static void watch_limits(void) {
  if (!limit_exists()) return;
  limit_watch(slack_bytes());
  if (limit_is_tight()) note_strain(os_now_ms()); /* before more is taken, what is too much goes */
}

static void give_dirty(unit_t first, size_t units) {
  uint64_t now_ms = os_now_ms();
  kept_note_full();
  kept_note_given(units);
  give_units(first, units);
  charge_dirty(first, units, dirty_add(first, units, now_ms) - units);
  if (limit_exists()) limit_watch(slack_bytes());
  note_strain(now_ms);
}

/* What a huge page made resident beside a free run, mapped anew, goes with the part of it that lies there. */
static void give_slack_of(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    if (HAK_LIKELY(!map_superslab(c.number)->has_slack)) continue;
    if (c.mask == UINT32_MAX) {
      map_superslab(c.number)->has_slack = false;
      continue;
    }
    unit_t part = (unit_t)(c.number * SUPERSLAB_UNITS + (unsigned)__builtin_ctz(c.mask));
    uint64_t now_ms = os_now_ms();
    charge_dirty(part, 1, dirty_add(part, (size_t)__builtin_popcount(c.mask), now_ms));
    note_strain(now_ms);
  }
}

static void give_clean(unit_t first, size_t units) {
  kept_note_given(units);
  note_anew(first, units);
  give_units(first, units);
  charge_gone(units);
  give_slack_of(first, units);
  watch_limits();
}

/* ---- The gate ------------------------------------------------------------------*/

/* So many of the runs that were given back while it was shut, at most. Returns whether there were any. */
static HAK_NOINLINE bool take_in(size_t most) {
  size_t taken = 0;
  for (unit_t first; taken < most && (first = returns_take()) != 0; taken++) {
    size_t units = map_record(first)->run_units;
    if (map_record(first)->returned.is_clean) give_clean(first, units);
    else give_dirty(first, units);
  }
  return taken > 0;
}

HAK_INLINE void enter(void) {
  gate_enter(&arena_gate);
  if (HAK_UNLIKELY(returns_wait())) take_in(RETURNS_MOST);
}
void arena_enter(void) {
  gate_enter(&arena_gate);
  take_in(SIZE_MAX);
}
HAK_INLINE bool enter_soon(void) {
  if (!gate_enter_soon(&arena_gate)) return false;
  if (HAK_UNLIKELY(returns_wait())) take_in(RETURNS_MOST);
  return true;
}
void arena_leave(void) { gate_leave(&arena_gate); }

/* ---- Taking ------------------------------------------------------------------------*/

static bool take_from(zone_id_t zone, size_t units, size_t align_units, unit_t *first, bool *is_zero) {
  *first = zone_find(zone, units, align_units);
  if (*first == 0 && may_grow(units)) *first = zone_grow(zone, units, align_units, kept_used_units());
  size_t dirty;
  if (*first == 0) return false;
  if (zone == ZONE_SMALL) dense_grows_again(*first, units, kept_used_units());
  if (!take_charged(*first, units, &dirty)) return false;
  kept_note_taken(units, dirty);
  *is_zero = dirty == 0;
  watch_limits();
  return true;
}

static bool take_from_any(zone_id_t zone, size_t units, size_t align_units, unit_t *first, bool *is_zero) {
  if (take_from(zone, units, align_units, first, is_zero)) return true;
  for (zone_id_t other = 0; other < ZONE_COUNT; other++)
    if (other != zone && take_from(other, units, align_units, first, is_zero)) return true;
  return false;
}

unit_t arena_take_shelved(unsigned length) {
  unit_t first = shelf_take(length);
  if (first != 0) kept_note_peak();
  return first;
}

/* A run that was shelved until now: whoever shelved it left it as a block's. */
static void forget_shelved(unit_t run, size_t units) {
  map_write_words(run, 0, units, 0);
  dense_note_wide(-(int64_t)units);
}

HAK_COLD unit_t arena_take_cut(size_t units, size_t align_units) {
  unit_t run = shelf_take_longer(units + align_units - 1);
  if (run == 0) return 0;
  kept_note_peak();
  size_t run_units = map_record(run)->run_units;
  unit_t first = (unit_t)align_up(run, align_units), end = (unit_t)(first + units), run_end = (unit_t)(run + run_units);
  forget_shelved(run, run_units);
  if (run_end > end) map_split_run(run, end - run, run_end - end);
  if (first > run) map_split_run(run, first - run, units);
  if (run_end > end) arena_give(end, run_end - end);
  if (first > run) arena_give(run, first - run);
  return first;
}

/* Takes runs down that were put there until then, so many or so many units. Returns the
 * units. Each under the gate, so that whoever holds it finds every run in its place. */
static size_t unshelve(uint64_t until_ms, size_t most_runs, size_t most_units) {
  size_t given = 0;
  shelf_cursor_t at = {0};
  for (unit_t run = 1; run != 0 && most_runs > 0 && given < most_units; most_runs--) {
    enter();
    run = shelf_take_old(until_ms, &at);
    size_t units = run != 0 ? map_record(run)->run_units : 0;
    if (run != 0) {
      forget_shelved(run, units);
      give_dirty(run, units);
      shelf_note_gone(units);
    }
    arena_leave();
    given += units;
  }
  return given;
}
/* Whatever the count says: it may be too low in a child that was forked by a signal handler. */
static size_t unshelve_all(void) { return unshelve(SHELVED_EVER, SIZE_MAX, SIZE_MAX); }

/* The hard limit may be what refuses so many units: purges as many that are dirty. Returns
 * whether some went. */
static bool make_room(size_t units) {
  if (!limit_exists() || !limit_is_hard() || !limit_could_ever_allow(units << UNIT_SHIFT)) return false;
  enter();
  size_t dirty = dirty_units(), surplus = units + units / 16 + 1; /* and what the tables count for */
  arena_leave();
  return dirty > 0 && arena_purge_for(TALLY_LIMITED, (dirty > surplus ? dirty - surplus : 0) << UNIT_SHIFT) > 0;
}

/* Nothing was found for a request: whether to try again, after a while in which what was being purged
 * at the first time has become free, and not longer, however many purges follow. The thread that
 * forks, or has interrupted itself, holds the gate: nothing becomes free then. */
typedef struct {
  uint64_t purges; /* that had begun by then; 0: not asked yet */
  int waits;
} patience_t;

static bool may_come(patience_t *patience) {
  enum { WAITS = 100 };
  if (patience->purges == 0) patience->purges = arena.purges_begun;
  return arena.purges_ended < patience->purges && patience->waits++ < WAITS;
}

unit_t arena_take(zone_id_t zone, size_t units, size_t align_units, bool *is_zero) {
  enum { WAIT_MS = 1 };
  HAK_ASSERT(units > 0 && is_power_of_two(align_units));
  if (units > UINT32_MAX / 2 || align_units > UINT32_MAX / 2 || !arena_ready()) return 0;
  unit_t first = 0;
  bool zero = false, may_wait = !lock_is_mine(&arena_gate.lock), has_shelf = true;
  patience_t patience = {0};
  for (;;) {
    enter();
    bool found = take_from_any(zone, units, align_units, &first, &zero);
    HAK_ASSERT(!found || atomic32_load_relaxed(map_word(first)) == 0);
    bool is_again = !found && take_in(SIZE_MAX), waits = !found && may_wait && may_come(&patience);
    arena_leave();
    if (found) break;
    if (is_again) continue;
    if (has_shelf && unshelve_all() > 0) {
      has_shelf = false; /* what others put there meanwhile they may have */
      continue;
    }
    if (make_room(units)) continue;
    if (!waits) return 0;
    os_sleep(WAIT_MS);
  }
  if (limit_exists() && limit_is_tight()) arena_relieve(units);
  if (is_zero != NULL) *is_zero = zero;
  return first;
}

void arena_clear_stale(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    enter(); /* other bits of the mask belong to others */
    uint32_t stale = map_superslab(c.number)->stale & c.mask;
    arena_leave();
    while (stale != 0) {
      unsigned from = (unsigned)__builtin_ctz(stale);
      uint64_t rest = (uint64_t)stale >> from; /* 64 bits: its complement is never 0 */
      unsigned count = (unsigned)__builtin_ctzll(~rest);
      pages_clear(map_address(c.number * SUPERSLAB_UNITS + from), (size_t)count << UNIT_SHIFT);
      stale &= ~bit_range32(from, count);
    }
  }
}

void arena_note_grown(unit_t first, size_t units) {
  enter();
  dirty_note_grown(first, units);
  arena_leave();
}

bool arena_keeps_grown(unit_t first, size_t units) {
  if (HAK_UNLIKELY(!enter_soon())) return false;
  kept_note_full();
  bool keeps = dirty_grown_units() + units <= profile_keep(GROWN_MOST_UNITS) && kept_over_lately() == 0;
  if (keeps) dirty_note_grown(first, units);
  arena_leave();
  return keeps;
}

bool arena_widen_end(unit_t first, size_t units, bool wanted) {
  size_t end = first + units, number = end / SUPERSLAB_UNITS;
  uint32_t mask = bit_range32(0, end % SUPERSLAB_UNITS);
  HAK_ASSERT(mask != 0 && number * SUPERSLAB_UNITS >= first);
  enter();
  const superslab_t *s = map_superslab(number);
  bool is_news = map_wants_huge_page(number) != wanted && (s->used | s->dirty) == mask && (s->stale & mask) == 0;
  if (is_news) map_note_huge_page(number, wanted);
  if (is_news && wanted) dirty_note_used(first, units);
  arena_leave();
  return is_news;
}

/* Without waiting. Who finds the gate shut tries it once more afterwards: nobody else may come. */
static void give(unit_t first, size_t units, bool is_clean) {
  if (enter_soon()) {
    if (is_clean) give_clean(first, units);
    else give_dirty(first, units);
  } else {
    returns_put(first, units, is_clean);
    if (arena_is_shut() || !enter_soon()) return;
  }
  arena_leave();
}
void arena_give(unit_t first, size_t units) { give(first, units, false); }
void arena_give_clean(unit_t first, size_t units) { give(first, units, true); }

static bool is_dirty_mostly(unit_t first, size_t units) { return dirty_count(first, units) > units / 2; }

/* Whether a run that grows by so much is better copied into what is dirty than extended into what is not, beside which the
 * other would stay resident. Not one that grows by little: to copy it takes longer than to fault that in. */
static bool had_better_move(unit_t behind, size_t old_units, size_t more) {
  zone_id_t zone = zone_of(behind - 1);
  if (zone != ZONE_SMALL || more < old_units / 2 || dirty_units() < old_units + more) return false;
  if (zone_free_units_behind(behind) >= more && is_dirty_mostly(behind, more)) return false;
  unit_t other = zone_find(zone, old_units + more, 1);
  return other != 0 && is_dirty_mostly(other, old_units + more);
}

static bool is_used_mostly(unit_t first, size_t units) {
  enum { LOOKED_UP = 4 };
  return pages_sample(map_address(first), units << UNIT_SHIFT, LOOKED_UP) >= LOOKED_UP - 1;
}

/* Under the gate. At the end of the zone there is always more, if the system grants it. */
static bool extend(unit_t first, size_t old_units, size_t new_units) {
  unit_t behind = (unit_t)(first + old_units);
  size_t more = new_units - old_units;
  bool there = zone_free_units_behind(behind) >= more ||
               (may_grow(more) && zone_grow_behind(behind, more, kept_used_units()) &&
                zone_free_units_behind(behind) >= more);
  size_t dirty;
  if (!there || !take_charged(behind, more, &dirty)) return false;
  kept_note_taken(more, dirty);
  map_record(first)->run_units = (uint32_t)new_units;
  watch_limits();
  return true;
}

bool arena_extend(unit_t first, size_t old_units, size_t new_units) {
  enter();
  bool may_move = had_better_move((unit_t)(first + old_units), old_units, new_units - old_units);
  bool extended = !may_move && extend(first, old_units, new_units);
  arena_leave();
  /* What is hardly used is not copied: a copy is resident as a whole. The system is asked with the gate open. */
  if (!may_move || is_used_mostly(first, old_units)) return extended;
  enter();
  extended = extend(first, old_units, new_units);
  arena_leave();
  return extended;
}

/* ---- Purging with the gate open ------------------------------------------------*/

/* Takes units that are about to be purged out of the free ones. */
static size_t claim(uint64_t until_ms, size_t most, unit_t *first) {
  size_t units = dirty_oldest_row(until_ms, most, first);
  if (units == 0) return 0;
  take_units(*first, units);
  arena.purges_begun++;
  return units;
}

/* Nothing is mapped there any more: in use for good, as what huge.c has lost. */
static HAK_COLD void keep_lost(unit_t first, size_t units) {
  map_record(first)->run_units = (uint32_t)units;
  map_write_words(first, 0, units, word_make(0, KIND_INNER));
  kept_note_taken(units, units);
}

/* `rest`: units behind them that stay claimed, a run of their own from now on; in a child
 * that is forked meanwhile, for good. */
static void hand_back(unit_t first, size_t units, size_t rest, purge_t purged) {
  enter();
  if (rest > 0) map_record((unit_t)(first + units))->run_units = (uint32_t)rest;
  if (purged == PURGE_LOST) keep_lost(first, units);
  else give_units(first, units);
  if (purged == PURGE_DONE) {
    kept_note_purged(units);
    charge_gone(units);
  } else if (purged == PURGE_REFUSED) {
    charge_dirty(first, units, dirty_add(first, units, os_now_ms()) - units); /* last in the list: others' turn */
  }
  if (rest == 0 && arena.purges_ended < arena.purges_begun) arena.purges_ended++; /* a child has forgotten it */
  arena_leave();
}

/* Where the system refuses, one locked page may be the reason: the others go. `rest`: as
 * in hand_back. Returns the units that went. */
static size_t purge_claimed(unit_t first, size_t units, size_t rest) {
  purge_t purged = zone_look(zone_of(first))->kind->purge(map_address(first), units << UNIT_SHIFT);
  if (purged != PURGE_REFUSED || units == 1) {
    hand_back(first, units, rest, purged);
    return purged == PURGE_DONE ? units : 0;
  }
  size_t half = units / 2;
  size_t purged_first = purge_claimed(first, half, units - half + rest);
  return purged_first + purge_claimed((unit_t)(first + half), units - half, rest);
}

/* How many units may be dirty after a purge: no fewer than this. */
typedef size_t keep_fn(size_t keep);
static size_t keep_given(size_t keep) { return keep; }
static size_t keep_share(size_t keep) { return keep + kept_dirty_units(); }
static size_t keep_least_share(size_t keep) { return keep + kept_least_units(); }
static size_t keep_for_good(size_t keep) { return keep + kept_for_good_units(); }

/* Purges what became dirty until then, `most` units in so many calls, and leaves as
 * many as `keep_least` says, of the newest. Returns the bytes. */
static size_t purge(uint64_t until_ms, size_t most, size_t calls, keep_fn *keep_least, size_t keep) {
  size_t purged = 0;
  for (size_t tried = 0; tried < most && calls > 0; calls--) {
    unit_t first;
    enter();
    size_t least = keep_least(keep), surplus = dirty_units() > least ? dirty_units() - least : 0;
    size_t units = surplus > 0 ? claim(until_ms, min_size(surplus, min_size(most - tried, PURGE_UNITS)), &first) : 0;
    arena_leave();
    if (units == 0) break;
    tried += units;
    purged += purge_claimed(first, units, 0);
  }
  return purged << UNIT_SHIFT;
}

/* Many threads may ask at once, each at every movement of the clock: where nothing was due,
 * they leave the gate alone for a while. */
size_t arena_tick(uint64_t now_ms) {
  if (!arena_is_ready() || now_ms < atomic64_load_relaxed(&arena.next_look_ms) || !enter_soon()) return 0;
  note_strain(now_ms);
  uint64_t age_ms = profile_wait(DIRTY_MS), shelf_ms = profile_wait(SHELF_MS);
  bool is_due = now_ms >= age_ms && dirty_oldest_ms() <= now_ms - age_ms && dirty_units() > kept_for_good_units();
  arena_leave();
  size_t shelved = shelf_units() > 0 ? unshelve(now_ms - min_size(shelf_ms, now_ms), UNSHELVED_MOST, SIZE_MAX) : 0;
  size_t purged = is_due ? purge(now_ms - age_ms, PURGE_UNITS, PURGE_CALLS, keep_for_good, 0) : 0;
  if (shelved + purged == 0) atomic64_store_relaxed(&arena.next_look_ms, now_ms + LOOK_MS);
  return (shelved << UNIT_SHIFT) + tally_add(TALLY_AGED, purged);
}

/* A heap that shrinks need not give back a unit of the SuperSlab in which it stopped to grow.
 * false: the gate is shut. `others_purge`: whether a purge by another thread goes on. */
static bool give_slack(bool *others_purge) {
  unit_t first;
  if (!enter_soon()) return false;
  size_t units = dirty_add_slack(os_now_ms(), &first);
  if (units > 0) charge_dirty(first, 1, units);
  *others_purge = arena.purges_ended < arena.purges_begun;
  arena_leave();
  return true;
}

size_t arena_relieve_now(size_t freed_units) {
  enum { REFUSED_MS = 1000 };
  bool others_purge;
  if (!arena_is_ready() || !give_slack(&others_purge)) return 0;
  /* What is kept shrinks by an eighth of what was freed. Who comes by while another thread gives back what it
   * has freed does no more than that: the rest is that one's. */
  size_t most = freed_units + freed_units / 8 + (others_purge ? 0 : 2 * PURGE_UNITS);
  size_t calls = PURGE_CALLS + freed_units / PURGE_UNITS * 2;
  if (most == 0) return 0;
  if (shelf_surplus() > 0) unshelve(SHELVED_EVER, UNSHELVED_MOST, min_size(shelf_surplus(), most));
  size_t purged = tally_add(TALLY_STRAINED, purge(UINT64_MAX, most, calls, keep_share, 0));
  enter();
  uint64_t now_ms = os_now_ms();
  if (purged == 0 && dirty_units() > kept_dirty_units()) kept_rest(now_ms + REFUSED_MS);
  note_strain(now_ms);
  arena_leave();
  return purged;
}

size_t arena_relieve_growth(size_t units) {
  if (!enter_soon()) return 0;
  size_t over = kept_over_lately(), dirty = dirty_units();
  arena_leave();
  if (over == 0) return 0;
  return tally_add(TALLY_STRAINED,
                   purge(UINT64_MAX, min_size(over, units), PURGE_CALLS, keep_given, dirty - min_size(dirty, over)));
}

void arena_keep(size_t bytes) {
  enter();
  kept_tell(bytes);
  arena_leave();
}

size_t arena_yield(size_t freed_units) {
  if (!arena_is_ready()) return 0;
  size_t most = PURGE_UNITS + freed_units, calls = PURGE_CALLS + freed_units / PURGE_UNITS * 2;
  if (shelf_units() > 0) unshelve(SHELVED_EVER, UNSHELVED_MOST, most); /* what the caller has freed may lie there */
  return tally_add(TALLY_TRIMMED, purge(UINT64_MAX, most, calls, keep_least_share, 0));
}

size_t arena_purge_for(tally_t reason, size_t keep_bytes) {
  if (!arena_is_ready()) return 0;
  unshelve_all();
  arena_enter();
  size_t most = dirty_units(); /* each once, should the system refuse some */
  arena_leave();
  return tally_add(reason, purge(UINT64_MAX, most, SIZE_MAX, keep_given, keep_bytes >> UNIT_SHIFT));
}

void arena_after_fork(void) {
  arena.has_forked = true;
  arena.purges_ended = arena.purges_begun;
  shelf_after_fork();
}

void arena_check(void) {
  if (!arena_is_ready()) return;
  size_t metadata = metadata_committed_bytes();
  arena_enter();
  while (arena.purges_ended < arena.purges_begun) { /* by another thread: they are neither free nor anybody's */
    arena_leave();
    os_sleep(1);
    arena_enter();
  }
  size_t used = invariants_check(arena.has_forked), units = used + dirty_units();
  HAK_CHECK(used == kept_used_units() || arena.has_forked);
  HAK_CHECK(limit_charged() == (units << UNIT_SHIFT) + charge_tables() + metadata || arena.has_forked);
  arena_leave();
}
