/* See alloc.h. SPDX-License-Identifier: MIT */
#include "alloc.h"

#include "../arena/arena_purge.h"
#include "../arena/huge.h"
#include "../arena/pages.h"
#include "../base/turns.h"
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

static void *no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

/* What a request borrows from where it has no slabs of its own. */
static unsigned class_borrowed(unsigned wanted) {
  return magazines_may_have_shared() ? size_class_shared(wanted) : size_class_coarse(wanted);
}

/* Whether a block of class `served` may be what a request of class `wanted` got. */
HAK_INLINE bool class_may_serve(unsigned wanted, unsigned served) {
  return (wanted <= served && served <= size_class_stand_in(wanted)) || size_class_coarse(wanted) == served ||
         class_borrowed(wanted) == served;
}

/* ---- malloc --------------------------------------------------------------------*/
/* The heap has grown past a mark, at the latest refill: no gate is held, so this is the time
 * to see to that. */
static HAK_NOINLINE void *refill(unsigned size_class, bool *is_zero) {
  if (HAK_UNLIKELY(limit_is_passed())) pressure_answer();
  return boundary_refill(size_class, is_zero);
}

static HAK_COLD void *alloc_huge(size_t bytes, size_t alignment, bool zeroed) {
  if (bytes > PTRDIFF_MAX) return no_memory();
  bytes = max_size(bytes, 1);
  void *block = huge_alloc(bytes, alignment, zeroed);
  if (block == NULL && reclaim_for(bytes)) block = huge_alloc(bytes, alignment, zeroed);
  if (HAK_UNLIKELY(limit_is_passed())) pressure_answer();
  if (block == NULL) return no_memory();
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
  if (HAK_UNLIKELY(!cache_thread_has_any())) thread_watch();
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

/* Set once a realloc had to leave a block larger than its new size for want of
 * memory: from then on a size in C's free_sized may be any that is smaller.
 * Relaxed: what hands the block over orders it. */
static atomic32 some_stayed_large;
/* Set once a realloc has copied a growing block to a larger one than was asked
 * for: from then on a block may be as much too large. Relaxed, as above. */
static atomic32 some_grew_ahead;

/* What realloc copies a growing block to: one that grows by small steps is copied
 * at every fourth or so of its size. The result is at most most_grown(bytes). */
HAK_INLINE size_t grown_ahead(size_t old_bytes, size_t bytes) { return max_size(bytes, old_bytes + old_bytes / 4); }
HAK_INLINE size_t most_grown(size_t bytes) { return bytes + bytes / 4; }

/* Whether a block of class `served` may be what a realloc that grew to `bytes` got. */
static bool class_may_be_grown(size_t bytes, unsigned served) {
  unsigned most = size_class_of(min_size(most_grown(bytes), LARGE_MAX_BYTES));
  unsigned last = size_class_stand_in(most) > most ? size_class_stand_in(most) : class_borrowed(most);
  return size_class_of(bytes) <= served && served <= last;
}

/* Whether a block of that word can have been asked for with `bytes`. */
static bool size_fits(const void *block, uint32_t word, size_t bytes, bool may_be_shrunk) {
  if (word == 0) return true; /* foreign or a mistake: alloc_free says */
  if (may_be_shrunk && atomic32_load_relaxed(&some_stayed_large) && bytes <= alloc_usable_size(block)) return true;
  bool may_be_grown = atomic32_load_relaxed(&some_grew_ahead) != 0;
  if (!word_is_class(word)) {
    if (word_is_region(word)) return region_may_have_size(block, word, bytes, 1, may_be_shrunk);
    if (address_kind_of_others(block, word) != ADDRESS_HUGE) return true; /* inside a block: alloc_free says */
    return bytes <= PTRDIFF_MAX && huge_may_have_size(block, bytes, may_be_grown ? most_grown(bytes) : bytes);
  }
  if (bytes > LARGE_MAX_BYTES) return false;
  if (class_may_serve(size_class_of(bytes), word_kind(word))) return true;
  if (may_be_grown && class_may_be_grown(bytes, word_kind(word))) return true;
  return may_be_shrunk && size_stays_when_shrunk(size_classes[word_kind(word)].block_bytes, bytes);
}

static void free_checked(void *block, size_t bytes, bool may_be_shrunk) {
  if (block == NULL) return;
  if (HAK_LIKELY(size_fits(block, map_lookup(block), bytes, may_be_shrunk))) alloc_free(block);
  else error_report(ERROR_SIZE_MISMATCH, block, alloc_usable_size(block), bytes);
}

/* alloc_free_sized_fast beyond tiny sizes: a block of ours whose class is the size's own. */
HAK_INLINE bool free_sized_above_tiny(void *block, size_t bytes) {
  size_t unit = map_unit_of(block);
  if (bytes <= TINY_MAX_BYTES || bytes > LARGE_MAX_BYTES || HAK_UNLIKELY(unit >= the_map.units)) return false;
  heap_t *heap = the_heap;
  size_t size_class = atomic32_load_relaxed(map_word(unit)) ^ heap->id_word;
  return size_class == size_class_above_tiny(bytes) && magazine_push(heap, size_class, block);
}

HAK_NOINLINE void alloc_free_sized_slow(void *block, size_t bytes) {
  if (!free_sized_above_tiny(block, bytes)) free_checked(block, bytes, true);
}
HAK_NOINLINE void alloc_delete_sized_slow(void *block, size_t bytes) {
  if (!free_sized_above_tiny(block, bytes)) free_checked(block, bytes, false);
}

/* ---- calloc --------------------------------------------------------------------*/

void *alloc_calloc(size_t count, size_t bytes) {
  size_t total;
  if (HAK_UNLIKELY(!alloc_product(count, bytes, &total))) return no_memory();
  if (HAK_UNLIKELY(total > LARGE_MAX_BYTES)) return alloc_huge(total, 1, true);
  unsigned size_class = size_class_of(total);
  bool is_zero = false;
  void *block = magazine_pop_any(the_heap, size_class);
  if (HAK_UNLIKELY(block == NULL)) block = refill(size_class, &is_zero);
  if (block == NULL || is_zero) return block;
  pages_clear_block(block, total);
  return block;
}

/* ---- realloc -------------------------------------------------------------------*/
/* A block of `bytes` with the first `contents` of the old one's, which is freed. Where there is no memory, it stays. */
HAK_INLINE void *replaced(void *block, size_t contents, size_t bytes) {
  void *moved = alloc_malloc(bytes);
  if (HAK_UNLIKELY(moved == NULL)) return NULL;
  memcpy(moved, block, contents);
  alloc_free(block);
  return moved;
}

/* With as much of the old one's contents as fits. */
static HAK_NOINLINE void *realloc_by_copy(void *block, size_t old_bytes, size_t bytes) {
  return replaced(block, min_size(old_bytes, bytes), bytes);
}

static void *stays_large(void *block) {
  atomic32_store_relaxed(&some_stayed_large, 1);
  return block;
}

/* NULL: there is no memory, and errno is as it was. */
static void *smaller_copy(void *block, size_t old_bytes, size_t bytes) {
  int saved_errno = errno;
  void *moved = realloc_by_copy(block, old_bytes, bytes);
  if (moved == NULL) errno = saved_errno;
  return moved;
}

/* Where there is no memory for a smaller block, the larger one serves. */
static void *realloc_smaller(void *block, size_t old_bytes, size_t bytes) {
  void *moved = smaller_copy(block, old_bytes, bytes);
  return moved != NULL ? moved : stays_large(block);
}

/* Of less, a copy takes about as long as to ask and to move what is resident. */
#define SPARSE_FROM_BYTES HAK_KIB(256)
/* Whether less of the block is resident than of a copy of `bytes` would be: a large buffer, of which little was
 * written to, or which is swapped out. */
static bool is_sparse(void *block, size_t old_bytes, size_t bytes) {
  size_t resident;
  return pages_count_resident(block, old_bytes, &resident) && resident < bytes / 2;
}

/* The same of one that grows, in the size that it has. To ask takes a tenth of the time in which some are copied, and
 * most programs grow what they have filled: after some that were, one of sixteen is looked at. */
static bool is_known_sparse(void *block, size_t bytes) {
  enum { DENSE_LOOKS = 4, LOOK_EVERY = 16 };
  static atomic32 dense_in_a_row, turns; /* relaxed: hints */
  if (atomic32_load_relaxed(&dense_in_a_row) >= DENSE_LOOKS && !turn_has_come(&turns, LOOK_EVERY)) return false;
  bool sparse = is_sparse(block, bytes, bytes);
  if (sparse) atomic32_store_relaxed(&dense_in_a_row, 0);
  else atomic32_add_relaxed(&dense_in_a_row, 1);
  return sparse;
}

/* Another thread frees or reallocates the block at the same time, and was first. */
static HAK_COLD void *lost_to_another(void *block, size_t block_bytes) {
  error_report(ERROR_DOUBLE_FREE, block, block_bytes, 0);
  return no_memory();
}

static void *realloc_foreign(void *block, size_t bytes) {
  size_t old_bytes;
  if (!foreign_usable_size(block, &old_bytes)) {
    error_report(ERROR_WILD_FREE, block, 0, 0);
    return no_memory();
  }
  void *moved = alloc_malloc(bytes);
  if (moved == NULL) return NULL;
  memcpy(moved, block, min_size(old_bytes, bytes));
  foreign_free(block);
  return moved;
}

/* ---- Samples (front/record.h): what changes its size is freed and allocated ---*/
static void *record_changed(void *block) {
  if (HAK_UNLIKELY(record_mean() != 0) && block != NULL) record_lone(block, alloc_usable_size(block));
  return block;
}
static void record_changes(void *block) {
  if (HAK_UNLIKELY(record_mean() != 0)) record_freed(block);
}

/* To what the smallest of lone blocks has, if `bytes` is less. */
static bool cut_single(void *block, uint32_t word, size_t bytes) {
  unsigned new_class = size_class_above_tiny(max_size(bytes, MID_MAX_BYTES + 1));
  if (!slab_cut_single((unit_t)map_unit_of(block), word, new_class)) return false;
  arena_relieve(size_classes[word_kind(word)].slab_units - size_classes[new_class].slab_units);
  bell_ring();
  return true;
}

/* A sparse one is cut where it is. If it stayed as long as it was it would keep its addresses, of which there may be
 * few, and be counted whole. So is one for whose copy there is no memory: what it gives back may be all there is. */
static void *shrink_single(void *block, uint32_t word, size_t old_bytes, size_t bytes) {
  bool may_be_copied = bytes <= MID_MAX_BYTES || !is_sparse(block, old_bytes, bytes);
  void *moved = may_be_copied ? smaller_copy(block, old_bytes, bytes) : NULL;
  if (moved != NULL) return moved;
  record_changes(block);
  bool is_cut = cut_single(block, word, bytes);
  if (!is_cut && !may_be_copied) return realloc_smaller(block, old_bytes, bytes);
  record_changed(block);
  return is_cut && bytes > MID_MAX_BYTES ? block : stays_large(block);
}

/* A lone block may grow where it is, or become huge without being copied: what is longer than any other, or
 * hardly used, so that the copy would be resident. */
static void *grow_single(void *block, uint32_t word, size_t bytes) {
  unit_t slab = (unit_t)map_unit_of(block);
  size_t old_bytes = size_classes[word_kind(word)].block_bytes;
  if (bytes <= LARGE_MAX_BYTES) {
    if (slab_extend_single(slab, word, size_class_above_tiny(bytes))) return block;
    if (old_bytes < SPARSE_FROM_BYTES || !is_known_sparse(block, old_bytes)) return NULL;
  }
  if (!slab_claim_single(slab, word)) return NULL;
  huge_source_t source;
  void *moved = huge_from_run(block, old_bytes, bytes, &source);
  if (source == HUGE_SOURCE_LOST) return moved;
  slab_unclaim_single(slab, word);
  if (moved != NULL) alloc_free(block);
  return moved;
}

/* No byte, or more than there can be. */
static HAK_NOINLINE void *realloc_extreme(void *block, size_t bytes) {
  if (bytes > PTRDIFF_MAX) return no_memory();
  alloc_free(block);
  return NULL;
}

/* The flag is written once: each thread that reallocates reads it. */
HAK_INLINE void *grow_by_copy(void *block, size_t old_bytes, size_t bytes) {
  size_t ahead = grown_ahead(old_bytes, bytes);
  if (ahead > bytes && HAK_UNLIKELY(atomic32_load_relaxed(&some_grew_ahead) == 0))
    atomic32_store_relaxed(&some_grew_ahead, 1);
  void *moved = replaced(block, old_bytes, ahead);
  return HAK_LIKELY(moved != NULL) ? moved : realloc_by_copy(block, old_bytes, bytes);
}

static HAK_NOINLINE void *realloc_single(void *block, uint32_t word, size_t bytes) {
  size_t old_bytes = size_classes[word_kind(word)].block_bytes;
  record_changes(block);
  void *moved = record_changed(grow_single(block, word, bytes));
  if (moved != NULL) return moved;
  if (map_lookup(block) != word) return lost_to_another(block, old_bytes);
  moved = grow_by_copy(block, old_bytes, bytes);
  if (HAK_UNLIKELY(moved == NULL)) record_changed(block); /* it stays */
  return moved;
}

/* Apart, so that a block that stays needs no register kept; as is what a lone block needs, from what others do. */
static HAK_NOINLINE void *realloc_elsewhere(void *block, uint32_t word, size_t bytes) {
  unsigned size_class = word_kind(word);
  size_t old_bytes = size_classes[size_class].block_bytes;
  if (HAK_UNLIKELY(bytes - 1 >= PTRDIFF_MAX)) return realloc_extreme(block, bytes);
  if (bytes <= old_bytes) {
    if (size_stays_when_shrunk(old_bytes, bytes)) return block;
    return size_class_is_single(size_class) ? shrink_single(block, word, old_bytes, bytes)
                                            : realloc_smaller(block, old_bytes, bytes);
  }
  return size_class_is_single(size_class) ? realloc_single(block, word, bytes) : grow_by_copy(block, old_bytes, bytes);
}

static HAK_COLD void *realloc_interior(void *block, size_t block_bytes) {
  error_report(ERROR_INTERIOR_FREE, block, block_bytes, 0);
  return no_memory();
}

/* What stays is found by one comparison, which no size passes that is extreme; what it leaves out,
 * blocks of 32 bytes and less, realloc_elsewhere knows. */
HAK_INLINE void *realloc_class(void *block, uint32_t word, size_t bytes) {
  unsigned size_class = word_kind(word);
  size_t old_bytes = size_classes[size_class].block_bytes;
  if (HAK_UNLIKELY(!slab_starts_block(block, size_class))) return realloc_interior(block, old_bytes);
  return HAK_LIKELY(old_bytes - bytes <= old_bytes / 2) ? block : realloc_elsewhere(block, word, bytes);
}

/* One that was made huge by its alignment, or was cut, may be smaller than a class's, and grow. */
static void *realloc_huge(void *block, size_t bytes) {
  size_t old_bytes = huge_usable_size(block);
  void *copy = huge_is_cut_by_copy(block, old_bytes, bytes) ? smaller_copy(block, old_bytes, bytes) : NULL;
  if (copy != NULL) return copy; /* without memory for one it is cut where it is */
  record_changes(block);
  void *moved = huge_realloc(block, bytes);
  if (HAK_UNLIKELY(limit_is_passed())) pressure_answer();
  bell_ring();
  if (moved == NULL && reclaim_for(bytes)) moved = huge_realloc(block, bytes);
  if (moved != NULL) return record_changed(moved);
  if (map_lookup(block) != word_make(0, KIND_HUGE)) return lost_to_another(block, 0);
  record_changed(block);
  return no_memory();
}

/* It stays in its region. */
static HAK_NOINLINE void *realloc_of_region(void *block, uint32_t word, size_t bytes) {
  if (HAK_UNLIKELY(!cache_thread_has_any())) thread_watch();
  void *moved;
  region_result_t result = region_realloc(block, word, bytes, &moved);
  if (result == REGION_NO_MEMORY && reclaim_for(bytes)) result = region_realloc(block, word, bytes, &moved);
  if (HAK_UNLIKELY(limit_is_passed())) pressure_answer();
  bell_ring(); /* the block may have left a place */
  return result == REGION_OK ? moved : no_memory();
}

static HAK_NOINLINE void *realloc_other(void *block, uint32_t word, size_t bytes) {
  if (HAK_UNLIKELY(bytes - 1 >= PTRDIFF_MAX)) return realloc_extreme(block, bytes);
  address_kind_t kind = address_kind_of_others(block, word);
  switch (kind) {
    case ADDRESS_HUGE: return realloc_huge(block, bytes);
    case ADDRESS_REGION: return realloc_of_region(block, word, bytes);
    case ADDRESS_OUTSIDE: return realloc_foreign(block, bytes);
    default: address_report_free(block, kind); return no_memory();
  }
}

void *alloc_realloc(void *block, size_t bytes) {
  if (block == NULL) return alloc_malloc(bytes);
  uint32_t word = map_lookup(block);
  return HAK_LIKELY(word_is_class(word)) ? realloc_class(block, word, bytes) : realloc_other(block, word, bytes);
}

/* ---- Alignment -----------------------------------------------------------------*/

static unsigned aligned_class(size_t alignment, size_t bytes) {
  return size_class_aligned(alignment, max_size(bytes, 1));
}

/* Tiny classes have every multiple of 16 bytes, so that of the next multiple of the alignment is aligned so;
 * where both are a kilobyte at most, it is no more. NULL: none lies at hand, or it is none of these. */
HAK_INLINE void *aligned_at_hand(size_t alignment, size_t bytes) {
  if (HAK_UNLIKELY((alignment | bytes) > HAK_KIB(1))) return NULL;
  return magazine_pop(the_heap, (unsigned)size_class_tiny(align_up(max_size(bytes, 1), alignment)));
}

static HAK_NOINLINE void *aligned_slowly(size_t alignment, size_t bytes) {
  if (bytes > PTRDIFF_MAX || alignment > (size_t)PTRDIFF_MAX / 2) return no_memory();
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

/* Whether a block of class `served` may be what a request for so many aligned bytes got. */
static bool class_may_be_aligned(size_t alignment, size_t bytes, unsigned served) {
  if (!is_power_of_two(alignment)) return false;
  unsigned wanted = aligned_class(alignment, bytes);
  return wanted < SIZE_CLASS_COUNT && class_may_serve(wanted, served);
}

void alloc_free_aligned_sized(void *block, size_t alignment, size_t bytes) {
  if (block == NULL) return;
  uint32_t word = map_lookup(block);
  bool fits = word_is_region(word)  ? region_may_have_size(block, word, bytes, alignment, false)
              : word_is_class(word) ? class_may_be_aligned(alignment, bytes, word_kind(word))
                                    : size_fits(block, word, bytes, false);
  if (fits) alloc_free(block);
  else error_report(ERROR_SIZE_MISMATCH, block, alloc_usable_size(block), bytes);
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
