/* See pool.h. SPDX-License-Identifier: MIT */
#include "pool.h"

#include "../arena/arena.h"
#include "../arena/metadata.h"
#include "../os/os.h"
#include "claim.h"
#include "purge.h"
#include "remote.h"
#include "slab.h"

hak_gate_t pool_gate;

/* Pooled owners are a stack linked by pool_next. Guarded by pool_gate; the
 * counts are read without it. */
static struct {
  uint32_t top;
  uint32_t next_forgotten; /* owner that was looked at last                      */
  uint32_t next_visit;     /* owner where the next adoption starts to look; 0: the top */
  uint32_t next_tidy;      /* owners before it have had their turn in this round of pool_tidy */
  atomic64 tidied_ms;      /* when the last round ended                              */
  atomic32 owner_count, pooled_count, lost_count, warm_count;
} pool;

enum { VISITS = 4, COLLECTS = 8 };

/* As many owners are pooled warm, with their empty slabs: the next thread comes
 * soon where threads come and go, and finds everything in place. Where none comes,
 * pool_tidy takes the slabs after about a second. */
enum { WARM_MAX = 8 };

/* Of one pool_tidy: some microseconds where nothing waits, some tenths of a
 * millisecond where much does. The gate is open to others after every step. */
enum { TIDY_OWNERS = 64, TIDY_ROUND_MS = 1000, STEP_SLABS = 128 };

static void push(owner_t *owner) {
  owner->state = OWNER_POOLED;
  owner->pool_next = pool.top;
  pool.top = owner->id;
  atomic32_add_alone(&pool.pooled_count, 1); /* the gate is held, as by all who write these counts */
}

static void set_warm(owner_t *owner, bool is_warm) {
  atomic32_add_alone(&pool.warm_count, (uint32_t)is_warm - (uint32_t)owner->is_warm);
  owner->is_warm = is_warm;
}

/* ---- After a fork ----------------------------------------------------------------
 * Threads that a child does not have leave their owners attached, and perhaps the
 * stack in the middle of a change. The child's handler only takes note: a signal
 * handler may have forked, and the code that it interrupted may hold the gate.
 * Whoever enters the gate next puts things in order.                             */
static struct {
  atomic32 pending; /* relaxed: what goes with it is read under the gate, or by the thread that wrote it */
  uint32_t process_id, thread_id; /* that the surviving thread had when it attached its owner */
  uint32_t new_thread_id;
  uint32_t survivor; /* the owner that it uses, as far as the handler knew; 0: none */
} forked;

static bool is_pending(void) { return atomic32_load_relaxed(&forked.pending) != 0; }

void pool_before_fork(void) {
  if (is_pending()) return; /* in a child that has not settled yet: these are still the ids to look for */
  forked.process_id = os_process_id();
  forked.thread_id = os_thread_id();
}

static void lose(owner_t *owner) {
  owner->state = OWNER_LOST;
  atomic32_add_alone(&pool.lost_count, 1);
}

/* Nobody knows how far the thread that claimed the owner has come, which is not here.
 * (Only a fork that missed the gate sees a claim.) */
static bool lost_to_a_claim(owner_t *owner) {
  if (HAK_LIKELY(!claim_is_taken(owner))) return false;
  atomic32_store_relaxed(&owner->claim.state, 0); /* a thread that this handler interrupted may wait for it */
  if (!owner->puts_aside) return false;           /* the claimer had not begun */
  lose(owner);
  return true;
}

bool pool_after_fork(owner_t *self) {
  bool is_lost = self != NULL && lost_to_a_claim(self);
  forked.survivor = self != NULL && !is_lost ? self->id : 0;
  forked.new_thread_id = os_thread_id();
  atomic32_store_relaxed(&forked.pending, 1);
  return !is_lost;
}

static bool is_survivors(const owner_t *owner) {
  return owner->id == forked.survivor ||
         (owner->process_id == forked.process_id && owner->thread_id == forked.thread_id);
}

static HAK_COLD void settle_fork(void) {
  atomic32_store_relaxed(&forked.pending, 0);
  pool.top = pool.next_visit = 0;
  atomic32_store_relaxed(&pool.pooled_count, 0);
  atomic32_store_relaxed(&pool.warm_count, 0);
  for (uint32_t id = 1; id <= atomic32_load_relaxed(&pool.owner_count); id++) {
    owner_t *owner = owner_by_id(id);
    if (owner->state == OWNER_LOST || lost_to_a_claim(owner)) continue;
    owner->is_warm = false;
    if (owner->state == OWNER_ATTACHED && is_survivors(owner)) {
      owner->process_id = os_process_id();
      owner->thread_id = forked.new_thread_id;
    } else {
      if (atomic32_load_relaxed(&owner->busy) != 0) lose(owner);
      else push(owner);
    }
  }
}

