/* The function of pool.h that only looks. SPDX-License-Identifier: MIT */
#include "adopt.h"
#include "pool.h"
#include "pool_node.h"

/* Nobody is inside: the gate is held. */
static int64_t check_pooled(uint32_t id, uint32_t number) {
  const owner_t *owner = owner_by_id(id);
  HAK_CHECK(owner->state == OWNER_POOLED && atomic32_load_relaxed(&owner->node) == number);
  HAK_CHECK(owner->pooled_bytes == owner->free_bytes - owner->purged_bytes);
  return owner->pooled_bytes;
}

void pool_check(void) {
  uint32_t pooled = 0;
  int64_t all_bytes = 0;
  for (uint32_t number = 0; number < NODES_MOST; number++) {
    const node_t *node = &pool.nodes[number];
    int64_t free_bytes = 0;
    for (uint32_t id = node->top; id != 0; id = owner_by_id(id)->pool_next, pooled++)
      free_bytes += check_pooled(id, number);
    if (node_orphanage_id(node) != 0) free_bytes += check_pooled(node_orphanage_id(node), number), pooled++;
    HAK_CHECK(free_bytes == node->free_bytes);
    for (unsigned c = 0; c < MID_CLASS_END; c++) adopt_check_search(number, c);
    all_bytes += free_bytes;
  }
  HAK_CHECK(pooled == pool_pooled_count() && all_bytes == nodes_free_bytes());
}
