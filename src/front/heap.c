/* See heap.h. SPDX-License-Identifier: MIT */
#include "heap.h"

/* Every magazine of the null heap: empty, as *top is NULL, and full, as
 * top == limit. Nobody writes it. */
void *the_null_slot[1];

const struct sampler the_null_sampler = {0}; /* nothing is left: sample_push */

/* No owner has such a number: OWNERS_MOST. */
heap_t the_null_heap = {
    .id_word = 0xFFFFFF00u,
    .slots = {[0 ... SIZE_CLASS_COUNT - 1] = {the_null_slot, the_null_slot}},
    .sampler = (struct sampler *)&the_null_sampler,
};

__thread heap_t *the_heap __attribute__((tls_model("initial-exec"))) = &the_null_heap;
