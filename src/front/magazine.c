/* See magazine.h. SPDX-License-Identifier: MIT */
#include "magazine.h"

#include "../arena/metadata.h"
#include "../slab/batch.h"
#include "../slab/pool.h"
#include "../slab/slab.h"
#include "../support/error.h"

#include <string.h>

enum {
  FIRST_CAPACITY = 15, /* and at most FIRST_BYTES of blocks */
  FIRST_BYTES = 4 * 1024,
  BATCH_CAPACITY = 127, /* running empty alone grows it to this, and to BATCH_BYTES */
  BATCH_BYTES = 16 * 1024,
  MAX_CAPACITY = 8191,
  BORROWED_MOST = 16, /* blocks */
  HAND_STEPS = 24,
  FLUSH_COST = 8192, /* of one overflow: magazine_block_cost */
  FLUSH_BYTES = 2 * 1024 * 1024, /* as much as a call purges */
};
/* What all magazines of a process may hold, shared among its threads, but each
 * has the least. */
static const size_t budget_bytes = HAK_MIB(64), budget_most = HAK_MIB(32), budget_least = HAK_KIB(512);

static size_t budget(void) {
  size_t threads = pool_owner_count() - pool_pooled_count();
  size_t share = budget_bytes / (threads > 0 ? threads : 1);
  return min_size(max_size(share, budget_least), budget_most);
}

HAK_INLINE size_t array_bytes(size_t capacity) { return max_size((capacity + 1) * sizeof(void *), HAK_CACHE_LINE); }
HAK_INLINE void **slots_of(const heap_t *heap, unsigned size_class) {
  return heap->limit[size_class] - heap->magazines[size_class].capacity;
}
HAK_INLINE size_t count_of(const heap_t *heap, unsigned size_class) {
  return (size_t)(heap->top[size_class] - slots_of(heap, size_class));
}

/* ---- Capacity --------------------------------------------------------------------*/

/* Gives the magazine another array; `capacity` holds at least what is in it. On
 * failure it keeps the old one. */
static bool set_capacity(heap_t *heap, unsigned size_class, size_t capacity) {
  magazine_t *m = &heap->magazines[size_class];
  void **old = slots_of(heap, size_class), **slots = the_null_slot;
  size_t count = count_of(heap, size_class), old_capacity = m->capacity;
  HAK_ASSERT(count <= capacity && is_power_of_two(capacity + 1));
  if (capacity > 0) {
    slots = metadata_take(array_bytes(capacity));
    if (slots == NULL) return false;
    memcpy(slots, old, (count + 1) * sizeof *slots);
  }
  heap->top[size_class] = slots + count;
  heap->limit[size_class] = slots + capacity;
  m->capacity = (uint16_t)capacity;
  heap->capacity_bytes += (capacity - old_capacity) * size_classes[size_class].block_bytes;
  if (old_capacity > 0) metadata_give(old, array_bytes(old_capacity));
  return true;
}

/* Where a magazine begins, and below which it never shrinks; a single block that
 * stays is worth much memory, so those magazines may go. */
static size_t first_capacity(unsigned size_class) {
  size_t blocks = FIRST_BYTES / size_classes[size_class].block_bytes, capacity = FIRST_CAPACITY;
  while (capacity > 1 && capacity > blocks) capacity /= 2;
  return capacity;
}

static size_t least_capacity(unsigned size_class) {
  return size_class_is_single(size_class) ? 0 : first_capacity(size_class);
}

/* Widens the magazine if the budget allows, making room by shrinking others that
 * were not used lately: the clock algorithm, a few steps of its hand at a time. */
