/*
 * Free memory that nobody can have just now, because caches hold it, given back to the arena.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_RECLAIM_H
#define HAK_RECLAIM_H

#include "../base/base.h"

HAK_C_BEGIN

/* Flushes the calling thread's heap, what waits in those of ended threads, and what can be had
 * of other threads' (slab/claim.h, strip.h). The thread is in no slow path. Takes as long as
 * there is work. */
void reclaim(void);

/* There was no memory for so many bytes. Where that may be for the hard limit, reclaims, and
 * returns whether it is worth another try. */
bool reclaim_at_hard_limit(size_t bytes);

HAK_C_END
#endif
