/* See room.h. SPDX-License-Identifier: MIT */
#include "room.h"

#include "../arena/arena_look.h"
#include "../arena/dense.h"
#include "../arena/pages.h"
#include "../base/turns.h"
#include "../slab/pool.h"
#include "../support/limit.h"
#include "bell.h"
#include "capacity.h"

/* Of the blocks that may be looked at again, one in so many is, by so many pages; the last units count. Of more
 * than a few threads each looks at fewer: to look takes a lock of all mappings, for which whoever maps some
 * waits. */
enum { LOOK_EVERY = 8, LOOK_THREADS = 4, PAGES = 2, UNITS_REMEMBERED = 1024 };
enum { PARTS_MOST = (1 << 13) - 1 }; /* as heap.h has them */
static_assert(UNITS_REMEMBERED * ROOM_UNIT_PARTS + LARGE_MOST_UNITS * ROOM_UNIT_PARTS <= PARTS_MOST,
              "there is room for a look");

/* That of the magazines of large blocks of heaps that are counted. Relaxed: a sum that is looked at as an estimate. */
static atomic64 large_capacity_bytes;
/* A forked child's is another than its parent's, so that what the parent's threads had is not counted there, whatever
 * becomes of their heaps. Never 0: that of heaps that are counted nowhere. */
static uint16_t generation = 1;

static bool is_counted(const heap_t *heap) { return heap->counted_in == generation; }

void room_count_out(heap_t *heap) {
  if (!is_counted(heap) || heap->large_capacity_bytes == 0) return;
  heap->counted_in = 0;
  heap->owner.stripped = true; /* so that its thread counts it again before it does anything else */
  atomic64_add_relaxed(&large_capacity_bytes, -heap->large_capacity_bytes);
}
void room_count_again(heap_t *heap) {
  if (is_counted(heap)) return;
  heap->counted_in = generation;
  atomic64_add_relaxed(&large_capacity_bytes, heap->large_capacity_bytes);
}

void room_after_fork(heap_t *heap) {
  if (++generation == 0) generation = 1;
  atomic64_store_relaxed(&large_capacity_bytes, 0);
  if (heap != NULL) room_count_again(heap);
}

void room_note(heap_t *heap, unsigned size_class, size_t more_bytes) {
  heap->capacity_bytes += more_bytes;
  if (!size_class_is_single(size_class)) return;
  HAK_ASSERT(is_counted(heap));
  heap->large_capacity_bytes += more_bytes;
  atomic64_add_relaxed(&large_capacity_bytes, more_bytes);
}

/* Of the blocks of the thread's slabs, those that are not free: out, or in magazines. */
static size_t taken_kib(const heap_t *heap) { return (size_t)(heap->owner.slab_bytes - heap->owner.free_bytes) >> 10; }
/* What lies in no magazine of these. Others' may lie in its magazines, too. */
static size_t out_kib(const heap_t *heap) {
  size_t held_bytes = 0, taken = taken_kib(heap);
  FOR_EACH_MAGAZINE_BELOW(heap, c, MID_CLASS_END)
  held_bytes += magazine_count(heap, (unsigned)c) * size_classes[c].block_bytes;
  return taken - min_size(held_bytes >> 10, taken);
}

/* More is out only where more was taken from slabs: a sixteenth more is worth a look at all magazines. */
static void look_at_out(heap_t *heap) {
  if (taken_kib(heap) <= heap->looked_at_kib + heap->looked_at_kib / 16) return;
  heap->looked_at_kib = (uint32_t)taken_kib(heap);
  heap->out_lately_kib = (uint32_t)max_size(heap->out_lately_kib, out_kib(heap));
}
static size_t not_large_bytes(const heap_t *heap) { return heap->capacity_bytes - heap->large_capacity_bytes; }
static size_t room_for_small(const heap_t *heap) { return capacity_small((size_t)heap->out_lately_kib << 10); }

/* Where magazines have more than half the room: when it is all, what was out most is past. */
void room_look_at_out(heap_t *heap) {
  if (HAK_UNLIKELY(not_large_bytes(heap) > room_for_small(heap) / 2)) look_at_out(heap);
}

