/* realloc(3). See alloc.h, and sized.h for what it leaves for later calls to know. SPDX-License-Identifier: MIT */
#include "../arena/arena_purge.h"
#include "../arena/huge.h"
#include "../arena/pages.h"
#include "../base/turns.h"
#include "../front/bell.h"
#include "../front/reclaim.h"
#include "../front/record.h"
#include "../front/thread.h"
#include "../int/pressure.h"
#include "../region/region.h"
#include "../slab/single.h"
#include "../slab/slab.h"
#include "../support/error.h"
#include "address.h"
#include "alloc.h"
#include "foreign.h"
#include "sized.h"

#include <errno.h>
#include <string.h>

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

/* As replaced, of a block that has its run alone, and whose word that is: another thread that reallocates it at the
 * same time, by mistake, might move its pages away. So it is claimed, but not before there is memory: who is refused,
 * or reports a mistake that is found there and whose handler of SIGABRT jumps away, leaves the block as it was. NULL:
 * there is no memory, or, and then `*is_lost`, another thread was first. */
HAK_INLINE void *replaced_alone(void *block, uint32_t word, size_t contents, size_t bytes, bool is_huge,
                                bool *is_lost) {
  unit_t first = (unit_t)map_unit_of(block);
  void *moved = alloc_malloc(bytes);
  if (HAK_UNLIKELY(moved == NULL)) return NULL;
  if (HAK_UNLIKELY(!(is_huge ? huge_claim(block) : slab_claim_single(first, word)))) {
    alloc_free(moved);
    *is_lost = true;
    return NULL;
  }
  memcpy(moved, block, contents);
  if (is_huge) huge_unclaim(block);
  else slab_unclaim_single(first, word);
  alloc_free(block);
  return moved;
}
static HAK_NOINLINE void *single_replaced(void *block, uint32_t word, size_t contents, size_t bytes, bool *is_lost) {
  return replaced_alone(block, word, contents, bytes, false, is_lost);
}
/* Smaller; where there is no memory errno is as it was. */
static HAK_NOINLINE void *shrunk_alone(void *block, uint32_t word, size_t bytes, bool is_huge, bool *is_lost) {
  int saved_errno = errno;
  void *moved = replaced_alone(block, word, bytes, bytes, is_huge, is_lost);
  if (moved == NULL) errno = saved_errno;
  return moved;
}

static void *stays_large(void *block) {
  atomic32_store_relaxed(&sized_some_stayed_large, 1);
  return block;
}

/* Where there is no memory for a smaller block, the larger one serves. */
static void *realloc_smaller(void *block, size_t old_bytes, size_t bytes) {
  int saved_errno = errno;
  void *moved = realloc_by_copy(block, old_bytes, bytes);
  if (moved != NULL) return moved;
  errno = saved_errno;
  return stays_large(block);
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
  return alloc_no_memory();
}

