/* See heap.h. SPDX-License-Identifier: MIT */
#include "heap.h"

/* Every magazine of the null heap: empty, as *top is NULL, and full, as
 * top == limit. Nobody writes it. */
void *the_null_slot[1];

#define REPEAT_16(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
#define REPEAT_146(x)                                                                                             \
  REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), \
      REPEAT_16(x), x, x
static_assert(SIZE_CLASS_COUNT == 146, "the null heap's tables below have so many entries");

const struct sampler the_null_sampler = {0}; /* nothing is left: sample_push */

/* No owner has such a number: OWNERS_MOST. */
heap_t the_null_heap = {
    .id_word = 0xFFFFFF00u,
    .top = {REPEAT_146(the_null_slot)},
    .limit = {REPEAT_146(the_null_slot)},
    .sampler = (struct sampler *)&the_null_sampler,
};

__thread heap_t *the_heap __attribute__((tls_model("initial-exec"))) = &the_null_heap;
