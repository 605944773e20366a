/* See orphanage.h. SPDX-License-Identifier: MIT */
#include "orphanage.h"

#include "adopt.h"
#include "claim.h"
#include "pool.h"
#include "remote.h"
#include "slab.h"

#include <string.h>

/* Slabs whose remote frees a visit collects. */
enum { COLLECTS = 8 };

/* ---- Slabs of threads that sleep -------------------------------------------------*/

typedef bool to_spare_fn(unit_t slab);

/* Of up to `looks` slabs of a class, from that one in the owner's list on, those that are to spare. Returns how
 * many were looked at. */
static size_t hand_over(owner_t *owner, owner_t *to, unit_t slab, size_t looks, to_spare_fn *is_to_spare) {
  size_t looked = 0;
  for (unit_t next; slab != 0 && looked < looks; slab = next, looked++) {
    next = map_record(slab)->slab.next;
    if (is_to_spare(slab)) slab_hand_over(owner, to, slab, map_record(slab)->slab.size_class);
  }
  return looked;
}

bool orphanage_disown(owner_t *owner) {
  enum { LOOKS = 64, OF_A_CLASS = 256 };
  owner_t *to = pool_orphanage(owner);
  if (to == NULL) return false;
  owner_enter(to);
  for (size_t looks = 0; looks < LOOKS && owner->disown_class < MID_CLASS_END && !claim_is_awaited(owner);) {
    unsigned c = owner->disown_class;
    /* Where blocks share lines of the cache, they had better be one thread's. */
    if (size_classes[c].block_bytes % HAK_CACHE_LINE == 0)
      looks += hand_over(owner, to, owner->slabs[c], OF_A_CLASS, slab_is_hardly_used);
    owner->disown_class++;
  }
  pool_note(to);
  owner_leave(to);
  bool has_more = owner->disown_class < MID_CLASS_END;
  if (!has_more) owner->disown_class = 0;
  return has_more;
}

void orphanage_disown_own(owner_t *owner) {
  if (pool_attached_count() < 2) return; /* nobody else is there */
  pool_enter();
  pool_make_orphanage(owner);
  owner->disown_class = 0;
  for (bool more = true; more;) {
    more = orphanage_disown(owner);
    pool_leave(); /* after every step; nobody can claim the owner, which is busy */
    if (more) pool_enter();
  }
}

/* ---- Slabs of threads at work ----------------------------------------------------*/
void orphanage_disown_class(owner_t *owner, unsigned size_class) {
  enum { LOOKS = 64 };
  if (!pool_enter_soon()) return;
  pool_make_orphanage(owner);
  owner_t *to = pool_orphanage(owner);
  if (to != NULL) {
    owner_enter(to);
    hand_over(owner, to, map_record(owner->slabs[size_class])->slab.next, LOOKS, slab_is_half_free);
    pool_note(to);
    owner_leave(to);
  }
  pool_leave();
}

/* ---- Slabs that threads share ----------------------------------------------------*/
bool orphanage_has_id(const owner_t *owner, uint32_t id) { return id != 0 && pool_orphanage_id(owner) == id; }

/* The gate is held. */
static owner_t *begin(owner_t *owner) {
  owner_t *orphanage = pool_orphanage(owner);
  if (orphanage == NULL) return NULL;
  owner_enter(orphanage);
  orphanage->puts_aside = owner->puts_aside;
  orphanage->put_aside = owner->put_aside;
  if (remote_has_pending(orphanage)) remote_collect(orphanage, COLLECTS);
  return orphanage;
}
static void end(owner_t *owner, owner_t *orphanage) {
  owner->put_aside = orphanage->put_aside;
  orphanage->put_aside = 0;
  orphanage->puts_aside = false;
  slab_tell_arena(orphanage);
  pool_note(orphanage);
  owner_leave(orphanage);
}

/* The gate is a claimer's already. */
static bool enter_gate(const owner_t *owner) { return owner->puts_aside || pool_enter_soon(); }
static void leave_gate(const owner_t *owner) {
  if (!owner->puts_aside) pool_leave();
}

owner_t *orphanage_enter(owner_t *owner) {
  if (!enter_gate(owner)) return NULL;
  owner_t *orphanage = begin(owner);
  if (orphanage == NULL) leave_gate(owner);
  return orphanage;
}

void orphanage_leave(owner_t *owner, owner_t *orphanage) {
  end(owner, orphanage);
  leave_gate(owner);
}

/* `fresh`: a slab of the owner's that is the orphanage's from now on, or 0. false: the gate is shut. */
static bool lend(owner_t *owner, unsigned size_class, void **blocks, size_t wanted, unit_t fresh, size_t *taken) {
  *taken = 0;
  if (!pool_enter_soon()) return false;
  pool_make_orphanage(owner);
  owner_t *orphanage = begin(owner);
  if (orphanage != NULL) {
    if (fresh != 0) slab_hand_over(owner, orphanage, fresh, size_class);
    /* What is dirty goes with the gate open, when a slab is made. */
    unit_t slab = slab_to_take(orphanage, size_class, false);
    if (slab == 0 && adopt_found(orphanage, size_class)) slab = slab_to_take(orphanage, size_class, false);
    if (slab != 0) *taken = slab_take_blocks(orphanage, slab, size_class, blocks + wanted, wanted);
    end(owner, orphanage);
  }
  pool_leave();
  return true;
}

size_t orphanage_lend(owner_t *owner, unsigned size_class, void **blocks, size_t wanted) {
  size_t taken;
  bool is_open = lend(owner, size_class, blocks, wanted, 0, &taken);
  /* A slab is made with the gate open, as the heap may have to grow for it. */
  unit_t fresh = is_open && taken == 0 ? slab_add(owner, size_class) : 0;
  if (fresh != 0) lend(owner, size_class, blocks, wanted, fresh, &taken);
  if (taken > 0 && taken < wanted) memmove(blocks, blocks + wanted - taken, taken * sizeof *blocks);
  return taken;
}