/* What is in no memory takes nothing from a budget; but a limit counts blocks whole, and of very many threads the
 * pages that each block has come to be much, and all of them wait for processors in any case. */
static size_t budget_of(const heap_t *heap, size_t large_bytes) {
  size_t threads = pool_attached_count(), budget = capacity_budget(threads, bell_has_listener());
  if (limit_exists() || threads > FEW_THREADS || !room_is_known(heap)) return budget;
  return budget + capacity_absent(large_bytes, heap->parts_looked_at, heap->parts_resident);
}

size_t room_in_all(heap_t *heap, unsigned size_class, size_t more_bytes) {
  bool is_single = size_class_is_single(size_class);
  size_t budget = budget_of(heap, heap->large_capacity_bytes + (is_single ? more_bytes : 0));
  if (is_single) return budget;
  if (not_large_bytes(heap) + more_bytes > room_for_small(heap)) look_at_out(heap);
  return min_size(budget, heap->large_capacity_bytes + room_for_small(heap));
}
void room_age(heap_t *heap) {
  heap->out_lately_kib /= 2;
  heap->looked_at_kib = 0;
}

/* A signal handler that forks while a heap is being counted leaves the child's sum too large or too small by that. */
static size_t others_bytes(const heap_t *heap) {
  size_t all = atomic64_load_relaxed(&large_capacity_bytes), own = is_counted(heap) ? heap->large_capacity_bytes : 0;
  return (int64_t)all > (int64_t)own ? all - own : 0;
}
bool room_is_shared(const heap_t *heap) { return others_bytes(heap) > 0; }

size_t room_for_large_least(const heap_t *heap) {
  return capacity_large_floor(pool_attached_count(), others_bytes(heap));
}

/* Of the heap, which may be small blocks in the main, what is wide (dense.h) and needed: nothing counts large
 * blocks alone. */
size_t room_for_large(const heap_t *heap) {
  size_t wide_bytes = min_size(dense_wide_units() << UNIT_SHIFT, arena_needed_bytes());
  size_t floor_bytes = room_for_large_least(heap);
  unsigned tells_nothing = heap->parts_resident - heap->parts_used;
  return capacity_large(wide_bytes, others_bytes(heap), floor_bytes, heap->parts_looked_at - tells_nothing,
                        heap->parts_used);
}

/* By pages in the middle: of many blocks only the beginning is used. What is resident of a block tells how the program
 * uses such blocks if nobody has written there before. Others are cut in other places each time, and all of them comes
 * to be resident in the end, however little is written to. So what is resident of these counts a part only, or
 * magazines would have the less room the more passes by them. */
void room_look_now(heap_t *heap, unsigned size_class, void *block) {
  if (heap->parts_looked_at >= UNITS_REMEMBERED * ROOM_UNIT_PARTS) {
    heap->parts_looked_at /= 2;
    heap->parts_resident /= 2;
    heap->parts_used /= 2;
  }
  size_t units = size_classes[size_class].slab_units, part = size_classes[size_class].block_bytes / PAGES;
  size_t resident = 0;
  for (size_t i = 0; i < PAGES; i++) resident += page_is_resident((char *)block + i * part + part / 2);
  size_t parts = units * ROOM_UNIT_PARTS, present = parts * resident / PAGES;
  bool was_clean = map_record((unit_t)map_unit_of(block))->slab.was_clean;
  heap->parts_looked_at += parts & PARTS_MOST;
  heap->parts_resident += present & PARTS_MOST;
  size_t used = was_clean ? present : present / ROOM_UNIT_PARTS;
  heap->parts_used += used & PARTS_MOST;
}

void room_look_again(heap_t *heap, unsigned size_class, void *block) {
  uint32_t every = LOOK_EVERY * (uint32_t)max_size(1, pool_attached_count() / LOOK_THREADS);
  if (turn_is_among(heap->looks++, every)) room_look_now(heap, size_class, block);
}
