/* See pool.h. SPDX-License-Identifier: MIT */
#include "pool.h"

#include "../arena/arena.h"
#include "../arena/metadata.h"
#include "../arena/shelf.h"
#include "../os/os.h"
#include "claim.h"
#include "remote.h"
#include "slab.h"

hak_gate_t pool_gate;

/* Nodes of the machine's memory that have a pool each; those with higher numbers share them. */
enum { NODES_MOST = 16 };

/* What waits for threads of one node. Pooled owners are a stack linked by pool_next. */
typedef struct {
  uint32_t top;
  uint32_t next_visit; /* owner where the next adoption starts to look; 0: the top       */
  int64_t free_bytes;  /* that lie free in slabs of these owners and the orphanage's      */
  atomic32 orphanage;  /* owner of slabs that no thread uses; 0: none yet                 */
} node_t;

/* Guarded by pool_gate; the counts are read without it, as is whether there are orphanages, and, relaxed, how much
 * is free. */
static struct {
  node_t nodes[NODES_MOST];
  uint32_t next_forgotten; /* owner that was looked at last                      */
  uint32_t next_elsewhere; /* node whose pool other nodes' threads looked at last */
  atomic64 free_bytes;     /* of all nodes                                        */
  atomic32 owner_count, pooled_count, lost_count, warm_count;
} pool;

enum { VISITS = 4, COLLECTS = 8, SEARCH_LOOKS = 64 };

/* Where adoption looks for a slab of a class, on each node: `cursor`, an owner, goes down the stack and stays where
 * it finds one; 0: it has come to the end. A bit of `anew`: since it left the top, an owner was seen to have slabs
 * of the class. Where that is not so nobody looks again. Invariant: the cursor has not passed any owner that has
 * such a slab, or the bit is set. Guarded by pool_gate. */
static HAK_RARELY_USED struct {
  uint32_t cursor[MID_CLASS_END];
  uint64_t anew[(MID_CLASS_END + 63) / 64];
} searches[NODES_MOST];

/* As many owners are pooled warm, with their empty slabs: the next thread comes
 * soon where threads come and go, and finds everything in place. Where none comes,
 * they are taken after about half a second (tidy.c). */
enum { WARM_MAX = 8 };

/* What of other nodes' pools is left alone, beside an eighth of what is in use. */
#define ELSEWHERE_LEAST_BYTES HAK_MIB(1)

/* From how much on it is worth waiting for the gate to adopt. */
#define AWAITED_BYTES HAK_MIB(16)

/* ---- Nodes -------------------------------------------------------------------------
 * The system puts a page on the node of the thread that touches it first. So an owner waits in
 * the pool of the node on which its thread needed a slab last, and so do slabs that are disowned.
 * A thread takes what waits on its own node; from others only what is more than a share of all
 * that is in use: else memory would be as many times what is needed as there are nodes. On a
 * machine with one node all is nodes[0].                                             */
static node_t *node_of(const owner_t *owner) { return &pool.nodes[atomic32_load_relaxed(&owner->node)]; }
static uint32_t orphanage_id(const node_t *node) { return atomic32_load_relaxed(&node->orphanage); }

static uint32_t node_here(void) { return os_node_count() > 1 ? os_node_here() % NODES_MOST : 0; }

static int64_t free_everywhere(void) { return (int64_t)atomic64_load_relaxed(&pool.free_bytes); }

static void count_free(owner_t *owner, int64_t bytes) {
  int64_t more = bytes - owner->pooled_bytes;
  node_of(owner)->free_bytes += more;
  atomic64_add_alone(&pool.free_bytes, (uint64_t)more);
  owner->pooled_bytes = bytes;
}
static void note_free(owner_t *owner) { count_free(owner, owner->free_bytes - owner->purged_bytes); }

static void note_classes(const owner_t *owner) {
  if (owner->id == orphanage_id(node_of(owner))) return; /* it is asked first */
  uint64_t *anew = searches[atomic32_load_relaxed(&owner->node)].anew;
  for (size_t i = 0; i < sizeof owner->listed / sizeof *owner->listed; i++) anew[i] |= owner->listed[i];
}

void pool_note(owner_t *owner) {
  note_free(owner);
  note_classes(owner);
}

static bool has_too_much_elsewhere(const node_t *here) {
  int64_t elsewhere = free_everywhere() - here->free_bytes;
  return elsewhere > (int64_t)(ELSEWHERE_LEAST_BYTES + arena_needed_bytes() / 8);
}

