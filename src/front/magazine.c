/* See magazine.h. SPDX-License-Identifier: MIT */
#include "magazine.h"

#include "../slab/batch.h"
#include "../slab/depot.h"
#include "../slab/pool.h"
#include "array.h"
#include "capacity.h"
#include "order.h"
#include "room.h"
#include "sample.h"
#include "sharing.h"
#include "travel.h"
#include "unload.h"

#include <string.h>

/* What a class has borrowed, in parts of 255: a block that had come back; one that is in use beside all others.
 * When it has come back, what a mid class has borrowed serves the coarse one alone, and it is kilobytes: so it
 * counts more. Where more threads had a heap at once than SOME_THREADS, a tiny class may borrow for longer: its
 * slabs would be a page for each of them. Where threads share slabs, all that it borrows counts as if it had
 * come back. */
enum { BORROWED_MOST = 255, BORROWED_AGAIN = 5, BORROWED_ANEW = 12, BORROWED_MID_AGAIN = 12, BORROWED_MID_ANEW = 36 };
enum { BORROWED_AMONG_SOME = 2 };
enum { STAND_INS_MOST = 2 };

/* ---- Borrowing ------------------------------------------------------------------------*/

HAK_INLINE size_t borrowed_again(bool is_tiny) {
  if (!is_tiny) return BORROWED_MID_AGAIN;
  return HAK_LIKELY(pool_owner_count() <= SOME_THREADS) ? BORROWED_AGAIN : BORROWED_AMONG_SOME;
}

/* The first slab of a class costs a thread a page at least, and a kilobyte in the
 * tables. Most threads use many sizes and few blocks of each: a class's blocks come from
 * a coarser one, until they would be worth slabs of their own. While the coarse magazine
 * has some, others have come back, and little more is in use; a class that finds it empty
 * answers for all blocks that refill it. In the end each borrowed block takes time, too. */
HAK_INLINE bool borrows(heap_t *heap, unsigned size_class, unsigned coarse, bool are_shared) {
  magazine_t *m = &heap->magazines[size_class];
  if (m->capacity > 0 || m->borrowed >= BORROWED_MOST || coarse == size_class) return false;
  size_t refill = capacity_refill(heap->magazines[coarse].capacity);
  bool is_tiny = size_class < TINY_CLASS_COUNT, is_again = *heap->slots[coarse].top != NULL || (is_tiny && are_shared);
  size_t share = is_again ? borrowed_again(is_tiny) : refill * (is_tiny ? BORROWED_ANEW : BORROWED_MID_ANEW);
  m->borrowed = min_size(m->borrowed + share, BORROWED_MOST) & BORROWED_ALL;
  return true;
}

/* ---- Refill ------------------------------------------------------------------------*/

