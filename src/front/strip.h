/*
 * What lies in the magazines of a thread that sleeps, or that its magazines serve alone,
 * sent home by another thread, which has claimed the owner (slab/claim.h).
 *
 * The claim keeps the thread out of its slow paths. Its fast path has no flag, and may be
 * interrupted anywhere: a pop may have loaded the newest block and not stored the new top,
 * a push may have stored a block and not the new top. But a pop that reads NULL goes to
 * the slow path and waits for the end of the claim. So the claimer puts a NULL, the
 * "floor", below the newest block:
 *
 *        slots[0]  slots[1] … slots[f]  slots[f+1]
 *          NULL     oldest     NULL      newest
 *                              floor     ^ top
 *
 *   S1  floor: compare-and-swap of what lies in slots[f] for NULL
 *   S2  os_fence_thread                 what the thread did before S1 shows at S3, and what
 *   S3  look at the top                 it does after it finds the NULL
 *   S4  os_fence_thread
 *   S5  look at slots[f]
 *
 * If the top is above the floor at S3, and the NULL is there at S5, the thread has not gone
 * past it, and cannot: slots[1] to slots[f] are the claimer's. If the NULL is gone, the
 * thread had been past it before S1: nothing is the claimer's. Otherwise nobody can tell
 * yet whose the block is that lay in slots[f]: the thread may be in the middle of a pop of
 * it, or of a push of the same block. It is set aside, for the thread itself: at its next
 * slow path it is in the middle of nothing, and the block is the magazine's exactly if the
 * NULL is there still and the top not below it.
 *
 * Above tiny classes the newest block is a good part of what there is. So magazine_pop_above_tiny
 * lowers the top before it takes the block, and raises it again if that is gone. The floor
 * is the newest block's slot itself: a thread whose top is not below it at S3 has not taken
 * the block, and will find the NULL. All else is as above, with "at the floor" for "above" it.
 * Tiny blocks' pops are four instructions shorter, and of their newest there is a page for each class at the most.
 *
 * tests/model/weak/src/protocols/strip.rs explores both (docs/weak_memory.md). What is left
 * is a magazine with gaps. Its owner closes them when it comes to a slow path
 * (owner_t.stripped), before anything else looks at the magazines.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_STRIP_H
#define HAK_STRIP_H

#include "heap.h"

HAK_C_BEGIN

/* Flushes what it can reach of the magazines of a claimed owner, a bounded amount; the
 * newest block of each tiny class stays. Returns whether there may be more. */
bool strip_now(owner_t *owner);
/* The same of large classes if the thread has not used one of these since the last call of this, which then are not
 * counted in what all threads' may hold, either (room.h); of all, if it has used none. */
bool strip_if_unused(owner_t *owner);

/* Puts magazines in order that were stripped, and counts those of large blocks again. The calling thread is the
 * owning one. */
void strip_mend(heap_t *heap);

HAK_C_END
#endif