static void push(owner_t *owner) {
  node_t *node = node_of(owner);
  owner->state = OWNER_POOLED;
  owner->pool_next = node->top;
  node->top = owner->id;
  pool_note(owner);
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

const inspect_field_t pool_inspected[6] = {
    HAK_INSPECT_VARIABLE("pool.owner_count", pool.owner_count),
    HAK_INSPECT_VARIABLE("pool.pooled_count", pool.pooled_count),
    HAK_INSPECT_ARRAY("pool.orphanages", pool.nodes[0].orphanage, NODES_MOST, sizeof(node_t)),
    HAK_INSPECT_VARIABLE("forked.pending", forked.pending),
    HAK_INSPECT_VARIABLE("forked.survivor", forked.survivor),
    HAK_INSPECT_VARIABLE("forked.thread_id", forked.new_thread_id),
};

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

/* It is in no stack, and counts as pooled. */
static void settle_orphanage(owner_t *owner) {
  if (atomic32_load_relaxed(&owner->busy) != 0) {
    lose(owner);
    atomic32_store_relaxed(&node_of(owner)->orphanage, 0);
  } else {
    atomic32_add_alone(&pool.pooled_count, 1);
    pool_note(owner);
  }
}

static HAK_COLD void settle_fork(void) {
  atomic32_store_relaxed(&forked.pending, 0);
  for (node_t *node = pool.nodes; node < pool.nodes + NODES_MOST; node++) {
    node->top = node->next_visit = 0;
    node->free_bytes = 0;
  }
  atomic64_store_relaxed(&pool.free_bytes, 0);
  atomic32_store_relaxed(&pool.pooled_count, 0);
  atomic32_store_relaxed(&pool.warm_count, 0);
  for (uint32_t id = 1; id <= atomic32_load_relaxed(&pool.owner_count); id++) {
    owner_t *owner = owner_by_id(id);
    owner->pooled_bytes = 0;
    if (owner->state == OWNER_LOST || lost_to_a_claim(owner)) continue;
    if (id == orphanage_id(node_of(owner))) {
      settle_orphanage(owner);
      continue;
    }
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

void pool_enter(void) {
  gate_enter(&pool_gate);
  if (HAK_UNLIKELY(is_pending())) settle_fork();
}
static bool enter_within(int milliseconds) {
  if (!gate_enter_within(&pool_gate, milliseconds)) return false;
  if (HAK_UNLIKELY(is_pending())) settle_fork();
  return true;
}
bool pool_enter_soon(void) { return enter_within(0); }
void pool_leave(void) {
  shelf_open(pool_attached_count() > SHELF_FEW_THREADS);
  gate_leave(&pool_gate);
}

void pool_settle(void) {
  if (!is_pending()) return;
  pool_enter();
  pool_leave();
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
  owner->idle_shift = 0;
  owner->served_ms = 0;
}

static owner_t *pop(node_t *node) {
  owner_t *owner = owner_by_id(node->top);
  node->top = owner->pool_next;
  if (node->next_visit == owner->id) node->next_visit = 0;
  count_free(owner, 0);
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

void pool_cool(owner_t *owner) { set_warm(owner, false); }

static bool has_owner(const node_t *node) { return node->top != 0; }

/* The next node in turn, other than that one, on which owners wait; NULL if there is none. */
static node_t *elsewhere(const node_t *here) {
  for (int i = 0; i < NODES_MOST; i++) {
    pool.next_elsewhere = (pool.next_elsewhere + 1) % NODES_MOST;
    node_t *node = &pool.nodes[pool.next_elsewhere];
    if (node != here && has_owner(node)) return node;
  }
  return NULL;
}

/* As many owners are made rather than taken from another node as are pooled warm in any case, or
 * an eighth of all that threads have: they are never freed. */
static node_t *with_an_owner(node_t *here) {
  if (has_owner(here)) return here;
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
    owner = pop(from);
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
  set_warm(owner, pool_has_warm_room());
  if (!owner->is_warm) {
    pool_leave();
    slab_release_empty(owner);
    pool_enter();
  }
  atomic32_store_release(&owner->busy, 0); /* as owner_leave */
  push(owner);
  pool_leave();
}

/* ---- Adoption ----------------------------------------------------------------*/
/* Of the orphanage's the last one, and only if it is half free at least: the others are lent from. */
static unit_t slab_to_adopt(const owner_t *pooled, unsigned size_class) {
  unit_t slab = pooled->slabs[size_class];
  if (slab == 0 || pooled->id != orphanage_id(node_of(pooled))) return slab;
  unit_t last = map_record(slab)->slab.previous;
  return slab_is_half_free(last) ? last : 0;
}

static bool adopt_from(owner_t *pooled, owner_t *owner, unsigned size_class) {
  owner_enter(pooled);
  bool may_have_more = remote_has_pending(pooled);
  if (may_have_more) remote_collect(pooled, COLLECTS);
  unit_t slab = slab_to_adopt(pooled, size_class);
  if (slab != 0) {
    slab_hand_over(pooled, owner, slab, size_class);
    atomic64_add_alone(&owner->adoptions, 1);
  }
  note_free(pooled);
  if (may_have_more) note_classes(pooled);
  owner_leave(pooled);
  return slab != 0;
}

static bool waits_on(const node_t *node, const owner_t *owner) {
  return owner->state == OWNER_POOLED && node_of(owner) == node;
}

/* An owner in the node's stack that has a slab of the class with a free block, as far as SEARCH_LOOKS of them go;
 * else NULL. What others have freed and nobody has collected is not seen. */
static owner_t *find_with(const node_t *node, unsigned size_class) {
  uint32_t *cursor = &searches[node - pool.nodes].cursor[size_class];
  uint64_t *anew = &searches[node - pool.nodes].anew[size_class / 64], bit = (uint64_t)1 << size_class % 64;
  for (int i = 0; i < SEARCH_LOOKS; i++) {
    if (*cursor == 0 && (*anew & bit) != 0) {
      *anew &= ~bit;
      *cursor = node->top;
    }
    /* Owners leave at the top alone, so what was below one that has left begins there. */
    if (*cursor != 0 && !waits_on(node, owner_by_id(*cursor))) *cursor = node->top;
    if (*cursor == 0) return NULL;
    owner_t *owner = owner_by_id(*cursor);
    if (owner->slabs[size_class] != 0) return owner;
    *cursor = owner->pool_next;
  }
  return NULL;
}

static bool adopt_on(node_t *node, owner_t *owner, unsigned size_class) {
  uint32_t orphanage = orphanage_id(node);
  bool adopted = orphanage != 0 && adopt_from(owner_by_id(orphanage), owner, size_class);
  owner_t *found = adopted ? NULL : find_with(node, size_class);
  if (found != NULL) return adopt_from(found, owner, size_class);
  uint32_t id = node->next_visit != 0 ? node->next_visit : node->top;
  for (int i = 0; i < VISITS && id != 0 && !adopted; i++) {
    adopted = adopt_from(owner_by_id(id), owner, size_class);
    if (!adopted) id = owner_by_id(id)->pool_next;
  }
  node->next_visit = id;
  return adopted;
}

/* On each other node, the next one in turn first: one look at a node that changes with each call would meet the
 * same node for the same class, where classes are wanted in turn as well. */
static bool adopt_elsewhere(const node_t *here, owner_t *owner, unsigned size_class) {
  pool.next_elsewhere = (pool.next_elsewhere + 1) % NODES_MOST;
  for (uint32_t i = 0; i < NODES_MOST; i++) {
    node_t *node = &pool.nodes[(pool.next_elsewhere + i) % NODES_MOST];
    if (node != here && adopt_on(node, owner, size_class)) return true;
  }
  return false;
}

/* Nobody sleeps there for a slab or two. But where threads hand much over (spill.h), each that came by while the one
 * behind the gate has lost its processor would take as much anew. Who has waited in vain is not to wait for the next slab
 * again, nor is anybody else for a while: the one behind the gate may be stopped, until we have done something. */
static bool enter_to_adopt(void) {
  enum { WAIT_MS = 100, IN_VAIN_MS = 1000 };
  static atomic64 rests_until_ms; /* relaxed: a hint */
  if (pool_enter_soon()) return true;
  if (free_everywhere() <= (int64_t)AWAITED_BYTES || lock_is_mine(&pool_gate.lock)) return false;
  if (os_now_ms() < atomic64_load_relaxed(&rests_until_ms)) return false;
  if (enter_within(WAIT_MS)) return true;
  atomic64_store_relaxed(&rests_until_ms, os_now_ms() + IN_VAIN_MS);
  return false;
}

bool pool_adopt(owner_t *owner, unsigned size_class) {
  if (size_class_is_single(size_class)) return false;
  if (pool_owner_count() > 1) atomic32_store_relaxed(&owner->node, node_here());
  if (!may_have_pooled() || !enter_to_adopt()) return false;
  node_t *here = node_of(owner);
  bool adopted = adopt_on(here, owner, size_class);
  if (!adopted && has_too_much_elsewhere(here)) adopted = adopt_elsewhere(here, owner, size_class);
  pool_leave();
  return adopted;
}

bool pool_adopt_elsewhere(owner_t *owner, unsigned size_class) {
  pool_enter();
  bool adopted = adopt_elsewhere(node_of(owner), owner, size_class);
  pool_leave();
  return adopted;
}

bool pool_adopt_found(owner_t *orphanage, unsigned size_class) {
  owner_t *found = find_with(node_of(orphanage), size_class);
  return found != NULL && adopt_from(found, orphanage, size_class);
}

/* ---- Orphanages --------------------------------------------------------------*/
uint32_t pool_orphanage_id(const owner_t *owner) { return orphanage_id(node_of(owner)); }
owner_t *pool_orphanage(const owner_t *owner) {
  uint32_t id = pool_orphanage_id(owner);
  return id != 0 ? owner_by_id(id) : NULL;
}

void pool_make_orphanage(const owner_t *from) {
  node_t *node = node_of(from); /* once: its thread may run, and be elsewhere now */
  if (orphanage_id(node) != 0) return;
  owner_t *owner = make();
  if (owner == NULL) return;
  owner->state = OWNER_POOLED;
  atomic32_store_relaxed(&owner->node, (uint32_t)(node - pool.nodes));
  atomic32_store_relaxed(&node->orphanage, owner->id);
  atomic32_add_alone(&pool.pooled_count, 1);
}

uint32_t pool_owner_count(void) { return atomic32_load_relaxed(&pool.owner_count); }
uint32_t pool_attached_count(void) {
  return pool_owner_count() - pool_pooled_count() - atomic32_load_relaxed(&pool.lost_count);
}
uint32_t pool_pooled_count(void) { return atomic32_load_relaxed(&pool.pooled_count); }
uint32_t pool_orphanage_count(void) {
  uint32_t count = 0;
  for (const node_t *node = pool.nodes; node < pool.nodes + NODES_MOST; node++) count += orphanage_id(node) != 0;
  return count;
}

/* ---- Checking ----------------------------------------------------------------------*/

/* Nobody is inside: the gate is held. */
static int64_t check_pooled(uint32_t id, uint32_t number) {
  const owner_t *owner = owner_by_id(id);
  HAK_CHECK(owner->state == OWNER_POOLED && atomic32_load_relaxed(&owner->node) == number);
  HAK_CHECK(owner->pooled_bytes == owner->free_bytes - owner->purged_bytes);
  return owner->pooled_bytes;
}

/* Every owner on the node that has a slab of the class will be found. */
static void check_search(uint32_t number, unsigned size_class) {
  const node_t *node = &pool.nodes[number];
  uint32_t cursor = searches[number].cursor[size_class];
  bool is_ahead = (searches[number].anew[size_class / 64] >> size_class % 64 & 1) != 0 ||
                  (cursor != 0 && !waits_on(node, owner_by_id(cursor)));
  for (uint32_t id = node->top; id != 0; id = owner_by_id(id)->pool_next) {
    is_ahead = is_ahead || id == cursor;
    HAK_CHECK(is_ahead || owner_by_id(id)->slabs[size_class] == 0);
  }
}

void pool_check(void) {
  uint32_t pooled = 0;
  int64_t all_bytes = 0;
  for (uint32_t number = 0; number < NODES_MOST; number++) {
    const node_t *node = &pool.nodes[number];
    int64_t free_bytes = 0;
    for (uint32_t id = node->top; id != 0; id = owner_by_id(id)->pool_next, pooled++)
      free_bytes += check_pooled(id, number);
    if (orphanage_id(node) != 0) free_bytes += check_pooled(orphanage_id(node), number), pooled++;
    HAK_CHECK(free_bytes == node->free_bytes);
    for (unsigned c = 0; c < MID_CLASS_END; c++) check_search(number, c);
    all_bytes += free_bytes;
  }
  HAK_CHECK(pooled == pool_pooled_count() && all_bytes == free_everywhere());
}
