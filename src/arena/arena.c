/* See arena.h. SPDX-License-Identifier: MIT */
#include "arena.h"

#include "../support/limit.h"
#include "../support/profile.h"
#include "arena_purge.h"
#include "charge.h"
#include "debt.h"
#include "dense.h"
#include "dirty.h"
#include "drop.h"
#include "huge_credit.h"
#include "invariants.h"
#include "kept.h"
#include "metadata.h"
#include "pages.h"
#include "purging.h"
#include "returns.h"
#include "shelf.h"
#include "stock.h"
#include "unshelve.h"
#include "zone.h"

enum { GROWN_MOST_UNITS = 256 }; /* of blocks that have grown, dirty at most */

static bool has_forked; /* this process is a child: see arena_after_fork; guarded by the gate */

static const zone_kind_t zone_kinds[ZONE_COUNT] = {
    [ZONE_SMALL] = {.granule_units = SUPERSLAB_UNITS,
                    .commit = map_commit_units,
                    .purge = drop_slabs,
                    .purge_tables = map_purge_bitmaps,
                    .step_units = dense_step_units,
                    .wants_huge_pages = dense_wants_huge_pages},
    [ZONE_HUGE] = {.granule_units = SUPERSLAB_UNITS, .commit = map_commit_units, .purge = drop_pages},
};

bool arena_ready(void) {
  if (arena_is_ready()) return true;
  gate_enter(&arena_gate);
  bool ready = atomic32_load_relaxed(&arena_has_window) || map_init();
  if (ready && !atomic32_load_relaxed(&arena_has_window)) {
    zones_prepare(zone_kinds);
    huge_credit_begin(profile_scale.trusted_bytes);
    atomic32_store_release(&arena_has_window, 1);
  }
  gate_leave(&arena_gate);
  return ready;
}

void arena_note_threads(uint32_t count) {
  shelf_open(count > SHELF_FEW_THREADS);
  zone_note_threads(count > SHELF_FEW_THREADS ? count : 0);
}

/* ---- Taking ------------------------------------------------------------------------*/

static bool is_dirty_mostly(unit_t first, size_t units) { return dirty_count(first, units) > units / 2; }

/* A run of the zone of slabs and large blocks of which more than half is dirty; 0: none is found. */
static unit_t find_dirty(size_t units, size_t align_units) {
  if (dirty_units() < units) return 0;
  unit_t first = zone_find(ZONE_SMALL, units, align_units);
  return first != 0 && is_dirty_mostly(first, units) ? first : 0;
}

/* A request, and what it has got. */
typedef struct {
  size_t units, align_units, dirty; /* how many of the units are dirty */
  unit_t first;                     /* of them, if some were found     */
  dense_question_t question;
  bool has_asked;
} request_t;

/* Whether the system is to be asked before the zone of slabs and large blocks grows by so many units. Once:
 * others that ask take their credit, too. */
static bool asks_first(request_t *r, zone_id_t zone, size_t units) {
  return zone == ZONE_SMALL && !r->has_asked && dense_asks(&r->question, units, zone_used_units(ZONE_SMALL));
}

/* With the gate open. */
static void ask(request_t *r) {
  bool is_resident = dense_is_resident(&r->question);
  r->question.count = 0;
  r->has_asked = true;
  stock_enter();
  dense_hear(is_resident, zone_used_units(ZONE_SMALL));
  arena_leave();
}

/* Before the huge zone grows, what large blocks have left serves, of a program whose blocks have all grown to
 * huge ones: it would lie beside them. Only for what is longer than a large block: what is huge by its
 * alignment alone has never been one. The contrary is not done: slabs would lie between huge blocks for ever. */
static bool take_from(request_t *r, zone_id_t zone) {
  size_t again;
  r->first = zone_find(zone, r->units, r->align_units);
  if (r->first == 0 && zone == ZONE_HUGE && r->units > LARGE_MOST_UNITS)
    r->first = find_dirty(r->units, r->align_units);
  if (r->first == 0 && stock_may_grow(r->units)) {
    if (asks_first(r, zone, zone_step_units(zone))) return false;
    r->first = zone_grow(zone, r->units, r->align_units);
  }
  if (r->first == 0) return false;
  if (zone == ZONE_SMALL && dense_is_growth(r->first, r->units, &again)) {
    if (asks_first(r, zone, SUPERSLAB_UNITS)) return false;
    dense_grows_again(again);
  }
  return stock_take(r->first, r->units, &r->dirty);
}

static bool take_from_any(request_t *r, zone_id_t zone) {
  if (take_from(r, zone)) return true;
  for (zone_id_t other = 0; other < ZONE_COUNT && r->question.count == 0; other++)
    if (other != zone && take_from(r, other)) return true;
  return false;
}

