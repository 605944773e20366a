/*
 * Which pages are in memory: a walker's look ahead, so that the system is asked once for
 * many of them.
 *
 * Behind pages that were only read lies one page of zeroes, which is nobody's memory. To find
 * them takes a hundred times as long. So in a large heap only some pages are asked about and,
 * where one of those is such a page, all that were looked at together: they come in rows.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_RESIDENCY_H
#define HAK_RESIDENCY_H

#include "../base/base.h"

HAK_C_BEGIN

enum {
  RESIDENCY_PAGES = 512, /* looked at together; a byte of stack each */
  RESIDENCY_STEP = 16,
};
#define RESIDENCY_ALL_BYTES HAK_MIB(128)

typedef struct {
  size_t step; /* each which page is asked about whether it was only read */
  char *from;  /* what is known of the pages [from, from + pages)  */
  size_t pages;
  unsigned char resident[RESIDENCY_PAGES];
} residency_t;

/* Whether the system answers at all: asked about a page that is mapped. */
bool residency_can_be_had(char *page);
/* Begin with this: nothing is known yet. `walk_bytes`: of the whole walk. */
HAK_INLINE void residency_begin(residency_t *known, size_t walk_bytes) {
  known->step = walk_bytes < RESIDENCY_ALL_BYTES ? 1 : RESIDENCY_STEP;
  known->from = NULL;
  known->pages = 0;
}
/* Bytes of the pages of [at, at + bytes) that are in memory; what is not mapped is not.
 * Looks ahead up to `end`, where the walk ends. All start pages. */
size_t residency_of(residency_t *known, char *at, size_t bytes, char *end);

HAK_C_END
#endif
