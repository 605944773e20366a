/* See alloc.h. SPDX-License-Identifier: MIT */
#include "alloc.h"

#include "../arena/huge.h"
#include "../arena/pages.h"
#include "../front/bell.h"
#include "../front/boundary.h"
#include "../front/decay.h"
#include "../front/magazine.h"
#include "../front/sample.h"
#include "../front/reclaim.h"
#include "../front/thread.h"
#include "../int/pressure.h"
#include "../os/os.h"
#include "../region/region.h"
#include "../slab/slab.h"
#include "../support/error.h"
#include "address.h"
#include "foreign.h"

#include <errno.h>
#include <string.h>

/* ---- malloc --------------------------------------------------------------------*/
/* The heap has grown past a mark, at the latest refill: no gate is held, so this is the time
 * to see to that. */
static HAK_NOINLINE void *refill(unsigned size_class, bool *is_zero) {
  pressure_look();
  return boundary_refill(size_class, is_zero);
}

static HAK_COLD void *alloc_huge(size_t bytes, size_t alignment, bool zeroed) {
  if (bytes > PTRDIFF_MAX) return alloc_no_memory();
  bytes = max_size(bytes, 1);
  void *block = huge_alloc(bytes, alignment, zeroed);
  if (block == NULL && reclaim_for(bytes)) block = huge_alloc(bytes, alignment, zeroed);
  pressure_look();
  if (block == NULL) return alloc_no_memory();
  if (HAK_UNLIKELY(record_mean() != 0)) record_lone(block, huge_usable_size(block));
  return block;
}

HAK_INLINE void *alloc_class(unsigned size_class, void *block) {
  return HAK_LIKELY(block != NULL) ? block : refill(size_class, NULL);
}
HAK_INLINE void *alloc_large(unsigned size_class) {
  return alloc_class(size_class, magazine_pop_above_tiny(the_heap, size_class));
}

HAK_NOINLINE void *alloc_slow(size_t bytes) {
  if (bytes <= MID_MAX_BYTES) return refill(size_class_of(bytes), NULL);
  /* The smaller, the fewer looks at the size. */
  if (HAK_LIKELY(bytes <= HAK_MIB(1))) return alloc_large(size_class_above_tiny(bytes));
  if (HAK_UNLIKELY(bytes > LARGE_MAX_BYTES)) return alloc_huge(bytes, 1, false);
  return alloc_large(size_class_above_tiny(bytes));
}

/* ---- free ----------------------------------------------------------------------*/

/* The thread is to be noticed when it ends: it gets a cache. */
static HAK_NOINLINE void free_of_region_slowly(void *block, uint32_t word) {
  int saved_errno = errno;
  thread_watch_caches();
  region_free(block, word);
  bell_ring();
  errno = saved_errno;
}
HAK_INLINE void free_of_region(void *block, uint32_t word) {
  if (!region_free_fast(atomic64_load_relaxed(&cache_at(word_region(word))->handle), block))
    free_of_region_slowly(block, word);
}

static HAK_NOINLINE void free_any(void *block, uint32_t word) {
  if (HAK_UNLIKELY(!word_is_class(word)) && word_is_region(word)) {
    free_of_region(block, map_lookup(block)); /* alloc_free_slow may have cleared a bit */
    return;
  }
  int saved_errno = errno;
  address_kind_t kind = address_kind(block, word);
  switch (kind) {
    case ADDRESS_CLASS: boundary_free(block, word); break;
    case ADDRESS_HUGE:
      if (huge_free(block)) decay_outside();
      else error_report(ERROR_DOUBLE_FREE, block, 0, 0);
      bell_ring();
      break;
    case ADDRESS_OUTSIDE:
      if (!foreign_free(block)) address_report_free(block, kind);
      break;
    default: address_report_free(block, kind); break;
  }
  errno = saved_errno;
}

/* Both apart from what most frees of a heap that samples need, and from each other, so that no register has to be kept
 * for those. */
static HAK_NOINLINE void free_sampled(void *block, uint32_t word) {
  if (!boundary_free_sampled(block, word)) free_any(block, word);
}
static HAK_NOINLINE void free_unsampled(heap_t *heap, void *block, uint32_t word) {
  if (!boundary_free_quickly(heap, block, word)) free_any(block, word);
}

