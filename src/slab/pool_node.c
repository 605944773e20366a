/* See pool_node.h. SPDX-License-Identifier: MIT */
#include "pool_node.h"

#include "../os/os.h"

struct pool pool;
HAK_RARELY_USED search_t searches[NODES_MOST];

uint32_t node_here(void) { return os_node_count() > 1 ? os_node_here() % NODES_MOST : 0; }

static void count_free(owner_t *owner, int64_t bytes) {
  int64_t more = bytes - owner->pooled_bytes;
  node_of(owner)->free_bytes += more;
  atomic64_add_alone(&pool.free_bytes, (uint64_t)more);
  owner->pooled_bytes = bytes;
}
void node_note_free(owner_t *owner) { count_free(owner, owner->free_bytes - owner->purged_bytes); }

void node_note_classes(const owner_t *owner) {
  if (owner->id == node_orphanage_id(node_of(owner))) return; /* it is asked first */
  uint64_t *anew = searches[atomic32_load_relaxed(&owner->node)].anew;
  for (size_t i = 0; i < sizeof owner->listed / sizeof *owner->listed; i++) anew[i] |= owner->listed[i];
}

void node_push(owner_t *owner) {
  node_t *node = node_of(owner);
  owner->state = OWNER_POOLED;
  owner->pool_next = node->top;
  node->top = owner->id;
  node_note_free(owner);
  node_note_classes(owner);
  atomic32_add_alone(&pool.pooled_count, 1); /* the gate is held, as by all who write these counts */
}

owner_t *node_pop(node_t *node) {
  owner_t *owner = owner_by_id(node->top);
  node->top = owner->pool_next;
  if (node->next_visit == owner->id) node->next_visit = 0;
  count_free(owner, 0);
  node_set_warm(owner, false);
  atomic32_add_alone(&pool.pooled_count, (uint32_t)-1);
  return owner;
}

void node_set_warm(owner_t *owner, bool is_warm) {
  atomic32_add_alone(&pool.warm_count, (uint32_t)is_warm - (uint32_t)owner->is_warm);
  owner->is_warm = is_warm;
}

void nodes_forget_all(void) {
  for (node_t *node = pool.nodes; node < pool.nodes + NODES_MOST; node++) {
    node->top = node->next_visit = 0;
    node->free_bytes = 0;
  }
  atomic64_store_relaxed(&pool.free_bytes, 0);
  atomic32_store_relaxed(&pool.pooled_count, 0);
  atomic32_store_relaxed(&pool.warm_count, 0);
}
