/*
 * The pool: owners whose threads have ended.
 *
 * A thread that starts takes the owner that was pooled last, with all its slabs;
 * a thread that needs a slab looks at pooled owners before it asks for fresh
 * memory, and takes slabs over from them. So nothing waits for a thread that
 * never comes back. The pool's gate is the outermost.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_POOL_H
#define HAK_POOL_H

#include "../os/lock.h"
#include "owner.h"

HAK_C_BEGIN

extern hak_gate_t pool_gate;

/* An owner for the calling thread: a pooled one or, zero but for its id, a new
 * one. NULL when there is no memory. */
owner_t *pool_attach(void);
/* The thread has no more use for the owner. It is busy until it is pooled. */
void pool_detach(owner_t *owner);
/* Before a fork, and in the child, gates closed or missed. What threads that the child
 * does not have leave behind is put in order by whoever enters the gate next: their
 * owners are pooled, except those that were in use just then. `self`: the calling
 * thread's, NULL if it has none. false: it was claimed, and is lost. */
void pool_before_fork(void);
bool pool_after_fork(owner_t *self);
/* Puts it in order now: for those who look at owners without the gate. */
void pool_settle(void);

/* Takes over a slab of the class with a free block from a pooled owner, looking
 * at a bounded number of them. It is then in the owner's list. */
bool pool_adopt(owner_t *owner, unsigned size_class);

/* What the layer above does first to a pooled owner, or to one that is claimed (strip):
 * sends a bounded number of the blocks home that it keeps for the owner's thread, or the
 * next one. Returns whether there are more. The gate is held. May be NULL. */
typedef bool pool_flush_fn(owner_t *owner);

/* Collects remote frees of all pooled owners and releases their empty slabs.
 * `flush` may be NULL. */
void pool_sweep(pool_flush_fn *flush);
/* The same for owners of other threads that can be claimed (claim.h). */
void pool_sweep_attached(pool_flush_fn *strip);
/* purge_pages for all pooled owners, and for those of other threads that can be claimed. */
size_t pool_purge_pages(void);
/* What waits in pooled owners for a thread that may never come: flushes, collects
 * remote frees, releases empty slabs, those of warm owners too, and does what
 * purge_idle does. The same, with `strip`, in owners whose threads have not needed
 * the allocator for a second, as long as that finds something. A little at a time: callers come often, and go
 * on where the last one stopped; rounds over all owners begin a second apart. Returns
 * whether there was anything to do. */
bool pool_tidy(uint64_t now_ms, pool_flush_fn *flush, pool_flush_fn *strip);

/* Owners made so far, how many of them are threads', and how many wait in the pool.
 * Relaxed. */
uint32_t pool_owner_count(void);
uint32_t pool_attached_count(void);
uint32_t pool_pooled_count(void);

HAK_C_END
#endif
