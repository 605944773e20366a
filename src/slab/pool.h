/*
 * The pool: owners whose threads have ended, and slabs whose threads sleep.
 *
 * A thread that starts takes the owner that was pooled last, with all its slabs;
 * a thread that needs a slab looks at pooled owners before it asks for fresh
 * memory, and takes slabs over from them. So nothing waits for a thread that
 * never comes back, nor does what a thread that sleeps has no use for: it is in the
 * pool, too. The pool's gate is the outermost.
 *
 * Where the machine's memory is of several nodes, each has a pool of its own, and a thread
 * takes from that of the node on which it runs. Invariants: an owner that waits in a node's pool
 * has that node in its record; what is counted to lie free there is the sum of what is counted of
 * these owners.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_POOL_H
#define HAK_POOL_H

#include "../base/inspected.h"
#include "../os/lock.h"
#include "owner.h"

HAK_C_BEGIN

extern hak_gate_t pool_gate;

/* An owner for the calling thread: a pooled one or, zero but for its id, a new
 * one. NULL when there is no memory. */
owner_t *pool_attach(void);
/* The thread has no more use for the owner. It is busy until it is pooled. */
void pool_detach(owner_t *owner);
/* Whether an owner that is detached just now would be pooled warm. Relaxed: a hint. */
bool pool_has_warm_room(void);
/* Before a fork, and in the child, gates closed or missed. What threads that the child
 * does not have leave behind is put in order by whoever enters the gate next: their
 * owners are pooled, except those that were in use just then. `self`: the calling
 * thread's, NULL if it has none. false: it was claimed, and is lost. */
void pool_before_fork(void);
bool pool_after_fork(owner_t *self);
/* Puts it in order now: for those who look at owners without the gate. */
void pool_settle(void);

/* Takes over a slab of the class with a free block from a pooled owner, or one that was
 * disowned. Looks at a bounded number of them, and goes on there the next time: on the node
 * on which the calling thread runs and, where much lies free on others, on each of those in
 * turn. It is then in the owner's list. */
bool pool_adopt(owner_t *owner, unsigned size_class);
/* There is no memory: the same on all other nodes, however little is there. */
bool pool_adopt_elsewhere(owner_t *owner, unsigned size_class);
/* Up to `wanted` blocks of the class, those with the lowest addresses, the lowest last, from slabs that
 * are the pool's and stay so: threads that have few blocks each share their pages. The owner is the
 * calling thread's. Returns how many; none where another thread is behind the gate, or there is no
 * memory. */
size_t pool_lend(owner_t *owner, unsigned size_class, void **blocks, size_t wanted);
/* Whether slabs with that number are such ones, from which the owner's thread is served. */
bool pool_is_lender(const owner_t *owner, uint32_t id);
/* Frees blocks of that class that lay in such slabs, in one visit. The owner is the calling thread's, or claimed.
 * Reports what is no block, or free. */
void pool_take_back(owner_t *owner, unsigned size_class, void *const *blocks, size_t count);
/* What lies free in a pooled owner's slabs, or which of them are listed, may have changed.
 * The gate is held. */
void pool_note(owner_t *owner);

/* Hands slabs of an owner that is claimed (claim.h) to the pool, of which few blocks are in
 * use: its thread sleeps, and others may have use for the rest of them. Not where blocks
 * share lines of the cache, which would be two threads' then. Looks at a bounded number of
 * each class, and goes on there the next time. Returns whether there are classes left. The
 * gate is held. */
bool pool_disown(owner_t *owner);
/* To be called before; not while an owner is claimed. The gate is held. */
void pool_prepare_to_disown(const owner_t *owner);
/* pool_disown for the calling thread's own owner, all of it, where there are other threads.
 * Enters the gate. */
void pool_disown_own(owner_t *owner);

/* For those who look after owners (tidy.h): the gate, behind which nothing that a fork has
 * left waits to be put in order. */
void pool_enter(void);
bool pool_enter_soon(void); /* as gate_enter_soon */
void pool_leave(void);
/* A pooled owner's empty slabs are no longer kept for the next thread. The gate is held. */
void pool_cool(owner_t *owner);

/* Owners made so far, how many of them are threads', and how many wait in the pool.
 * Relaxed. */
uint32_t pool_owner_count(void);
uint32_t pool_attached_count(void);
uint32_t pool_pooled_count(void);
/* How many of those are no thread's ever: one for each node on which slabs were disowned. */
uint32_t pool_orphanage_count(void);
extern const inspect_field_t pool_inspected[6];

/* Aborts through HAK_CHECK if an invariant is broken. The gate is held, and nothing that a fork has left
 * waits to be put in order. */
void pool_check(void);

HAK_C_END
#endif
