/*
 * What is done when the heap comes near a limit (support/limit.h).
 *
 * Whoever has made the heap grow past a mark does it, where it has left all gates: it
 * squeezes the heap, which is what trim does, and looks at the container, or has the
 * background thread look. What the heap keeps by itself is less from then on (arena.h,
 * capacity.h).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_PRESSURE_H
#define HAK_PRESSURE_H

#include "../support/limit.h"

HAK_C_BEGIN

/* A mark may have been passed (limit_is_passed). Leaves errno as it is. */
void pressure_answer(void);

/* Bytes; 0 is none. What is too much goes at once. */
void pressure_set_soft_limit(size_t bytes);

/* A round of the background thread: looks at the container where that is due, or was longer
 * ago than a second while the heap is near, and squeezes the heap if it has come near because
 * others in the container have grown. Returns whether there was something to do. */
bool pressure_round(uint64_t now_ms);

HAK_C_END
#endif
