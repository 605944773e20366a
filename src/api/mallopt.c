/*
 * glibc's mallopt(3): what its parameters mean here.
 *
 * SPDX-License-Identifier: MIT
 */
#include <malloc.h>

#if defined(__GLIBC__) /* other C libraries have no mallopt, nor a program that calls it */

#include "../arena/arena_purge.h"

/* As in glibc: a threshold below 0, as a size, is beyond all sizes. */
static void set_trim_threshold(int value) { arena_keep(value < 0 ? SIZE_MAX : (size_t)value); }

__attribute__((visibility("default"))) int mallopt(int parameter, int value) {
  switch (parameter) {
    case M_TRIM_THRESHOLD: set_trim_threshold(value); return 1;
    /* What follows tunes a heap of another kind. One heap serves all threads, and no block has a
     * mapping of its own. */
    case M_ARENA_MAX:
    case M_ARENA_TEST:
    case M_MMAP_MAX:
    case M_MMAP_THRESHOLD:
    case M_TOP_PAD:
    case M_MXFAST:
    case M_NLBLKS:
    case M_GRAIN:
    case M_KEEP:
    /* What a block holds is never looked at nor written, neither when it is handed out nor when
     * it is freed. */
    case M_PERTURB:
    /* Has no effect in glibc either, since 2.26. HAKMEM_ABORT_ON_ERROR says it. */
    case M_CHECK_ACTION: return 1;
    default: return 0;
  }
}

#endif
