/* See shelf.h. SPDX-License-Identifier: MIT */
#include "shelf.h"

/* A place: a run << 32 | the milliseconds at which it was put there, of which the lower half is enough.
 * They lie in rows of a line each: the first rows of all lengths together, then the second ones, as mostly the
 * first are all that is touched. */
enum { ROW_PLACES = HAK_CACHE_LINE / sizeof(atomic64), ROWS = SHELF_PLACES / ROW_PLACES };
static_assert(SHELF_PLACES % ROW_PLACES == 0, "whole rows");
typedef struct {
  atomic64 places[ROW_PLACES];
} __attribute__((aligned(HAK_CACHE_LINE))) place_row_t;
static HAK_RARELY_USED place_row_t rows[ROWS][SHELF_LENGTHS];

HAK_INLINE atomic64 *place_of(unsigned length, unsigned number) {
  return &rows[number / ROW_PLACES][length].places[number % ROW_PLACES];
}

/* In which row of a length runs are put, and from which they are taken, until it is full or empty: who puts and
 * who takes follow each other, mostly on different lines. And how many rows any was ever put into. Relaxed, hints
 * all but the last: whoever has a run has it by its place. */
typedef struct {
  atomic32 of[SHELF_LENGTHS];
} __attribute__((aligned(HAK_CACHE_LINE))) row_numbers_t;
static row_numbers_t put_row, take_row, reached;
/* Rows that a call looks through; that each length has where not only a few have runs here. */
enum { ROWS_SEARCHED = 16, ROWS_OF_MANY = SHELF_PLACES_OF_MANY / ROW_PLACES, FEW_LENGTHS = 2 };

static unsigned rows_of(unsigned length) { return atomic32_load_relaxed(&reached.of[length]); }
static void note_reached(unsigned length, unsigned row) {
  uint32_t now = rows_of(length);
  while (HAK_UNLIKELY(now <= row) && !atomic32_cas_relaxed(&reached.of[length], &now, row + 1)) continue;
}

atomic32 shelf_opened;

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

/* Units that were put since the process began, and those that have gone again: what lies here is the difference.
 * Relaxed: sums and bounds that may be a moment old. Who puts and who takes are mostly different threads, so each
 * side writes a line of its own, and remembers there what it last read of the other one's: as both only grow, that
 * is a bound, and it serves until it comes close. */
static struct {
  atomic64 put;
  atomic64 gone_seen; /* so many have gone, or more */
} __attribute__((aligned(HAK_CACHE_LINE))) came;
static struct {
  atomic64 taken;    /* by shelf_take */
  atomic64 others;   /* taken down, and such as found no place */
  atomic64 put_seen; /* so many were put, or more */
} __attribute__((aligned(HAK_CACHE_LINE))) went;
static struct {
  atomic64 most; /* that may be held */
  uint64_t seen; /* of those taken; guarded by the arena's gate */
} __attribute__((aligned(HAK_CACHE_LINE))) bounds;

static uint64_t value_of(unit_t run, uint64_t now_ms) { return (uint64_t)run << 32 | (uint32_t)now_ms; }
static unit_t run_of(uint64_t value) { return (unit_t)(value >> 32); }
static bool is_until(uint64_t value, uint64_t until_ms) {
  return until_ms == SHELVED_EVER || ms_is_until((uint32_t)value, until_ms);
}

/* Acquire, for the order of reads alone: what was put is looked at afterwards, so it is not too little. */
static uint64_t gone(void) { return atomic64_load_acquire(&went.taken) + atomic64_load_acquire(&went.others); }
/* Below 0 where what was put is an old figure; or in a child that was forked by a signal handler
 * between the two steps of shelf_put: see shelf_after_fork. */
static size_t difference(uint64_t put, uint64_t gone_units) {
  return (int64_t)(put - gone_units) > 0 ? (size_t)(put - gone_units) : 0;
}

size_t shelf_units(void) {
  uint64_t gone_units = gone();
  return difference(atomic64_load_relaxed(&came.put), gone_units);
}

size_t shelf_units_least(void) {
  uint64_t gone_units = gone();
  return difference(atomic64_load_relaxed(&went.put_seen), gone_units);
}

size_t shelf_units_anew(void) {
  uint64_t gone_units = gone(), put = atomic64_load_relaxed(&came.put);
  atomic64_store_relaxed(&went.put_seen, put);
  return difference(put, gone_units);
}

/* Whether there may be so many more. */
static bool has_room(size_t more) {
  uint64_t most = atomic64_load_relaxed(&bounds.most), put = atomic64_load_relaxed(&came.put);
  if (HAK_LIKELY(difference(put + more, atomic64_load_relaxed(&came.gone_seen)) <= most)) return true;
  uint64_t gone_units = gone();
  atomic64_store_relaxed(&came.gone_seen, gone_units);
  return difference(atomic64_load_relaxed(&came.put) + more, gone_units) <= most;
}

size_t shelf_reused(void) {
  uint64_t taken = atomic64_load_relaxed(&went.taken), before = bounds.seen;
  bounds.seen = taken;
  return taken - before;
}

void shelf_limit(size_t most) {
  if (atomic64_load_relaxed(&bounds.most) != most) atomic64_store_relaxed(&bounds.most, most);
}
size_t shelf_surplus(void) {
  size_t held = shelf_units(), most = atomic64_load_relaxed(&bounds.most);
  return held > most ? held - most : 0;
}

