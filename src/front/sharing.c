/* See sharing.h. SPDX-License-Identifier: MIT */
#include "sharing.h"

#include "../slab/batch.h"
#include "../slab/pool.h"
#include "capacity.h"

/* Each visits the batch boundary so often with a class, or as often as a block has bytes. */
enum { SHARED_VISITS_LEAST = 256 };

bool sharing_has_begun(void) { return HAK_UNLIKELY(pool_owner_count() > FEW_THREADS); }
bool sharing_is_on(void) { return sharing_has_begun() && pool_attached_count() > FEW_THREADS; }

static size_t visits(unsigned size_class) {
  return max_size(size_classes[size_class].block_bytes, SHARED_VISITS_LEAST);
}

bool sharing_serves(const heap_t *heap, unsigned size_class) {
  return sharing_is_on() && size_class_is_shared(size_class) &&
         heap->magazines[size_class].borrowed < visits(size_class);
}

bool sharing_note(heap_t *heap, unsigned size_class) {
  if (!sharing_serves(heap, size_class)) return false;
  heap->magazines[size_class].borrowed++;
  return true;
}

HAK_NOINLINE size_t sharing_fetch(heap_t *heap, unsigned size_class, size_t wanted) {
  void **blocks = magazine_slots(heap, size_class) + 1;
  size_t got = heap->owner.slabs[size_class] == 0 ? batch_borrow(&heap->owner, size_class, blocks, wanted) : 0;
  return got > 0 ? got : batch_refill(&heap->owner, size_class, blocks, wanted, NULL);
}
