/* See arena_purge.h. SPDX-License-Identifier: MIT */
#include "arena_purge.h"

#include "../support/profile.h"
#include "debt.h"
#include "dirty.h"
#include "kept.h"
#include "purging.h"
#include "shelf.h"
#include "stock.h"
#include "unshelve.h"

enum {
  /* How long free memory stays resident, and how long it lies on the shelf before. */
  DIRTY_MS = 1000,
  SHELF_MS = 250,
  LOOK_MS = 20,      /* between looks that found neither that old */
  REFUSED_MS = 1000, /* where nothing of what was to go is taken back, before the next try */
};

static atomic64 next_look_ms; /* of arena_tick; relaxed, without the gate */

/* Many threads may ask at once, each at every movement of the clock: where nothing was due,
 * they leave the gate alone for a while. */
size_t arena_tick(uint64_t now_ms) {
  if (!arena_is_ready() || now_ms < atomic64_load_relaxed(&next_look_ms) || !stock_enter_soon()) return 0;
  stock_note_strain(now_ms);
  uint64_t age_ms = profile_wait(DIRTY_MS), shelf_ms = profile_wait(SHELF_MS);
  bool is_due = now_ms >= age_ms && dirty_oldest_ms() <= now_ms - age_ms && dirty_units() > kept_for_good_units(),
       owes = debt_units() > 0;
  arena_leave();
  size_t shelved = 0, purged = 0;
  if (shelf_units() > 0) shelved = unshelve_until(now_ms - min_size(shelf_ms, now_ms), UNSHELVED_MOST, SIZE_MAX, false);
  const purging_order_t order = {.until_ms = now_ms - age_ms,
                                 .most = PURGE_UNITS,
                                 .calls = PURGE_CALLS,
                                 .least = kept_for_good_units,
                                 .is_exact = true};
  if (is_due) purged = purging_do(&order, NULL);
  size_t paid = owes ? arena_pay_owed() : 0;
  if (shelved + purged + paid == 0) atomic64_store_relaxed(&next_look_ms, now_ms + LOOK_MS);
  return (shelved << UNIT_SHIFT) + paid + tally_add(TALLY_AGED, purged);
}

/* How much a free gives back that has freed `own_units`, where nobody else is at it: 4 MiB more, or, of much that is
 * too much, up to 6 MiB in all, which takes about half a millisecond. Most of a program's frees end in magazines, so
 * those that come here may be the last for long. Where somebody attends they are not, and it is 2 MiB more. */
static size_t alone(size_t own_units, size_t over) {
  if (kept_lets_fallen_stay()) return own_units + PURGE_UNITS;
  return max_size(own_units + 2 * PURGE_UNITS, min_size(3 * PURGE_UNITS, over / 4));
}

/* What is kept shrinks by an eighth of what was freed. Who comes by while another thread gives back what it has freed
 * does no more than that: the rest is that one's. Returns 0 where the gate is shut. */
static size_t most_relieved(size_t freed_units) {
  if (!stock_enter_soon()) return 0;
  stock_give_slack();
  size_t own_units = freed_units + freed_units / 8, over = dirty_units() - min_size(dirty_units(), kept_dirty_units()),
         most = purging_goes_on() ? own_units : alone(own_units, over);
  arena_leave();
  return most;
}

size_t arena_relieve_now(size_t freed_units) {
  enum { ROWS_MOST = 64 };
  if (!arena_is_ready()) return 0;
  size_t most = most_relieved(freed_units);
  /* Slabs that became free in no order lie apart. */
  size_t calls = PURGE_CALLS + min_size(freed_units, ROWS_MOST) + freed_units / PURGE_UNITS * 8;
  if (most == 0) return 0;
  if (shelf_surplus() > 0) unshelve_some(min_size(shelf_surplus(), most), false);
  const purging_order_t order = {.until_ms = PURGING_ALL, .most = most, .calls = calls, .least = kept_dirty_units};
  bool was_shut;
  size_t purged = tally_add(TALLY_STRAINED, purging_do(&order, &was_shut));
  if (was_shut || !stock_enter_soon()) return purged;
  uint64_t now_ms = os_now_ms();
  if (purged == 0 && dirty_units() > kept_dirty_units()) kept_rest(now_ms + REFUSED_MS);
  stock_note_strain(now_ms);
  arena_leave();
  return purged;
}

