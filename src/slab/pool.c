/* See pool.h. SPDX-License-Identifier: MIT */
#include "pool.h"

#include "../arena/arena.h"
#include "../arena/metadata.h"
#include "../os/os.h"
#include "purge.h"
#include "remote.h"
#include "slab.h"

hak_gate_t pool_gate;

/* Pooled owners are a stack linked by pool_next. Guarded by pool_gate; the
 * counts are read without it. */
static struct {
  uint32_t top;
  uint32_t next_forgotten; /* owner that was looked at last                      */
  uint32_t next_visit; /* owner where the next adoption starts to look; 0: the top */
  uint32_t next_tidy;  /* where the next pool_tidy starts to look, modulo owner_count */
  atomic32 owner_count, pooled_count, warm_count;
} pool;

enum { VISITS = 4, COLLECTS = 8 };

/* As many owners are pooled warm, with their empty slabs: the next thread comes
 * soon where threads come and go, and finds everything in place. Where none comes,
 * pool_tidy takes the slabs after about a second. */
enum { WARM_MAX = 8 };

/* Of one pool_tidy: some tens of microseconds where nothing waits, a millisecond
 * or two where much does. The gate is open to others every TIDY_STEP slabs. */
enum { TIDY_OWNERS = 512, TIDY_SLABS = 2048, TIDY_STEP_SLABS = 64, TIDY_STEP_PURGES = 8, SLABS_FOR_A_PURGE = 16 };

static void push(owner_t *owner) {
  owner->state = OWNER_POOLED;
  owner->pool_next = pool.top;
  pool.top = owner->id;
  atomic32_store_relaxed(&pool.pooled_count, atomic32_load_relaxed(&pool.pooled_count) + 1);
}

/* Before a new owner is made: looks at some attached ones for a thread that has
 * ended without a word (the first heap of a thread in its last destructors; a
 * thread that was ended by a bare system call), and pools them, magazines and
 * all. One that ended inside the allocator stays as it is. */
static void pool_the_forgotten(void) {
  uint32_t made = atomic32_load_relaxed(&pool.owner_count);
  for (int i = 0; i < VISITS && made > 0; i++) {
    pool.next_forgotten = pool.next_forgotten % made + 1;
    owner_t *owner = owner_by_id(pool.next_forgotten);
    if (owner->state == OWNER_ATTACHED && owner->process_id == os_process_id() && !os_thread_exists(owner->thread_id) &&
        owner->busy == 0)
      push(owner);
  }
}

static void attach_to_this_thread(owner_t *owner) {
  owner->state = OWNER_ATTACHED;
  owner->process_id = os_process_id();
  owner->thread_id = os_thread_id();
}

owner_t *pool_attach(void) {
  if (!arena_ready()) return NULL;
  owner_t *owner = NULL;
  gate_enter(&pool_gate);
  if (pool.top == 0) pool_the_forgotten();
  if (pool.top != 0) {
    owner = owner_by_id(pool.top);
    pool.top = owner->pool_next;
    if (pool.next_visit == owner->id) pool.next_visit = 0;
    if (owner->is_warm) atomic32_store_relaxed(&pool.warm_count, atomic32_load_relaxed(&pool.warm_count) - 1);
    owner->is_warm = false;
    atomic32_store_relaxed(&pool.pooled_count, atomic32_load_relaxed(&pool.pooled_count) - 1);
  } else {
    uint32_t made = atomic32_load_relaxed(&pool.owner_count);
    if (metadata_heap_record(made, OWNER_STRIDE_BYTES) != NULL) {
      owner = owner_by_id(made + 1);
      owner->id = made + 1;
      atomic32_store_relaxed(&pool.owner_count, made + 1);
    }
  }
  if (owner != NULL) attach_to_this_thread(owner);
  gate_leave(&pool_gate);
  return owner;
}

void pool_detach(owner_t *owner) {
  remote_flush(owner);
  gate_enter(&pool_gate);
  remote_collect(owner, SIZE_MAX);
  uint32_t warm = atomic32_load_relaxed(&pool.warm_count);
  owner->is_warm = warm < WARM_MAX;
  if (owner->is_warm) atomic32_store_relaxed(&pool.warm_count, warm + 1);
  else slab_release_empty(owner);
  owner->busy = 0;
  push(owner);
  gate_leave(&pool_gate);
}

