/* See travel.h. SPDX-License-Identifier: MIT */
#include "travel.h"

#include "../os/os.h"
#include "../slab/batch.h"
#include "../slab/pool.h"
#include "../slab/remote.h"

/* Until its thread's second round of decay_now after it ran full of another's blocks, or the first after it was
 * served by the depot for want of own ones. */
enum { TRAVELS_SERVED = 1, TRAVELS_FULL = 2 };

/* Of a thread's newest blocks so many tell whether it exchanges any: then half of them may be others', or all
 * but a few. */
enum { LOOKS = 16 };

bool travel_is_wanted(const heap_t *heap, unsigned size_class) {
  return travel_shares_lines(size_class) && remote_is_crowded(&heap->owner) && heap->magazines[size_class].missed;
}

bool travel_is_due(unsigned size_class) {
  return size_class_is_wide(size_class) && !size_class_is_single(size_class) && pool_attached_count() > SOME_THREADS &&
         os_node_count() <= 1; /* what travels may lie on any node */
}

void travel_begin(heap_t *heap, unsigned size_class) { heap->magazines[size_class].travels = TRAVELS_FULL; }

void travel_decay(heap_t *heap, unsigned size_class) {
  if (heap->magazines[size_class].travels > 0) heap->magazines[size_class].travels--;
}

size_t travel_fetch(heap_t *heap, unsigned size_class, void **blocks, size_t wanted) {
  magazine_t *m = &heap->magazines[size_class];
  if (m->travels == 0 && (travel_shares_lines(size_class) || heap->owner.slabs[size_class] != 0)) return 0;
  size_t got = batch_fetch(&heap->owner, size_class, blocks, wanted);
  if (got > 0 && m->travels == 0) m->travels = TRAVELS_SERVED;
  return got;
}

static bool are_own(const heap_t *heap, unsigned size_class, const void *block) {
  uint32_t own_word = word_make(heap->owner.id, size_class);
  if (map_lookup(block) != own_word) return false;
  void *const *slot = heap->slots[size_class].top;
  for (int i = 0; i < LOOKS && *slot != NULL; i++, slot--)
    if (map_lookup(*slot) != own_word) return false;
  return true;
}

size_t travel_batch_bytes_of_one(const heap_t *heap, unsigned size_class) {
  const magazine_t *m = &heap->magazines[size_class];
  bool only_gets = !m->gave, only_frees = !m->missed && heap->owner.slabs[size_class] == 0;
  return capacity_batch_bytes(pool_attached_count(), only_gets || only_frees);
}

size_t travel_capacity_when_full(const heap_t *heap, unsigned size_class, const void *block) {
  const magazine_t *m = &heap->magazines[size_class];
  size_t full = capacity_when_full(size_class, m->capacity, m->missed);
  if (m->travels == 0) return full;
  size_t fair = capacity_when_sent(size_class, m->capacity, travel_batch_bytes_of_one(heap, size_class));
  return full > fair && !travel_is_due(size_class) && are_own(heap, size_class, block) ? full : fair;
}
