/* See array.h. SPDX-License-Identifier: MIT */
#include "array.h"

#include "../arena/metadata.h"
#include "capacity.h"
#include "room.h"
#include "unload.h"

#include <string.h>

enum { HAND_STEPS = 24 };

HAK_INLINE size_t array_bytes(size_t capacity) { return max_size((capacity + 1) * sizeof(void *), HAK_CACHE_LINE); }

/* The smallest arrays stay with the heap: magazines of large blocks, of which a thread's budget
 * has room for few at a time, come and go all the time, and the metadata has one gate. There
 * are never more than the heap had in use at once. */
static void **take_array(heap_t *heap, size_t capacity) {
  void **slots = heap->spare_arrays;
  if (array_bytes(capacity) > HAK_CACHE_LINE || slots == NULL) return metadata_take(array_bytes(capacity));
  heap->spare_arrays = slots[0];
  return slots;
}

static void give_array(heap_t *heap, void **slots, size_t capacity) {
  if (array_bytes(capacity) > HAK_CACHE_LINE) {
    metadata_give(slots, array_bytes(capacity));
    return;
  }
  slots[0] = heap->spare_arrays;
  heap->spare_arrays = slots;
}

bool array_set(heap_t *heap, unsigned size_class, size_t capacity) {
  magazine_t *m = &heap->magazines[size_class];
  void **old = magazine_slots(heap, size_class), **slots = the_null_slot;
  size_t count = magazine_count(heap, size_class), old_capacity = m->capacity;
  HAK_ASSERT(count <= capacity && is_power_of_two(capacity + 1));
  if (capacity > 0) {
    slots = take_array(heap, capacity);
    if (slots == NULL) return false;
    memcpy(slots, old, (count + 1) * sizeof *slots);
  }
  heap->slots[size_class].top = slots + count;
  heap->slots[size_class].limit = slots + capacity;
  m->capacity = (uint16_t)capacity;
  uint64_t bit = (uint64_t)1 << size_class % 64, *arrays = &heap->arrays[size_class / 64];
  *arrays = capacity > 0 ? *arrays | bit : *arrays & ~bit;
  room_note(heap, size_class, (capacity - old_capacity) * size_classes[size_class].block_bytes);
  if (old_capacity > 0) give_array(heap, old, old_capacity);
  return true;
}

size_t array_shrink(heap_t *heap, unsigned size_class) {
  magazine_t *m = &heap->magazines[size_class];
  size_t capacity = m->capacity / 2, count = magazine_count(heap, size_class);
  size_t cost = unload(heap, size_class, (count + 1) / 2);
  if (capacity >= capacity_least(size_class) && magazine_count(heap, size_class) <= capacity)
    array_set(heap, size_class, capacity);
  return cost;
}

/* Capacity of the magazines of some classes, from `first` on. */
typedef struct {
  unsigned first;
  size_t *bytes;
  uint8_t *hand;
  int steps; /* of the hand, at a time */
} share_t;

HAK_INLINE bool fits(share_t share, size_t more_bytes, size_t most) { return *share.bytes + more_bytes <= most; }

/* Whether there is room for more; made by shrinking magazines that were not used lately: the clock
 * algorithm, a few steps of its hand at a time. */
HAK_INLINE bool make_room(heap_t *heap, share_t share, unsigned size_class, size_t more_bytes, size_t most) {
  if (more_bytes > most) return false;
  for (int step = 0; step < share.steps && !fits(share, more_bytes, most); step++) {
    unsigned c = *share.hand = (uint8_t)((*share.hand <= share.first ? SIZE_CLASS_COUNT : *share.hand) - 1);
    magazine_t *m = &heap->magazines[c];
    if (c == size_class || m->capacity <= capacity_least(c)) continue;
    if (!m->used) array_shrink(heap, c);
    m->used = false; /* a second chance, then its turn comes */
  }
  return fits(share, more_bytes, most);
}

static HAK_NOINLINE bool has_room_for_large(heap_t *heap, unsigned size_class, size_t more_bytes, void *block) {
  if (heap->large_capacity_bytes + more_bytes <= room_for_large_least(heap)) return true;
  if (block != NULL) room_look_again(heap, size_class, block);
  /* What a thread gives up among others comes back from another processor's cache. */
  int steps = room_is_shared(heap) ? 1 : HAND_STEPS;
  share_t large = {MID_CLASS_END, &heap->large_capacity_bytes, &heap->large_hand, steps};
  return make_room(heap, large, size_class, more_bytes, room_for_large(heap));
}

static bool has_room(heap_t *heap, unsigned size_class, size_t more_bytes, void *block) {
  if (size_class_is_single(size_class) && !has_room_for_large(heap, size_class, more_bytes, block)) return false;
  share_t all = {0, &heap->capacity_bytes, &heap->hand, HAND_STEPS};
  return make_room(heap, all, size_class, more_bytes, room_in_all(heap, size_class, more_bytes));
}

/* Small blocks' first magazines are too little to be refused. */
bool array_widen(heap_t *heap, unsigned size_class, size_t capacity, void *block) {
  size_t more = capacity - heap->magazines[size_class].capacity;
  if (more == 0) return false;
  bool has = has_room(heap, size_class, more * size_classes[size_class].block_bytes, block);
  return (has || capacity <= capacity_least(size_class)) && array_set(heap, size_class, capacity);
}
