/*
 * Decay: what a thread gives back over time, inline at its batch boundaries. Magazines
 * that it has not used for a second shrink, and memory that has been free for a second
 * or two goes back to the system, in slabs and outside.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_DECAY_H
#define HAK_DECAY_H

#include "heap.h"

HAK_C_BEGIN

/* `may_purge`: memory may be given back to the system, which takes longer than a
 * small malloc should; only frees do that, and what comes here some times a second at the most. */
void decay_now(heap_t *heap, bool may_purge);
/* What of it needs no heap: after the free of a block that no magazine holds. */
void decay_outside(void);

/* Called at each batch boundary; looks at the clock at every 16th, and at the next one after there was
 * something to give back, or where 16 take long. */
enum { DECAY_EVERY = 16 };
HAK_INLINE void decay_step(heap_t *heap, bool may_purge) {
  if (HAK_UNLIKELY(++heap->events % DECAY_EVERY == 0)) decay_now(heap, may_purge);
}

HAK_C_END
#endif
