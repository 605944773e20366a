/*
 * A magazine's slots: an array of blocks that is used as a stack, from the fast paths of malloc
 * and free. Its first slot is NULL, so that to pop from an empty one and from a full one is the
 * same, and what is read says which it was.
 *
 *   NULL  oldest … newest            top == limit: full
 *                  ^ top
 *
 * The slots are one thread's. A forked child sees that thread's stores up to some point, in
 * order.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SLOTS_H
#define HAK_SLOTS_H

#include "base.h"

HAK_C_BEGIN

/* The block's first line on its way into the cache: a hint, of which nobody waits for the end, and that any
 * address, NULL included, can be given. Who is handed a block writes to it at once, and would wait for memory; or, had
 * the line come to be read, for the processors that have it, too. Compilers use PREFETCHW only if told that there is
 * one: AMD's processors have it, and Intel's since Broadwell (2014); older ones do nothing for it, but for the first
 * ones of 64 bits (2004 and 2005), which do not know it. */
HAK_INLINE void slots_prefetch(const void *block) {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)block));
#else
  __builtin_prefetch(block, 1);
#endif
}

/* Side by side, as who pushes reads both. */
typedef struct {
  void **top, **limit;
} slots_t;

/* The newest block; NULL when there is none. The one below it is prefetched, as it is the next unless something
 * is pushed. */
HAK_INLINE void *slots_pop(slots_t *slots) {
  void **slot = slots->top, *block = *slot;
  HAK_IN_REGISTER(block); /* the one that it is returned in: compilers would copy it in the end */
  if (HAK_LIKELY(block != NULL)) {
    slots->top = slot - 1;
    slots_prefetch(slot[-1]);
  }
  return block;
}

/* false: they are full. What is pushed is the next to be popped, and prefetched. */
HAK_INLINE bool slots_push(slots_t *slots, void *block) {
  void **top = slots->top;
  slots_prefetch(block);
  if (HAK_UNLIKELY(top == slots->limit)) return false;
  top[1] = block;
  /* So that for the child a slot that counts has been written. The compiler must keep the order;
   * the machine does. */
  __atomic_signal_fence(__ATOMIC_RELEASE);
  slots->top += 1;
  return true;
}

HAK_C_END
#endif
