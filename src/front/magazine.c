/* See magazine.h. SPDX-License-Identifier: MIT */
#include "magazine.h"

#include "../arena/metadata.h"
#include "../slab/batch.h"
#include "../slab/depot.h"
#include "../slab/pool.h"
#include "../slab/slab.h"
#include "../support/error.h"
#include "capacity.h"
#include "order.h"
#include "room.h"
#include "sample.h"
#include "travel.h"

#include <string.h>

/* What a class has borrowed, in parts of 255: a block that had come back; one that is in use beside all others.
 * When it has come back, what a mid class has borrowed serves the coarse one alone, and it is kilobytes: so it
 * counts more. Where more threads had a heap at once than SOME_THREADS, a tiny class may borrow for longer: its
 * slabs would be a page for each of them. Where threads share slabs, all that it borrows counts as if it had
 * come back. */
enum { BORROWED_MOST = 255, BORROWED_AGAIN = 5, BORROWED_ANEW = 12, BORROWED_MID_AGAIN = 12, BORROWED_MID_ANEW = 36 };
enum { BORROWED_AMONG_SOME = 2 };
/* Where threads share slabs, each visits the batch boundary so often with a class, or as often as a block has bytes. */
enum { SHARED_VISITS_LEAST = 256 };
enum { HAND_STEPS = 24 };
enum { STAND_INS_MOST = 2 };

HAK_INLINE size_t array_bytes(size_t capacity) { return max_size((capacity + 1) * sizeof(void *), HAK_CACHE_LINE); }

/* ---- Capacity --------------------------------------------------------------------*/

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

/* Gives the magazine another array; `capacity` holds at least what is in it. On
 * failure it keeps the old one. */
