/*
 * Room: how much the magazines of a heap may hold, by what they hold already and what is known of
 * the thread. capacity.h has the rules.
 *
 * Of large blocks a thread would come to have one of each size that it ever used, of which it uses
 * a few at a time. Where it writes to most of their pages, as programs do, that is memory, and a
 * block that the arena has to find costs little beside: so magazines hold no more than
 * a few times what is out. Where it writes to a page here and there, the arena costs more than all the
 * rest, and would give out places that were never written to: so they hold what they can. Which
 * it is, pages of blocks show that the thread has freed.
 *
 * Of smaller blocks a thread whose sizes drift would come to hold its share of the budget, however little is
 * out. So there, too, it is a few times what is out, of the blocks of its own slabs: the most of lately, as at
 * the end of a batch nothing is.
 *
 * The heap's own thread calls these, between thread_enter and thread_leave, unless said otherwise.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ROOM_H
#define HAK_ROOM_H

#include "heap.h"

HAK_C_BEGIN

/* What is out now may be the most of lately; a second has passed, and that becomes less to go by. */
void room_look_at_out(heap_t *heap);
void room_age(heap_t *heap);

/* A magazine's capacity has changed. */
void room_note(heap_t *heap, unsigned size_class, size_t more_bytes);

/* What all magazines of a heap may hold, in bytes of blocks, if one of that class grows by so much, where of large
 * blocks only what is resident takes from the budget; what those of large ones may, and in any case. Large ones have a
 * bound of their own. */
size_t room_in_all(heap_t *heap, unsigned size_class, size_t more_bytes);
size_t room_for_large(const heap_t *heap);
size_t room_for_large_least(const heap_t *heap);
/* Whether other threads' magazines have large blocks, too. */
bool room_is_shared(const heap_t *heap);

/* A thread has ended, sleeps, or uses no large blocks: its magazines of these take no room from others', until
 * room_count_again. For the heap's own thread as well as for who has claimed the owner. */
void room_count_out(heap_t *heap);
void room_count_again(heap_t *heap);
/* In a forked child, in which `heap`, or no one if it is NULL, is the only thread's. */
void room_after_fork(heap_t *heap);

/* A large block is freed, and its magazine has no place: how much of the first ones is resident. */
void room_look_now(heap_t *heap, unsigned size_class, void *block);
enum { ROOM_UNIT_PARTS = 4, ROOM_UNITS_KNOWN = 64 };
HAK_INLINE bool room_is_known(const heap_t *heap) {
  return heap->parts_looked_at >= ROOM_UNITS_KNOWN * ROOM_UNIT_PARTS;
}
HAK_INLINE void room_look_first(heap_t *heap, unsigned size_class, void *block) {
  if (HAK_UNLIKELY(size_class_is_single(size_class)) && !room_is_known(heap)) room_look_now(heap, size_class, block);
}
/* The same, and it matters: how much of some is. */
void room_look_again(heap_t *heap, unsigned size_class, void *block);

HAK_C_END
#endif
