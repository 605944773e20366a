/*
 * Order: whether the blocks of a magazine lie beside each other as they follow each other.
 *
 * A magazine hands out its newest block, wherever that lies; what is taken from slabs is in order of address.
 * Where a program makes and frees structures of many blocks, of sizes that vary, each one gets what several
 * before it have left. So in a magazine that holds all blocks of one, neighbours come a little farther apart
 * each time, and after some tens of times the blocks of a structure lie anywhere in the heap. Who walks over it
 * then misses the caches at each of them, which takes far longer than the visits to the slabs that a long
 * magazine saves.
 *
 * So a magazine whose blocks have been in order, and are not any more, shrinks to a fair batch and stays that
 * short: what it holds no more goes by way of the slabs. Blocks that never were in order are freed in no order,
 * and no magazine can help it; nor need it where all that the thread uses fits into a cache.
 *
 * The heap's own thread calls these, between thread_enter and thread_leave.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ORDER_H
#define HAK_ORDER_H

#include "capacity.h"
#include "heap.h"

HAK_C_BEGIN

/* Classes of which it is known, a bit each: up to 1008 bytes. A larger block is a good part of a page, and many
 * lines. */
enum { ORDER_CLASSES = 64 };
static_assert((int)ORDER_CLASSES <= (int)TINY_CLASS_COUNT, "tiny ones");
/* Slabs of fewer bytes in all fit into a processor's second cache, or nearly. */
#define ORDER_FROM_BYTES HAK_MIB(2)

/* The magazine is full. Whether it would grow, and that would cost its blocks their order, or has done so. */
bool order_is_lost_now(heap_t *heap, unsigned size_class);
HAK_INLINE bool order_is_lost(heap_t *heap, unsigned size_class) {
  const magazine_t *m = &heap->magazines[size_class];
  if (HAK_LIKELY(m->capacity < BATCH_CAPACITY) || !m->missed || size_class >= ORDER_CLASSES) return false;
  return heap->owner.slab_bytes >= (int64_t)ORDER_FROM_BYTES && order_is_lost_now(heap, size_class);
}
/* A round of decay_now has come to it. Where it has never been full of blocks in order since the last one, it
 * may grow as others do. */
void order_age(heap_t *heap, unsigned size_class);
/* The heap's magazines are dropped: its thread ends, or will sleep. */
void order_forget(heap_t *heap);

HAK_C_END
#endif
