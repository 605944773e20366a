/*
 * Heaps and threads: how a thread gets its heap and what becomes of it.
 * See heap.h. SPDX-License-Identifier: MIT
 */
#include "heap.h"

#include "../arena/arena.h"
#include "../int/decay.h"
#include "../slab/pool.h"
#include "../slab/purge.h"
#include "../slab/remote.h"
#include "../slab/slab.h"
#include "../support/error.h"
#include "magazine.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

/* Every magazine of the null heap: empty, as *top is NULL, and full, as
 * top == limit. Nobody writes it. */
void *the_null_slot[1];

#define REPEAT_16(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
#define REPEAT_144(x)                                                                                          \
  REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), REPEAT_16(x), \
      REPEAT_16(x)
static_assert(SIZE_CLASS_COUNT == 144, "the null heap's tables below have so many entries");

/* No owner has the largest number: OWNERS_MOST. */
heap_t the_null_heap = {
    .id_word = 0xFFFFFF00u,
    .top = {REPEAT_144(the_null_slot)},
    .limit = {REPEAT_144(the_null_slot)},
};

__thread heap_t *the_heap __attribute__((tls_model("initial-exec"))) = &the_null_heap;

/* Set when the thread has given its heap up. Not the key's value: glibc clears that
 * before it frees the last things of a thread itself. */
static __thread bool thread_has_ended __attribute__((tls_model("initial-exec")));

/* ---- Ends of threads -------------------------------------------------------------
 * Destructors of other keys, and of glibc itself, free and allocate after ours.
 * So ours asks to be called once more, and what comes later still borrows a heap
 * for each call. A thread that gets its first heap in the last round of all is
 * found by pool_attach.                                                          */
static pthread_key_t thread_key;
static atomic32 thread_key_exists; /* release after the key: pairs with the acquires of this file */
enum { THREAD_HAS_HEAP = 1, THREAD_ENDS };

static void set_thread_state(uintptr_t state) {
  if (atomic32_load_acquire(&thread_key_exists)) pthread_setspecific(thread_key, (void *)state);
}

/* What a thread's magazines hold beyond one step stays in them, for the thread that
 * gets the heap next, or for pool_tidy. */
static void detach(heap_t *heap) {
  heap->owner.busy++;
  heap_flush_step(&heap->owner);
  magazines_drop(heap);
  pool_detach(&heap->owner); /* which ends being busy */
  error_settle();
}

static void thread_ends(void *value) {
  if ((uintptr_t)value == THREAD_HAS_HEAP) {
    set_thread_state(THREAD_ENDS);
    return;
  }
  heap_t *heap = the_heap;
  the_heap = &the_null_heap;
  thread_has_ended = true;
  if (heap != &the_null_heap) detach(heap);
}

void heap_prepare(void) {
  static hak_lock_t lock;
  if (atomic32_load_acquire(&thread_key_exists)) return;
  lock_acquire(&lock);
  if (!atomic32_load_relaxed(&thread_key_exists) && pthread_key_create(&thread_key, thread_ends) == 0)
    atomic32_store_release(&thread_key_exists, 1);
  lock_release(&lock);
}

/* ---- Entering ------------------------------------------------------------------*/
static heap_t *attach(void) {
  owner_t *owner = pool_attach();
  if (owner == NULL) return NULL;
  heap_t *heap = heap_of(owner);
  if (heap->id_word == 0) {
    for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) heap->top[c] = heap->limit[c] = the_null_slot;
    heap->id_word = word_make(heap->owner.id, 0);
  }
  return heap;
}

heap_t *heap_enter(void) {
  heap_t *heap = the_heap;
  if (HAK_UNLIKELY(heap == &the_null_heap)) {
    heap_prepare();
    heap = attach();
    if (heap == NULL) return NULL;
    if (!thread_has_ended) {
      the_heap = heap; /* first: pthread_setspecific may allocate */
      set_thread_state(THREAD_HAS_HEAP);
    }
  }
  heap->owner.busy++;
  /* A fork in another thread copies what we have stored so far, in order: no
   * change may be seen before the flag. Compiler order is enough, see
   * docs/design.md on fork. */
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return heap;
}

void heap_leave(heap_t *heap) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  heap->owner.busy--;
  if (HAK_UNLIKELY(the_heap != heap)) detach(heap); /* borrowed by an ended thread */
  error_settle();
}

/* ---- The batch boundary ------------------------------------------------------------*/
void *heap_refill(unsigned size_class, bool *is_zero) {
  heap_t *heap = heap_enter();
  void *block = NULL;
  if (HAK_LIKELY(heap != NULL)) {
    decay_step(heap, false);
    block = magazine_refill(heap, size_class, is_zero);
    heap_leave(heap);
  }
  if (HAK_UNLIKELY(block == NULL)) errno = ENOMEM;
  return block;
}

