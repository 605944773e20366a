/*
 * Arrays: what magazines lie in, and the budget that their capacity is taken from.
 *
 * All capacity of a heap together is bounded in bytes (room.h), but the first arrays of small classes are not asked
 * for theirs. Where a magazine is to be wider than there is room for, others that were not used lately shrink for it.
 *
 * The heap's own thread calls these, between thread_enter and thread_leave.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ARRAY_H
#define HAK_ARRAY_H

#include "heap.h"

HAK_C_BEGIN

/* Widens the magazine if there is room and memory; `block`: that is to go there, or NULL. Returns whether it is
 * wider. */
bool array_widen(heap_t *heap, unsigned size_class, size_t capacity, void *block);
/* Half of the blocks go home, and the capacity is halved. Returns what that cost, as unload. */
size_t array_shrink(heap_t *heap, unsigned size_class);
/* Gives the magazine another array; `capacity`, one less than a power of two or 0, holds at least what is in it. On
 * failure, false, it keeps the old one. */
bool array_set(heap_t *heap, unsigned size_class, size_t capacity);

HAK_C_END
#endif