static bool set_capacity(heap_t *heap, unsigned size_class, size_t capacity) {
  magazine_t *m = &heap->magazines[size_class];
  void **old = magazine_slots(heap, size_class), **slots = the_null_slot;
  size_t count = magazine_count(heap, size_class), old_capacity = m->capacity;
  HAK_ASSERT(count <= capacity && is_power_of_two(capacity + 1));
  if (capacity > 0) {
    slots = take_array(heap, capacity);
    if (slots == NULL) return false;
    memcpy(slots, old, (count + 1) * sizeof *slots);
  }
  heap->top[size_class] = slots + count;
  heap->limit[size_class] = slots + capacity;
  m->capacity = (uint16_t)capacity;
  uint64_t bit = (uint64_t)1 << size_class % 64, *arrays = &heap->arrays[size_class / 64];
  *arrays = capacity > 0 ? *arrays | bit : *arrays & ~bit;
  room_note(heap, size_class, (capacity - old_capacity) * size_classes[size_class].block_bytes);
  if (old_capacity > 0) give_array(heap, old, old_capacity);
  return true;
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
    if (!m->used) magazine_shrink(heap, c);
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

/* Widens the magazine if there is room; `block`: that is to go there, or NULL. Small blocks' first magazines are
 * too little to be refused. */
static bool widen(heap_t *heap, unsigned size_class, size_t capacity, void *block) {
  size_t more = capacity - heap->magazines[size_class].capacity;
  if (more == 0) return false;
  bool has = has_room(heap, size_class, more * size_classes[size_class].block_bytes, block);
  return (has || capacity <= capacity_least(size_class)) && set_capacity(heap, size_class, capacity);
}

size_t magazine_shrink(heap_t *heap, unsigned size_class) {
  magazine_t *m = &heap->magazines[size_class];
  size_t capacity = m->capacity / 2, count = magazine_count(heap, size_class);
  size_t cost = magazine_flush(heap, size_class, (count + 1) / 2);
  if (capacity >= capacity_least(size_class) && magazine_count(heap, size_class) <= capacity)
    set_capacity(heap, size_class, capacity);
  return cost;
}

/* ---- Refill and overflow --------------------------------------------------------------*/

HAK_INLINE size_t borrowed_again(bool is_tiny) {
  if (!is_tiny) return BORROWED_MID_AGAIN;
  return HAK_LIKELY(pool_owner_count() <= SOME_THREADS) ? BORROWED_AGAIN : BORROWED_AMONG_SOME;
}

/* The first slab of a class costs a thread a page at least, and a kilobyte in the
 * tables. Most threads use many sizes and few blocks of each: a class's blocks come from
 * a coarser one, until they would be worth slabs of their own. While the coarse magazine
 * has some, others have come back, and little more is in use; a class that finds it empty
 * answers for all blocks that refill it. In the end each borrowed block takes time, too. */
HAK_INLINE bool borrows(heap_t *heap, unsigned size_class, unsigned coarse, bool may_share) {
  magazine_t *m = &heap->magazines[size_class];
  if (m->capacity > 0 || m->borrowed >= BORROWED_MOST || coarse == size_class) return false;
  size_t refill = capacity_refill(heap->magazines[coarse].capacity);
  bool is_tiny = size_class < TINY_CLASS_COUNT, is_again = *heap->top[coarse] != NULL || (is_tiny && may_share);
  size_t share = is_again ? borrowed_again(is_tiny) : refill * (is_tiny ? BORROWED_ANEW : BORROWED_MID_ANEW);
  m->borrowed = min_size(m->borrowed + share, BORROWED_MOST) & BORROWED_ALL;
  return true;
}

/* Where there are many threads that is much for each of them, too: a page for each block that stays in use or
 * in a magazine. So where there are more than FEW_THREADS, they share slabs, from which the pool lends blocks.
 * To free one of these takes the slow path. It stays in the magazine, which does not grow meanwhile: what one
 * thread has at hand another one has to take from the next page. All that costs time, so a thread that has come
 * here often, and works rather than waits, gets slabs of its own: the larger the blocks, the more pages, and
 * the later. From 66 threads on, 2000 that wait had 102 to 106 MiB, instead of 117 to 121, but threads that
 * work would pay for it in programs that have no more than these. */
bool magazines_may_have_shared(void) { return HAK_UNLIKELY(pool_owner_count() > FEW_THREADS); }
static bool threads_share(void) { return magazines_may_have_shared() && pool_attached_count() > FEW_THREADS; }
static size_t shared_visits(unsigned size_class) {
  return max_size(size_classes[size_class].block_bytes, SHARED_VISITS_LEAST);
}
static bool shares(const heap_t *heap, unsigned size_class) {
  return threads_share() && size_class_is_shared(size_class) &&
         heap->magazines[size_class].borrowed < shared_visits(size_class);
}
static bool note_sharing(heap_t *heap, unsigned size_class) {
  if (!shares(heap, size_class)) return false;
  heap->magazines[size_class].borrowed++;
  return true;
}

/* Puts blocks into an empty magazine. Returns how many. */
static HAK_NOINLINE size_t fetch_shared(heap_t *heap, unsigned size_class, size_t wanted) {
  void **blocks = magazine_slots(heap, size_class) + 1;
  size_t got = heap->owner.slabs[size_class] == 0 ? batch_borrow(&heap->owner, size_class, blocks, wanted) : 0;
  return got > 0 ? got : batch_refill(&heap->owner, size_class, blocks, wanted, NULL);
}

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
  bool is_shared = HAK_UNLIKELY(may_share) && note_sharing(heap, size_class);
  if (!is_shared || m->capacity == 0)
    widen(heap, size_class, capacity_when_empty(size_class, m->capacity, m->missed, m->gave), NULL);
  m->missed = m->used = true;
  size_t wanted = capacity_refill(m->capacity);
  if (wanted == 1) {
    if (fetch(heap, size_class, &block, 1) == 1) return block;
    return batch_refill(&heap->owner, size_class, &block, 1, is_zero) == 1 ? block : NULL;
  }
  void **slots = magazine_slots(heap, size_class);
  size_t got = fetch(heap, size_class, slots + 1, wanted);
  if (got == 0)
    got = HAK_UNLIKELY(is_shared) ? fetch_shared(heap, size_class, wanted)
                                  : batch_refill(&heap->owner, size_class, slots + 1, wanted, is_zero);
  if (got == 0) return NULL;
  /* Filling a slab may have freed in this class (it may purge, never malloc), but
   * nothing was pushed: the magazine is ours alone. */
  heap->top[size_class] = slots + got - 1;
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
  return refill_or_borrow(heap, size_class, threads_share(), is_zero);
}

