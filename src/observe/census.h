/*
 * What every unit of the heap is and, if that is wanted, what of it is in memory.
 *
 * One walk over the page map meets each unit that exists once. Other threads go on
 * meanwhile: what is read of them was true a moment ago. docs/design.md ("The account") says
 * which kinds there are.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_CENSUS_H
#define HAK_CENSUS_H

#include "../slab/size_class.h"

HAK_C_BEGIN

/* Of a size class. Blocks, but for what is called bytes. */
typedef struct {
  size_t slabs, free, cached, in_outboxes;
  /* Of slabs: what is in memory of blocks that are out, of free ones, of the tail. */
  size_t out_resident_bytes, free_resident_bytes, tail_resident_bytes;
} class_census_t;

typedef struct {
  bool is_measured;                              /* else as if all that is not known to be clean were resident */
  size_t committed, used, peak, dirty, metadata; /* as arena_usage_t, with the magazines'; bytes */
  class_census_t classes[SIZE_CLASS_COUNT];
  size_t lost_bytes;                               /* the system has taken it away, and it is nobody's */
  size_t spare_units, spare_resident_bytes;        /* units of regions that nothing lies in */
  size_t huge_count, huge_bytes, huge_spare_bytes; /* spare: beyond what was asked for */
  size_t huge_resident_bytes, dirty_resident_bytes, slack_resident_bytes, metadata_resident_bytes;
} census_t;

/* `measured`: look what is in memory, which takes time in proportion to what is mapped. */
void census_take(census_t *census, bool measured);

/* ---- What follows from it ------------------------------------------------------*/
size_t census_blocks(const census_t *census, unsigned size_class);
/* Held by the program. */
size_t census_live(const census_t *census, unsigned size_class);
/* Of the slabs of a class, what is too short for a block. */
size_t census_tail_bytes(const census_t *census, unsigned size_class);
/* What is resident of blocks in magazines, or in outboxes: the share that these blocks have
 * of those that are out. */
size_t census_resident_share(const census_t *census, unsigned size_class, size_t blocks);

HAK_C_END
#endif
