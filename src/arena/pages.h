/*
 * Pages of memory in use that hold nothing of worth: cleared, or dropped. The
 * caller holds the memory, so nothing is locked. What is resident may be asked of any
 * memory that is mapped, and is a hint where others have it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_PAGES_H
#define HAK_PAGES_H

#include "../os/os.h"

#include <string.h>

HAK_C_BEGIN

/* Whether that page is in memory. false where the system does not say. */
HAK_INLINE bool page_is_resident(char *at) {
  unsigned char resident = 0;
  size_t page = os_page_bytes();
  return os_resident_pages((char *)align_down((uintptr_t)at, page), page, &resident) && (resident & 1) != 0;
}

/* How many bytes are, of whole pages. false where the system does not say. */
bool pages_count_resident(char *at, size_t bytes, size_t *resident);
/* The same; none where the system does not say. */
HAK_INLINE size_t pages_resident(char *at, size_t bytes) {
  size_t resident = 0;
  return pages_count_resident(at, bytes, &resident) ? resident : 0;
}

/* Makes memory read as zero, whole pages, without making pages resident that are
 * not. */
void pages_clear(void *at, size_t bytes);
/* From here on asking which pages are resident costs less than it may save. */
#define CLEAR_BY_PAGE_BYTES HAK_KIB(256)
/* The same for the first bytes of a block; one that is as large has all the pages that they lie in. */
HAK_INLINE void pages_clear_block(void *block, size_t bytes) {
  if (HAK_LIKELY(bytes < CLEAR_BY_PAGE_BYTES)) memset(block, 0, bytes);
  else pages_clear(block, align_up(bytes, os_page_bytes()));
}
/* Drops pages of memory in use that hold nothing of worth; they read as zero
 * afterwards. The first ones stay, as many as have `*keep` bytes resident, which are taken off
 * that. `are_gone`: whether none is resident any more. Returns the bytes that were resident and are not any more. */
size_t pages_drop(void *at, size_t bytes, size_t *keep, bool *are_gone);

HAK_C_END
#endif
