/* See adopt.h. SPDX-License-Identifier: MIT */
#include "adopt.h"

#include "../arena/arena_look.h"
#include "../os/os.h"
#include "pool.h"
#include "pool_fork.h"
#include "pool_node.h"
#include "remote.h"
#include "slab.h"

/* Owners visited at a call, and slabs of each whose remote frees are collected; owners looked at for a slab of
 * the class. */
enum { VISITS = 4, COLLECTS = 8, SEARCH_LOOKS = 64 };

/* What of other nodes' pools is left alone, beside an eighth of what is in use. */
#define ELSEWHERE_LEAST_BYTES HAK_MIB(1)

/* From how much on it is worth waiting for the gate to adopt. */
#define AWAITED_BYTES HAK_MIB(16)

static bool has_too_much_elsewhere(const node_t *here) {
  int64_t elsewhere = nodes_free_bytes() - here->free_bytes;
  return elsewhere > (int64_t)(ELSEWHERE_LEAST_BYTES + arena_needed_bytes() / 8);
}

static bool may_have_pooled(void) { return pool_pooled_count() != 0 || pool_fork_is_pending(); }

/* Where somebody wants a slab: usually, or because there is no other memory. */
typedef enum { WANTED, NEEDED } need_t;

/* Of the orphanage's the last one, and usually only if it is half free at least: the others are lent from. */
static unit_t slab_to_adopt(const owner_t *pooled, unsigned size_class, need_t need) {
  unit_t slab = pooled->slabs[size_class];
  if (slab == 0 || pooled->id != node_orphanage_id(node_of(pooled))) return slab;
  unit_t last = map_record(slab)->slab.previous;
  return need == NEEDED || slab_is_half_free(last) ? last : 0;
}

/* Returns the slab, as those below do; 0: none. */
static unit_t adopt_from(owner_t *pooled, owner_t *owner, unsigned size_class, need_t need) {
  owner_enter(pooled);
  bool may_have_more = remote_has_pending(pooled);
  if (may_have_more) remote_collect(pooled, COLLECTS);
  unit_t slab = slab_to_adopt(pooled, size_class, need);
  if (slab != 0) {
    slab_hand_over(pooled, owner, slab, size_class);
    atomic64_add_alone(&owner->adoptions, 1);
  }
  node_note_free(pooled);
  if (may_have_more) node_note_classes(pooled);
  owner_leave(pooled);
  return slab;
}

/* An owner in the node's stack that has a slab of the class with a free block, as far as so many looks go;
 * else NULL. What others have freed and nobody has collected is not seen. */
static owner_t *find_with(const node_t *node, unsigned size_class, uint32_t looks) {
  uint32_t *cursor = &searches[node - pool.nodes].cursor[size_class];
  uint64_t *anew = &searches[node - pool.nodes].anew[size_class / 64], bit = (uint64_t)1 << size_class % 64;
  for (uint32_t i = 0; i < looks; i++) {
    if (*cursor == 0 && (*anew & bit) != 0) {
      *anew &= ~bit;
      *cursor = node->top;
    }
    /* Owners leave at the top alone, so what was below one that has left begins there. */
    if (*cursor != 0 && !node_has(node, owner_by_id(*cursor))) *cursor = node->top;
    if (*cursor == 0) return NULL;
    owner_t *owner = owner_by_id(*cursor);
    if (owner->slabs[size_class] != 0) return owner;
    *cursor = owner->pool_next;
  }
  return NULL;
}

static unit_t adopt_on(node_t *node, owner_t *owner, unsigned size_class, need_t need) {
  uint32_t orphanage = node_orphanage_id(node);
  unit_t adopted = orphanage != 0 ? adopt_from(owner_by_id(orphanage), owner, size_class, need) : 0;
  owner_t *found = adopted != 0 ? NULL : find_with(node, size_class, need == NEEDED ? UINT32_MAX : SEARCH_LOOKS);
  if (found != NULL) return adopt_from(found, owner, size_class, need);
  uint32_t id = node->next_visit != 0 ? node->next_visit : node->top;
  for (int i = 0; i < VISITS && id != 0 && adopted == 0; i++) {
    adopted = adopt_from(owner_by_id(id), owner, size_class, need);
    if (adopted == 0) id = owner_by_id(id)->pool_next;
  }
  node->next_visit = id;
  return adopted;
}

