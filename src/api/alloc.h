/*
 * The allocator's entry points for the three surfaces above it: libc's names
 * (libc.c), C++'s (operators.c) and our own (hak.c). The inline functions are
 * the fast path whole; everything else is in alloc.c.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ALLOC_H
#define HAK_ALLOC_H

#include "../front/heap.h"

#include <errno.h>

HAK_C_BEGIN

/* Above MID_MAX_BYTES, or of a class whose magazine is empty. */
void *alloc_slow(size_t bytes);
/* NULL, or nothing of ours. Both keep errno. */
void alloc_free_outside(void *block);
/* Not the calling thread's, a full magazine, a heap that samples, or a mistake. `difference` is what the fast path
 * has found: the block's word and the heap's number, joined by exclusive or. */
void alloc_free_slow(void *block, size_t difference, heap_t *heap);
/* As alloc_free, after a look at the size. What realloc has shrunk in place
 * has a larger class than its size leads to; C's free_sized may see such a block,
 * C++'s sized delete may not. */
void alloc_free_sized_slow(void *block, size_t bytes);
void alloc_delete_sized_slow(void *block, size_t bytes);

/* malloc(3) */
HAK_INLINE void *alloc_malloc(size_t bytes) {
  if (HAK_LIKELY(bytes <= TINY_MAX_BYTES)) {
    void *block = magazine_pop_tiny(the_heap, bytes);
    if (HAK_LIKELY(block != NULL)) return block;
  } else if (HAK_LIKELY(bytes <= MID_MAX_BYTES)) {
    void *block = magazine_pop_above_tiny(the_heap, size_class_above_tiny(bytes));
    if (HAK_LIKELY(block != NULL)) return block;
  }
  return alloc_slow(bytes);
}

/* free(3): one load from the page map says whose the block is and of which class. */
HAK_INLINE void alloc_free(void *block) {
  size_t unit = map_unit_of(block); /* NULL and foreign addresses are beyond the end */
  if (HAK_UNLIKELY(unit >= the_map.units)) {
    alloc_free_outside(block);
    return;
  }
  heap_t *heap = the_heap;
  size_t size_class = atomic32_load_relaxed(map_word(unit)) ^ heap->id_word;
  if (HAK_LIKELY(size_class < SIZE_CLASS_COUNT) && HAK_LIKELY(magazine_push(heap, size_class, block))) return;
  alloc_free_slow(block, size_class, heap);
}

/* The fast path of both: the size must lead to the class that the block has. It
 * costs four instructions more than free, and finds a wrong size at once, not
 * after the block has been handed out again as one of the wrong size. */
HAK_INLINE bool alloc_free_sized_fast(void *block, size_t bytes) {
  size_t unit = map_unit_of(block);
  if (HAK_UNLIKELY(unit >= the_map.units)) return false;
  heap_t *heap = the_heap;
  size_t size_class = atomic32_load_relaxed(map_word(unit)) ^ heap->id_word;
  /* A size beyond tiny gives a number that is another class's or none: the slow
   * path knows. */
  return HAK_LIKELY(size_class == size_class_tiny(bytes)) && HAK_LIKELY(size_class < TINY_CLASS_COUNT) &&
         magazine_push(heap, size_class, block);
}
/* ISO C23 free_sized */
HAK_INLINE void alloc_free_sized(void *block, size_t bytes) {
  if (!alloc_free_sized_fast(block, bytes)) alloc_free_sized_slow(block, bytes);
}
/* ISO C++ operator delete(void *, size_t) */
HAK_INLINE void alloc_delete_sized(void *block, size_t bytes) {
  if (!alloc_free_sized_fast(block, bytes)) alloc_delete_sized_slow(block, bytes);
}

/* The functions of the same names in hakmem.h. */
void *alloc_calloc(size_t count, size_t bytes);
void *alloc_realloc(void *block, size_t bytes);
/* `alignment` is a power of two. NULL and ENOMEM. */
void *alloc_aligned(size_t alignment, size_t bytes);
/* The same to *out, which stays on failure. 0 or ENOMEM; errno stays. */
int alloc_aligned_into(void **out, size_t alignment, size_t bytes);
void alloc_free_aligned_sized(void *block, size_t alignment, size_t bytes);
size_t alloc_usable_size(const void *block);

/* For whoever has none. */
HAK_INLINE void *alloc_no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

/* false when the product is no size: the caller sets ENOMEM. */
HAK_INLINE bool alloc_product(size_t count, size_t bytes, size_t *product) {
  return !__builtin_mul_overflow(count, bytes, product);
}

HAK_C_END
#endif
