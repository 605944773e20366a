/*
 * The front: a thread's heap and its magazines, the only code on the fast path.
 *
 * A magazine is an array of addresses of free blocks of one class. Allocating
 * pops, freeing pushes; neither reads or writes the block, its slab, or a line
 * that another thread writes.
 *
 *        slots[0]  slots[1] … slots[n]  …  slots[capacity]
 *          NULL     oldest     newest
 *                              ^ top        ^ limit
 *
 * Slot 0 is NULL for ever, so an empty magazine pops NULL: one test finds both
 * "empty" and "there is no magazine yet". Invariants: slots <= top <= limit;
 * slots + capacity = limit; blocks in a magazine are out of their slabs.
 *
 * The calling thread's heap is the only thread-local variable of the fast path.
 * Before a thread has a heap it is the_null_heap, whose magazines are empty and full at
 * once, so the fast path needs no test for it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_HEAP_H
#define HAK_HEAP_H

#include "../base/slots.h"
#include "../slab/pool.h"

HAK_C_BEGIN

typedef struct {
  uint16_t capacity;      /* slots, one less than a power of two; 0: no array yet */
  bool missed : 1;        /* ran empty since it last ran full                     */
  bool used : 1;          /* ran empty or full since the last decay               */
  bool gave : 1;          /* ran full once, with or without an array              */
  uint16_t travels : 2;   /* got another's blocks, and so the depot serves it: travel.c */
  uint16_t borrowed : 11; /* what others' slabs have served instead: magazine.c, sharing.c */
} magazine_t;
enum { BORROWED_ALL = (1 << 11) - 1 };

/* A block that lay in a slot of a magazine and may be the magazine's still: strip.h. */
typedef struct {
  void *block;
  uint16_t slot; /* its index */
  uint8_t size_class;
} set_aside_t;
enum { SET_ASIDE_MOST = 4 };

/* Of sample.c: one for each heap that has ever sampled; the_null_sampler, which nobody writes, for all others. */
struct sampler {
  uint64_t mean_bytes;             /* that `left` was drawn for; 0: the heap does not sample */
  const atomic8 *filter;           /* record_filter */
  uint32_t left[SIZE_CLASS_COUNT]; /* all 0 in a heap that does not sample */
  int16_t trap[SIZE_CLASS_COUNT];
  void *aside[SIZE_CLASS_COUNT];
};

typedef struct heap {
  union {
    struct {
      set_aside_t set_aside[SET_ASIDE_MOST]; /* of strip.c. First, as seldom used: MAGAZINE_COLOUR */
      slots_t slots[SIZE_CLASS_COUNT];
      magazine_t magazines[SIZE_CLASS_COUNT];
      uint64_t arrays[(SIZE_CLASS_COUNT + 63) / 64]; /* a bit for each magazine that has one: capacity > 0 */
      uint32_t id_word;                              /* owner.id as a page-map word with kind 0; HEAP_SAMPLES */
      uint32_t events;                               /* batch boundaries, to look at the clock now and then */
      size_t capacity_bytes;                         /* all magazines' capacity in blocks' bytes */
      size_t large_capacity_bytes;                   /* those of large blocks */
      uint64_t in_order, gets_mixed;                 /* of order.c: a bit for each class that was, or lately did */
      /* Of room.c: large blocks that it might have looked at; of those that it did, in parts of units, how much that
       * was, how much of it is resident, and how much of that tells how the program uses such blocks. */
      uint64_t looks : 9, parts_looked_at : 13, parts_resident : 13, parts_used : 13;
      uint64_t counted_in : 16; /* the generation of processes in which its large_capacity_bytes are counted, or 0 */
      uint32_t out_lately_kib, looked_at_kib; /* of room.c: the most that was out; what was not free in slabs then */
      /* Of decay.c: when it looked last, and when its round over the magazines began, the lower halves; how
       * many classes that round has still to see, and what has its turn next. */
      uint32_t looked_ms, decayed_ms;
      uint8_t decay_classes, decay_turn;
      uint8_t hand, large_hand; /* classes that were looked at last for room in the budget */
      /* Of strip.c, written by who claims the owner: how much is set aside; magazines with gaps, a bit each; and
       * where the magazines' tops were. */
      uint32_t set_aside_count;
      uint64_t stripped[(SIZE_CLASS_COUNT + 63) / 64];
      uint64_t tops_seen[2];   /* of large classes' magazines, and of all others' */
      void **spare_arrays;     /* the smallest ones, linked by their first slots: array.c */
      struct sampler *sampler; /* sample.h */
    };
    char room[OWNER_ROOM_BYTES];
  };
  owner_t owner;
} heap_t;

