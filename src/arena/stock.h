/*
 * The stock: units become used and free again, under the arena's gate, and every book that counts them is kept.
 *
 * The books are the zones' free runs (zone.h), what each SuperSlab has in use, what of the rest is dirty
 * (dirty.h), how much is in use and may stay (kept.h), and what it counts for against the limits (charge.h). To
 * be called by who holds the gate, but for stock_enter and stock_enter_soon.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_STOCK_H
#define HAK_STOCK_H

#include "arena_gate.h"
#include "map.h"
#include "returns.h"

HAK_C_BEGIN

/* ---- The gate ------------------------------------------------------------------*/

/* Takes in so many of the runs that were given back while it was shut, at most. Returns whether there were any. */
bool stock_take_in(size_t most);

/* Through the gate; takes in some of what was given back meanwhile. Leave by arena_leave. */
enum { RETURNS_MOST = 64 }; /* that one who enters takes in */
HAK_INLINE void stock_enter(void) {
  gate_enter(&arena_gate);
  if (HAK_UNLIKELY(returns_wait())) stock_take_in(RETURNS_MOST);
}
/* The same, unless it stays shut for longer than it mostly is: false. */
HAK_INLINE bool stock_enter_soon(void) {
  if (!gate_enter_soon(&arena_gate)) return false;
  if (HAK_UNLIKELY(returns_wait())) stock_take_in(RETURNS_MOST);
  return true;
}

/* The one or the other. false: the gate is shut, and the caller does not wait. */
HAK_INLINE bool stock_enter_if(bool waits) {
  if (!waits) return stock_enter_soon();
  stock_enter();
  return true;
}

/* ---- Units under the gate --------------------------------------------------------*/

/* Whether the hard limit may allow so many more, if all that is dirty goes. */
bool stock_may_grow(size_t units);
/* Takes free units into use, if the hard limit allows it. `dirty`: how many of them were. */
bool stock_take(unit_t first, size_t units, size_t *dirty);
/* Gives used units back, which may be resident. */
void stock_give_dirty(unit_t first, size_t units);
/* Gives used units back that have been mapped anew, or purged; so many bytes of them are not charged any more. */
void stock_give_clean(unit_t first, size_t units, size_t gone_bytes);

/* Takes free units out and puts them back, for who purges them meanwhile: neither how much is in use (kept.h) nor what
 * is charged changes. */
void stock_set_apart(unit_t first, size_t units);
void stock_put_back(unit_t first, size_t units);
/* Free units are dirty, or dirty again. `now_ms` was read under the gate, so that their list stays in order of time. */
void stock_note_dirty(unit_t first, size_t units, uint64_t now_ms);
/* So many that were set apart dirty, and are put back, have gone back to the system. */
void stock_note_purged(size_t units);
/* A heap that shrinks need not give back a unit of the SuperSlab in which it stopped to grow: what a huge page
 * made resident there is dirty from now on. */
void stock_give_slack(void);

/* Sets arena_is_strained. */
void stock_note_strain(uint64_t now_ms);

HAK_C_END
#endif