HAK_INLINE size_t fetch(heap_t *heap, unsigned size_class, void **blocks, size_t wanted) {
  return HAK_UNLIKELY(depot_may_have(size_class)) ? travel_fetch(heap, size_class, blocks, wanted) : 0;
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

HAK_INLINE void *refill(heap_t *heap, unsigned size_class, bool may_share, bool *is_zero) {
  /* A heap that has just been attached may have some already. */
  void *block = magazine_pop(heap, size_class);
  if (block == NULL) block = pop_stand_in(heap, size_class);
  if (is_zero != NULL) *is_zero = false;
  if (block != NULL) return block;
  magazine_t *m = &heap->magazines[size_class];
  bool is_shared = HAK_UNLIKELY(may_share) && sharing_note(heap, size_class);
  if (!is_shared || m->capacity == 0) {
    size_t batch_bytes = travel_batch_bytes(heap, size_class);
    array_widen(heap, size_class, capacity_when_empty(size_class, m->capacity, batch_bytes, m->missed, m->gave), NULL);
  }
  m->missed = m->used = true;
  size_t wanted = capacity_refill(m->capacity);
  if (wanted == 1) {
    if (fetch(heap, size_class, &block, 1) == 1) return block;
    return batch_refill(&heap->owner, size_class, &block, 1, is_zero) == 1 ? block : NULL;
  }
  void **slots = magazine_slots(heap, size_class);
  size_t got = fetch(heap, size_class, slots + 1, wanted);
  if (got == 0)
    got = HAK_UNLIKELY(is_shared) ? sharing_fetch(heap, size_class, wanted)
                                  : batch_refill(&heap->owner, size_class, slots + 1, wanted, is_zero);
  if (got == 0) return NULL;
  /* Filling a slab may have freed in this class (it may purge, never malloc), but
   * nothing was pushed: the magazine is ours alone. */
  heap->slots[size_class].top = slots + got - 1;
  return slots[got];
}

/* The block that is given out may be a sample, and of any magazine that stands in. */
static HAK_COLD void *refill_sampled(heap_t *heap, unsigned size_class, bool may_share, bool *is_zero) {
  unsigned last = (unsigned)max_size(size_class, size_class_stand_in(size_class));
  size_t before[STAND_INS_MOST + 1];
  HAK_ASSERT(last - size_class <= STAND_INS_MOST);
  for (unsigned c = size_class; c <= last; c++) {
    sample_hold(heap, c);
    before[c - size_class] = magazine_count(heap, c);
  }
  void *block = refill(heap, size_class, may_share, is_zero);
  /* Not by its word: one that was freed twice may be a block of another class by now. A magazine that stood in
   * has one less. */
  unsigned served = size_class;
  for (unsigned c = size_class + 1; c <= last; c++)
    if (magazine_count(heap, c) < before[c - size_class]) served = c;
  bool is_new = before[served - size_class] == 0;
  bool is_sample = block != NULL && (is_new ? sample_draw_one(heap, served) : sample_popped(heap, served));
  if (is_new) sample_draw(heap, served, magazine_count(heap, served));
  for (unsigned c = size_class; c <= last; c++) sample_set(heap, c);
  if (is_sample) record_allocated(block, size_classes[served].block_bytes, heap->sampler->mean_bytes);
  return block;
}

HAK_INLINE void *refill_or_borrow(heap_t *heap, unsigned size_class, bool may_share, bool *is_zero) {
  unsigned coarse = may_share ? size_class_shared(size_class) : size_class_coarse(size_class);
  unsigned first = borrows(heap, size_class, coarse, may_share) ? coarse : size_class;
  for (unsigned c = first;; c = size_class) {
    bool is_sampled = sample_may_be_on(heap) && sample_notice(heap);
    void *block = is_sampled ? refill_sampled(heap, c, may_share, is_zero) : refill(heap, c, may_share, is_zero);
    /* At the end of memory there may be slabs of the class itself. */
    if (HAK_LIKELY(block != NULL) || c == size_class) return block;
  }
}

/* Not inline: programs with few threads are not to pay for it. */
static HAK_NOINLINE void *refill_among_many(heap_t *heap, unsigned size_class, bool *is_zero) {
  return refill_or_borrow(heap, size_class, sharing_is_on(), is_zero);
}

void *magazine_refill(heap_t *heap, unsigned size_class, bool *is_zero) {
  if (sharing_has_begun()) return refill_among_many(heap, size_class, is_zero);
  return refill_or_borrow(heap, size_class, false, is_zero);
}

/* ---- Blocks that come back ------------------------------------------------------------*/

void magazine_pass_by(heap_t *heap, unsigned size_class, void *block, uint32_t word) {
  magazine_t *m = &heap->magazines[size_class];
  m->used = m->gave = true;
  m->missed = false;
  batch_flush_single(&heap->owner, size_class, block, word);
}

HAK_COLD void magazine_push_sampled(heap_t *heap, unsigned size_class, void *block) {
  bool is_on = sample_notice(heap);
  if (is_on) sample_hold(heap, size_class);
  if (!magazine_push(heap, size_class, block)) magazine_overflow(heap, size_class, block);
  if (!is_on) return;
  if (*heap->slots[size_class].top == block) sample_draw(heap, size_class, 1);
  sample_set(heap, size_class);
}

/* One that had better not grow for the sake of its blocks' order is brought back to a fair batch by and by: half as
 * wide, it is half full again afterwards. */
static void unload_and_shorten(heap_t *heap, unsigned size_class) {
  size_t capacity = heap->magazines[size_class].capacity;
  unload_some(heap, size_class, capacity_flush(size_class, capacity) * 3 / 2);
  if (magazine_count(heap, size_class) <= capacity / 3) array_set(heap, size_class, capacity / 2);
}

void magazine_overflow(heap_t *heap, unsigned size_class, void *block) {
  magazine_t *m = &heap->magazines[size_class];
  m->used = true;
  m->gave = true;
  if (HAK_UNLIKELY(travel_is_due(size_class))) travel_begin(heap, size_class);
  room_look_first(heap, size_class, block);
  bool is_first = m->capacity == 0, is_shared = !is_first && sharing_serves(heap, size_class),
       is_short = !is_first && !is_shared && order_is_lost(heap, size_class);
  bool is_wider = !is_shared && !is_short &&
                  array_widen(heap, size_class, travel_capacity_when_full(heap, size_class, block), block);
  if (!is_wider && !is_first) {
    size_t count = capacity_flush(size_class, m->capacity);
    if (HAK_UNLIKELY(m->travels > 0)) unload_by_depot(heap, size_class, count);
    else if (HAK_UNLIKELY(is_short && m->capacity > BATCH_CAPACITY)) unload_and_shorten(heap, size_class);
    else unload_some(heap, size_class, count);
  }
  m->missed = false;
  if (!magazine_push(heap, size_class, block)) batch_flush(&heap->owner, size_class, &block, 1);
}

static void forget(magazine_t *m) { m->missed = m->used = m->gave = false, m->travels = 0; }

void magazines_drop(heap_t *heap, size_t capacity_kept) {
  order_forget(heap);
  FOR_EACH_MAGAZINE(heap, c) {
    forget(&heap->magazines[c]);
    if (heap->magazines[c].capacity > capacity_kept && magazine_count(heap, (unsigned)c) == 0)
      array_set(heap, (unsigned)c, 0);
  }
  for (unsigned c = MID_CLASS_END; c < SIZE_CLASS_COUNT; c++) forget(&heap->magazines[c]); /* also without an array */
}
