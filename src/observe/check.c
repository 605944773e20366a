/* See check.h. SPDX-License-Identifier: MIT */
#include "check.h"

#include "../arena/arena.h"
#include "../front/magazine.h"
#include "../region/blocks.h"
#include "../slab/depot.h"
#include "../slab/pool.h"
#include "../slab/slab.h"

#if defined(HAK_DEBUG)
__attribute__((visibility("default")))
#endif
void hak__check_all(void) {
  pool_settle();
  gate_enter(&pool_gate); /* who works on other threads' owners does so inside it */
  arena_check();
  FOR_EACH_HEAP(heap) {
    if (heap->owner.state == OWNER_LOST) continue;
    if (heap_has_begun(heap)) magazines_check(heap); /* else it has never been a thread's */
    slab_check(&heap->owner);
  }
  pool_check();
  depot_check();
  gate_leave(&pool_gate);
  blocks_check_all();
}
