/* See unload.h. SPDX-License-Identifier: MIT */
#include "unload.h"

#include "../slab/batch.h"
#include "capacity.h"
#include "sample.h"

#include <string.h>

/* `by_depot`: as many as it has room for. */
HAK_INLINE size_t flush(heap_t *heap, unsigned size_class, size_t count, bool by_depot) {
  size_t held = magazine_count(heap, size_class);
  count = min_size(count, held);
  if (count == 0) return 0;
  void **slots = magazine_slots(heap, size_class);
  size_t sent = by_depot ? batch_send(&heap->owner, size_class, slots + 1, count) : 0;
  if (sent < count) batch_flush(&heap->owner, size_class, slots + 1 + sent, count - sent);
  memmove(slots + 1, slots + 1 + count, (held - count) * sizeof *slots);
  heap->top[size_class] = slots + held - count;
  return count * capacity_block_cost(size_class);
}

static HAK_COLD size_t flush_sampled(heap_t *heap, unsigned size_class, size_t count, bool by_depot) {
  if (!sample_is_on(heap)) return flush(heap, size_class, count, by_depot);
  bool is_held = sample_is_held(heap, size_class);
  if (!is_held) sample_hold(heap, size_class);
  size_t before = magazine_count(heap, size_class), cost = flush(heap, size_class, count, by_depot);
  sample_flushed(heap, size_class, before - magazine_count(heap, size_class));
  if (!is_held) sample_set(heap, size_class);
  return cost;
}

size_t unload(heap_t *heap, unsigned size_class, size_t count) {
  return sample_may_be_on(heap) ? flush_sampled(heap, size_class, count, false) : flush(heap, size_class, count, false);
}

HAK_NOINLINE void unload_by_depot(heap_t *heap, unsigned size_class, size_t count) {
  if (sample_may_be_on(heap)) flush_sampled(heap, size_class, count, true);
  else flush(heap, size_class, count, true);
}
