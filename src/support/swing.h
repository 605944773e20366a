/*
 * Swing: how far an amount that falls comes back soon after.
 *
 * Memory that a program gives up for good had better go back to the system at once; what
 * it gives up and takes again ten times a second had better stay. Which it is shows in
 * what it did lately:
 *
 *     peak ──────╮          below: from the last peak down to where it is
 *                │    ╭──   depth: from there down to the lowest point since
 *                ╰────╯     swing: the longest way up from such a point
 *
 * Growth alone makes no swing, nor does the end of what has grown; nor does it matter
 * whether the memory was still there when it was wanted again. All three are forgotten by
 * half every quarter of a second.
 *
 * Plain data: guarded by whatever guards what is counted. Units are the user's.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SWING_H
#define HAK_SWING_H

#include "../base/base.h"

HAK_C_BEGIN

typedef struct {
  size_t below, depth, swing, turnover;
  uint64_t next_tick_ms;
} swing_t;

enum { SWING_TICK_MS = 250 };

HAK_INLINE void swing_fall(swing_t *s, size_t amount) {
  s->below += amount;
  if (s->below > s->depth) s->depth = s->below;
}

HAK_INLINE void swing_rise(swing_t *s, size_t amount) {
  size_t again = min_size(amount, s->below);
  s->below -= again;
  s->turnover += again;
  if (s->depth - s->below > s->swing) s->swing = s->depth - s->below;
  if (s->below == 0) s->depth = 0;
}

/* Forgets for the time that has passed. Time does not go back. */
HAK_INLINE void swing_age(swing_t *s, uint64_t now_ms) {
  if (HAK_LIKELY(now_ms < s->next_tick_ms)) return;
  uint64_t ticks = (now_ms - s->next_tick_ms) / SWING_TICK_MS + 1;
  unsigned halvings = ticks < 63 ? (unsigned)ticks : 63;
  s->below >>= halvings;
  s->depth >>= halvings;
  s->swing >>= halvings;
  s->turnover >>= halvings;
  s->next_tick_ms = now_ms + SWING_TICK_MS;
}

HAK_C_END
#endif