static bool widen(heap_t *heap, unsigned size_class, size_t capacity) {
  size_t more_bytes = (capacity - heap->magazines[size_class].capacity) * size_classes[size_class].block_bytes;
  size_t most = budget();
  if (capacity > MAX_CAPACITY || more_bytes > most) return false;
  for (int step = 0; step < HAND_STEPS && heap->capacity_bytes + more_bytes > most; step++) {
    unsigned c = heap->hand = (heap->hand == 0 ? SIZE_CLASS_COUNT : heap->hand) - 1;
    magazine_t *m = &heap->magazines[c];
    if (c == size_class || m->capacity <= least_capacity(c)) continue;
    if (!m->used) magazine_shrink(heap, c);
    m->used = false; /* a second chance, then its turn comes */
  }
  /* Small blocks' first magazines are too little to be refused. */
  bool fits = heap->capacity_bytes + more_bytes <= most || capacity <= least_capacity(size_class);
  return fits && set_capacity(heap, size_class, capacity);
}

static bool widen_twice(heap_t *heap, unsigned size_class) {
  return widen(heap, size_class, heap->magazines[size_class].capacity * 2u + 1);
}

size_t magazine_shrink(heap_t *heap, unsigned size_class) {
  magazine_t *m = &heap->magazines[size_class];
  size_t capacity = m->capacity / 2, count = count_of(heap, size_class);
  size_t cost = magazine_flush(heap, size_class, (count + 1) / 2);
  if (capacity >= least_capacity(size_class) && count_of(heap, size_class) <= capacity)
    set_capacity(heap, size_class, capacity);
  return cost;
}

/* ---- Refill and overflow --------------------------------------------------------------*/

/* The first slab of a class costs a thread a page at least, and a kilobyte in the
 * tables. Most threads use many sizes and few blocks of each: the first blocks of
 * a class come from a coarser one, and what is rounded up is less than that page. */
static bool borrows(magazine_t *m, unsigned size_class) {
  if (m->capacity > 0 || m->borrowed == BORROWED_MOST || size_class_coarse(size_class) == size_class) return false;
  m->borrowed++;
  return true;
}

/* A large block that is a little too large costs nothing but addresses; a fresh one
 * costs the arena's gate, and faults where it was not used lately. */
static void *pop_stand_in(heap_t *heap, unsigned size_class) {
  for (unsigned c = size_class + 1; c <= size_class_stand_in(size_class); c++) {
    void *block = magazine_pop(heap, c);
    if (block != NULL) {
      heap->magazines[c].used = true;
      return block;
    }
  }
  return NULL;
}

void *magazine_refill(heap_t *heap, unsigned size_class, bool *is_zero) {
  if (borrows(&heap->magazines[size_class], size_class)) size_class = size_class_coarse(size_class);
  /* A heap that has just been attached may have some already. */
  void *block = magazine_pop(heap, size_class);
  if (block == NULL) block = pop_stand_in(heap, size_class);
  if (is_zero != NULL) *is_zero = false;
  if (block != NULL) return block;
  magazine_t *m = &heap->magazines[size_class];
  size_t block_bytes = size_classes[size_class].block_bytes;
  if (m->capacity == 0)
    widen(heap, size_class, first_capacity(size_class));
  else if (m->missed && m->capacity < BATCH_CAPACITY && (size_t)m->capacity * block_bytes < BATCH_BYTES)
    widen_twice(heap, size_class);
  m->missed = m->used = true;
  /* Half, so that frees that follow find room, too. */
  size_t wanted = max_size((m->capacity + 1u) / 2, 1);
  if (wanted == 1) return batch_refill(&heap->owner, size_class, &block, 1, is_zero) == 1 ? block : NULL;
  void **slots = slots_of(heap, size_class);
  size_t got = batch_refill(&heap->owner, size_class, slots + 1, wanted, is_zero);
  if (got == 0) return NULL;
  /* Filling a slab may have freed in this class (it may purge, never malloc), but
   * nothing was pushed: the magazine is ours alone. */
  heap->top[size_class] = slots + got - 1;
  return slots[got];
}

/* How many blocks an overflow flushes: half, but no more than a call may take time
 * for, and no more memory than one call purges. */
