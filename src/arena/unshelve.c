/* See unshelve.h. SPDX-License-Identifier: MIT */
#include "unshelve.h"

#include "dense.h"
#include "shelf.h"
#include "stock.h"

/* Whoever shelved it left it as a block's. */
void unshelve_forget(unit_t run, size_t units) {
  map_write_words(run, 0, units, 0);
  dense_note_wide(-(int64_t)units);
}

size_t unshelve_until(uint64_t until_ms, size_t most_runs, size_t most_units, bool waits) {
  size_t given = 0;
  shelf_cursor_t at = {0};
  for (unit_t run = 1; run != 0 && most_runs > 0 && given < most_units; most_runs--) {
    if (!stock_enter_if(waits)) break;
    run = shelf_take_old(until_ms, &at);
    size_t units = run != 0 ? map_record(run)->run_units : 0;
    if (run != 0) {
      unshelve_forget(run, units);
      stock_give_dirty(run, units);
      shelf_note_gone(units);
    }
    arena_leave();
    given += units;
  }
  return given;
}

size_t unshelve_some(size_t most_units, bool waits) {
  return unshelve_until(SHELVED_EVER, UNSHELVED_MOST, most_units, waits);
}

/* Whatever the count says: it may be too low in a child that was forked by a signal handler. */
size_t unshelve_all(void) { return unshelve_until(SHELVED_EVER, SIZE_MAX, SIZE_MAX, true); }
