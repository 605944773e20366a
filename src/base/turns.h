/*
 * Turns: of many who pass, one in so many does something.
 *
 * Not each eighth, say: a program that does the same things over and over again would keep in step with that,
 * and the one thing that matters never have its turn. The multiples of the golden ratio, modulo 1, keep in step
 * with nothing, and lie evenly (H. Weyl, 1916).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TURNS_H
#define HAK_TURNS_H

#include "base.h"

HAK_C_BEGIN

/* Whether the one with that number is one of those, of whom there is one in `every`. */
HAK_INLINE bool turn_is_among(uint32_t number, uint32_t every) { return number * 0x9E3779B1u < UINT32_MAX / every; }
/* The same for who comes next. Thread-safe; relaxed: it matters little whose turn it is exactly. */
HAK_INLINE bool turn_has_come(atomic32 *turns, uint32_t every) {
  return turn_is_among(atomic32_add_relaxed(turns, 1), every);
}

HAK_C_END
#endif
