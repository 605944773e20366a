/*
 * How rows of dirty units are given back to the system, with the gate open.
 *
 * A row is set apart from the free units meanwhile, and is theirs again afterwards. So who
 * finds nothing free may wait for a purge that goes on.
 *
 * Thread-safe, and to be called outside the arena's gate unless said otherwise.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_PURGING_H
#define HAK_PURGING_H

#include "map.h"

HAK_C_BEGIN

enum {
  /* Of one call, and of one call to the system: others wait for the kernel's map of the
   * process meanwhile. */
  PURGE_UNITS = SUPERSLAB_UNITS,
  PURGE_CALLS = 32,
};

typedef struct {
  uint64_t until_ms;     /* what became dirty until then; PURGING_ALL: whenever           */
  size_t most, calls;    /* so many units at the most, in so many rows                    */
  size_t keep;           /* so many units stay dirty, the newest, and                     */
  size_t (*least)(void); /* as many more as this says under the gate; NULL: none         */
  bool waits;            /* where the gate is shut; else what is left is for another time */
  /* Else a SuperSlab may go as a whole of which a part was to stay (dirty_oldest_row), but for the least share
   * (kept_least_units). */
  bool is_exact;
  bool is_owed; /* it goes for others that were taken: whatever is taken soon, it had not better stayed */
} purging_order_t;
#define PURGING_ALL UINT64_MAX

/* Returns the bytes that went. `was_shut`, if not NULL: whether some was left for another time. A row that was purged
 * is put back in any case, for which it waits. */
size_t purging_do(const purging_order_t *order, bool *was_shut);

/* Rows that were ever set apart, and those that are back; guarded by the gate. */
extern struct purging { uint64_t begun, ended; } purging;
HAK_INLINE bool purging_goes_on(void) { return purging.ended < purging.begun; }
/* In a forked child: what another thread was purging is out of use. */
void purging_after_fork(void);

HAK_C_END
#endif
