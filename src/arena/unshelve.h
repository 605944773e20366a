/*
 * How runs come back from the shelf (shelf.h) to the arena, of which anybody may have any part.
 *
 * Thread-safe; whoever calls these is not inside the arena's gate; unshelve_forget may be called
 * inside as well.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_UNSHELVE_H
#define HAK_UNSHELVE_H

#include "map.h"

HAK_C_BEGIN

/* A run that was shelved until now, and is the caller's: its words are 0 again. */
void unshelve_forget(unit_t run, size_t units);

/* Takes runs down that were put there until then, so many or so many units. Returns the
 * units. Each under the gate, so that whoever holds it finds every run in its place. `waits`: where the gate is shut;
 * else the others stay there. */
size_t unshelve_until(uint64_t until_ms, size_t most_runs, size_t most_units, bool waits);
/* As many as a call may take time for, whenever they were put there; and all. */
enum { UNSHELVED_MOST = 32 };
size_t unshelve_some(size_t most_units, bool waits);
size_t unshelve_all(void);

HAK_C_END
#endif