static void *realloc_foreign(void *block, size_t bytes) {
  size_t old_bytes;
  if (!foreign_usable_size(block, &old_bytes)) {
    error_report(ERROR_WILD_FREE, block, 0, 0);
    return alloc_no_memory();
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
  bool is_lost = false, may_be_copied = bytes <= MID_MAX_BYTES || !is_sparse(block, old_bytes, bytes);
  void *moved = may_be_copied ? shrunk_alone(block, word, bytes, false, &is_lost) : NULL;
  if (moved != NULL) return moved;
  if (is_lost || map_lookup(block) != word) return lost_to_another(block, old_bytes);
  record_changes(block);
  bool is_cut = cut_single(block, word, bytes);
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
  if (bytes > PTRDIFF_MAX) return alloc_no_memory();
  alloc_free(block);
  return NULL;
}

/* What a growing block is copied to: one that grows by small steps is copied at every fourth or so of its size. The
 * result is at most most_grown(bytes). The flag is written once: each thread that reallocates reads it. */
HAK_INLINE size_t grown_ahead(size_t old_bytes, size_t bytes) {
  size_t ahead = max_size(bytes, old_bytes + old_bytes / 4);
  if (ahead > bytes && HAK_UNLIKELY(atomic32_load_relaxed(&sized_some_grew_ahead) == 0))
    atomic32_store_relaxed(&sized_some_grew_ahead, 1);
  return ahead;
}
HAK_INLINE void *grow_by_copy(void *block, size_t old_bytes, size_t bytes) {
  void *moved = replaced(block, old_bytes, grown_ahead(old_bytes, bytes));
  return HAK_LIKELY(moved != NULL) ? moved : realloc_by_copy(block, old_bytes, bytes);
}

static HAK_NOINLINE void *realloc_single(void *block, uint32_t word, size_t bytes) {
  size_t old_bytes = size_classes[word_kind(word)].block_bytes;
  record_changes(block);
  void *moved = record_changed(grow_single(block, word, bytes));
  if (moved != NULL) return moved;
  bool is_lost = false;
  moved = single_replaced(block, word, old_bytes, grown_ahead(old_bytes, bytes), &is_lost);
  if (moved == NULL && !is_lost) moved = single_replaced(block, word, old_bytes, bytes, &is_lost);
  if (HAK_LIKELY(moved != NULL)) return moved;
  /* Whoever was first may have put the word back by now, and is about to free the block. */
  if (is_lost) return lost_to_another(block, old_bytes);
  /* What was reclaimed for the copy may do for growing in place. */
  if ((moved = record_changed(grow_single(block, word, bytes))) != NULL) return moved;
  if (map_lookup(block) != word) return lost_to_another(block, old_bytes);
  record_changed(block); /* it stays */
  return alloc_no_memory();
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
  return alloc_no_memory();
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
  bool is_lost = false, may_be_copied = huge_is_cut_by_copy(block, old_bytes, bytes);
  void *copy = may_be_copied ? shrunk_alone(block, word_make(0, KIND_HUGE), bytes, true, &is_lost) : NULL;
  if (copy != NULL) return copy; /* without memory for one it is cut where it is */
  if (is_lost) return lost_to_another(block, old_bytes);
  record_changes(block);
  void *moved = huge_realloc(block, bytes, &is_lost);
  pressure_look();
  bell_ring();
  if (moved == NULL && !is_lost && reclaim_for(bytes)) moved = huge_realloc(block, bytes, &is_lost);
  if (moved != NULL) return record_changed(moved);
  /* Or while there was no memory for it. */
  if (is_lost || map_lookup(block) != word_make(0, KIND_HUGE)) return lost_to_another(block, 0);
  record_changed(block);
  return alloc_no_memory();
}

/* It stays in its region. */
static HAK_NOINLINE void *realloc_of_region(void *block, uint32_t word, size_t bytes) {
  thread_watch_caches();
  void *moved;
  region_result_t result = region_realloc(block, word, bytes, &moved);
  if (result == REGION_NO_MEMORY && reclaim_for(bytes)) result = region_realloc(block, word, bytes, &moved);
  pressure_look();
  bell_ring(); /* the block may have left a place */
  return result == REGION_OK ? moved : alloc_no_memory();
}

static HAK_NOINLINE void *realloc_other(void *block, uint32_t word, size_t bytes) {
  if (HAK_UNLIKELY(bytes - 1 >= PTRDIFF_MAX)) return realloc_extreme(block, bytes);
  address_kind_t kind = address_kind_of_others(block, word);
  switch (kind) {
    case ADDRESS_HUGE: return realloc_huge(block, bytes);
    case ADDRESS_REGION: return realloc_of_region(block, word, bytes);
    case ADDRESS_OUTSIDE: return realloc_foreign(block, bytes);
    default: address_report_free(block, kind); return alloc_no_memory();
  }
}

void *alloc_realloc(void *block, size_t bytes) {
  if (block == NULL) return alloc_malloc(bytes);
  uint32_t word = map_lookup(block);
  return HAK_LIKELY(word_is_class(word)) ? realloc_class(block, word, bytes) : realloc_other(block, word, bytes);
}