void *magazine_refill(heap_t *heap, unsigned size_class, bool *is_zero) {
  if (magazines_may_have_shared()) return refill_among_many(heap, size_class, is_zero);
  return refill_or_borrow(heap, size_class, false, is_zero);
}

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
  if (*heap->top[size_class] == block) sample_draw(heap, size_class, 1);
  sample_set(heap, size_class);
}

/* `by_depot`: as many as it has room for. */
HAK_INLINE size_t flush(heap_t *heap, unsigned size_class, size_t count, bool by_depot) {
  size_t held = magazine_count(heap, size_class);
  count = min_size(count, held);
  if (count == 0) return 0;
  void **slots = magazine_slots(heap, size_class);
  size_t sent = by_depot ? batch_send(&heap->owner, size_class, slots + 1, count) : 0;
  if (sent < count) batch_flush(&heap->owner, size_class, slots + 1 + sent, count - sent);
  memmove(slots + 1, slots + 1 + count, (held - count) * sizeof *slots);
  heap->top[size_class] = slots + held - count;
  return count * capacity_block_cost(size_class);
}

static HAK_COLD size_t flush_sampled(heap_t *heap, unsigned size_class, size_t count, bool by_depot) {
  if (!sample_is_on(heap)) return flush(heap, size_class, count, by_depot);
  bool is_held = sample_is_held(heap, size_class);
  if (!is_held) sample_hold(heap, size_class);
  size_t before = magazine_count(heap, size_class), cost = flush(heap, size_class, count, by_depot);
  sample_flushed(heap, size_class, before - magazine_count(heap, size_class));
  if (!is_held) sample_set(heap, size_class);
  return cost;
}

size_t magazine_flush(heap_t *heap, unsigned size_class, size_t count) {
  return sample_may_be_on(heap) ? flush_sampled(heap, size_class, count, false) : flush(heap, size_class, count, false);
}

static HAK_NOINLINE void send(heap_t *heap, unsigned size_class, size_t count) {
  if (sample_may_be_on(heap)) flush_sampled(heap, size_class, count, true);
  else flush(heap, size_class, count, true);
}

/* Whether a full magazine is not to grow for the sake of its blocks' order, and is brought back to a fair batch
 * by and by. */
static bool stays_short(heap_t *heap, unsigned size_class) {
  if (HAK_LIKELY(!order_is_lost(heap, size_class))) return false;
  if (heap->magazines[size_class].capacity > BATCH_CAPACITY) magazine_shrink(heap, size_class);
  return true;
}

void magazine_overflow(heap_t *heap, unsigned size_class, void *block) {
  magazine_t *m = &heap->magazines[size_class];
  m->used = true;
  m->gave = true;
  if (HAK_UNLIKELY(travel_is_due(size_class))) travel_begin(heap, size_class);
  room_look_first(heap, size_class, block);
  bool is_first = m->capacity == 0, stays = !is_first && (shares(heap, size_class) || stays_short(heap, size_class));
  bool is_wider = !stays && widen(heap, size_class, travel_capacity_when_full(heap, size_class, block), block);
  if (!is_wider && !is_first) {
    size_t count = capacity_flush(size_class, m->capacity);
    if (HAK_UNLIKELY(m->travels > 0)) send(heap, size_class, count);
    else magazine_flush(heap, size_class, count);
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
      set_capacity(heap, (unsigned)c, 0);
  }
  for (unsigned c = MID_CLASS_END; c < SIZE_CLASS_COUNT; c++) forget(&heap->magazines[c]); /* also without an array */
}

/* ---- Looking ------------------------------------------------------------------------*/
/* Slots that were stripped (strip.h). */
static HAK_LOOKS_ON size_t gaps(void *const *slots, size_t count) {
  size_t empty = 0;
  for (size_t i = 1; i <= count; i++) empty += HAK_LOOK(slots[i]) == NULL;
  return empty;
}

HAK_LOOKS_ON size_t magazine_count_of_others(const heap_t *heap, unsigned size_class) {
  void **limit = HAK_LOOK(heap->limit[size_class]), **top = HAK_LOOK(heap->top[size_class]);
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