void alloc_free_slow(void *block, size_t difference, heap_t *heap) {
  /* Somebody may have set the bit since. No word of an owner has it; those of many regions do. */
  uint32_t word = ((uint32_t)difference ^ heap->id_word) & ~HEAP_SAMPLES;
  if (HAK_LIKELY(!sample_may_be_on(heap))) {
    if (!boundary_keeps(heap, word_kind(word))) free_unsampled(heap, block, word);
    else if (!boundary_keep(heap, block, word)) free_any(block, word);
  } else if (!sample_free_quickly(heap, block, difference ^ HEAP_SAMPLES)) {
    free_sampled(block, word);
  }
}

void alloc_free_outside(void *block) {
  if (block != NULL) free_any(block, 0);
}

/* ---- calloc --------------------------------------------------------------------*/

void *alloc_calloc(size_t count, size_t bytes) {
  size_t total;
  if (HAK_UNLIKELY(!alloc_product(count, bytes, &total))) return alloc_no_memory();
  if (HAK_UNLIKELY(total > LARGE_MAX_BYTES)) return alloc_huge(total, 1, true);
  bool is_zero = false;
  void *block = total <= TINY_MAX_BYTES ? magazine_pop_tiny(the_heap, total)
                                        : magazine_pop_above_tiny(the_heap, size_class_above_tiny(total));
  if (HAK_UNLIKELY(block == NULL)) block = refill(size_class_of(total), &is_zero);
  if (block == NULL || is_zero) return block;
  pages_clear_block(block, total);
  return block;
}

/* ---- Alignment -----------------------------------------------------------------*/

static unsigned aligned_class(size_t alignment, size_t bytes) {
  return size_class_aligned(alignment, max_size(bytes, 1));
}

/* Tiny classes have every multiple of 16 bytes, so that of the next multiple of the alignment is aligned so;
 * where both are a kilobyte at most, it is no more. NULL: none lies at hand, or it is none of these. */
HAK_INLINE void *aligned_at_hand(size_t alignment, size_t bytes) {
  if (HAK_UNLIKELY((alignment | bytes) > HAK_KIB(1))) return NULL;
  return magazine_pop_tiny(the_heap, align_up(max_size(bytes, 1), alignment));
}

static HAK_NOINLINE void *aligned_slowly(size_t alignment, size_t bytes) {
  if (bytes > PTRDIFF_MAX || alignment > (size_t)PTRDIFF_MAX / 2) return alloc_no_memory();
  unsigned size_class = aligned_class(alignment, bytes);
  if (HAK_UNLIKELY(size_class >= SIZE_CLASS_COUNT)) return alloc_huge(bytes, alignment, false);
  return alloc_class(size_class, magazine_pop_any(the_heap, size_class));
}

void *alloc_aligned(size_t alignment, size_t bytes) {
  void *block = aligned_at_hand(alignment, bytes);
  return HAK_LIKELY(block != NULL) ? block : aligned_slowly(alignment, bytes);
}

static HAK_NOINLINE int aligned_into_slowly(void **out, size_t alignment, size_t bytes) {
  int saved_errno = errno;
  void *block = aligned_slowly(alignment, bytes);
  errno = saved_errno;
  if (block == NULL) return ENOMEM;
  *out = block;
  return 0;
}

int alloc_aligned_into(void **out, size_t alignment, size_t bytes) {
  void *block = aligned_at_hand(alignment, bytes);
  if (HAK_UNLIKELY(block == NULL)) return aligned_into_slowly(out, alignment, bytes);
  *out = block;
  return 0;
}

/* ---- Size ----------------------------------------------------------------------*/
size_t alloc_usable_size(const void *block) {
  if (block == NULL) return 0;
  uint32_t word = map_lookup(block);
  switch (address_kind(block, word)) {
    case ADDRESS_CLASS: return size_classes[word_kind(word)].block_bytes;
    case ADDRESS_HUGE: return huge_usable_size(block);
    case ADDRESS_REGION: return region_usable_size(block, word);
    case ADDRESS_OUTSIDE: {
      size_t bytes = 0;
      foreign_usable_size(block, &bytes);
      return bytes;
    }
    default: return 0;
  }
}
