/* See sample.h. SPDX-License-Identifier: MIT */
#include "sample.h"

#include "../arena/metadata.h"
#include "capacity.h"

#include <string.h>

enum { SAMPLER_BYTES = 4096, LEFT_MOST = 1 << 30 };
static_assert(sizeof(struct sampler) <= SAMPLER_BYTES, "a power of two, as the metadata's arrays");
static_assert(MAX_CAPACITY <= INT16_MAX, "a trap is the index of a slot");

/* ---- The trap ---------------------------------------------------------------------------*/
void sample_hold(heap_t *heap, unsigned size_class) {
  int16_t *trap = &heap->sampler->trap[size_class];
  if (*trap <= 0) return;
  void **slot = magazine_slots(heap, size_class) + *trap;
  if (slot > heap->slots[size_class].top || *slot != NULL) { /* in a forked child */
    *trap = 0;
    return;
  }
  *slot = heap->sampler->aside[size_class];
  __atomic_signal_fence(__ATOMIC_RELEASE);
  *trap = (int16_t) - *trap;
}

void sample_set(heap_t *heap, unsigned size_class) {
  int16_t *trap = &heap->sampler->trap[size_class];
  if (*trap >= 0) return;
  void **slot = magazine_slots(heap, size_class) - *trap;
  HAK_ASSERT(slot <= heap->slots[size_class].top && *slot != NULL);
  heap->sampler->aside[size_class] = *slot;
  *trap = (int16_t) - *trap;
  __atomic_signal_fence(__ATOMIC_RELEASE);
  *slot = NULL;
}

static uint32_t blocks_until(uint64_t mean_bytes, unsigned size_class) {
  return (uint32_t)min_size(record_draw(mean_bytes) / size_classes[size_class].block_bytes, LEFT_MOST);
}

void sample_draw(heap_t *heap, unsigned size_class, size_t count) {
  struct sampler *sampler = heap->sampler;
  uint32_t *left = &sampler->left[size_class];
  if (*left >= count) {
    *left -= (uint32_t)count;
    return;
  }
  sampler->trap[size_class] = (int16_t)(*left - (uint32_t)magazine_count(heap, size_class));
  *left = blocks_until(sampler->mean_bytes, size_class);
}

bool sample_draw_one(heap_t *heap, unsigned size_class) {
  uint32_t *left = &heap->sampler->left[size_class];
  if (*left > 0) {
    *left -= 1;
    return false;
  }
  *left = blocks_until(heap->sampler->mean_bytes, size_class);
  return true;
}

bool sample_popped(heap_t *heap, unsigned size_class) {
  int16_t *trap = &heap->sampler->trap[size_class];
  size_t count = magazine_count(heap, size_class);
  if (*trap >= 0 || (size_t) - *trap <= count) return false;
  *trap = 0;
  sample_draw(heap, size_class, count);
  return true;
}

void sample_flushed(heap_t *heap, unsigned size_class, size_t count) {
  int16_t *trap = &heap->sampler->trap[size_class];
  *trap = *trap < 0 && (size_t) - *trap > count ? (int16_t)(*trap + (int)count) : 0;
}

/* ---- Begin and end ------------------------------------------------------------------------*/
static void begin(heap_t *heap, uint64_t mean_bytes) {
  heap->sampler->mean_bytes = mean_bytes;
  heap->id_word |= HEAP_SAMPLES;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    heap->sampler->left[c] = blocks_until(mean_bytes, c);
    sample_draw(heap, c, magazine_count(heap, c));
    sample_set(heap, c);
  }
}

static void take_traps_out(heap_t *heap) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) sample_hold(heap, c);
  memset(heap->sampler->trap, 0, sizeof heap->sampler->trap);
  memset(heap->sampler->left, 0, sizeof heap->sampler->left);
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