/* A lone block of a slab that is another's: the slab becomes ours with it. It is
 * freed at once if there is no heap. false: it was a mistake. */
static bool take_over(heap_t *heap, void *block, uint32_t word) {
  unit_t slab = (unit_t)map_unit_of(block);
  if (block != map_address(slab))
    error_note(ERROR_INTERIOR_FREE, block, size_classes[word_kind(word)].block_bytes, 0);
  else if (!(heap != NULL ? slab_take_over_single(&heap->owner, slab, word) : slab_free_single(slab, word)))
    error_note(ERROR_DOUBLE_FREE, block, size_classes[word_kind(word)].block_bytes, 0);
  else
    return true;
  return false;
}

/* There is no memory for the thread's first heap. The block is another's, then,
 * and goes home. */
static HAK_COLD void free_without_heap(void *block, uint32_t word) {
  if (size_class_is_single(word_kind(word))) take_over(NULL, block, word);
  else remote_free_directly(block, word);
}

void heap_free(void *block, uint32_t word) {
  heap_t *heap = heap_enter();
  if (HAK_UNLIKELY(heap == NULL)) {
    free_without_heap(block, word);
    error_settle();
    return;
  }
  decay_step(heap, true);
  unsigned size_class = word_kind(word);
  /* Another's block. A tiny one goes home: handed out again here, it would share
   * a cache line with its neighbours over there. A mid one does not, and this
   * thread may have it in its cache: it stays if there is room, or reason to make
   * some. A thread that only frees has none. */
  bool keep = true;
  if (word_owner(word) != heap->owner.id) {
    if (size_class_is_single(size_class)) keep = take_over(heap, block, word);
    else if (size_class < TINY_CLASS_COUNT || magazine_is_full_unused(heap, size_class))
      keep = false, remote_free(&heap->owner, block, word);
  }
  if (keep && !magazine_push(heap, size_class, block)) magazine_overflow(heap, size_class, block);
  heap_leave(heap);
  /* Of what a flush has made too much; a large block is its owner's own time. */
  arena_relieve(size_class_is_single(size_class) ? size_classes[size_class].slab_units : 0);
}

bool heap_free_quickly(void *block, uint32_t word) {
  heap_t *heap = the_heap;
  return heap != &the_null_heap && word_owner(word) != heap->owner.id &&
         remote_free_quickly(&heap->owner, block, word);
}

void heap_flush(heap_t *heap) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) magazine_flush(heap, c, SIZE_MAX);
  remote_flush(&heap->owner);
  remote_collect(&heap->owner, SIZE_MAX);
  slab_release_empty(&heap->owner);
}

void heap_flush_thread(void) {
  if (the_heap == &the_null_heap) return;
  heap_t *heap = heap_enter();
  heap_flush(heap);
  heap_leave(heap);
}

bool heap_flush_step(owner_t *owner) {
  enum { STEP_COST = 16384 }; /* about a tenth of a millisecond */
  heap_t *heap = heap_of(owner);
  size_t left = STEP_COST;
  for (unsigned c = SIZE_CLASS_COUNT; c-- > 0;) {
    size_t most = left / magazine_block_cost(c), held = magazine_count(heap, c);
    left -= magazine_flush(heap, c, most);
    if (held > most) return true;
  }
  return false;
}

size_t heap_trim(void) {
  heap_flush_thread();
  pool_sweep(heap_flush_step);
  size_t purged = pool_purge_pages();
  if (the_heap != &the_null_heap) {
    heap_t *heap = heap_enter();
    purged += purge_pages(&heap->owner);
    heap_leave(heap);
  }
  error_settle();
  return purged;
}

void heap_before_fork(void) { pool_before_fork(); }
void heap_after_fork(void) { pool_after_fork(the_heap == &the_null_heap ? NULL : &the_heap->owner); }

/* ---- Looking -----------------------------------------------------------------------*/
#define FOR_EACH_HEAP(heap)                                                      \
  for (uint32_t id_ = 1; id_ <= pool_owner_count(); id_++)                       \
    for (heap_t *heap = heap_of(owner_by_id(id_)); heap != NULL; heap = NULL)

size_t heap_cached_bytes(void) {
  size_t bytes = 0;
  FOR_EACH_HEAP(heap) bytes += magazines_cached_bytes(heap);
  return bytes;
}

void heap_check(void) {
  pool_settle();
  FOR_EACH_HEAP(heap) {
    if (heap->owner.state == OWNER_LOST || heap->id_word == 0) continue;
    magazines_check(heap);
    slab_check(&heap->owner);
  }
}
