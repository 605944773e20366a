/* See room.h. SPDX-License-Identifier: MIT */
#include "room.h"

#include "../arena/arena.h"
#include "../arena/pages.h"
#include "../slab/pool.h"
#include "bell.h"
#include "capacity.h"

/* Of the blocks that may be looked at again, one in so many is; so many count. */
enum { LOOK_EVERY = 8, BLOCKS_REMEMBERED = 32 };

/* That of all heaps' magazines of large blocks. Relaxed: a sum that is looked at as an estimate. */
static atomic64 large_capacity_bytes;

void room_note(heap_t *heap, unsigned size_class, size_t more_bytes) {
  heap->capacity_bytes += more_bytes;
  if (!size_class_is_single(size_class)) return;
  heap->large_capacity_bytes += more_bytes;
  atomic64_add_relaxed(&large_capacity_bytes, more_bytes);
}

size_t room_in_all(void) { return capacity_budget(pool_attached_count(), bell_has_listener()); }

size_t room_for_large(const heap_t *heap) {
  size_t others_bytes = atomic64_load_relaxed(&large_capacity_bytes) - heap->large_capacity_bytes;
  return capacity_large(arena_needed_bytes(), others_bytes, heap->pages_looked_at, heap->pages_resident);
}

void room_look_first_now(heap_t *heap, unsigned size_class, void *block) {
  if (heap->pages_looked_at >= ROOM_PAGES_OF_ONE * BLOCKS_REMEMBERED) {
    heap->pages_looked_at /= 2;
    heap->pages_resident /= 2;
  }
  size_t part = size_classes[size_class].block_bytes / ROOM_PAGES_OF_ONE;
  /* By pages in the middle: of many blocks only the beginning is used. */
  for (size_t i = 0; i < ROOM_PAGES_OF_ONE; i++)
    heap->pages_resident += page_is_resident((char *)block + i * part + part / 2);
  heap->pages_looked_at += ROOM_PAGES_OF_ONE;
}

void room_look_again(heap_t *heap, unsigned size_class, void *block) {
  if (heap->looks++ % LOOK_EVERY == 0) room_look_first_now(heap, size_class, block);
}
