/* See sample.h. SPDX-License-Identifier: MIT */
#include "sample.h"

#include "../arena/metadata.h"
#include "../slab/batch.h"
#include "../slab/claim.h"

#include <string.h>

enum { SAMPLER_BYTES = 1024, LEFT_MOST = 1 << 30 };
static_assert(sizeof(struct sampler) <= SAMPLER_BYTES, "a power of two, as the metadata's arrays");

/* ---- The trap ---------------------------------------------------------------------------*/
int32_t sample_hold(heap_t *heap, unsigned size_class) {
  int32_t *trap = &heap->sampler->trap[size_class], at = *trap;
  int32_t left = (int32_t)magazine_count(heap, size_class) - at;
  HAK_ASSERT(at != SAMPLE_HELD && left >= 0);
  *trap = SAMPLE_HELD;
  if (at <= 0) return left;
  void **slot = magazine_slots(heap, size_class) + at;
  HAK_ASSERT(*slot == NULL);
  *slot = *heap->top[size_class];
  heap->top[size_class] -= 1;
  return left;
}

void sample_set(heap_t *heap, unsigned size_class, int32_t left) {
  int32_t count = (int32_t)magazine_count(heap, size_class), *trap = &heap->sampler->trap[size_class];
  if (left < count && count == heap->magazines[size_class].capacity) {
    void *block = *heap->top[size_class];
    heap->top[size_class] -= 1;
    count--;
    batch_flush(&heap->owner, size_class, &block, 1);
  }
  *trap = count - left;
  if (left >= count) return;
  *trap += 1;
  void **slots = magazine_slots(heap, size_class);
  slots[count + 1] = slots[*trap];
  slots[*trap] = NULL;
  heap->top[size_class] = slots + count + 1;
}

static int32_t draw(uint64_t mean_bytes, unsigned size_class) {
  return (int32_t)min_size(record_draw(mean_bytes) / size_classes[size_class].block_bytes, LEFT_MOST);
}

bool sample_count(heap_t *heap, unsigned size_class, int32_t *left) {
  if (*left > 0) {
    *left -= 1;
    return false;
  }
  *left = draw(heap->sampler->mean_bytes, size_class);
  return true;
}

/* ---- Begin and end ------------------------------------------------------------------------*/
static void begin(heap_t *heap, uint64_t mean_bytes) {
  heap->sampler->mean_bytes = mean_bytes;
  heap->id_word |= HEAP_SAMPLES;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) sample_set(heap, c, draw(mean_bytes, c));
}

static void take_traps_out(heap_t *heap) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) sample_hold(heap, c);
  memset(heap->sampler->trap, 0, sizeof heap->sampler->trap);
}

static bool make_sampler(heap_t *heap) {
  if (!record_prepare()) return false;
  if (heap->sampler == &the_null_sampler) {
    struct sampler *sampler = metadata_take(SAMPLER_BYTES);
    if (sampler == NULL) return false;
    memset(sampler, 0, SAMPLER_BYTES);
    sampler->filter = record_filter();
    heap->sampler = sampler;
  }
  return true;
}

/* The fence: of who sets the byte from outside after it has said what it wants, either
 * that is seen below, or its byte comes after this store. */
void sample_end(heap_t *heap) {
  if (sample_is_on(heap)) take_traps_out(heap), heap->sampler->mean_bytes = 0;
  heap->id_word &= ~HEAP_SAMPLES;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void sample_attach(heap_t *heap) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* as above: a new heap's id_word has just been stored */
  if (record_mean() != 0) heap->id_word |= HEAP_SAMPLES;
}

HAK_COLD static bool change(heap_t *heap, uint64_t wanted) {
  sample_end(heap);
  if (wanted == 0) {
    sample_attach(heap);
    return false;
  }
  /* Without memory for it there are no samples of this thread. */
  if (!make_sampler(heap)) return false;
  begin(heap, wanted);
  return true;
}

bool sample_notice(heap_t *heap) {
  uint64_t wanted = min_size(record_mean(), RECORD_MEAN_MOST), has = sample_is_on(heap) ? heap->sampler->mean_bytes : 0;
  if (HAK_LIKELY(wanted == has && has != 0)) return true;
  return change(heap, wanted);
}

/* ---- Frees ----------------------------------------------------------------------------------*/
bool sample_push_over_trap(heap_t *heap, void *block, size_t size_class) {
  int32_t *trap = &heap->sampler->trap[size_class];
  void **top = heap->top[size_class] + 1;
  if (HAK_UNLIKELY(top >= heap->limit[size_class])) return false;
  owner_enter(&heap->owner);
  bool is_alone = !claim_is_taken(&heap->owner) && !heap->owner.stripped;
  if (HAK_LIKELY(is_alone)) {
    *top = block;
    heap->top[size_class] = top;
    void **slot = magazine_slots(heap, (unsigned)size_class) + *trap;
    slot[0] = slot[1];
    slot[1] = NULL;
    *trap += 1;
  }
  owner_leave(&heap->owner);
  return is_alone;
}

bool sample_free(heap_t *heap, void *block, uint32_t word) {
  if (!sample_is_on(heap) || heap->sampler->mean_bytes != record_mean() || word_kind(word) >= SIZE_CLASS_COUNT)
    return false;
  return sample_push(heap, block, word_kind(word));
}

/* ---- Looking ----------------------------------------------------------------------------------*/
HAK_LOOKS_ON size_t sample_trap(const heap_t *heap, unsigned size_class) {
  if (HAK_LOOK(heap->id_word) < HEAP_SAMPLES) return 0;
  const struct sampler *sampler = HAK_LOOK(heap->sampler);
  if (sampler == NULL || HAK_LOOK(sampler->mean_bytes) == 0) return 0;
  int32_t trap = HAK_LOOK(sampler->trap[size_class]);
  return trap > 0 ? (size_t)trap : 0;
}
