/*
 * Which allocations are samples: each byte that a thread is given of a class is one with the
 * same chance, and the block that it lies in is recorded (record.h).
 *
 * The fast path knows nothing of it. For each class the thread draws how many blocks go by
 * until the next sample, its `left`, and has that many blocks lie in the magazine above a NULL, the
 * "trap". The pop that reads it takes the slow path, as where the magazine is empty, and is
 * the sample.
 *
 *        slots[0]  slots[1] … slots[t]  slots[t+1] … slots[t+left]
 *          NULL     oldest     NULL                   newest
 *                              trap                   ^ top
 *
 * A push would move the trap down by one without anybody's knowledge. So, while a thread samples,
 * the number that its frees compare with is no owner's (HEAP_SAMPLES in `id_word`): every free takes
 * the slow path, which pushes and moves the trap up by one (sample_free). There frees of
 * samples are noticed, too.
 *
 * Invariant, for each class of a heap that samples, outside of the slow paths:
 *   trap > 0:   slots[trap] = NULL, a block at least lies below it, and left = top - slots - trap
 *   trap <= 0:  no slot but the first is NULL,             and left = top - slots - trap
 * In one that does not any more, trap = 0.
 * In the slow paths, whoever changes a magazine holds it: between sample_hold and sample_set the trap
 * is out of it, and `left` in the caller's hands.
 *
 * A thread begins and ends by itself, at its next slow path. Who wants samples from outside stores
 * what it wants (record_control) and then sets the highest byte of each heap's id_word, which sends
 * the thread's next free there; a new thread looks when it gets its heap.
 *
 * The calls are the owning thread's, or those of who stands in for it (owner.h).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SAMPLE_H
#define HAK_SAMPLE_H

#include "heap.h"
#include "record.h"

HAK_C_BEGIN

#define HEAP_SAMPLES 0x80000000u

enum { SAMPLE_HELD = INT32_MIN };

/* Whether the slow path is to ask sample_notice. */
HAK_INLINE bool sample_may_be_on(const heap_t *heap) { return HAK_UNLIKELY(heap->id_word >= HEAP_SAMPLES); }
HAK_INLINE bool sample_is_on(const heap_t *heap) { return sample_may_be_on(heap) && heap->sampler->mean_bytes != 0; }
/* Begins or ends sampling, as is wanted now. Returns whether the heap samples. No magazine is held. */
bool sample_notice(heap_t *heap);
/* A thread that gets this heap samples if somebody wants that. */
void sample_attach(heap_t *heap);
void sample_end(heap_t *heap);

/* Takes the trap out. */
int32_t sample_hold(heap_t *heap, unsigned size_class);
HAK_INLINE bool sample_is_held(const heap_t *heap, unsigned size_class) {
  return heap->sampler->trap[size_class] == SAMPLE_HELD;
}
/* Puts it back. A magazine that is full loses a block for it. */
void sample_set(heap_t *heap, unsigned size_class, int32_t left);
/* A block of the class has been taken out of a magazine that is held. Returns whether it is a sample. */
bool sample_count(heap_t *heap, unsigned size_class, int32_t *left);

/* Frees a block of this heap, which is no sample. false: nothing was done. */
bool sample_free(heap_t *heap, void *block, uint32_t word);
/* Pushes where the trap is in a slot, and moves it up by one. false: nothing was done, as no slot would be left beside
 * the block's, or the heap is another's for now, or about to be. */
bool sample_push_over_trap(heap_t *heap, void *block, size_t size_class);
/* Pushes where the trap need not be put into a slot; false: nothing was done. Where the trap is in none, a forked child
 * may see the push without its count; it does not sample. */
HAK_INLINE bool sample_push(heap_t *heap, void *block, size_t size_class) {
  int32_t *trap = &heap->sampler->trap[size_class];
  if (*trap >= 0) return *trap > 0 && sample_push_over_trap(heap, block, size_class);
  if (HAK_UNLIKELY(!magazine_push(heap, size_class, block))) return false;
  *trap += 1;
  return true;
}
/* Frees a block of which there is little to ask: the filter knows of no sample there. No class of the heap's own, or no
 * heap that samples: false. */
HAK_INLINE bool sample_free_quickly(heap_t *heap, void *block, size_t size_class) {
  if (HAK_UNLIKELY(size_class >= SIZE_CLASS_COUNT)) return false;
  struct sampler *sampler = heap->sampler;
  if (HAK_UNLIKELY(sampler->mean_bytes != record_mean())) return false;
  if (HAK_UNLIKELY(atomic8_load_relaxed(&sampler->filter[record_filter_place(block)]) != 0)) return false;
  return sample_push(heap, block, size_class);
}

/* Where a heap's trap lies in its magazine; 0: in none. For who looks at other threads' heaps, too. */
size_t sample_trap(const heap_t *heap, unsigned size_class);

HAK_C_END
#endif