size_t arena_relieve_growth(size_t units) {
  if (!stock_enter_soon()) return 0;
  size_t over = min_size(kept_over_lately(), min_size(dirty_units(), units)), keep = dirty_units() - over;
  bool is_owed = over > 0 && debt_for_growth(over);
  arena_leave();
  if (is_owed) return arena_pay_owed();
  if (over == 0) return 0;
  const purging_order_t order = {.until_ms = PURGING_ALL, .most = over, .calls = PURGE_CALLS, .keep = keep};
  return tally_add(TALLY_STRAINED, purging_do(&order, NULL));
}

void arena_keep(size_t bytes) {
  stock_enter();
  kept_tell(bytes);
  arena_leave();
}

void arena_attend(bool is_attended) { kept_attend(is_attended); }

/* Nothing went. If some still is to, it was refused. */
static void rest_if(size_t is_to_go(void)) {
  if (!stock_enter_soon()) return;
  if (is_to_go() > 0) kept_rest(os_now_ms() + REFUSED_MS);
  arena_leave();
}

/* Step by step, so that where all is refused, as it is locked, no more than one is tried. */
void arena_purge_fallen(void) {
  enum { STEP = 2 * PURGE_UNITS, MORE_STEPS = 20 }; /* others may free meanwhile, and leave it to us */
  if (!arena_is_ready() || lock_is_mine(&arena_gate.lock)) return;
  stock_enter();
  size_t steps = dirty_units() / STEP + MORE_STEPS;
  arena_leave();
  const purging_order_t step = {
      .until_ms = PURGING_ALL, .most = STEP, .calls = SIZE_MAX, .least = kept_unattended_units, .waits = true};
  for (; steps > 0; steps--) {
    stock_enter();
    bool is_done = kept_unattended_surplus() == 0;
    arena_leave();
    if (is_done) return;
    if (tally_add(TALLY_STRAINED, purging_do(&step, NULL)) == 0) rest_if(kept_unattended_surplus);
  }
}

size_t arena_pay_owed(void) {
  enum { PAID_MOST = 3 * PURGE_UNITS };
  if (!stock_enter_soon()) return 0;
  size_t owed = min_size(debt_units(), PAID_MOST), dirty = dirty_units();
  arena_leave();
  if (owed == 0) return 0;
  const purging_order_t order = {
      .until_ms = PURGING_ALL, .most = owed, .calls = PURGE_CALLS, .keep = dirty - owed, .is_owed = true};
  bool was_shut;
  size_t purged = tally_add(TALLY_STRAINED, purging_do(&order, &was_shut));
  if (purged == 0 && was_shut) return 0;
  if (purged == 0) rest_if(debt_units);
  if (!stock_enter_soon()) return purged; /* it is owed still, and goes once more at the most */
  debt_pay(purged >> UNIT_SHIFT);
  arena_leave();
  return purged;
}

void arena_need_less(void) {
  if (!stock_enter_soon()) return;
  stock_note_strain(os_now_ms());
  arena_leave();
}

size_t arena_yield(size_t freed_units) {
  if (!arena_is_ready()) return 0;
  size_t most = PURGE_UNITS + freed_units, calls = PURGE_CALLS + freed_units / PURGE_UNITS * 2;
  if (shelf_units() > 0) unshelve_some(most, true); /* what the caller has freed may lie there */
  const purging_order_t order = {
      .until_ms = PURGING_ALL, .most = most, .calls = calls, .least = kept_least_units, .waits = true};
  return tally_add(TALLY_TRIMMED, purging_do(&order, NULL));
}

size_t arena_purge_for(tally_t reason, size_t keep_bytes) {
  if (!arena_is_ready()) return 0;
  unshelve_all();
  arena_enter();
  size_t most = dirty_units(); /* each once, should the system refuse some */
  arena_leave();
  const purging_order_t order = {.until_ms = PURGING_ALL,
                                 .most = most,
                                 .calls = SIZE_MAX,
                                 .keep = keep_bytes >> UNIT_SHIFT,
                                 .waits = true,
                                 .is_exact = true};
  return tally_add(reason, purging_do(&order, NULL));
}
