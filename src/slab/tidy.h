/*
 * What waits in owners without a thread, and in those of threads that sleep: cached blocks,
 * remote frees, empty slabs, free pages. Other threads see to it, a little at a time, with
 * the pool's gate open after every step.
 *
 * Work on a pooled owner is marked as a thread marks work on its own: a child that is
 * forked meanwhile without the gate (gates_close) does not trust the owner. An owner of
 * another thread is claimed (claim.h).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TIDY_H
#define HAK_TIDY_H

#include "owner.h"

HAK_C_BEGIN

/* What the layer above does first to a pooled owner (flush), or to one that is claimed
 * (strip): sends a bounded number of the blocks home that it keeps for the owner's thread,
 * or the next one. Returns whether there are more. The gate is held. May be NULL. */
typedef bool tidy_flush_fn(owner_t *owner);

/* Collects remote frees of all pooled owners and releases their empty slabs. */
void tidy_sweep(tidy_flush_fn *flush);
/* The same for owners of other threads that can be claimed. */
void tidy_sweep_attached(tidy_flush_fn *strip);
/* purge_pages for all pooled owners, and for those of other threads that can be claimed;
 * `*keep` bytes stay of all together. */
size_t tidy_purge_pages(size_t *keep);
/* The last two, without keeping any, where other threads' owners have changed since they were done there, as far as
 * that can be seen: what a thread has freed into its magazines since then, without a batch, is not. */
void tidy_sweep_changed(tidy_flush_fn *strip);
size_t tidy_purge_changed(void);
typedef enum {
  TIDY_NOTHING, /* there is nothing to do before the next round */
  TIDY_DONE,    /* it took time, and that is all                */
  TIDY_MORE,    /* an owner had something to give back, and may have more */
  TIDY_AWAITED, /* the same, and a thread waited for the gate meanwhile; or the gate was shut */
} tidied_t;
/* What waits in pooled owners for a thread that may never come: flushes, collects
 * remote frees, releases empty slabs, those of warm owners too, and does what
 * purge_idle does. The same, with `strip`, in owners whose threads have not needed
 * the allocator for a tenth of a second, as long as that finds something; and what purge_idle does alone in those
 * whose threads are about too seldom to end it (purge_wants_help). What is hardly
 * used of their slabs goes to the pool then (orphanage_disown). A little at a time: callers
 * come often, and go on where the last one stopped; rounds over all owners begin 50 ms
 * apart. */
tidied_t tidy_some(uint64_t now_ms, tidy_flush_fn *flush, tidy_flush_fn *strip);
/* Whether a thread that tidy_some has come by may be idle for some time yet before its owner is visited: for
 * longer than a tenth of a second, if it came back soon each time. Who calls that no more before then leaves
 * such an owner as it is, perhaps for ever. */
bool tidy_is_to_come(uint64_t now_ms);

HAK_C_END
#endif
