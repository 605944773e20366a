/*
 * What waits for the threads of one node of the machine's memory: owners, and what lies free in their slabs.
 *
 * The system puts a page on the node of the thread that touches it first. So an owner waits in
 * the pool of the node on which its thread needed a slab last, and so do slabs that are disowned.
 * On a machine with one node all is nodes[0].
 *
 * Invariants: an owner that waits in a node's pool has that node in its record; what is counted to lie free
 * there is the sum of what is counted of these owners. For pool.c, pool_fork.c, adopt.c and pool_check.c alone.
 * Guarded by the pool's gate but for what is atomic, which is read without it, relaxed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_POOL_NODE_H
#define HAK_POOL_NODE_H

#include "owner.h"

HAK_C_BEGIN

/* Nodes of the machine's memory that have a pool each; those with higher numbers share them. */
enum { NODES_MOST = 16 };

/* Pooled owners are a stack linked by pool_next. */
typedef struct {
  uint32_t top;
  uint32_t next_visit; /* owner where the next adoption starts to look; 0: the top       */
  int64_t free_bytes;  /* that lie free in slabs of these owners and the orphanage's      */
  atomic32 orphanage;  /* owner of slabs that no thread uses; 0: none yet                 */
} node_t;

/* The counts are written under the gate alone. */
struct pool {
  node_t nodes[NODES_MOST];
  uint32_t next_elsewhere; /* node whose pool other nodes' threads looked at last */
  atomic64 free_bytes;     /* of all nodes                                        */
  atomic32 owner_count, pooled_count, lost_count, warm_count;
};
extern struct pool pool;

/* Where adoption looks for a slab of a class, on each node: `cursor`, an owner, goes down the stack and stays where
 * it finds one; 0: it has come to the end. A bit of `anew`: since it left the top, an owner was seen to have slabs
 * of the class. Where that is not so nobody looks again. Invariant: the cursor has not passed any owner that has
 * such a slab, or the bit is set. */
typedef struct {
  uint32_t cursor[MID_CLASS_END];
  uint64_t anew[(MID_CLASS_END + 63) / 64];
} search_t;
extern search_t searches[NODES_MOST];

HAK_INLINE node_t *node_of(const owner_t *owner) { return &pool.nodes[atomic32_load_relaxed(&owner->node)]; }
HAK_INLINE uint32_t node_orphanage_id(const node_t *node) { return atomic32_load_relaxed(&node->orphanage); }
HAK_INLINE bool node_has_owner(const node_t *node) { return node->top != 0; }
/* Whether the owner waits there. */
HAK_INLINE bool node_has(const node_t *node, const owner_t *owner) {
  return owner->state == OWNER_POOLED && node_of(owner) == node;
}
/* Bytes that lie free on all of them. */
HAK_INLINE int64_t nodes_free_bytes(void) { return (int64_t)atomic64_load_relaxed(&pool.free_bytes); }
/* The number of the one on which the calling thread runs. */
uint32_t node_here(void);

/* What lies free in a pooled owner's slabs may have changed; which of them are listed may have. */
void node_note_free(owner_t *owner);
void node_note_classes(const owner_t *owner);

/* An owner becomes a pooled one, on top of its node's stack; and the one on top leaves it. */
void node_push(owner_t *owner);
owner_t *node_pop(node_t *node);
void node_set_warm(owner_t *owner, bool is_warm);
/* All stacks are empty, and nothing is counted. */
void nodes_forget_all(void);

HAK_C_END
#endif
