/*
 * libc's surface: malloc(3) and its relatives, and glibc's own extras, so that
 * no call wakes a second heap beside ours. What tells of the heap: info.c; what tunes it: mallopt.c.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "../../include/hakmem.h"
#include "../int/trim.h"
#include "../os/os.h"
#include "alloc.h"
#include "posix.h"

#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* ---- ISO C, POSIX ------------------------------------------------------------*/
EXPORT void *malloc(size_t bytes) { return alloc_malloc(bytes); }
EXPORT void free(void *block) { alloc_free(block); }
EXPORT void *calloc(size_t count, size_t bytes) { return alloc_calloc(count, bytes); }
EXPORT void *realloc(void *block, size_t bytes) { return alloc_realloc(block, bytes); }
EXPORT void *reallocarray(void *block, size_t count, size_t bytes) { return posix_reallocarray(block, count, bytes); }
EXPORT void *aligned_alloc(size_t alignment, size_t bytes) { return posix_aligned_alloc(alignment, bytes); }
EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes) {
  return posix_memalign_into(out, alignment, bytes);
}
EXPORT void free_sized(void *block, size_t bytes) { alloc_free_sized(block, bytes); }
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t bytes) {
  alloc_free_aligned_sized(block, alignment, bytes);
}

/* ---- Older names ---------------------------------------------------------------*/

/* As glibc: an alignment that is no power of two is rounded up to one; EINVAL where
 * there is none. */
EXPORT void *memalign(size_t alignment, size_t bytes) {
  if (alignment > SIZE_MAX / 2 + 1) {
    errno = EINVAL;
    return NULL;
  }
  size_t power = alignment <= 1 ? 1 : (size_t)1 << (log2_floor(alignment - 1) + 1);
  return alloc_aligned(power, bytes);
}
EXPORT void *valloc(size_t bytes) { return alloc_aligned(os_page_bytes(), bytes); }
EXPORT void *pvalloc(size_t bytes) {
  if (bytes > PTRDIFF_MAX) {
    errno = ENOMEM;
    return NULL;
  }
  return alloc_aligned(os_page_bytes(), align_up(max_size(bytes, 1), os_page_bytes()));
}
EXPORT void cfree(void *block) { alloc_free(block); }

/* ---- glibc's extras --------------------------------------------------------------*/
EXPORT size_t malloc_usable_size(void *block) { return alloc_usable_size(block); }
EXPORT int malloc_trim(size_t keep_bytes) { return trim(keep_bytes) > 0; }
