/* See purging.h. SPDX-License-Identifier: MIT */
#include "purging.h"

#include "dirty.h"
#include "kept.h"
#include "stock.h"
#include "zone.h"

struct purging purging;

static void set_apart(unit_t first, size_t units) {
  stock_set_apart(first, units);
  purging.begun++;
}
/* What was set apart is back as a whole. A child that was forked meanwhile has forgotten it. */
static void note_end(void) {
  if (purging_goes_on()) purging.ended++;
}

/* The next row, of `most` units at the most, but for a SuperSlab that goes as a whole. */
static size_t claim(const purging_order_t *order, size_t most, unit_t *first) {
  size_t dirty = dirty_units(), least = order->keep + (order->least != NULL ? order->least() : 0);
  if (dirty <= least) return 0;
  size_t whole_least = order->is_exact ? least : min_size(least, kept_least_units());
  size_t units = dirty_oldest_row(order->until_ms, min_size(dirty - least, most), dirty - whole_least, first);
  if (units > 0) set_apart(*first, units);
  return units;
}

/* Nothing is mapped there any more: in use for good, as what huge.c has lost. */
static HAK_COLD void keep_lost(unit_t first, size_t units) {
  map_record(first)->run_units = (uint32_t)units;
  map_write_words(first, 0, units, word_make(0, KIND_INNER));
  kept_note_taken(zone_of(first), units, units);
}

/* `rest`: units behind them that stay claimed, a run of their own from now on; in a child
 * that is forked meanwhile, for good. */
static void hand_back(const purging_order_t *order, unit_t first, size_t units, size_t rest, purge_t purged) {
  stock_enter();
  if (rest > 0) map_record((unit_t)(first + units))->run_units = (uint32_t)rest;
  if (purged == PURGE_LOST) keep_lost(first, units);
  else stock_put_back(first, units);
  if (purged == PURGE_DONE) {
    stock_note_purged(units);
    if (!order->is_owed) kept_note_purged(zone_of(first), units);
  } else if (purged == PURGE_REFUSED) {
    stock_note_dirty(first, units, os_now_ms()); /* last in the list: others' turn */
  }
  if (rest == 0) note_end();
  arena_leave();
}

/* Where the system refuses, one locked page may be the reason: the others go. `rest`: as
 * in hand_back. Returns the units that went. */
static size_t purge_claimed(const purging_order_t *order, unit_t first, size_t units, size_t rest) {
  purge_t purged = zone_look(zone_of(first))->kind->purge(map_address(first), units << UNIT_SHIFT);
  if (purged != PURGE_REFUSED || units == 1) {
    hand_back(order, first, units, rest, purged);
    return purged == PURGE_DONE ? units : 0;
  }
  size_t half = units / 2;
  size_t purged_first = purge_claimed(order, first, half, units - half + rest);
  return purged_first + purge_claimed(order, (unit_t)(first + half), units - half, rest);
}

/* Without the gate, which every purge would take once more: a hint. */
static HAK_LOOKS_ON bool may_be_clean(uint32_t number) {
  const superslab_t *s = map_superslab(number);
  return (HAK_LOOK(s->used) | HAK_LOOK(s->dirty)) == 0;
}

/* A page of bitmaps is for several units, and rows are often shorter: what they leave goes when the SuperSlab
 * is wholly free and clean. It is set apart as a row is. */
static void purge_tables(uint32_t number, void (*purge)(unit_t first, size_t units), bool waits) {
  const unit_t first = number * SUPERSLAB_UNITS;
  if (!stock_enter_if(waits)) return;
  bool is_clean = (map_superslab(number)->used | map_superslab(number)->dirty) == 0;
  if (is_clean) set_apart(first, SUPERSLAB_UNITS);
  arena_leave();
  if (!is_clean) return;
  purge(first, SUPERSLAB_UNITS);
  stock_enter();
  stock_put_back(first, SUPERSLAB_UNITS);
  note_end();
  arena_leave();
}

static void purge_tables_beside(unit_t first, size_t units, bool waits) {
  const zone_kind_t *kind = zone_look(zone_of(first))->kind;
  if (kind->purge_tables == NULL) return;
  FOR_EACH_SUPERSLAB(c, first, units) {
    bool is_part = c.mask != UINT32_MAX; /* else all of it went */
    if (is_part && may_be_clean(c.number)) purge_tables(c.number, kind->purge_tables, waits);
  }
}

size_t purging_do(const purging_order_t *order, bool *was_shut) {
  size_t purged = 0;
  if (was_shut != NULL) *was_shut = false;
  for (size_t tried = 0, calls = order->calls; tried < order->most && calls > 0; calls--) {
    unit_t first;
    if (!stock_enter_if(order->waits)) {
      if (was_shut != NULL) *was_shut = true;
      break;
    }
    size_t units = claim(order, order->most - tried, &first);
    arena_leave();
    if (units == 0) break;
    tried += units;
    purged += purge_claimed(order, first, units, 0);
    purge_tables_beside(first, units, order->waits);
  }
  return purged << UNIT_SHIFT;
}

void purging_after_fork(void) { purging.ended = purging.begun; }
