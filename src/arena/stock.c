/* See stock.h. SPDX-License-Identifier: MIT */
#include "stock.h"

#include "../support/limit.h"
#include "charge.h"
#include "dirty.h"
#include "drop.h"
#include "kept.h"
#include "shelf.h"
#include "zone.h"

/* On a line of its own: everybody who takes the gate writes it. */
hak_gate_t arena_gate __attribute__((aligned(HAK_CACHE_LINE)));
atomic32 arena_is_strained, arena_has_window;

/* ---- The gate ------------------------------------------------------------------*/

HAK_NOINLINE bool stock_take_in(size_t most) {
  size_t taken = 0;
  for (unit_t first; taken < most && (first = returns_take()) != 0; taken++) {
    size_t units = map_record(first)->run_units;
    if (map_record(first)->returned.is_clean) stock_give_clean(first, units, map_record(first)->returned.gone_bytes);
    else stock_give_dirty(first, units);
  }
  return taken > 0;
}

void arena_enter(void) {
  gate_enter(&arena_gate);
  stock_take_in(SIZE_MAX);
}
void arena_leave(void) { gate_leave(&arena_gate); }

/* ---- How much there is -------------------------------------------------------------*/

void stock_note_strain(uint64_t now_ms) {
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
  if (limit_is_tight()) stock_note_strain(os_now_ms()); /* before more is taken, what is too much goes */
}

/* ---- Taking ------------------------------------------------------------------------*/

/* Returns how many of them were dirty. */
static size_t take_units(unit_t first, size_t units) {
  zone_cut(first, units);
  FOR_EACH_SUPERSLAB(c, first, units) map_superslab(c.number)->used |= c.mask;
  map_record(first)->run_units = (uint32_t)units;
  return dirty_take(first, units);
}
void stock_set_apart(unit_t first, size_t units) { take_units(first, units); }

bool stock_may_grow(size_t units) { return !limit_exists() || charge_may_allow(units); }

bool stock_take(unit_t first, size_t units, size_t *dirty) {
  bool is_hard = limit_exists() && limit_is_hard();
  if (is_hard && !charge_run(first, units)) return false;
  *dirty = take_units(first, units);
  if (!is_hard && *dirty != units) charge_taken(first, units, units - *dirty);
  dirty_note_used(first, units);
  kept_note_taken(zone_of(first), units, *dirty);
  watch_limits();
  return true;
}

/* ---- Giving ------------------------------------------------------------------------*/

void stock_put_back(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    HAK_ASSERT((map_superslab(c.number)->used & c.mask) == c.mask);
    map_superslab(c.number)->used &= ~c.mask;
  }
  zone_join(first, units);
}

void stock_note_dirty(unit_t first, size_t units, uint64_t now_ms) {
  charge_dirty(first, units, dirty_add(first, units, now_ms) - units);
}

void stock_note_purged(size_t units) {
  charge_gone(units, 0);
  if (limit_exists()) limit_watch(slack_bytes());
}

void stock_give_dirty(unit_t first, size_t units) {
  uint64_t now_ms = os_now_ms();
  kept_age(now_ms); /* what is given now fades from now on */
  kept_note_full();
  kept_note_given(units);
  stock_put_back(first, units);
  stock_note_dirty(first, units, now_ms);
  if (limit_exists()) limit_watch(slack_bytes());
  stock_note_strain(now_ms);
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
    stock_note_strain(now_ms);
  }
}

void stock_give_clean(unit_t first, size_t units, size_t gone_bytes) {
  kept_note_given(units);
  drop_note_anew(first, units);
  stock_put_back(first, units);
  charge_gone(units, gone_bytes);
  give_slack_of(first, units);
  watch_limits();
}

void stock_give_slack(void) {
  unit_t first;
  size_t units = dirty_add_slack(os_now_ms(), &first);
  if (units > 0) charge_dirty(first, 1, units);
}
