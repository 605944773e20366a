/*
 * What is done when the heap comes near a limit (support/limit.h).
 *
 * Whoever has made the heap grow past a mark does it, where it has left all gates: it
 * squeezes the heap, which is what trim does, or looks at the container. What the heap keeps by
 * itself is less from then on (arena/kept.h, front/capacity.h).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_PRESSURE_H
#define HAK_PRESSURE_H

#include "../support/limit.h"

HAK_C_BEGIN

/* A mark may have been passed (limit_is_passed). Leaves errno as it is. */
void pressure_answer(void);
/* For whoever may have made the heap grow. */
HAK_INLINE void pressure_look(void) {
  if (HAK_UNLIKELY(limit_is_passed())) pressure_answer();
}

/* Bytes; 0 is none. What is too much goes at once. */
void pressure_set_soft_limit(size_t bytes);

HAK_C_END
#endif
