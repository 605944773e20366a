/*
 * Returns: runs that were given back while the arena's gate was shut.
 *
 * Whoever holds the gate may have lost its processor, for as long as all others take that
 * want one. A thread that frees memory need not wait for that: it puts the run on a stack, and
 * who enters the gate next takes the runs in. Until then they count as used.
 *
 *   giver:   the run's record is written         holder of the gate:
 *            N1 newest: compare-and-swap, release     N2 chain = exchange(newest, 0), acquire
 *
 * Invariant: a run that was put there is on the stack, or in the chain that holders of the
 * gate go through, once. Runs are pushed one by one and taken all at once, so it does no
 * harm that the run which N1 compares may have been away: what is to lie below it is
 * what was compared. It is the protocol of parcels (slab/parcel.h), whose proof is
 * tests/model/weak/src/protocols/mail.rs.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_RETURNS_H
#define HAK_RETURNS_H

#include "map.h"

HAK_C_BEGIN

typedef struct {
  atomic32 newest; /* 0: none                                                            */
  unit_t chain;    /* those that were taken and not had yet; guarded by the arena's gate */
} returns_t;
extern returns_t returns;

/* Whether there are any. The gate is held; relaxed: who has put one while it was shut tries it again. */
HAK_INLINE bool returns_wait(void) { return (atomic32_load_relaxed(&returns.newest) | returns.chain) != 0; }
/* A run that its caller has no use for, whole, its words 0. is_clean: it reads as zero, and no
 * huge pages were asked for; gone_bytes: as arena_give_clean. Without the gate. */
void returns_put(unit_t first, size_t units, bool is_clean, size_t gone_bytes);
/* One of them, which is the caller's; 0: there are none. The rest is in its record. The gate is held. */
unit_t returns_take(void);

HAK_C_END
#endif