static size_t flush_count(unsigned size_class, size_t capacity) {
  size_t most = min_size(FLUSH_COST / magazine_block_cost(size_class), FLUSH_BYTES / size_classes[size_class].block_bytes);
  return min_size((capacity + 1) / 2, max_size(most, 1));
}

void magazine_overflow(heap_t *heap, unsigned size_class, void *block) {
  magazine_t *m = &heap->magazines[size_class];
  m->used = true;
  if (m->capacity == 0) {
    widen(heap, size_class, first_capacity(size_class));
  } else if (!m->missed || !widen_twice(heap, size_class)) {
    magazine_flush(heap, size_class, flush_count(size_class, m->capacity));
  }
  m->missed = false;
  if (!magazine_push(heap, size_class, block)) batch_flush(&heap->owner, size_class, &block, 1);
}

bool magazine_is_full_unused(const heap_t *heap, unsigned size_class) {
  const magazine_t *m = &heap->magazines[size_class];
  return m->capacity > 0 && !m->missed && heap->top[size_class] == heap->limit[size_class];
}

/* A tiny block is a bit; a mid one is a good part of a slab, which comes and goes; a
 * large one is a slab. */
size_t magazine_block_cost(unsigned size_class) {
  return size_class < TINY_CLASS_COUNT ? 1 : size_class < MID_CLASS_END ? 8 : 64;
}

size_t magazine_count(const heap_t *heap, unsigned size_class) { return count_of(heap, size_class); }

size_t magazine_flush(heap_t *heap, unsigned size_class, size_t count) {
  size_t held = count_of(heap, size_class);
  count = min_size(count, held);
  if (count == 0) return 0;
  void **slots = slots_of(heap, size_class);
  batch_flush(&heap->owner, size_class, slots + 1, count);
  memmove(slots + 1, slots + 1 + count, (held - count) * sizeof *slots);
  heap->top[size_class] = slots + held - count;
  return count * magazine_block_cost(size_class);
}

void magazines_drop(heap_t *heap) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    if (heap->magazines[c].capacity > FIRST_CAPACITY && count_of(heap, c) == 0) set_capacity(heap, c, 0);
    heap->magazines[c].missed = heap->magazines[c].used = false;
  }
}

/* ---- Looking ------------------------------------------------------------------------*/
HAK_LOOKS_ON size_t magazines_cached_bytes(const heap_t *heap) {
  size_t bytes = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    void **limit = HAK_LOOK(heap->limit[c]), **top = HAK_LOOK(heap->top[c]);
    /* Another thread may be changing the array under us: a figure out of range
     * is one that was never true. */
    size_t count = HAK_LOOK(heap->magazines[c].capacity) - (size_t)(limit - top);
    if (count <= MAX_CAPACITY) bytes += count * size_classes[c].block_bytes;
  }
  return bytes;
}

/* Every block in the magazine is one of this class, in use as its slab sees it. */
static void check_blocks(void *const *blocks, size_t count, unsigned size_class) {
  for (size_t i = 0; i < count; i++) {
    uint32_t word = map_lookup(blocks[i]);
    HAK_CHECK(word_kind(word) == size_class && word_owner(word) != 0);
    unit_t slab = slab_first_unit((unit_t)map_unit_of(blocks[i]), size_class);
    int number = slab_block_number(blocks[i], slab, size_class);
    HAK_CHECK(number >= 0);
    HAK_CHECK((the_map.free_bits[slab][number / 64] >> number % 64 & 1) == 0);
  }
}

void magazines_check(const heap_t *heap) {
  size_t capacity_bytes = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    void **slots = slots_of(heap, c);
    size_t count = count_of(heap, c);
    HAK_CHECK(slots[0] == NULL && count <= heap->magazines[c].capacity);
    capacity_bytes += (size_t)heap->magazines[c].capacity * size_classes[c].block_bytes;
    if (error_ends_program()) check_blocks(slots + 1, count, c);
  }
  HAK_CHECK(capacity_bytes == heap->capacity_bytes);
}
