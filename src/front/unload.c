/* See unload.h. SPDX-License-Identifier: MIT */
#include "unload.h"

#include "../slab/batch.h"
#include "capacity.h"
#include "sample.h"

#include <string.h>

typedef enum {
  ALL_HOME,
  SOME_HOME,     /* until slabs of FLUSH_BYTES have become free */
  BY_DEPOT_FIRST /* as many as it has room for; of the others some home */
} way_t;

HAK_INLINE size_t flush(heap_t *heap, unsigned size_class, size_t count, way_t way) {
  size_t held = magazine_count(heap, size_class);
  count = min_size(count, held);
  if (count == 0) return 0;
  void **slots = magazine_slots(heap, size_class);
  size_t sent = way == BY_DEPOT_FIRST ? batch_send(&heap->owner, size_class, slots + 1, count) : 0;
  if (way == ALL_HOME) batch_flush(&heap->owner, size_class, slots + 1, count);
  else if (sent < count)
    count = sent +
            batch_flush_some(&heap->owner, size_class, slots + 1 + sent, count - sent, FLUSH_BYTES >> UNIT_SHIFT);
  memmove(slots + 1, slots + 1 + count, (held - count) * sizeof *slots);
  heap->slots[size_class].top = slots + held - count;
  return count * capacity_block_cost(size_class);
}

static HAK_COLD size_t flush_sampled(heap_t *heap, unsigned size_class, size_t count, way_t way) {
  if (!sample_is_on(heap)) return flush(heap, size_class, count, way);
  bool is_held = sample_is_held(heap, size_class);
  if (!is_held) sample_hold(heap, size_class);
  size_t before = magazine_count(heap, size_class), cost = flush(heap, size_class, count, way);
  sample_flushed(heap, size_class, before - magazine_count(heap, size_class));
  if (!is_held) sample_set(heap, size_class);
  return cost;
}

size_t unload(heap_t *heap, unsigned size_class, size_t count) {
  return sample_may_be_on(heap) ? flush_sampled(heap, size_class, count, ALL_HOME)
                                : flush(heap, size_class, count, ALL_HOME);
}

HAK_NOINLINE void unload_some(heap_t *heap, unsigned size_class, size_t count) {
  if (sample_may_be_on(heap)) flush_sampled(heap, size_class, count, SOME_HOME);
  else flush(heap, size_class, count, SOME_HOME);
}

HAK_NOINLINE void unload_by_depot(heap_t *heap, unsigned size_class, size_t count) {
  if (sample_may_be_on(heap)) flush_sampled(heap, size_class, count, BY_DEPOT_FIRST);
  else flush(heap, size_class, count, BY_DEPOT_FIRST);
}