unit_t arena_take_shelved(unsigned length) {
  unit_t first = shelf_take(length);
  if (first != 0) kept_note_peak();
  return first;
}

HAK_COLD unit_t arena_take_cut(size_t units, size_t align_units) {
  HAK_ASSERT(align_units <= SUPERSLAB_UNITS); /* as the window is aligned, so units are as their addresses */
  unit_t run = shelf_take_longer(units + align_units - 1);
  if (run == 0) return 0;
  kept_note_peak();
  size_t run_units = map_record(run)->run_units;
  unit_t first = (unit_t)align_up(run, align_units), end = (unit_t)(first + units), run_end = (unit_t)(run + run_units);
  unshelve_forget(run, run_units);
  if (run_end > end) map_split_run(run, end - run, run_end - end);
  if (first > run) map_split_run(run, first - run, units);
  if (run_end > end) arena_give(end, run_end - end);
  if (first > run) arena_give(run, first - run);
  return first;
}

bool arena_make_room(size_t units) {
  if (!limit_exists() || !limit_is_hard() || !limit_could_ever_allow(units << UNIT_SHIFT)) return false;
  stock_enter();
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
  if (patience->purges == 0) patience->purges = purging.begun;
  return purging.ended < patience->purges && patience->waits++ < WAITS;
}

unit_t arena_take(zone_id_t zone, size_t units, size_t align_units, bool *is_zero) {
  enum { WAIT_MS = 1 };
  HAK_ASSERT(units > 0 && is_power_of_two(align_units));
  if (units > UINT32_MAX / 2 || align_units > UINT32_MAX / 2 || !arena_ready()) return 0;
  request_t r; /* not all of it is cleared: the question is long */
  r.units = units, r.align_units = align_units, r.dirty = 0, r.first = 0, r.question.count = 0, r.has_asked = false;
  bool owes = false, may_wait = !lock_is_mine(&arena_gate.lock), has_shelf = true;
  patience_t patience = {0};
  for (;;) {
    stock_enter();
    bool found = take_from_any(&r, zone), asks = r.question.count > 0;
    owes = found && r.dirty < units && debt_for_clean(units - r.dirty);
    HAK_ASSERT(!found || atomic32_load_relaxed(map_word(r.first)) == 0);
    bool is_missing = !found && !asks, is_again = is_missing && stock_take_in(SIZE_MAX),
         waits = is_missing && may_wait && may_come(&patience);
    arena_leave();
    if (found) break;
    if (asks) ask(&r);
    if (asks || is_again) continue;
    if (has_shelf && unshelve_all() > 0) {
      has_shelf = false; /* what others put there meanwhile they may have */
      continue;
    }
    if (arena_make_room(units)) continue;
    if (!waits) return 0;
    os_sleep(WAIT_MS);
  }
  if (limit_exists() && limit_is_tight()) arena_relieve(units);
  if (HAK_UNLIKELY(owes)) arena_pay_owed();
  if (is_zero != NULL) *is_zero = r.dirty == 0;
  return r.first;
}

/* Of units that are the caller's: others change other bits of it, under the gate. */
HAK_LOOKS_ON static uint32_t stale_of(run_cursor_t c) { return HAK_LOOK(map_superslab(c.number)->stale) & c.mask; }

void arena_clear_stale(unit_t first, size_t units) {
  unit_t row = first, row_end = first; /* what is stale in a row is cleared at once */
  FOR_EACH_SUPERSLAB(c, first, units) {
    uint32_t stale = stale_of(c);
    while (stale != 0) {
      unsigned from = (unsigned)__builtin_ctz(stale);
      uint64_t rest = (uint64_t)stale >> from; /* 64 bits: its complement is never 0 */
      unsigned count = (unsigned)__builtin_ctzll(~rest);
      unit_t at = c.number * SUPERSLAB_UNITS + from;
      if (at != row_end) {
        pages_clear(map_address(row), (size_t)(row_end - row) << UNIT_SHIFT);
        row = at;
      }
      row_end = at + count;
      stale &= ~bit_range32(from, count);
    }
  }
  pages_clear(map_address(row), (size_t)(row_end - row) << UNIT_SHIFT);
}

void arena_note_grown(unit_t first, size_t units) {
  stock_enter();
  dirty_note_grown(first, units);
  arena_leave();
}

void arena_note_clean(size_t units) {
  if (!stock_enter_soon()) return;
  kept_age(os_now_ms());
  kept_note_clean(units);
  arena_leave();
}

