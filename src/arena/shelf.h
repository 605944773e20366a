/*
 * The shelf: free runs of the usual lengths, between the layers above and the arena.
 *
 * A run that is given back by one thread is mostly wanted by another a moment later, as
 * it is. To join it with its neighbours and cut it out again takes the arena's gate
 * twice, and where more threads want that than there are processors, they wait for one
 * that has lost its own. So for each length some runs lie in places that threads put
 * them into and take them out of without a gate. To the arena they are in use; to the
 * account they are free and dirty.
 *
 * A place holds 0, or a run and when it was put there. Invariant: a run lies in one
 * place at the most, and whoever has taken the value out of it has the run. A place
 * changes by two steps alone, each atomic:
 *   put   0 -> run, by compare-and-swap   release: what was done with the run's memory
 *                                         and its record comes before it
 *   take  run -> 0, by exchange, or by    acquire: pairs with that
 *         compare-and-swap
 * So nothing is lost and nothing is found twice, whatever others do meanwhile, and
 * nobody waits for anybody: who finds no place, or no run, goes to the arena. A run may
 * come back to its place between a look and the compare-and-swap that follows it: then
 * it lies there, and that is all that matters.
 * tests/model/weak/src/protocols/shelf.rs has the proof.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SHELF_H
#define HAK_SHELF_H

#include "map.h"

HAK_C_BEGIN

/* Lengths, numbered by the caller; places for each; and so many are used where runs of more than a few lengths
 * lie here. */
enum { SHELF_LENGTHS = 31, SHELF_PLACES = 1024, SHELF_PLACES_OF_MANY = 16 };

/* Whether runs may be put there: where there are more threads than these. Few rarely wait at the arena's
 * gate, and find nothing faster on the shelf. Relaxed: a hint. */
extern atomic32 shelf_opened;
enum { SHELF_FEW_THREADS = 4 };
HAK_INLINE bool shelf_is_open(void) { return atomic32_load_relaxed(&shelf_opened) != 0; }
HAK_INLINE void shelf_open(bool is_open) {
  if (HAK_UNLIKELY(shelf_is_open() != is_open)) atomic32_store_relaxed(&shelf_opened, is_open);
}
/* Puts a run of that length on the shelf. The words of its units stay as they are.
 * false: there is no place; or, but as a last resort, it is not open, is to hold no more, or
 * nobody has missed any. */
bool shelf_put(unsigned length, unit_t run, bool is_last_resort);
/* A run of that length; 0 if there is none. Its words and its record are as they were
 * when it was put there. It may not read as zero. */
unit_t shelf_take(unsigned length);
/* The same of the first length of so many units or more of which there is one. */
unit_t shelf_take_longer(size_t least);
/* Somebody wanted a run of that length, and found none that would do. One that was given
 * before and is wanted again is worth a place; others, as all that are given at the end of a
 * program's work, serve everybody in the arena. So do those of a length of which one lay
 * there for long, from then on. */
void shelf_note_missed(unsigned length);
/* A run that was put there until then, or, whenever that was, until SHELVED_EVER; 0 if there
 * is none. It counts as lying there until the caller says, of so many units, that it does
 * not. `*at`: where to look first, zeroes at the beginning. */
#define SHELVED_EVER UINT64_MAX
typedef struct {
  unsigned length, place;
} shelf_cursor_t;
unit_t shelf_take_old(uint64_t until_ms, shelf_cursor_t *at);
void shelf_note_gone(size_t units);

/* Units on the shelf, and such as are on their way to it or from it; a moment old. */
size_t shelf_units(void);
/* The same for who has taken some: so many at the least, as of when somebody asked anew. Neither that nor
 * what was taken since is a line that who puts runs there writes. */
size_t shelf_units_least(void);
size_t shelf_units_anew(void);
/* Units that shelf_take has found since the last call. Guarded by the arena's gate. */
size_t shelf_reused(void);
/* How many of them are more than it may hold. */
size_t shelf_surplus(void);
/* How many it may hold from now on. Several threads that put runs there at once may go
 * beyond that, by as many runs. */
void shelf_limit(size_t units);

/* In a forked child. The places are as they should be; what other threads had in hand is
 * nobody's, and counts no more. */
void shelf_after_fork(void);
/* Aborts through HAK_CHECK if what lies there is not what is counted; returns the number of
 * runs. Nothing may be put or taken meanwhile. */
size_t shelf_check(bool is_counted);

HAK_C_END
#endif
