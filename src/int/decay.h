/*
 * INT: what is decided over time rather than at a call. Today that is decay,
 * run inline at the batch boundary: magazines that a thread has not used for a
 * second shrink, and memory that has been free for a second or two goes back to
 * the system, in slabs and outside.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_DECAY_H
#define HAK_DECAY_H

#include "../front/heap.h"

HAK_C_BEGIN

void decay_now(heap_t *heap);

/* Called at each batch boundary; looks at the clock at every 16th. */
HAK_INLINE void decay_step(heap_t *heap) {
  if (HAK_UNLIKELY(++heap->events % 16 == 0)) decay_now(heap);
}

HAK_C_END
#endif
