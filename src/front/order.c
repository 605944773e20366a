/* See order.h. SPDX-License-Identifier: MIT */
#include "order.h"

/* Of the newest blocks so many are looked at, one in STEP. They are in order if no more than one in ROW of them
 * lies farther from the one before than SPAN blocks do. */
enum { LOOKS = 16, STEP = 4, ROW = 2, SPAN = 8 };
static_assert((int)LOOKS * STEP < (int)BATCH_CAPACITY, "a full magazine has one more, or slot 0");

static bool is_in_order(const heap_t *heap, unsigned size_class) {
  void *const *newest = heap->slots[size_class].top;
  size_t span = (size_t)SPAN * size_classes[size_class].block_bytes;
  int breaks = 0;
  for (int i = 0; i < LOOKS * STEP; i += STEP)
    breaks += (uintptr_t)newest[-i] - (uintptr_t)newest[-i - 1] + span > 2 * span;
  return breaks * ROW <= LOOKS;
}

HAK_NOINLINE bool order_is_lost_now(heap_t *heap, unsigned size_class) {
  HAK_ASSERT(heap->slots[size_class].top == heap->slots[size_class].limit);
  uint64_t bit = (uint64_t)1 << size_class;
  if (is_in_order(heap, size_class)) heap->in_order |= bit;
  else if ((heap->in_order & bit) != 0) heap->gets_mixed |= bit;
  return (heap->gets_mixed & bit) != 0;
}

void order_age(heap_t *heap, unsigned size_class) {
  if (size_class >= ORDER_CLASSES) return;
  uint64_t bit = (uint64_t)1 << size_class;
  if ((heap->gets_mixed & bit) == 0) return;
  if ((heap->in_order & bit) == 0) heap->gets_mixed &= ~bit;
  heap->in_order &= ~bit;
}

void order_forget(heap_t *heap) { heap->in_order = heap->gets_mixed = 0; }
