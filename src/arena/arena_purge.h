/*
 * When pages of dirty free units go back to the system, and how many: as time passes, as more is freed than may
 * stay, as others are taken beside them, and as somebody asks.
 *
 * Thread-safe, and to be called outside the arena's gate. But for arena_yield, arena_purge_for, arena_keep and
 * arena_purge_fallen they leave the work to another time where the gate stays shut, and what is left of it where it
 * is shut after a row; they wait for it to put that row back. What is returned are the bytes that went.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ARENA_PURGE_H
#define HAK_ARENA_PURGE_H

#include "../support/tally.h"
#include "arena_gate.h"

HAK_C_BEGIN

/* Those that are older than a second, 2 MiB at the most, and some of what is owed; what has lain on the shelf
 * for a quarter of a second leaves it, and counts as well. Cheap when there is nothing to do. */
size_t arena_tick(uint64_t now_ms);
/* What is dirty beyond the share that is kept: as much as the caller has just freed, an eighth more, and, if no other
 * thread is purging, 2 MiB where a thread attends, else 4 MiB, or 6 MiB in all where much is. */
size_t arena_relieve_now(size_t freed_units);
HAK_INLINE void arena_relieve(size_t freed_units) {
  if (HAK_UNLIKELY(atomic32_load_relaxed(&arena_is_strained) != 0)) arena_relieve_now(freed_units);
}
/* Less is needed than there was, without a run having been given back: there may be something for arena_relieve now. */
void arena_need_less(void);
/* A block has grown by so many units: where that makes a new peak, as many dirty ones go for it, or, with the last, a
 * whole SuperSlab (purging.h). Where a thread attends, as much of them as arena_pay_owed has time for. */
size_t arena_relieve_growth(size_t units);
/* Some of what is owed for what was taken elsewhere (debt.h), no more than takes a millisecond. The rest is for
 * arena_tick. */
size_t arena_pay_owed(void);
/* For a caller that will not need it soon: what is dirty beyond the least share, whatever was reused lately, as
 * much as the caller says and 2 MiB. */
size_t arena_yield(size_t freed_units);
/* All but so much, for that reason. */
size_t arena_purge_for(tally_t reason, size_t keep_bytes);

/* So much that is dirty stays for good from now on, the newest, but for arena_purge_for; what is more
 * than that and a share goes at frees. SIZE_MAX: all stays. */
void arena_keep(size_t bytes);

/* Whether a thread calls arena_tick as time passes. Then as much may stay dirty as was in use lately and is not
 * any more; at frees goes what is more, and as much as is taken of what is clean goes then or soon. At any
 * time, from any thread. */
void arena_attend(bool is_attended);
/* What stays for that alone goes now: for whom nobody will attend. */
void arena_purge_fallen(void);

HAK_C_END
#endif
