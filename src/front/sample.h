/*
 * Which allocations are samples: each byte that a thread is given of a class is one with the
 * same chance, and the block that it lies in is recorded (record.h).
 *
 * The fast path knows nothing of it. What is put into a magazine, by a free or a refill, will be given out
 * once, and whether it will be a sample then is drawn as it is put there: `left` of its class go by, and the
 * next one is. In the slot of that one is a NULL, the "trap", and its block is kept `aside`. The pop that reads
 * the NULL takes the slow path, as where the magazine is empty, and is the sample.
 *
 *        slots[0]  slots[1] … slots[trap]  …  slots[n]
 *          NULL     oldest      NULL           newest
 *                               aside          ^ top
 *
 * So while a thread samples, the number that its frees compare with is no owner's (HEAP_SAMPLES in `id_word`):
 * every free takes the slow path, which pushes and counts (sample_free_quickly). There frees of samples are
 * noticed, too.
 *
 * A magazine has one trap at the most: the newest. Chance has no memory, so of older blocks it can be drawn
 * again, and has to be when that trap is gone, as nobody could know what had been drawn for them. What is
 * flushed takes what was drawn for it along. Each block in a magazine takes the same slot as ever, so samples
 * change nothing of what is cached.
 *
 * Invariant, for each class of a heap that samples, outside of the slow paths:
 *   trap > 0:   slots[trap] = NULL, aside is its block; no block above it will be a sample
 *   trap = 0:   no slot but the first is NULL; none will be a sample
 * n one that does not any more, trap <= 0. In the slow paths, whoever changes a magazine but by flushing holds
 * it: between sample_hold and sample_set the block is in its slot, and trap is negative. Both write so that a
 * forked child finds the block in the one place or the other: a trap above the newest block, or with another
 * block in its slot than NULL, is none.
 *
 * A thread begins and ends by itself, at its next slow path. Who wants samples from outside stores what it
 * wants (record_control) and then sets the highest byte of each heap's id_word, which sends the thread's next
 * free there; a new thread looks when it gets its heap. Who wants none any more stores that. The thread ends
 * where a sample would be due, or before, in a slow path.
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

/* Whether the slow path is to ask sample_notice. */
HAK_INLINE bool sample_may_be_on(const heap_t *heap) { return HAK_UNLIKELY(heap->id_word >= HEAP_SAMPLES); }
HAK_INLINE bool sample_is_on(const heap_t *heap) { return sample_may_be_on(heap) && heap->sampler->mean_bytes != 0; }
/* Begins or ends sampling, as is wanted now. Returns whether the heap samples. No magazine is held. */
bool sample_notice(heap_t *heap);
/* A thread that gets this heap samples if somebody wants that. */
void sample_attach(heap_t *heap);
void sample_end(heap_t *heap);

/* Takes the trap out, and puts it back. */
void sample_hold(heap_t *heap, unsigned size_class);
void sample_set(heap_t *heap, unsigned size_class);
HAK_INLINE bool sample_is_held(const heap_t *heap, unsigned size_class) { return heap->sampler->trap[size_class] < 0; }
/* In a magazine that is held: */
/* The newest `count` blocks are new, or have to be drawn for again. */
void sample_draw(heap_t *heap, unsigned size_class, size_t count);
/* One has been given out that was put in just now. Returns whether it is a sample. */
bool sample_draw_one(heap_t *heap, unsigned size_class);
/* The newest block has been given out. Returns whether it is a sample. */
bool sample_popped(heap_t *heap, unsigned size_class);
/* The oldest `count` have gone. */
void sample_flushed(heap_t *heap, unsigned size_class, size_t count);

/* Pushes a block that will be no sample. false: it may be one, or the magazine is full, or the heap does not
 * sample; nothing was done. A forked child may see the push without its count; it does not sample. */
HAK_INLINE bool sample_push(heap_t *heap, void *block, size_t size_class) {
  uint32_t *left = &heap->sampler->left[size_class];
  if (HAK_UNLIKELY(*left == 0) || HAK_UNLIKELY(!magazine_push(heap, size_class, block))) return false;
  *left -= 1;
  return true;
}
/* Frees a block of which there is little to ask: the filter knows of no sample there. No class of the heap's own, or no
 * heap that samples: false. */
HAK_INLINE bool sample_free_quickly(heap_t *heap, void *block, size_t size_class) {
  if (HAK_UNLIKELY(size_class >= SIZE_CLASS_COUNT)) return false;
  struct sampler *sampler = heap->sampler;
  if (HAK_UNLIKELY(sampler->left[size_class] == 0)) return false;
  if (HAK_UNLIKELY(atomic8_load_relaxed(&sampler->filter[record_filter_place(block)]) != 0)) return false;
  return sample_push(heap, block, size_class);
}
/* Frees a block of this heap, which is no sample. false: nothing was done. */
HAK_INLINE bool sample_free(heap_t *heap, void *block, uint32_t word) {
  return word_kind(word) < SIZE_CLASS_COUNT && sample_push(heap, block, word_kind(word));
}

/* What lies in a slot of a magazine, or would if it were not the trap's. */
HAK_INLINE void *sample_block_at(const heap_t *heap, unsigned size_class, size_t slot) {
  bool is_trap = sample_is_on(heap) && heap->sampler->trap[size_class] == (int16_t)slot;
  return is_trap ? heap->sampler->aside[size_class] : magazine_slots(heap, size_class)[slot];
}

HAK_C_END
#endif