/* Whether it has ever been a thread's, so that its magazines are there. For the thread that it begins with, once they
 * are; and for whoever holds the pool's gate or has claimed the owner, which may be before: release, and acquire. */
HAK_INLINE void heap_begins(heap_t *heap) {
  __atomic_store_n(&heap->id_word, word_make(heap->owner.id, 0), __ATOMIC_RELEASE);
}
HAK_INLINE bool heap_has_begun(const heap_t *heap) { return __atomic_load_n(&heap->id_word, __ATOMIC_ACQUIRE) != 0; }

static_assert(offsetof(heap_t, owner) == OWNER_ROOM_BYTES, "a heap lies around its owner");
static_assert(sizeof(heap_t) == OWNER_STRIDE_BYTES, "heaps lie at the stride of owners");
HAK_INLINE heap_t *heap_of(owner_t *owner) { return (heap_t *)((char *)owner - OWNER_ROOM_BYTES); }

/* Every heap that has been made; most are other threads'. */
#define FOR_EACH_HEAP(heap)                                \
  for (uint32_t id_ = 1; id_ <= pool_owner_count(); id_++) \
    for (heap_t *heap = heap_of(owner_by_id(id_)); heap != NULL; heap = NULL)

HAK_INLINE void **magazine_slots(const heap_t *heap, unsigned size_class) {
  return heap->slots[size_class].limit - heap->magazines[size_class].capacity;
}
/* Slots in use: blocks, and what stands between them (strip.h, sample.h). */
HAK_INLINE size_t magazine_count(const heap_t *heap, unsigned size_class) {
  return (size_t)(heap->slots[size_class].top - magazine_slots(heap, size_class));
}

/* The class of the next magazine below `end` that has an array; -1: none has. */
HAK_INLINE int magazine_below(const heap_t *heap, unsigned end) {
  unsigned i = end / 64;
  uint64_t bits = heap->arrays[i] & (((uint64_t)1 << end % 64) - 1);
  while (bits == 0) {
    if (i == 0) return -1;
    bits = heap->arrays[--i];
  }
  return (int)(i * 64 + log2_floor(bits));
}
static_assert(SIZE_CLASS_COUNT % 64 != 0 && MID_CLASS_END % 64 != 0, "magazine_below begins there");
/* From the largest blocks to the smallest. In the loop its magazine may lose its array. */
#define FOR_EACH_MAGAZINE_BELOW(heap, size_class, end) \
  for (int size_class = (end); (size_class = magazine_below(heap, (unsigned)size_class)) >= 0;)
#define FOR_EACH_MAGAZINE(heap, size_class) FOR_EACH_MAGAZINE_BELOW(heap, size_class, SIZE_CLASS_COUNT)

extern void *the_null_slot[1]; /* of all magazines that have no array yet */
extern const struct sampler the_null_sampler;
extern heap_t the_null_heap;
extern __thread heap_t *the_heap __attribute__((tls_model("initial-exec")));

/* ---- The fast path ------------------------------------------------------------*/

/* Above tiny classes the newest block, too, is worth taking from a thread that sleeps, so a pop of the fast
 * path says by the top beforehand that it may be gone (strip.h). */
