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
/* The thread has no more use for the owner; its magazines are flushed. It is busy
 * until it is pooled. */
void pool_detach(owner_t *owner);
/* In a forked child: pools the owners of threads that the child does not have,
 * except those that were in use just then. Gates are closed. `self`: the calling
 * thread's, NULL if it has none. */
void pool_after_fork(owner_t *self);

/* Takes over a slab of the class with a free block from a pooled owner, looking
 * at a bounded number of them. It is then in the owner's list. */
bool pool_adopt(owner_t *owner, unsigned size_class);
/* Collects remote frees of all pooled owners and releases their empty slabs. */
void pool_sweep(void);
/* purge_pages for all pooled owners. */
size_t pool_purge_pages(void);
/* What waits in pooled owners for a thread that may never come: collects remote
 * frees, releases empty slabs, those of warm owners too, and does what purge_idle
 * does. Looks at a bounded
 * number of owners and slabs; callers come once a second and go on where the last
 * one stopped. */
void pool_tidy(uint64_t now_ms);

/* Owners made so far, and how many wait in the pool. Relaxed. */
uint32_t pool_owner_count(void);
uint32_t pool_pooled_count(void);

HAK_C_END
#endif
