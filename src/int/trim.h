/*
 * Giving back all that can be given, because somebody asks for it, or near a limit.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TRIM_H
#define HAK_TRIM_H

#include "../support/tally.h"

HAK_C_BEGIN

/* Flushes the calling thread's heap, what waits in those of ended threads, and what can be
 * had of other threads' (slab/claim.h, front/strip.h), and returns memory to the system:
 * pages of their slabs without a live block, and what the arena holds free but for
 * `keep_dirty` bytes. Returns the bytes, which are tallied: of calls at once, which wait for
 * each other, one counts what it has brought of other threads'. Thread-safe; takes as long as there is work. */
size_t trim_for(tally_t reason, size_t keep_dirty);
/* The program asks: of both together `keep_bytes` stay, rather of the arena's. */
size_t trim(size_t keep_bytes);

HAK_C_END
#endif