HAK_INLINE bool magazine_lowers_first(size_t size_class) { return size_class >= TINY_CLASS_COUNT; }

/* A magazine's slots by an address in one register. Each call reads the top that the last one wrote: what Intel's
 * processors hand on at once, at the latest since Golden Cove, where an address is no more than a register and a
 * constant, takes five cycles where it has an index. */
HAK_INLINE slots_t *magazine_at(heap_t *heap, size_t size_class) {
#if defined(__x86_64__)
  size_class *= 2; /* an index counts eight bytes at the most. Compilers would shift a copy, and add */
  HAK_IN_REGISTER(size_class);
  slots_t *slots = (slots_t *)((uintptr_t)heap->slots + size_class * (sizeof(slots_t) / 2));
#else
  slots_t *slots = &heap->slots[size_class];
#endif
  HAK_IN_REGISTER(slots);
  return slots;
}
/* The same of the tiny class for so many bytes: there is one for each 16 bytes, and slots_t has as many. */
HAK_INLINE slots_t *magazine_at_tiny(heap_t *heap, size_t bytes) {
  slots_t *slots = (slots_t *)(((uintptr_t)heap->slots + bytes + sizeof(slots_t) - 1) & -sizeof(slots_t));
  HAK_IN_REGISTER(slots);
  return slots;
}
static_assert(sizeof(slots_t) == 16 && offsetof(heap_t, slots) % 16 == 0 && __alignof__(heap_t) % 16 == 0,
              "magazine_at_tiny rounds an address up, as size_class_tiny does with a size");
/* A level-1 cache holds some lines, eight mostly, of each place in a page. A class's slots lie as far into the page as
 * its blocks are long, and a line: without that they would be where every such block of 256 bytes to 1 KiB begins, or
 * one of two to four, and be driven out by these. Where pages begin, pages of larger blocks do. */
enum { MAGAZINE_COLOUR = 64 };
static_assert(offsetof(heap_t, slots) == MAGAZINE_COLOUR, "slots are where the blocks of their class do not begin");

/* A block of the class from the magazine; NULL when it is empty. On the fast path of tiny classes alone; in the
 * slow paths, during which nobody claims the owner, of any. */
HAK_INLINE void *magazine_pop(heap_t *heap, size_t size_class) { return slots_pop(magazine_at(heap, size_class)); }
/* The same of the tiny class for so many bytes. */
HAK_INLINE void *magazine_pop_tiny(heap_t *heap, size_t bytes) { return slots_pop(magazine_at_tiny(heap, bytes)); }

/* The same of a class above tiny: the top is lowered, and then it is looked whether the block is gone. An empty
 * magazine's top stays as it is: it may be everybody's. Relaxed, and with the compiler's order alone: the other
 * side's fences order it. */
HAK_INLINE void *magazine_pop_above_tiny(heap_t *heap, size_t size_class) {
  void ***top = &magazine_at(heap, size_class)->top, **slot = *top, *block = __atomic_load_n(slot, __ATOMIC_RELAXED);
  if (HAK_UNLIKELY(block == NULL)) return NULL;
  __atomic_store_n(top, slot - 1, __ATOMIC_RELAXED);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (HAK_UNLIKELY(__atomic_load_n(slot, __ATOMIC_RELAXED) == NULL)) {
    __atomic_store_n(top, slot, __ATOMIC_RELAXED);
    return NULL;
  }
  slots_prefetch(slot[-1]);
  return block;
}

/* The same of any class. */
HAK_INLINE void *magazine_pop_any(heap_t *heap, size_t size_class) {
  return magazine_lowers_first(size_class) ? magazine_pop_above_tiny(heap, size_class) : magazine_pop(heap, size_class);
}

/* false: the magazine is full. */
HAK_INLINE bool magazine_push(heap_t *heap, size_t size_class, void *block) {
  return slots_push(magazine_at(heap, size_class), block);
}

HAK_C_END
#endif
