/*
 * Regions as the API has them: hak_heap_t's functions, and what malloc's do with their blocks.
 *
 * A handle that is no region's is for the caller to report; wrong addresses are reported here.
 * What a block has been asked for is not kept but in units, of those larger than 64 KiB: its class is what counts.
 * errno is nobody's business here.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_REGION_H
#define HAK_REGION_H

#include "../slab/slab.h"
#include "cache.h"

HAK_C_BEGIN

typedef enum {
  REGION_OK,
  REGION_NO_MEMORY, /* the system, or the process's limit, has none */
  REGION_AT_LIMIT,  /* of the region                                */
  REGION_GONE,      /* there is no such region                      */
  REGION_OTHER,     /* the block is no block of that region         */
} region_result_t;

/* A region without memory; 0: there is no memory for its record, or there are REGIONS_MOST. */
uint64_t region_new(size_t limit_bytes);
region_result_t region_set_limit(uint64_t handle, size_t limit_bytes);
/* Gives all that the region has to the arena. Whoever uses the region meanwhile makes a mistake. */
region_result_t region_destroy(uint64_t handle);

/* ---- Blocks ---------------------------------------------------------------------*/

/* A block of at least `bytes`, aligned to `alignment`, a power of two. `zeroed`: reads as zero. */
region_result_t region_alloc(uint64_t handle, size_t bytes, size_t alignment, bool zeroed, void **block);
/* The same for a caller who may do without: that the limit refuses it is not counted, but where the caller
 * says so. Returns the result. */
region_result_t region_try_alloc(uint64_t handle, size_t bytes, size_t alignment, bool zeroed, void **block);
region_result_t region_note_refused(uint64_t handle, region_result_t result);
/* The fast path: a block of the calling thread's cache, aligned to 16. NULL where region_alloc has to be asked. */
HAK_INLINE void *region_alloc_fast(uint64_t handle, size_t bytes) {
  region_cache_t *cache = cache_at(region_number(handle));
  if (HAK_UNLIKELY(bytes > MID_MAX_BYTES) || !cache_is_of(cache, handle)) return NULL;
  return cache_pop(cache, size_class_of(bytes));
}

/* Frees a block whose word is `word`, of whatever region. An address that starts no block is reported. */
void region_free(void *block, uint32_t word);
/* The fast path of region_free_of: false where that has to be asked. */
HAK_INLINE bool region_free_fast(uint64_t handle, void *block) {
  uint32_t number = region_number(handle);
  region_cache_t *cache = cache_at(number);
  uint32_t other = map_lookup(block) ^ region_word(number, 0); /* the class << KIND_BITS, if it is the region's */
  size_t size_class = other >> KIND_BITS;
  if (!cache_is_of(cache, handle) || HAK_UNLIKELY(size_class >= MID_CLASS_END) || word_kind(other) != 0) return false;
  return slab_starts_block(block, (unsigned)size_class) && cache_push(cache, (unsigned)size_class, block);
}
/* As region_free for a block that has to be the region's. REGION_GONE and REGION_OTHER: nothing was done. */
region_result_t region_free_of(uint64_t handle, void *block);

/* REGION_OK: `*moved` is a block of the same region with the first bytes of the other, which has gone.
 * REGION_AT_LIMIT and REGION_NO_MEMORY: nothing has changed. REGION_OTHER: no block begins there, which has
 * been reported. `bytes` > 0. */
region_result_t region_realloc(void *block, uint32_t word, size_t bytes, void **moved);
/* These look at a block that nobody else frees meanwhile. */
size_t region_usable_size(const void *block, uint32_t word);
/* Whether the block can be one that was asked for so; `may_be_shrunk`: or that realloc has left in place. */
bool region_may_have_size(const void *block, uint32_t word, size_t bytes, size_t alignment, bool may_be_shrunk);

/* Whether the address is in a block's place of the region; false if there is no such region. */
bool region_owns(uint64_t handle, const void *address);

/* Gives empty slabs and spare runs of all regions to the arena. */
void region_release_empty(void);

/* ---- Figures --------------------------------------------------------------------*/
typedef struct {
  size_t taken, peak, limit, live, cached, free;
  uint64_t refused;
} region_figures_t;
/* Whether that is the handle of no region, or of one that was destroyed. */
bool region_is_gone(uint64_t handle);
region_result_t region_figures(uint64_t handle, region_figures_t *figures);

/* ---- Threads and forks ------------------------------------------------------------*/

/* The calling thread's caches go home; with their memory, where it will not need them soon; at its end for good.
 * Returns the bytes. */
HAK_INLINE size_t region_thread_flush(void) { return cache_flush_all(); }
HAK_INLINE size_t region_thread_idle(void) { return cache_drop_all(); }
HAK_INLINE void region_thread_ends(void) { cache_thread_ends(); }

HAK_C_END
#endif
