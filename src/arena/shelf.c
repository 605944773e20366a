/* See shelf.h. SPDX-License-Identifier: MIT */
#include "shelf.h"

/* A run << 32 | the milliseconds at which it was put there, of which the lower half is enough. */
typedef struct {
  atomic64 places[SHELF_PLACES];
} __attribute__((aligned(HAK_CACHE_LINE))) board_t;

atomic32 shelf_opened;

static HAK_RARELY_USED board_t boards[SHELF_LENGTHS];

/* Units of a run of that length; 0: none was there yet. Relaxed: it never changes. */
static atomic32 length_units[SHELF_LENGTHS];

/* What is known of the runs of a length. Relaxed: a hint, written when it changes alone. */
enum { NEVER_GIVEN, GIVEN, WANTED_AGAIN };
static atomic32 demand[SHELF_LENGTHS];

/* Whether a run that is given is worth a place; that one was is remembered. */
static bool note_given(unsigned length) {
  uint32_t now = atomic32_load_relaxed(&demand[length]);
  if (now == NEVER_GIVEN) atomic32_store_relaxed(&demand[length], GIVEN);
  return now == WANTED_AGAIN;
}

void shelf_note_missed(unsigned length) {
  if (atomic32_load_relaxed(&demand[length]) == GIVEN) atomic32_store_relaxed(&demand[length], WANTED_AGAIN);
}

/* Relaxed, all of it: sums and bounds that may be a moment old. Every run that comes or goes writes to it, so
 * nothing that is only read lies beside it. */
static struct {
  atomic64 counts; /* units taken since the process began << 32, plus units that are held */
  atomic64 most;   /* that may be held */
  uint32_t seen;   /* of those taken; guarded by the arena's gate */
} __attribute__((aligned(HAK_CACHE_LINE))) units;
enum { TAKEN_SHIFT = 32 };

static uint64_t value_of(unit_t run, uint64_t now_ms) { return (uint64_t)run << 32 | (uint32_t)now_ms; }
static unit_t run_of(uint64_t value) { return (unit_t)(value >> 32); }
static bool is_until(uint64_t value, uint64_t until_ms) {
  return until_ms == SHELVED_EVER || (int32_t)((uint32_t)until_ms - (uint32_t)value) >= 0;
}

/* Below 0, which would be taken from those above, only in a child that was forked by a signal
 * handler between the two steps of shelf_put: see shelf_after_fork. */
static int32_t held_of(uint64_t counts) { return (int32_t)counts; }
static size_t held_or_none(uint64_t counts) { return held_of(counts) > 0 ? (size_t)held_of(counts) : 0; }
static uint32_t taken_of(uint64_t counts) {
  return (uint32_t)((counts - (uint64_t)(int64_t)held_of(counts)) >> TAKEN_SHIFT);
}
static void count(uint64_t taken, uint64_t held) { atomic64_add_relaxed(&units.counts, (taken << TAKEN_SHIFT) + held); }

size_t shelf_units(void) { return held_or_none(atomic64_load_relaxed(&units.counts)); }

size_t shelf_reused(void) {
  uint32_t taken = taken_of(atomic64_load_relaxed(&units.counts)), before = units.seen;
  units.seen = taken;
  return taken - before;
}

void shelf_limit(size_t most) {
  if (atomic64_load_relaxed(&units.most) != most) atomic64_store_relaxed(&units.most, most);
}
size_t shelf_surplus(void) {
  size_t held = shelf_units(), most = atomic64_load_relaxed(&units.most);
  return held > most ? held - most : 0;
}

bool shelf_put(unsigned length, unit_t run, bool is_last_resort) {
  size_t more = map_record(run)->run_units;
  bool is_wanted = shelf_is_open() && note_given(length) && shelf_units() + more <= atomic64_load_relaxed(&units.most);
  if (!is_wanted && !is_last_resort) return false;
  uint64_t value = value_of(run, os_now_ms());
  if (HAK_UNLIKELY(atomic32_load_relaxed(&length_units[length]) == 0))
    atomic32_store_relaxed(&length_units[length], (uint32_t)more);
  count(0, more);
  for (unsigned i = 0; i < SHELF_PLACES; i++) {
    atomic64 *place = &boards[length].places[i];
    uint64_t nothing = 0;
    /* Release: pairs with the acquires below. */
    if (atomic64_load_relaxed(place) == 0 && atomic64_cas_acq_rel(place, &nothing, value)) return true;
  }
  count(0, -more);
  return false;
}

unit_t shelf_take(unsigned length) {
  for (unsigned i = 0; i < SHELF_PLACES; i++) {
    atomic64 *place = &boards[length].places[i];
    if (atomic64_load_relaxed(place) == 0) continue;
    unit_t run = run_of(atomic64_exchange_acquire(place, 0)); /* pairs with shelf_put */
    if (run == 0) continue;
    size_t taken = map_record(run)->run_units;
    count(taken, -taken);
    return run;
  }
  return 0;
}

unit_t shelf_take_longer(size_t least) {
  for (unsigned length = 0; length < SHELF_LENGTHS; length++) {
    if (atomic32_load_relaxed(&length_units[length]) < least) continue;
    unit_t run = shelf_take(length);
    if (run != 0) return run;
  }
  return 0;
}

unit_t shelf_take_old(uint64_t until_ms, unsigned *at) {
  for (; *at < SHELF_LENGTHS * SHELF_PLACES; ++*at) {
    atomic64 *place = &boards[*at / SHELF_PLACES].places[*at % SHELF_PLACES];
    uint64_t value = atomic64_load_relaxed(place);
    bool is_old = value != 0 && is_until(value, until_ms);
    if (!is_old || !atomic64_cas_acquire(place, &value, 0)) continue; /* pairs with shelf_put */
    atomic32_store_relaxed(&demand[*at / SHELF_PLACES], NEVER_GIVEN);
    return run_of(value);
  }
  return 0;
}

void shelf_note_gone(size_t gone) { count(0, -gone); }

/* Each run in a place, in turn. */
#define FOR_EACH_RUN(run)                                        \
  for (unsigned i_ = 0; i_ < SHELF_LENGTHS * SHELF_PLACES; i_++) \
    for (unit_t run = run_in(i_); run != 0; run = 0)
static unit_t run_in(unsigned at) {
  return run_of(atomic64_load_relaxed(&boards[at / SHELF_PLACES].places[at % SHELF_PLACES]));
}

void shelf_after_fork(void) {
  size_t held = 0;
  FOR_EACH_RUN(run) held += map_record(run)->run_units;
  atomic64_store_relaxed(&units.counts, ((uint64_t)units.seen << TAKEN_SHIFT) + held);
}

size_t shelf_check(bool is_counted) {
  size_t runs = 0, held = 0;
  FOR_EACH_RUN(run) {
    HAK_CHECK(word_is_shelved(atomic32_load_relaxed(map_word(run))));
    runs++;
    held += map_record(run)->run_units;
  }
  HAK_CHECK(!is_counted || held == shelf_units());
  return runs;
}
