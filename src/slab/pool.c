/* See pool.h. SPDX-License-Identifier: MIT */
#include "pool.h"

#include "../arena/arena.h"
#include "../arena/metadata.h"
#include "../os/os.h"
#include "pool_fork.h"
#include "pool_node.h"
#include "remote.h"
#include "slab.h"

hak_gate_t pool_gate;

const inspect_field_t pool_inspected[3] = {
    HAK_INSPECT_VARIABLE("pool.owner_count", pool.owner_count),
    HAK_INSPECT_VARIABLE("pool.pooled_count", pool.pooled_count),
    HAK_INSPECT_ARRAY("pool.orphanages", pool.nodes[0].orphanage, NODES_MOST, sizeof(node_t)),
};

/* As many owners are pooled warm, with their empty slabs: the next thread comes
 * soon where threads come and go, and finds everything in place. Where none comes,
 * they are taken after about half a second (tidy.c). */
enum { WARM_MAX = 8 };

/* ---- The gate ------------------------------------------------------------------*/
void pool_enter(void) {
  gate_enter(&pool_gate);
  if (HAK_UNLIKELY(pool_fork_is_pending())) pool_fork_settle();
}
bool pool_enter_within(int milliseconds) {
  if (!gate_enter_within(&pool_gate, milliseconds)) return false;
  if (HAK_UNLIKELY(pool_fork_is_pending())) pool_fork_settle();
  return true;
}
bool pool_enter_soon(void) { return pool_enter_within(0); }
void pool_leave(void) {
  arena_note_threads(pool_attached_count());
  gate_leave(&pool_gate);
}

void pool_settle(void) {
  if (!pool_fork_is_pending()) return;
  pool_enter();
  pool_leave();
}

/* ---- Threads that begin and end --------------------------------------------------*/

/* Before a new owner is made: looks at some attached ones for a thread that has
 * ended without a word (the first heap of a thread in its last destructors; a
 * thread that was ended by a bare system call), and pools them, magazines and
 * all. One that ended inside the allocator stays as it is. */
static void pool_the_forgotten(void) {
  enum { LOOKS = 4 };
  static uint32_t next; /* the owner that was looked at last; guarded by the gate */
  uint32_t made = atomic32_load_relaxed(&pool.owner_count);
  for (int i = 0; i < LOOKS && made > 0; i++) {
    next = next % made + 1;
    owner_t *owner = owner_by_id(next);
    if (owner->state == OWNER_ATTACHED && owner->process_id == os_process_id() && !os_thread_exists(owner->thread_id) &&
        atomic32_load_relaxed(&owner->busy) == 0)
      node_push(owner);
  }
}

static void attach_to_this_thread(owner_t *owner) {
  owner->process_id = os_process_id();
  owner->thread_id = os_thread_id();
  owner->state = OWNER_ATTACHED;
  owner->idle_shift = 0;
  owner->left_as[0] = owner->left_as[1] = 0;
  owner->served_ms = 0;
  if (HAK_UNLIKELY(pool_fork_is_pending())) pool_fork_survives(owner);
}

static owner_t *make(void) {
  uint32_t made = atomic32_load_relaxed(&pool.owner_count);
  if (made == OWNERS_MOST || metadata_heap_record(made, OWNER_STRIDE_BYTES) == NULL) return NULL;
  owner_t *owner = owner_by_id(made + 1);
  owner->id = made + 1;
  attach_to_this_thread(owner); /* before it counts: a forked child looks at those that count */
  atomic32_store_relaxed(&pool.owner_count, made + 1);
  return owner;
}

/* The next node in turn, other than that one, on which owners wait; NULL if there is none. */
static node_t *elsewhere(const node_t *here) {
  for (int i = 0; i < NODES_MOST; i++) {
    pool.next_elsewhere = (pool.next_elsewhere + 1) % NODES_MOST;
    node_t *node = &pool.nodes[pool.next_elsewhere];
    if (node != here && node_has_owner(node)) return node;
  }
  return NULL;
}

/* As many owners are made rather than taken from another node as are pooled warm in any case, or
 * an eighth of all that threads have: they are never freed. */
static node_t *with_an_owner(node_t *here) {
  if (node_has_owner(here)) return here;
  uint32_t waiting = pool_pooled_count() - pool_orphanage_count(), most = WARM_MAX + pool_attached_count() / 8;
  return waiting > most ? elsewhere(here) : NULL;
}

owner_t *pool_attach(void) {
  if (!arena_ready()) return NULL;
  uint32_t number = pool_owner_count() > 0 ? node_here() : 0; /* the first thread may stay alone */
  node_t *here = &pool.nodes[number];
  pool_enter();
  node_t *from = with_an_owner(here);
  if (from == NULL) {
    pool_the_forgotten();
    from = with_an_owner(here);
  }
  owner_t *owner = from == NULL ? make() : NULL;
  if (owner == NULL && from == NULL) from = elsewhere(here); /* there is no memory */
  if (from != NULL) {
    owner = node_pop(from);
    attach_to_this_thread(owner);
  }
  if (owner != NULL) atomic32_store_relaxed(&owner->node, number);
  pool_leave();
  return owner;
}

bool pool_has_warm_room(void) { return atomic32_load_relaxed(&pool.warm_count) < WARM_MAX; }

void pool_detach(owner_t *owner) {
  remote_flush(owner);
  pool_enter();
  owner->seen_activity = owner_activity(owner) - 1; /* it was used, though perhaps by the fast path alone: tidy.c */
  node_set_warm(owner, pool_has_warm_room());
  if (!owner->is_warm) {
    pool_leave();
    slab_release_empty(owner);
    pool_enter();
  }
  atomic32_store_release(&owner->busy, 0); /* as owner_leave */
  node_push(owner);
  pool_leave();
}

void pool_note(owner_t *owner) {
  node_note_free(owner);
  node_note_classes(owner);
}

void pool_cool(owner_t *owner) { node_set_warm(owner, false); }

/* ---- Orphanages --------------------------------------------------------------*/
uint32_t pool_orphanage_id(const owner_t *owner) { return node_orphanage_id(node_of(owner)); }
owner_t *pool_orphanage(const owner_t *owner) {
  uint32_t id = pool_orphanage_id(owner);
  return id != 0 ? owner_by_id(id) : NULL;
}

void pool_make_orphanage(const owner_t *from) {
  node_t *node = node_of(from); /* once: its thread may run, and be elsewhere now */
  if (node_orphanage_id(node) != 0) return;
  owner_t *owner = make();
  if (owner == NULL) return;
  owner->state = OWNER_POOLED;
  atomic32_store_relaxed(&owner->node, (uint32_t)(node - pool.nodes));
  atomic32_store_relaxed(&node->orphanage, owner->id);
  atomic32_add_alone(&pool.pooled_count, 1);
}

/* ---- Counts --------------------------------------------------------------------*/
uint32_t pool_owner_count(void) { return atomic32_load_relaxed(&pool.owner_count); }
uint32_t pool_attached_count(void) {
  return pool_owner_count() - pool_pooled_count() - atomic32_load_relaxed(&pool.lost_count);
}
uint32_t pool_pooled_count(void) { return atomic32_load_relaxed(&pool.pooled_count); }
uint32_t pool_orphanage_count(void) {
  uint32_t count = 0;
  for (const node_t *node = pool.nodes; node < pool.nodes + NODES_MOST; node++) count += node_orphanage_id(node) != 0;
  return count;
}
