/* See pool_fork.h. SPDX-License-Identifier: MIT */
#include "pool_fork.h"

#include "../os/os.h"
#include "claim.h"
#include "pool_node.h"

static struct {
  atomic32 pending; /* relaxed: what goes with it is read under the gate, or by the thread that wrote it */
  uint32_t process_id, thread_id; /* that the surviving thread had when it attached its owner */
  uint32_t new_thread_id;
  uint32_t survivor; /* the owner that it uses, as far as the handler knew; 0: none */
} forked;

const inspect_field_t pool_fork_inspected[3] = {
    HAK_INSPECT_VARIABLE("forked.pending", forked.pending),
    HAK_INSPECT_VARIABLE("forked.survivor", forked.survivor),
    HAK_INSPECT_VARIABLE("forked.thread_id", forked.new_thread_id),
};

bool pool_fork_is_pending(void) { return atomic32_load_relaxed(&forked.pending) != 0; }

void pool_before_fork(void) {
  if (pool_fork_is_pending()) return; /* in a child that has not settled yet: these are still the ids to look for */
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
  /* A second fork, before anything was settled, knows no better than the first where it does not know. */
  if (self != NULL || !pool_fork_is_pending()) forked.survivor = self != NULL && !is_lost ? self->id : 0;
  forked.new_thread_id = os_thread_id();
  atomic32_store_relaxed(&forked.pending, 1);
  return !is_lost;
}

/* Its ids may be the child's by now. */
HAK_COLD void pool_fork_survives(const owner_t *owner) { forked.survivor = owner->id; }

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
    node_note_free(owner);
  }
}

HAK_COLD void pool_fork_settle(void) {
  atomic32_store_relaxed(&forked.pending, 0);
  nodes_forget_all();
  for (uint32_t id = 1; id <= atomic32_load_relaxed(&pool.owner_count); id++) {
    owner_t *owner = owner_by_id(id);
    owner->pooled_bytes = 0;
    if (owner->state == OWNER_LOST || lost_to_a_claim(owner)) continue;
    if (id == node_orphanage_id(node_of(owner))) {
      settle_orphanage(owner);
      continue;
    }
    owner->is_warm = false;
    if (owner->state == OWNER_ATTACHED && is_survivors(owner)) {
      owner->process_id = os_process_id();
      owner->thread_id = forked.new_thread_id;
    } else {
      if (atomic32_load_relaxed(&owner->busy) != 0) lose(owner);
      else node_push(owner);
    }
  }
}
