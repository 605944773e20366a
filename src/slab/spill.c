/* See spill.h. SPDX-License-Identifier: MIT */
#include "spill.h"

#include "orphanage.h"
#include "pool.h"
#include "slab.h"

/* The hand goes on by so many classes at one batch boundary of so many. */
enum { CLASSES = 4, BOUNDARIES = 4 };

/* Leaves its mark. Returns whether that was there, and there are other slabs. */
static bool pass(unit_t first) {
  if (first == 0 || map_record(first)->slab.next == 0) return false;
  uint8_t *looks = &map_record(first)->slab.idle_looks;
  bool was_passed = (*looks & SLAB_PASSED) != 0;
  *looks |= SLAB_PASSED;
  return was_passed;
}

/* Moves the hand, to a class that has slabs to spare and was not used since it was there last, or as far as it
 * goes at a time. Returns whether there is one. */
static bool find_unused(owner_t *owner) {
  for (int i = 0; i < CLASSES; i++) {
    owner->spill_class = (uint8_t)((owner->spill_class + 1) % MID_CLASS_END);
    if (pass(owner->slabs[owner->spill_class])) return true;
  }
  return false;
}

HAK_NOINLINE void spill_now(owner_t *owner) {
  if (++owner->spill_turn % BOUNDARIES != 0 || pool_attached_count() <= SPILL_FEW_THREADS) return;
  if (find_unused(owner)) orphanage_disown_class(owner, owner->spill_class);
}