static bool put_into(place_row_t *row, uint64_t value) {
  for (unsigned i = 0; i < ROW_PLACES; i++) {
    atomic64 *place = &row->places[i];
    uint64_t nothing = 0;
    /* Release: pairs with the acquires below. */
    if (atomic64_load_relaxed(place) == 0 && atomic64_cas_acq_rel(place, &nothing, value)) return true;
  }
  return false;
}

static bool is_empty(const place_row_t *row) {
  uint64_t any = 0;
  for (unsigned i = 0; i < ROW_PLACES; i++) any |= atomic64_load_relaxed(&row->places[i]);
  return any == 0;
}

/* Whether few lengths have runs here. Where many have, more of each serve better in the arena, all of them. */
static bool are_few(void) {
  unsigned found = 0;
  for (unsigned length = 0; length < SHELF_LENGTHS && found <= FEW_LENGTHS; length++)
    found += rows_of(length) > 0 && !is_empty(&rows[0][length]);
  return found <= FEW_LENGTHS;
}

/* Behind a row that is full: the first again, if it has been emptied, so that no more are used than are needed. */
static unsigned row_behind(unsigned length, unsigned row) {
  if (row + 1 == ROWS || is_empty(&rows[0][length])) return 0;
  return row + 1 < ROWS_OF_MANY || are_few() ? row + 1 : 0;
}

bool shelf_put(unsigned length, unit_t run, bool is_last_resort) {
  size_t more = map_record(run)->run_units;
  bool is_wanted = shelf_is_open() && note_given(length) && has_room(more);
  if (!is_wanted && !is_last_resort) return false;
  uint64_t value = value_of(run, os_now_ms());
  if (HAK_UNLIKELY(atomic32_load_relaxed(&length_units[length]) == 0))
    atomic32_store_relaxed(&length_units[length], (uint32_t)more);
  atomic64_add_relaxed(&came.put, more);
  unsigned from = atomic32_load_relaxed(&put_row.of[length]), row = from;
  for (unsigned n = 0; n < ROWS_SEARCHED && (n == 0 || row != from); n++, row = row_behind(length, row)) {
    note_reached(length, row); /* before: every run lies in one of those */
    if (!put_into(&rows[row][length], value)) continue;
    if (row != from) atomic32_store_relaxed(&put_row.of[length], row);
    return true;
  }
  atomic32_store_relaxed(&put_row.of[length], row); /* on from there the next time */
  atomic64_add_relaxed(&went.others, more);
  return false;
}

static unit_t take_from(place_row_t *row) {
  for (unsigned i = 0; i < ROW_PLACES; i++) {
    atomic64 *place = &row->places[i];
    if (atomic64_load_relaxed(place) == 0) continue;
    unit_t run = run_of(atomic64_exchange_acquire(place, 0)); /* pairs with shelf_put */
    if (run != 0) return run;
  }
  return 0;
}

unit_t shelf_take(unsigned length) {
  unsigned end = rows_of(length), from = atomic32_load_relaxed(&take_row.of[length]), row = from;
  unit_t run = 0;
  for (unsigned n = 0; n < min_size(end, ROWS_SEARCHED); n++, row = row + 1 < end ? row + 1 : 0) {
    run = take_from(&rows[row][length]);
    if (run != 0) break;
  }
  if (row != from) atomic32_store_relaxed(&take_row.of[length], row);
  if (run == 0) return 0;
  atomic64_add_relaxed(&went.taken, map_record(run)->run_units);
  return run;
}

unit_t shelf_take_longer(size_t least) {
  for (unsigned length = 0; length < SHELF_LENGTHS; length++) {
    if (atomic32_load_relaxed(&length_units[length]) < least) continue;
    unit_t run = shelf_take(length);
    if (run != 0) return run;
  }
  return 0;
}

unit_t shelf_take_old(uint64_t until_ms, shelf_cursor_t *at) {
  for (; at->length < SHELF_LENGTHS; at->length++, at->place = 0) {
    for (; at->place < rows_of(at->length) * ROW_PLACES; at->place++) {
      atomic64 *place = place_of(at->length, at->place);
      uint64_t value = atomic64_load_relaxed(place);
      bool is_old = value != 0 && is_until(value, until_ms);
      if (!is_old || !atomic64_cas_acquire(place, &value, 0)) continue; /* pairs with shelf_put */
      atomic32_store_relaxed(&demand[at->length], NEVER_GIVEN);
      return run_of(value);
    }
  }
  return 0;
}

void shelf_note_gone(size_t gone_units) { atomic64_add_relaxed(&went.others, gone_units); }

static unit_t run_in(unsigned length, unsigned place) { return run_of(atomic64_load_relaxed(place_of(length, place))); }
/* Each run in a place, in turn. */
#define FOR_EACH_RUN(run)                                               \
  for (unsigned l_ = 0; l_ < SHELF_LENGTHS; l_++)                       \
    for (unsigned i_ = 0, n_ = rows_of(l_) * ROW_PLACES; i_ < n_; i_++) \
      for (unit_t run = run_in(l_, i_); run != 0; run = 0)

void shelf_after_fork(void) {
  size_t held = 0;
  FOR_EACH_RUN(run) held += map_record(run)->run_units;
  uint64_t gone_units = gone();
  atomic64_store_relaxed(&came.put, gone_units + held);
  atomic64_store_relaxed(&came.gone_seen, gone_units);
  atomic64_store_relaxed(&went.put_seen, gone_units + held);
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
