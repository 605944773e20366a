/* See idle.h. SPDX-License-Identifier: MIT */
#include "idle.h"

#include "../arena/arena_purge.h"
#include "../base/probe.h"
#include "../front/bell.h"
#include "../front/flush.h"
#include "../front/magazine.h"
#include "../front/thread.h"
#include "../region/region.h"
#include "../slab/depot.h"
#include "../slab/orphanage.h"
#include "../slab/pool.h"
#include "../slab/purge.h"
#include "../slab/remote.h"
#include "../slab/slab.h"

/* Of one call: slabs that are collected, slabs looked at and calls to the system together, and
 * dirty units purged. With what lies in magazines, which their budget bounds, in the
 * outbox and, where there is no background thread, in the depot, that is a millisecond or a few. */
enum { IDLE_COLLECTS = 1024, IDLE_PURGES = 1024, IDLE_YIELDS = 256 };

/* In its caches, or free in its slabs and not given back yet. */
static int64_t unused_bytes(const heap_t *heap) {
  size_t cached = 0;
  FOR_EACH_MAGAZINE(heap, c) cached += magazine_count(heap, (unsigned)c) * size_classes[c].block_bytes;
  return (int64_t)(cached + remote_outbox_bytes(&heap->owner)) + heap->owner.free_bytes - heap->owner.purged_bytes;
}

/* Pages first, so that what goes to the pool is not resident there. */
static void give_slabs(owner_t *owner) {
  slab_release_empty(owner);
  purge_unused(owner, IDLE_PURGES);
  orphanage_disown_own(owner);
  slab_tell_arena(owner);
}

static size_t give_heap(void) {
  heap_t *heap = thread_enter_if_any();
  if (heap == NULL) return 0;
  if (!bell_has_listener()) depot_send_home(); /* nobody may come by to see that it grows old */
  remote_collect(&heap->owner, IDLE_COLLECTS); /* first: what others have freed for it is no loss of its own */
  int64_t before = unused_bytes(heap);
  flush_caches(heap);
  magazines_drop(heap, 0);
  give_slabs(&heap->owner);
  int64_t given = before - unused_bytes(heap);
  thread_leave(heap);
  size_t bytes = given > 0 ? (size_t)given : 0;
  HAK_PROBE(thread_idle, heap->owner.id, bytes);
  return bytes;
}

/* What others have reused lately they may want again. Of one thread there is nobody else who will give it back. */
static size_t yields(size_t freed_bytes) {
  return pool_attached_count() > 1 ? min_size(freed_bytes >> UNIT_SHIFT, IDLE_YIELDS) : IDLE_YIELDS;
}

/* A thread may have caches of regions, and nothing else. */
size_t idle(void) {
  size_t bytes = region_thread_idle();
  bytes += give_heap();
  arena_yield(yields(bytes));
  bell_ring(); /* slabs of others may have got blocks back */
  return bytes;
}
