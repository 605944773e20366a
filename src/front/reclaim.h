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
 * of other threads' (slab/claim.h, strip.h); or waits until somebody else has done the latter since
 * the call (rounds.h). The thread is in no slow path. Takes as long as there is work. */
void reclaim(void);
/* In a forked child. */
void reclaim_after_fork(void);

/* Pages of slabs without a live block go back to the system, but for `*keep` bytes that are resident, which are
 * taken off that; of the calling thread, of ended threads and what can be had of other threads'. Where none are to
 * stay, somebody else may have done the latter since the call, as for reclaim. Returns the bytes that went by this
 * call. The thread is in no slow path. */
size_t reclaim_pages(size_t *keep);

/* There was no memory for so many bytes. Reclaims, and returns whether it is worth another try. It is not where
 * a hard limit would not allow as much with all else free, or, without one, where it is more than the heap has
 * in all. Without one, too, once going round all threads has brought less than was asked for, nobody does so
 * for a tenth of a second, as a program may only want to know how much it can have, or until as much has been
 * freed, or an eighth of the heap, or a thread has ended: until then the calling thread's caches alone are flushed,
 * and what is free of the program's heaps goes. At a hard limit other threads are passed over for as long that have
 * moved no block between magazines and slabs since. */
bool reclaim_for(size_t bytes);

HAK_C_END
#endif
