/* Frees that come with a size: see sized.h. SPDX-License-Identifier: MIT */
#include "sized.h"

#include "../arena/huge.h"
#include "../front/magazine.h"
#include "../front/sharing.h"
#include "../region/region.h"
#include "../support/error.h"
#include "address.h"
#include "alloc.h"

atomic32 sized_some_stayed_large, sized_some_grew_ahead;

/* What a request borrows from where it has no slabs of its own. */
static unsigned class_borrowed(unsigned wanted) {
  return sharing_has_begun() ? size_class_shared(wanted) : size_class_coarse(wanted);
}

/* Whether a block of class `served` may be what a request of class `wanted` got. */
HAK_INLINE bool class_may_serve(unsigned wanted, unsigned served) {
  return (wanted <= served && served <= size_class_stand_in(wanted)) || size_class_coarse(wanted) == served ||
         class_borrowed(wanted) == served;
}

/* Whether a block of class `served` may be what a realloc that grew to `bytes` got. */
static bool class_may_be_grown(size_t bytes, unsigned served) {
  unsigned most = size_class_of(min_size(most_grown(bytes), LARGE_MAX_BYTES));
  unsigned last = size_class_stand_in(most) > most ? size_class_stand_in(most) : class_borrowed(most);
  return size_class_of(bytes) <= served && served <= last;
}

/* Whether a block of that word can have been asked for with `bytes`. */
static bool size_fits(const void *block, uint32_t word, size_t bytes, bool may_be_shrunk) {
  if (word == 0) return true; /* foreign or a mistake: alloc_free says */
  if (may_be_shrunk && atomic32_load_relaxed(&sized_some_stayed_large) && bytes <= alloc_usable_size(block))
    return true;
  bool may_be_grown = atomic32_load_relaxed(&sized_some_grew_ahead) != 0;
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

/* Whether a block of class `served` may be what a request for so many aligned bytes got. */
static bool class_may_be_aligned(size_t alignment, size_t bytes, unsigned served) {
  if (!is_power_of_two(alignment)) return false;
  unsigned wanted = size_class_aligned(alignment, max_size(bytes, 1));
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
