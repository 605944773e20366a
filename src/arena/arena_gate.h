/*
 * The arena's gate, and what its users read outside it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ARENA_GATE_H
#define HAK_ARENA_GATE_H

#include "../os/lock.h"

HAK_C_BEGIN

extern hak_gate_t arena_gate;
/* Whether somebody is behind the gate. A hint. */
HAK_INLINE bool arena_is_shut(void) { return gate_is_shut(&arena_gate); }
/* For those who look: the gate, behind which whatever was given back is the arena's. */
void arena_enter(void);
void arena_leave(void);

/* Whether the window has been found (arena_ready): before, there is nothing. Release: pairs with the acquire here. */
extern atomic32 arena_has_window;
HAK_INLINE bool arena_is_ready(void) { return HAK_LIKELY(atomic32_load_acquire(&arena_has_window) != 0); }
/* Whether more is kept for reuse than is to stay, so that there is something for arena_relieve. Relaxed: a hint. */
extern atomic32 arena_is_strained;

HAK_C_END
#endif
