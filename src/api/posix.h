/*
 * Argument rules that malloc(3)'s functions have beyond those of malloc: shared
 * by libc's names and ours.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_POSIX_H
#define HAK_POSIX_H

#include "alloc.h"

#include <errno.h>

HAK_C_BEGIN

HAK_INLINE void *posix_reallocarray(void *block, size_t count, size_t bytes) {
  size_t total;
  if (HAK_LIKELY(alloc_product(count, bytes, &total))) return alloc_realloc(block, total);
  errno = ENOMEM;
  return NULL;
}

/* ISO C23: an alignment that is not supported, and one that is no power of two
 * is not, fails. */
HAK_INLINE void *posix_aligned_alloc(size_t alignment, size_t bytes) {
  if (HAK_LIKELY(is_power_of_two(alignment))) return alloc_aligned(alignment, bytes);
  errno = EINVAL;
  return NULL;
}

/* POSIX.1-2017: reports through its result, keeps errno, and *out on failure. */
HAK_INLINE int posix_memalign_into(void **out, size_t alignment, size_t bytes) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0) return EINVAL;
  return alloc_aligned_into(out, alignment, bytes);
}

HAK_C_END
#endif