/* The gate is held. Returns the slabs collected, and as many as took the time of others. */
static size_t tidy(owner_t *owner, uint64_t now_ms) {
  if (owner->state != OWNER_POOLED) return 0;
  size_t collected = remote_has_pending(owner) ? remote_collect(owner, TIDY_STEP_SLABS) : 0;
  /* The last empty slab of each class stays in its list until here. */
  if (owner->is_warm || collected > 0) slab_release_empty(owner);
  if (owner->is_warm) atomic32_store_relaxed(&pool.warm_count, atomic32_load_relaxed(&pool.warm_count) - 1);
  owner->is_warm = false;
  return collected + SLABS_FOR_A_PURGE * purge_idle(owner, now_ms, TIDY_STEP_PURGES);
}

void pool_tidy(uint64_t now_ms) {
  if (atomic32_load_relaxed(&pool.pooled_count) == 0) return;
  uint32_t made = atomic32_load_relaxed(&pool.owner_count), looked = 0;
  size_t collected = 0;
  while (looked < made && looked < TIDY_OWNERS && collected < TIDY_SLABS) {
    gate_enter(&pool_gate);
    size_t step = tidy(owner_by_id(pool.next_tidy % made + 1), now_ms);
    if (step < TIDY_STEP_SLABS) pool.next_tidy++, looked++; /* else there may be more */
    gate_leave(&pool_gate);
    collected += step;
  }
}

void pool_after_fork(owner_t *self) {
  if (self != NULL) attach_to_this_thread(self);
  for (uint32_t id = 1; id <= atomic32_load_relaxed(&pool.owner_count); id++) {
    owner_t *owner = owner_by_id(id);
    if (owner == self || owner->state != OWNER_ATTACHED) continue;
    if (owner->busy != 0)
      owner->state = OWNER_LOST;
    else
      push(owner);
  }
}

/* ---- Adoption ----------------------------------------------------------------*/
static void hand_over(owner_t *from, owner_t *to, unit_t slab, unsigned size_class) {
  const size_class_t *c = &size_classes[size_class];
  slab_unlist(from, slab);
  int64_t free_bytes = (int64_t)the_map.records[slab].slab.free_count * c->block_bytes;
  from->free_bytes -= free_bytes;
  to->free_bytes += free_bytes;
  /* Threads that free a block of this slab now may read either owner: both ways
   * lead the block here, see remote.h. */
  for (unsigned i = 0; i < c->slab_units; i++)
    atomic32_store_relaxed(map_word(slab + i), word_make(to->id, size_class));
  slab_list(to, slab);
  counter_add(&to->adoptions, 1);
}

bool pool_adopt(owner_t *owner, unsigned size_class) {
  if (size_class_is_single(size_class) || atomic32_load_relaxed(&pool.pooled_count) == 0) return false;
  bool adopted = false;
  gate_enter(&pool_gate);
  uint32_t id = pool.next_visit != 0 ? pool.next_visit : pool.top;
  for (int i = 0; i < VISITS && id != 0 && !adopted; i++) {
    owner_t *pooled = owner_by_id(id);
    if (remote_has_pending(pooled)) remote_collect(pooled, COLLECTS);
    unit_t slab = pooled->slabs[size_class];
    if (slab != 0) {
      hand_over(pooled, owner, slab, size_class);
      adopted = true;
    } else {
      id = pooled->pool_next;
    }
  }
  pool.next_visit = id;
  gate_leave(&pool_gate);
  return adopted;
}

void pool_sweep(void) {
  gate_enter(&pool_gate);
  for (uint32_t id = pool.top; id != 0; id = owner_by_id(id)->pool_next) {
    remote_collect(owner_by_id(id), SIZE_MAX);
    slab_release_empty(owner_by_id(id));
  }
  gate_leave(&pool_gate);
}

size_t pool_purge_pages(void) {
  size_t purged = 0;
  gate_enter(&pool_gate);
  for (uint32_t id = pool.top; id != 0; id = owner_by_id(id)->pool_next) purged += purge_pages(owner_by_id(id));
  gate_leave(&pool_gate);
  return purged;
}

uint32_t pool_owner_count(void) { return atomic32_load_relaxed(&pool.owner_count); }
uint32_t pool_pooled_count(void) { return atomic32_load_relaxed(&pool.pooled_count); }
