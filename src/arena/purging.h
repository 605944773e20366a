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

/* How many units may be dirty after a purge: no fewer than this. Under the gate. */
typedef size_t purging_keep_fn(size_t keep);

/* Purges what became dirty until then, `most` units in so many calls, and leaves as
 * many as `keep_least` says, of the newest. Returns the bytes. */
size_t purging_until(uint64_t until_ms, size_t most, size_t calls, purging_keep_fn *keep_least, size_t keep);

/* Rows that were ever set apart, and those that are back; guarded by the gate. */
extern struct purging { uint64_t begun, ended; } purging;
HAK_INLINE bool purging_goes_on(void) { return purging.ended < purging.begun; }
/* In a forked child: what another thread was purging is out of use. */
void purging_after_fork(void);

HAK_C_END
#endif