/* On each other node, the next one in turn first: one look at a node that changes with each call would meet the
 * same node for the same class, where classes are wanted in turn as well. */
static unit_t adopt_on_others(const node_t *here, owner_t *owner, unsigned size_class, need_t need) {
  pool.next_elsewhere = (pool.next_elsewhere + 1) % NODES_MOST;
  for (uint32_t i = 0; i < NODES_MOST; i++) {
    node_t *node = &pool.nodes[(pool.next_elsewhere + i) % NODES_MOST];
    unit_t adopted = node != here ? adopt_on(node, owner, size_class, need) : 0;
    if (adopted != 0) return adopted;
  }
  return 0;
}

/* Nobody sleeps there for a slab or two. But where threads hand much over (spill.h), each that came by while
 * the one behind the gate has lost its processor would take as much anew. Who has waited in vain is not to wait
 * for the next slab again, nor is anybody else for a while: the one behind the gate may be stopped, until we
 * have done something. */
static bool enter_to_adopt(void) {
  enum { WAIT_MS = 100, IN_VAIN_MS = 1000 };
  static atomic64 rests_until_ms; /* relaxed: a hint */
  if (pool_enter_soon()) return true;
  if (nodes_free_bytes() <= (int64_t)AWAITED_BYTES || lock_is_mine(&pool_gate.lock)) return false;
  if (os_now_ms() < atomic64_load_relaxed(&rests_until_ms)) return false;
  if (pool_enter_within(WAIT_MS)) return true;
  atomic64_store_relaxed(&rests_until_ms, os_now_ms() + IN_VAIN_MS);
  return false;
}

bool adopt(owner_t *owner, unsigned size_class) {
  if (size_class_is_single(size_class)) return false;
  if (pool_owner_count() > 1) atomic32_store_relaxed(&owner->node, node_here());
  if (!may_have_pooled() || !enter_to_adopt()) return false;
  node_t *here = node_of(owner);
  bool adopted = adopt_on(here, owner, size_class, WANTED) != 0;
  if (!adopted && has_too_much_elsewhere(here)) adopted = adopt_on_others(here, owner, size_class, WANTED) != 0;
  pool_leave();
  return adopted;
}

unit_t adopt_any(owner_t *owner, unsigned size_class) {
  if (gate_is_mine(&pool_gate)) return 0;
  pool_enter();
  node_t *here = node_of(owner);
  unit_t adopted = adopt_on(here, owner, size_class, NEEDED);
  if (adopted == 0) adopted = adopt_on_others(here, owner, size_class, NEEDED);
  pool_leave();
  return adopted;
}

bool adopt_found(owner_t *orphanage, unsigned size_class) {
  owner_t *found = find_with(node_of(orphanage), size_class, SEARCH_LOOKS);
  return found != NULL && adopt_from(found, orphanage, size_class, WANTED) != 0;
}

void adopt_check_search(uint32_t number, unsigned size_class) {
  const node_t *node = &pool.nodes[number];
  uint32_t cursor = searches[number].cursor[size_class];
  bool is_ahead = (searches[number].anew[size_class / 64] >> size_class % 64 & 1) != 0 ||
                  (cursor != 0 && !node_has(node, owner_by_id(cursor)));
  for (uint32_t id = node->top; id != 0; id = owner_by_id(id)->pool_next) {
    is_ahead = is_ahead || id == cursor;
    HAK_CHECK(is_ahead || owner_by_id(id)->slabs[size_class] == 0);
  }
}