static void enter_pool(void) {
  gate_enter(&pool_gate);
  if (HAK_UNLIKELY(is_pending())) settle_fork();
}
static void leave_pool(void) { gate_leave(&pool_gate); }

void pool_settle(void) {
  if (!is_pending()) return;
  enter_pool();
  leave_pool();
}

static bool may_have_pooled(void) { return atomic32_load_relaxed(&pool.pooled_count) != 0 || is_pending(); }

/* ---- Threads that begin and end --------------------------------------------------*/

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
        atomic32_load_relaxed(&owner->busy) == 0)
      push(owner);
  }
}

static void attach_to_this_thread(owner_t *owner) {
  owner->process_id = os_process_id();
  owner->thread_id = os_thread_id();
  owner->state = OWNER_ATTACHED;
}

static owner_t *pop(void) {
  owner_t *owner = owner_by_id(pool.top);
  pool.top = owner->pool_next;
  if (pool.next_visit == owner->id) pool.next_visit = 0;
  set_warm(owner, false);
  atomic32_add_alone(&pool.pooled_count, (uint32_t)-1);
  return owner;
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

owner_t *pool_attach(void) {
  if (!arena_ready()) return NULL;
  enter_pool();
  if (pool.top == 0) pool_the_forgotten();
  owner_t *owner = NULL;
  if (pool.top != 0) {
    owner = pop();
    attach_to_this_thread(owner);
  } else {
    owner = make();
  }
  leave_pool();
  return owner;
}

void pool_detach(owner_t *owner) {
  remote_flush(owner);
  enter_pool();
  set_warm(owner, atomic32_load_relaxed(&pool.warm_count) < WARM_MAX);
  bool is_warm = owner->is_warm;
  leave_pool();
  if (!is_warm) slab_release_empty(owner);
  enter_pool();
  atomic32_store_release(&owner->busy, 0); /* as owner_leave */
  push(owner);
  leave_pool();
}

/* ---- What waits in owners without a thread, and in those of threads that sleep --------
 * Work on a pooled owner is marked as a thread marks work on its own: a child that is
 * forked meanwhile without the gate (gates_close) does not trust the owner.           */

/* Collects and releases a bounded amount. Returns whether there may be more. */
static bool collect_step(owner_t *owner) {
  size_t collected = remote_has_pending(owner) ? remote_collect(owner, STEP_SLABS) : 0;
  slab_release_empty(owner);
  return collected == STEP_SLABS;
}

static bool tidy_step(owner_t *owner, uint64_t now_ms) {
  return collect_step(owner) || purge_idle(owner, now_ms, PURGE_STEP_CALLS) > 0;
}

/* What a visit to an owner has come to. */
typedef enum {
  TIDY_NOTHING, /* there was nothing to do      */
  TIDY_DONE,    /* it took time, and that is all */
  TIDY_MORE,    /* there may be more to do      */
} tidied_t;

static tidied_t tidy_pooled(owner_t *owner, uint64_t now_ms, pool_flush_fn *flush) {
  set_warm(owner, false);
  owner_enter(owner);
  bool worked = (flush != NULL && flush(owner)) || tidy_step(owner, now_ms);
  owner_leave(owner);
  return worked ? TIDY_MORE : TIDY_NOTHING;
}

/* A thread that works at batch boundaries does this itself. A visit costs a membarrier or
 * several: where a few have found nothing to do, only what others free for the owner is
 * reason for another. */
static tidied_t tidy_attached(owner_t *owner, uint64_t now_ms, pool_flush_fn *strip) {
  enum { IDLE_MS = 1000, IDLE_VISITS = 5 };
  uint64_t activity = owner_activity(owner);
  if (activity != owner->seen_activity) {
    owner->seen_activity = activity;
    owner->seen_ms = now_ms;
    owner->idle_visits = 0;
  }
  if (atomic32_load_relaxed(&owner->pending.head) != 0) owner->idle_visits = 0;
  if (now_ms < owner->seen_ms + IDLE_MS || owner->idle_visits == IDLE_VISITS || !claim_begin(owner))
    return TIDY_NOTHING;
  bool worked = strip != NULL && strip(owner);
  worked = tidy_step(owner, now_ms) || worked;
  owner->seen_activity = owner_activity(owner); /* what we have flushed is not the thread's doing */
  owner->idle_visits = worked || purge_is_under_way(owner) ? 0 : owner->idle_visits + 1;
  claim_end(owner);
  return worked ? TIDY_MORE : TIDY_DONE;
}

/* The gate is held. `self`: the calling thread's number. */
static tidied_t tidy_owner(owner_t *owner, uint32_t self, uint64_t now_ms, pool_flush_fn *flush, pool_flush_fn *strip) {
  if (owner->state == OWNER_POOLED) return tidy_pooled(owner, now_ms, flush);
  bool is_anothers = owner->state == OWNER_ATTACHED && owner->thread_id != self;
  return is_anothers ? tidy_attached(owner, now_ms, strip) : TIDY_NOTHING;
}

bool pool_tidy(uint64_t now_ms, pool_flush_fn *flush, pool_flush_fn *strip) {
  uint32_t made = pool_owner_count();
  if (made < 2 && !may_have_pooled()) return false;
  if (now_ms < atomic64_load_relaxed(&pool.tidied_ms) + TIDY_ROUND_MS) return false;
  uint32_t self = os_thread_id();
  bool ends = false;
  tidied_t tidied = TIDY_NOTHING;
  for (uint32_t looked = 0; looked < TIDY_OWNERS && tidied == TIDY_NOTHING && !ends; looked++) {
    enter_pool();
    if (pool.next_tidy >= made) {
      pool.next_tidy = 0;
      atomic64_store_relaxed(&pool.tidied_ms, now_ms);
      ends = true;
    } else {
      tidied = tidy_owner(owner_by_id(pool.next_tidy + 1), self, now_ms, flush, strip);
      if (tidied != TIDY_MORE) pool.next_tidy++;
    }
    leave_pool();
  }
  return tidied != TIDY_NOTHING;
}

/* Works on each owner that is pooled or, if `attached`, another thread's and can be
 * claimed, until it has no more to do; the gate is open to others after every step. */
static void for_each(bool pooled, bool attached, bool (*step)(owner_t *owner, void *context), void *context) {
  uint32_t made = atomic32_load_relaxed(&pool.owner_count), self = os_thread_id();
  for (uint32_t id = 1; id <= made;) {
    bool has_more = false;
    enter_pool();
    owner_t *owner = owner_by_id(id);
    if (pooled && owner->state == OWNER_POOLED) {
      owner_enter(owner);
      has_more = step(owner, context);
      owner_leave(owner);
    } else if (attached && owner->state == OWNER_ATTACHED && owner->thread_id != self && claim_begin(owner)) {
      has_more = step(owner, context);
      claim_end(owner);
    }
    leave_pool();
    if (!has_more) id++;
  }
}

static bool sweep_step(owner_t *owner, void *flush) {
  return (flush != NULL && ((pool_flush_fn *)flush)(owner)) || collect_step(owner);
}
void pool_sweep(pool_flush_fn *flush) { for_each(true, false, sweep_step, (void *)flush); }
void pool_sweep_attached(pool_flush_fn *strip) { for_each(false, true, sweep_step, (void *)strip); }

static bool purge_step(owner_t *owner, void *purged) {
  *(size_t *)purged += purge_pages(owner);
  return false;
}
size_t pool_purge_pages(void) {
  size_t purged = 0;
  for_each(true, true, purge_step, &purged);
  return purged;
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
  atomic64_add_alone(&to->adoptions, 1);
}

bool pool_adopt(owner_t *owner, unsigned size_class) {
  if (size_class_is_single(size_class) || !may_have_pooled()) return false;
  bool adopted = false;
  enter_pool();
  uint32_t id = pool.next_visit != 0 ? pool.next_visit : pool.top;
  for (int i = 0; i < VISITS && id != 0 && !adopted; i++) {
    owner_t *pooled = owner_by_id(id);
    owner_enter(pooled);
    if (remote_has_pending(pooled)) remote_collect(pooled, COLLECTS);
    unit_t slab = pooled->slabs[size_class];
    if (slab != 0) {
      hand_over(pooled, owner, slab, size_class);
      adopted = true;
    } else {
      id = pooled->pool_next;
    }
    owner_leave(pooled);
  }
  pool.next_visit = id;
  leave_pool();
  return adopted;
}

uint32_t pool_owner_count(void) { return atomic32_load_relaxed(&pool.owner_count); }
uint32_t pool_attached_count(void) {
  return pool_owner_count() - pool_pooled_count() - atomic32_load_relaxed(&pool.lost_count);
}
uint32_t pool_pooled_count(void) { return atomic32_load_relaxed(&pool.pooled_count); }
