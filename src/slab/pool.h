/*
 * The pool: owners whose threads have ended, and what becomes of their slabs.
 *
 * A thread that starts takes the owner that was pooled last, with all its slabs;
 * a thread that needs a slab looks at pooled owners before it asks for fresh
 * memory, and takes slabs over from them (adopt.h). So nothing waits for a thread that
 * never comes back, nor does what a thread that sleeps has no use for: it is in the
 * pool, too (orphanage.h). The pool's gate is the outermost.
 *
 * Where the machine's memory is of several nodes, each has a pool of its own, and a thread
 * takes from that of the node on which it runs (pool_node.h).
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
/* Puts in order what a fork has left (pool_fork.h): for those who look at owners without the gate. */
void pool_settle(void);

/* What lies free in a pooled owner's slabs, or which of them are listed, may have changed.
 * The gate is held. */
void pool_note(owner_t *owner);

/* The owner of slabs that are no thread's (orphanage.h), on the node where that owner's thread needed a slab
 * last; NULL if there is none. The gate is held. */
owner_t *pool_orphanage(const owner_t *owner);
/* Its number, 0 if there is none. Relaxed, and without the gate, as it says nothing of what is in its record. */
uint32_t pool_orphanage_id(const owner_t *owner);
/* There is one from then on, unless memory is short. Not while an owner is claimed. The gate is held. */
void pool_make_orphanage(const owner_t *owner);

/* For those who look after owners (tidy.h): the gate, behind which nothing that a fork has
 * left waits to be put in order. */
void pool_enter(void);
bool pool_enter_soon(void); /* as gate_enter_soon */
bool pool_enter_within(int milliseconds);
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
extern const inspect_field_t pool_inspected[3];

/* Aborts through HAK_CHECK if an invariant is broken. The gate is held, and nothing that a fork has left
 * waits to be put in order. */
void pool_check(void);

HAK_C_END
#endif
