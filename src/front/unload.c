/* See unload.h. SPDX-License-Identifier: MIT */
#include "unload.h"

#include "../slab/batch.h"
#include "capacity.h"
#include "sample.h"

#include <string.h>

typedef struct {
  bool by_depot;       /* as many as it has room for */
  uint32_t most_units; /* of slabs that become free by those that go home */
} way_t;

HAK_INLINE size_t flush(heap_t *heap, unsigned size_class, size_t count, way_t way) {
  size_t held = magazine_count(heap, size_class);
  count = min_size(count, held);
  if (count == 0) return 0;
  void **slots = magazine_slots(heap, size_class);
  size_t sent = way.by_depot ? batch_send(&heap->owner, size_class, slots + 1, count) : 0;
  if (sent < count)
    count = sent + batch_flush_some(&heap->owner, size_class, slots + 1 + sent, count - sent, way.most_units);
  memmove(slots + 1, slots + 1 + count, (held - count) * sizeof *slots);
  heap->top[size_class] = slots + held - count;
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
  const way_t home = {.most_units = UINT32_MAX};
  return sample_may_be_on(heap) ? flush_sampled(heap, size_class, count, home) : flush(heap, size_class, count, home);
}

HAK_NOINLINE void unload_some(heap_t *heap, unsigned size_class, size_t count) {
  const way_t home = {.most_units = FLUSH_BYTES >> UNIT_SHIFT};
  if (sample_may_be_on(heap)) flush_sampled(heap, size_class, count, home);
  else flush(heap, size_class, count, home);
}

HAK_NOINLINE void unload_by_depot(heap_t *heap, unsigned size_class, size_t count) {
  const way_t way = {.by_depot = true, .most_units = FLUSH_BYTES >> UNIT_SHIFT};
  if (sample_may_be_on(heap)) flush_sampled(heap, size_class, count, way);
  else flush(heap, size_class, count, way);
}
