/*
 * Heaps of the program's own: the functions of hakmem.h over regions (region/region.h).
 *
 * A handle that is NULL, or whose heap was destroyed, is a mistake of the program's, and is reported as a
 * wrong free is; where mistakes are ignored the call fails with EINVAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../../include/hakmem.h"

#include "../front/bell.h"
#include "../front/reclaim.h"
#include "../front/thread.h"
#include "../int/pressure.h"
#include "../region/region.h"
#include "../support/error.h"
#include "alloc.h"

#include <errno.h>

static uint64_t handle_of(const hak_heap_t *heap) { return (uint64_t)(uintptr_t)heap; }

static HAK_COLD void report(region_result_t result, const hak_heap_t *heap, const void *block) {
  if (result == REGION_OTHER) error_report(ERROR_OTHER_HEAP, block, 0, 0);
  else error_report(ERROR_NO_HEAP, heap, 0, 0);
  errno = EINVAL;
}

static HAK_NOINLINE void *allocate(hak_heap_t *heap, size_t bytes, size_t alignment, bool zeroed) {
  void *block;
  thread_watch_caches();
  region_result_t result = region_alloc(handle_of(heap), bytes, alignment, zeroed, &block);
  if (result == REGION_NO_MEMORY && bytes <= PTRDIFF_MAX && reclaim_for(bytes))
    result = region_alloc(handle_of(heap), bytes, alignment, zeroed, &block);
  pressure_look();
  if (HAK_LIKELY(result == REGION_OK)) return block;
  if (result == REGION_GONE) report(result, heap, NULL);
  else errno = ENOMEM;
  return NULL;
}

hak_heap_t *hak_heap_new(size_t limit_bytes) {
  uint64_t handle = region_new(limit_bytes);
  if (handle == 0) errno = ENOMEM;
  return (hak_heap_t *)(uintptr_t)handle;
}

void hak_heap_set_limit(hak_heap_t *heap, size_t limit_bytes) {
  region_result_t result = region_set_limit(handle_of(heap), limit_bytes);
  if (result != REGION_OK) report(result, heap, NULL);
}

void hak_heap_destroy(hak_heap_t *heap) {
  if (heap == NULL) return;
  int saved_errno = errno;
  region_result_t result = region_destroy(handle_of(heap));
  bell_ring();
  errno = saved_errno;
  if (result != REGION_OK) report(result, heap, NULL);
}

void *hak_heap_malloc(hak_heap_t *heap, size_t bytes) {
  void *block = region_alloc_fast(handle_of(heap), bytes);
  return HAK_LIKELY(block != NULL) ? block : allocate(heap, bytes, 1, false);
}

void *hak_heap_calloc(hak_heap_t *heap, size_t count, size_t bytes) {
  size_t total;
  return allocate(heap, HAK_LIKELY(alloc_product(count, bytes, &total)) ? total : SIZE_MAX, 1, true);
}

void *hak_heap_aligned_alloc(hak_heap_t *heap, size_t alignment, size_t bytes) {
  if (HAK_LIKELY(is_power_of_two(alignment))) return allocate(heap, bytes, alignment, false);
  if (region_is_gone(handle_of(heap))) report(REGION_GONE, heap, NULL);
  errno = EINVAL;
  return NULL;
}

/* NULL, not of the thread's cache, or a mistake. */
static HAK_NOINLINE void free_slowly(hak_heap_t *heap, void *block) {
  if (block == NULL) return;
  thread_watch_caches();
  int saved_errno = errno;
  region_result_t result = region_free_of(handle_of(heap), block);
  bell_ring();
  errno = saved_errno;
  if (HAK_UNLIKELY(result != REGION_OK)) report(result, heap, block);
}

void hak_heap_free(hak_heap_t *heap, void *block) {
  if (!region_free_fast(handle_of(heap), block)) free_slowly(heap, block);
}

void *hak_heap_realloc(hak_heap_t *heap, void *block, size_t bytes) {
  if (block == NULL) return hak_heap_malloc(heap, bytes);
  if (bytes == 0) {
    hak_heap_free(heap, block);
    return NULL;
  }
  if (HAK_LIKELY(region_owns(handle_of(heap), block))) return alloc_realloc(block, bytes);
  report(region_is_gone(handle_of(heap)) ? REGION_GONE : REGION_OTHER, heap, block);
  return NULL;
}

bool hak_heap_owns(const hak_heap_t *heap, const void *address) { return region_owns(handle_of(heap), address); }

void hak_heap_stats(const hak_heap_t *heap, hak_heap_stats_t *out, size_t out_bytes) {
  hak_heap_stats_t stats = {.struct_bytes = sizeof stats};
  region_figures_t figures;
  region_result_t result = region_figures(handle_of(heap), &figures);
  if (result == REGION_OK) {
    stats.taken = figures.taken;
    stats.peak_taken = figures.peak;
    stats.live = figures.live;
    stats.cached = figures.cached;
    stats.free = figures.free;
    stats.limit = figures.limit;
    stats.refused = figures.refused;
  }
  __builtin_memcpy(out, &stats, min_size(out_bytes, sizeof stats));
  if (result == REGION_GONE) report(result, heap, NULL);
}