bool arena_passes_gaps(size_t units) {
  if (!stock_enter_soon()) return true;
  kept_age(os_now_ms());
  bool passes = kept_passed_units() >= units;
  arena_leave();
  return passes;
}

bool arena_keeps_grown(unit_t first, size_t units) {
  if (HAK_UNLIKELY(!stock_enter_soon())) return false;
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
  stock_enter();
  const superslab_t *s = map_superslab(number);
  bool is_news = map_wants_huge_page(number) != wanted && (s->used | s->dirty) == mask && (s->stale & mask) == 0;
  if (is_news) map_note_huge_page(number, wanted);
  if (is_news && wanted) dirty_note_used(first, units);
  arena_leave();
  return is_news;
}

/* Without waiting. Who finds the gate shut tries it once more afterwards: nobody else may come. */
static void give(unit_t first, size_t units, bool is_clean, size_t gone_bytes) {
  if (stock_enter_soon()) {
    if (is_clean) stock_give_clean(first, units, gone_bytes);
    else stock_give_dirty(first, units);
  } else {
    returns_put(first, units, is_clean, gone_bytes);
    if (arena_is_shut() || !stock_enter_soon()) return;
  }
  arena_leave();
}
void arena_give(unit_t first, size_t units) { give(first, units, false, 0); }
void arena_give_clean(unit_t first, size_t units, size_t gone_bytes) { give(first, units, true, gone_bytes); }

/* Where a large block that grows by so much is better copied to, as that is dirty, than extended into what is
 * not, beside which that would stay resident; 0: nowhere. Not one that grows by little: to copy it takes longer
 * than to fault that in. */
static unit_t better_place(unit_t behind, size_t old_units, size_t more) {
  if (zone_of(behind - 1) != ZONE_SMALL || more < old_units / 2) return 0;
  if (zone_free_units_behind(behind) >= more && is_dirty_mostly(behind, more)) return 0;
  return find_dirty(old_units + more, 1);
}

/* What is dirty was in use, but need not have been written to. Others may have it by now. The system takes a
 * third as long to say what is resident as copying does: where it was, the next ones are taken to be, too. Not
 * under the gate. */
static bool is_resident_mostly(unit_t first, size_t units) {
  enum { TRUSTED = 7 };
  static atomic32 trusted; /* relaxed: it matters little how many exactly */
  uint32_t left = atomic32_load_relaxed(&trusted);
  size_t bytes = units << UNIT_SHIFT;
  bool is_resident = left > 0 || pages_resident(map_address(first), bytes) >= bytes / 4 * 3;
  atomic32_store_relaxed(&trusted, left > 0 ? left - 1 : is_resident ? TRUSTED : 0);
  return is_resident;
}

/* Under the gate. At the end of the zone there is always more, if the system grants it. */
static bool extend(unit_t first, size_t old_units, size_t new_units) {
  unit_t behind = (unit_t)(first + old_units);
  size_t more = new_units - old_units;
  bool there = zone_free_units_behind(behind) >= more ||
               (stock_may_grow(more) && zone_grow_behind(behind, more) && zone_free_units_behind(behind) >= more);
  size_t dirty;
  if (!there || !stock_take(behind, more, &dirty)) return false;
  map_record(first)->run_units = (uint32_t)new_units;
  return true;
}

bool arena_extend(unit_t first, size_t old_units, size_t new_units) {
  stock_enter();
  bool extended = extend(first, old_units, new_units);
  arena_leave();
  return extended;
}

bool arena_extend_large(unit_t first, size_t old_units, size_t new_units) {
  size_t more = new_units - old_units;
  stock_enter();
  unit_t other = better_place((unit_t)(first + old_units), old_units, more);
  bool extended = other == 0 && extend(first, old_units, new_units);
  arena_leave();
  if (other == 0) return extended;
  /* The system is asked with the gate open. */
  if (is_resident_mostly(other, new_units)) return false;
  stock_enter();
  extended = extend(first, old_units, new_units);
  arena_leave();
  if (extended) arena_relieve_growth(more);
  return extended;
}

void arena_after_fork(void) {
  has_forked = true;
  arena_note_threads(1);
  purging_after_fork();
  shelf_after_fork();
}

void arena_check(void) {
  if (!arena_is_ready()) return;
  size_t metadata = metadata_committed_bytes();
  arena_enter();
  while (purging_goes_on()) { /* by another thread: they are neither free nor anybody's */
    arena_leave();
    os_sleep(1);
    arena_enter();
  }
  size_t used = invariants_check(has_forked), units = used + dirty_units();
  HAK_CHECK(used == kept_used_units() || has_forked);
  HAK_CHECK(has_forked || charge_is_sound((units << UNIT_SHIFT) + charge_tables() + metadata));
  arena_leave();
}
