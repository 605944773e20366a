/* The functions of magazine.h that only look. SPDX-License-Identifier: MIT */
#include "../slab/slab.h"
#include "../support/error.h"
#include "capacity.h"
#include "magazine.h"
#include "sample.h"

/* Slots that were stripped (strip.h). */
static HAK_LOOKS_ON size_t gaps(void *const *slots, size_t count) {
  size_t empty = 0;
  for (size_t i = 1; i <= count; i++) empty += HAK_LOOK(slots[i]) == NULL;
  return empty;
}

HAK_LOOKS_ON size_t magazine_count_of_others(const heap_t *heap, unsigned size_class) {
  void **limit = HAK_LOOK(heap->slots[size_class].limit), **top = HAK_LOOK(heap->slots[size_class].top);
  /* The other thread may be changing the array under us: a figure out of range is one
   * that was never true. */
  size_t count = HAK_LOOK(heap->magazines[size_class].capacity) - (size_t)(limit - top);
  if (count > MAX_CAPACITY) return 0;
  return HAK_UNLIKELY(HAK_LOOK(heap->owner.stripped)) ? count - gaps(top - count, count) : count;
}

/* Every block in the magazine is one of this class, in use as its slab sees it. */
static void check_blocks(const heap_t *heap, unsigned size_class, size_t count) {
  for (size_t i = 1; i <= count; i++) {
    void *block = sample_block_at(heap, size_class, i);
    if (block == NULL && heap->owner.stripped) continue;
    uint32_t word = map_lookup(block);
    HAK_CHECK(word_kind(word) == size_class && word_owner(word) != 0);
    unit_t slab = slab_first_unit((unit_t)map_unit_of(block), size_class);
    unsigned number;
    HAK_CHECK(slab_block_number(block, slab, size_class, &number));
    HAK_CHECK((the_map.free_bits[slab][number / 64] >> number % 64 & 1) == 0);
  }
}

void magazines_check(const heap_t *heap) {
  size_t capacity_bytes = 0, large_bytes = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    void **slots = magazine_slots(heap, c);
    size_t count = magazine_count(heap, c);
    HAK_CHECK(slots[0] == NULL && count <= heap->magazines[c].capacity);
    HAK_CHECK((heap->arrays[c / 64] >> c % 64 & 1) == (heap->magazines[c].capacity > 0));
    size_t bytes = (size_t)heap->magazines[c].capacity * size_classes[c].block_bytes;
    capacity_bytes += bytes;
    if (size_class_is_single(c)) large_bytes += bytes;
    if (error_ends_program()) check_blocks(heap, c, count);
  }
  HAK_CHECK(capacity_bytes == heap->capacity_bytes && large_bytes == heap->large_capacity_bytes);
}
