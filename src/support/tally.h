/*
 * What was given back, and why: bytes since the process began, by the reason for it.
 * Counted by whoever does it, where it is done; that is never a fast path. Relaxed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TALLY_H
#define HAK_TALLY_H

#include "../base/base.h"
#include "../base/probe.h"

HAK_C_BEGIN

typedef enum {
  /* To the system, resident or not. */
  TALLY_AGED,     /* dirty memory that nobody took for a second          */
  TALLY_STRAINED, /* dirty memory, and free pages of slabs, beyond the share that is kept */
  TALLY_IDLE,     /* free pages of slabs that nobody used for half a second or more */
  TALLY_TRIMMED,  /* what the program asked for: hak_trim, hak_thread_idle */
  TALLY_LIMITED,  /* what was in the way of a limit (limit.h)            */
  /* Blocks, from magazines to their slabs. */
  TALLY_UNUSED,   /* of classes that their thread did not use for a second, or while others grew */
  TALLY_STRIPPED, /* of threads that sleep, or that their magazines serve alone */
  TALLY_ENDED,    /* of threads that have ended                          */
  TALLY_COUNT
} tally_t;

extern atomic64 tallies[TALLY_COUNT];

/* Returns the bytes. */
HAK_INLINE size_t tally_add(tally_t reason, size_t bytes) {
  if (bytes > 0) {
    atomic64_add_relaxed(&tallies[reason], bytes);
    HAK_PROBE(give_back, reason, bytes);
  }
  return bytes;
}

HAK_C_END
#endif
