/* See room.h. SPDX-License-Identifier: MIT */
#include "room.h"

#include "../arena/arena.h"
#include "../arena/pages.h"
#include "../slab/pool.h"
#include "bell.h"
#include "capacity.h"

/* Of the blocks that may be looked at again, one in so many is, by so many pages; the last units count. */
enum { LOOK_EVERY = 8, PAGES = 2, UNITS_REMEMBERED = 1024 };

/* That of all heaps' magazines of large blocks. Relaxed: a sum that is looked at as an estimate. */
static atomic64 large_capacity_bytes;

void room_note(heap_t *heap, unsigned size_class, size_t more_bytes) {
  heap->capacity_bytes += more_bytes;
  if (!size_class_is_single(size_class)) return;
  heap->large_capacity_bytes += more_bytes;
  atomic64_add_relaxed(&large_capacity_bytes, more_bytes);
}

size_t room_in_all(void) { return capacity_budget(pool_attached_count(), bell_has_listener()); }

static size_t others_bytes(const heap_t *heap) {
  return atomic64_load_relaxed(&large_capacity_bytes) - heap->large_capacity_bytes;
}
bool room_is_shared(const heap_t *heap) { return others_bytes(heap) > 0; }

size_t room_for_large(const heap_t *heap) {
  return capacity_large(arena_needed_bytes(), others_bytes(heap), heap->units_looked_at, heap->units_resident);
}

/* By pages in the middle: of many blocks only the beginning is used. */
void room_look_now(heap_t *heap, unsigned size_class, void *block) {
  if (heap->units_looked_at >= UNITS_REMEMBERED) {
    heap->units_looked_at /= 2;
    heap->units_resident /= 2;
  }
  size_t units = size_classes[size_class].slab_units, part = size_classes[size_class].block_bytes / PAGES;
  size_t resident = 0;
  for (size_t i = 0; i < PAGES; i++) resident += page_is_resident((char *)block + i * part + part / 2);
  heap->units_looked_at = (uint16_t)(heap->units_looked_at + units);
  heap->units_resident = (uint16_t)(heap->units_resident + units * resident / PAGES);
}

void room_look_again(heap_t *heap, unsigned size_class, void *block) {
  if (heap->looks++ % LOOK_EVERY == 0) room_look_now(heap, size_class, block);
}
