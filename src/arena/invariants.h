/*
 * The arena's part of the invariant walker: every unit of every zone, counted.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_INVARIANTS_H
#define HAK_INVARIANTS_H

#include "map.h"

HAK_C_BEGIN

/* Aborts through HAK_CHECK if an invariant of zones, runs or dirty memory is broken. The
 * arena's gate is held, and no units are taken out to be purged. `may_lack_words`: a run may
 * be there whose words were never written (arena_after_fork). Returns how many units are used. */
size_t invariants_check(bool may_lack_words);

HAK_C_END
#endif
