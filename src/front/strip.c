/* See strip.h. SPDX-License-Identifier: MIT */
#include "strip.h"

#include "../os/os.h"
#include "../slab/batch.h"
#include "../slab/claim.h"
#include "../support/tally.h"
#include "capacity.h"
#include "magazine.h"
#include "room.h"
#include "sample.h"

#include <string.h>

enum { STEP_COST = 8192 }; /* of flushed blocks, see capacity_block_cost: some hundredths of a millisecond */

/* Slots are the thread's as well: relaxed, the order is os_fence_thread's. */
static void *load_slot(void *const *slot) { return __atomic_load_n(slot, __ATOMIC_RELAXED); }
static void store_slot(void **slot, void *block) { __atomic_store_n(slot, block, __ATOMIC_RELAXED); }
static bool swap_slot(void **slot, void *block) {
  return __atomic_compare_exchange_n(slot, &block, NULL, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
static void **load_top(heap_t *heap, unsigned size_class) {
  return __atomic_load_n(&heap->slots[size_class].top, __ATOMIC_RELAXED);
}

static bool is_stripped(const heap_t *heap, unsigned size_class) {
  return (heap->stripped[size_class / 64] >> size_class % 64 & 1) != 0;
}
static void set_stripped(heap_t *heap, unsigned size_class) {
  heap->stripped[size_class / 64] |= (uint64_t)1 << size_class % 64;
  heap->owner.stripped = true;
}

/* ---- The claimer -----------------------------------------------------------------*/

/* Whether the newest blocks of these classes' magazines have not moved since the last call. */
static bool are_unused(heap_t *heap, unsigned first, unsigned end, uint64_t *seen) {
  uint64_t sum = 0, before = *seen;
  for (unsigned c = first; c < end; c++) sum = sum * 31 + (uintptr_t)load_top(heap, c);
  *seen = sum;
  return sum == before;
}

typedef struct {
  unsigned size_class;
  void **floor, *block; /* what lay there */
} floor_t;

/* S1. false: there is too little in the magazine, or the thread is at work on it. */
static bool put_floor(heap_t *heap, unsigned size_class, floor_t *floor) {
  void **top = load_top(heap, size_class), **slot = magazine_lowers_first(size_class) ? top : top - 1;
  if (is_stripped(heap, size_class) || slot <= magazine_slots(heap, size_class)) return false;
  *floor = (floor_t){size_class, slot, load_slot(slot)};
  return floor->block != NULL && swap_slot(floor->floor, floor->block);
}

/* S3. */
static bool is_above(heap_t *heap, const floor_t *floor) {
  void **top = load_top(heap, floor->size_class);
  return magazine_lowers_first(floor->size_class) ? top >= floor->floor : top > floor->floor;
}

static void send_home(heap_t *heap, unsigned size_class, void *block) {
  batch_flush(&heap->owner, size_class, &block, 1);
  tally_add(TALLY_STRIPPED, size_classes[size_class].block_bytes);
}

/* S5. */
static void settle(heap_t *heap, const floor_t *floor, bool was_above) {
  if (load_slot(floor->floor) != NULL) return;
  if (was_above) {
    set_stripped(heap, floor->size_class);
    send_home(heap, floor->size_class, floor->block);
    return;
  }
  set_aside_t *aside = &heap->set_aside[heap->set_aside_count++];
  *aside = (set_aside_t){floor->block, (uint16_t)(floor->floor - magazine_slots(heap, floor->size_class)),
                         (uint8_t)floor->size_class};
  heap->owner.stripped = true;
}

static bool fence_thread(const heap_t *heap) { return os_fence_thread(heap->owner.thread_id) == OS_FENCED; }

/* Floors for a few magazines at a time, no more than can be set aside. Returns whether
 * there are magazines left, or the system makes no fence. */
static bool put_floors(heap_t *heap, unsigned first) {
  floor_t floors[SET_ASIDE_MOST];
  bool above[SET_ASIDE_MOST];
  for (unsigned c = first; c < SIZE_CLASS_COUNT;) {
    unsigned count = 0;
    for (; c < SIZE_CLASS_COUNT && heap->set_aside_count + count < SET_ASIDE_MOST; c++)
      count += put_floor(heap, c, &floors[count]);
    if (count == 0) break;
    bool fenced = fence_thread(heap); /* S2 */
    for (unsigned i = 0; i < count; i++) above[i] = fenced && is_above(heap, &floors[i]);
    fenced = fence_thread(heap) && fenced; /* S4 */
    for (unsigned i = 0; i < count; i++) settle(heap, &floors[i], above[i] && fenced);
    if (!fenced || claim_is_awaited(&heap->owner)) return true;
  }
  return false;
}

/* Flushes what lies below the floors, from there down; the lowest are the last. Returns
 * whether there is more. */
static bool flush_below(heap_t *heap) {
  size_t cost = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    if (!is_stripped(heap, c)) continue;
    void **slots = magazine_slots(heap, c);
    size_t count = 0;
    while (load_slot(slots + count + 1) != NULL && slots + count + 1 < heap->slots[c].limit) count++;
    for (; count > 0; count--) {
      if (cost >= STEP_COST || claim_is_awaited(&heap->owner)) return true;
      void *block = load_slot(slots + count);
      store_slot(slots + count, NULL);
      send_home(heap, c, block);
      cost += capacity_block_cost(c);
    }
  }
  return false;
}

static bool strip(owner_t *owner, unsigned first) {
  if (HAK_THREAD_SANITIZER) return false; /* it knows neither those fences nor what the fast path may do */
  heap_t *heap = heap_of(owner);
  if (sample_may_be_on(heap)) return false; /* its magazines have a NULL already */
  /* With a block set aside, nobody but the thread knows what the slot's NULL means. */
  if (!heap_has_begun(heap) || heap->set_aside_count > 0) return false;
  return put_floors(heap, first) || flush_below(heap);
}

bool strip_now(owner_t *owner) { return strip(owner, 0); }

bool strip_if_unused(owner_t *owner) {
  if (HAK_THREAD_SANITIZER) return false; /* as strip_now: nor may the tops be looked at */
  heap_t *heap = heap_of(owner);
  bool large_are = are_unused(heap, MID_CLASS_END, SIZE_CLASS_COUNT, &heap->tops_seen[0]);
  bool others_are = are_unused(heap, 0, MID_CLASS_END, &heap->tops_seen[1]);
  if (large_are) room_count_out(heap);
  return large_are && strip(owner, others_are ? 0 : MID_CLASS_END);
}

/* ---- The owning thread -----------------------------------------------------------*/

static void take_back(heap_t *heap, const set_aside_t *aside) {
  void **slot = magazine_slots(heap, aside->size_class) + aside->slot;
  if (*slot == NULL && heap->slots[aside->size_class].top >= slot) *slot = aside->block;
}

static void close_gaps(heap_t *heap, unsigned size_class) {
  void **to = magazine_slots(heap, size_class);
  for (void **from = to + 1; from <= heap->slots[size_class].top; from++)
    if (*from != NULL) *++to = *from;
  heap->slots[size_class].top = to;
}

HAK_COLD void strip_mend(heap_t *heap) {
  heap->owner.stripped = false;
  room_count_again(heap);
  while (heap->set_aside_count > 0) take_back(heap, &heap->set_aside[--heap->set_aside_count]);
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++)
    if (is_stripped(heap, c)) close_gaps(heap, c);
  memset(heap->stripped, 0, sizeof heap->stripped);
}
