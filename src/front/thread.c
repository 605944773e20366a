/* See thread.h. SPDX-License-Identifier: MIT */
#include "thread.h"

#include "../base/probe.h"
#include "../region/region.h"
#include "../slab/claim.h"
#include "../slab/depot.h"
#include "../slab/pool.h"
#include "../slab/pool_fork.h"
#include "../support/error.h"
#include "bell.h"
#include "capacity.h"
#include "flush.h"
#include "magazine.h"
#include "room.h"
#include "sample.h"
#include "strip.h"

#include <pthread.h>
#include <string.h>

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
static hak_lock_t key_lock;
enum { THREAD_IS_WATCHED = 1, THREAD_ENDS };

static void set_thread_state(uintptr_t state) {
  if (atomic32_load_acquire(&thread_key_exists)) pthread_setspecific(thread_key, (void *)state);
}

static HAK_NOINLINE bool enter_awaited(heap_t *heap) {
  claim_await(&heap->owner);
  if (heap->owner.state == OWNER_LOST) return false;
  if (heap->owner.stripped) strip_mend(heap);
  return true;
}

/* E1 and E2 of claim.h. false: a signal handler has forked while we waited, and this is
 * the child, which has lost the heap. Inlined, as every batch begins with it. */
HAK_INLINE bool enter(heap_t *heap) {
  owner_enter(&heap->owner);
  if (HAK_LIKELY(!claim_is_taken(&heap->owner) && !heap->owner.stripped)) return true;
  return enter_awaited(heap);
}

/* What a thread's magazines hold beyond one step stays in them, for the thread that
 * gets the heap next, or for tidy_some. */
static void detach(heap_t *heap) {
  if (!enter(heap)) return;
  room_count_again(heap); /* a handler that forked just now found no thread's heap */
  if (sample_may_be_on(heap)) sample_end(heap);
  flush_at_end(heap);
  magazines_drop(heap, FIRST_CAPACITY); /* the next thread begins with those */
  room_count_out(heap);
  HAK_PROBE(thread_end, heap->owner.id);
  pool_detach(&heap->owner); /* which ends being busy */
  error_settle();
}

static atomic32 leader_has_ended; /* release: pairs with the acquire below */

bool thread_leader_has_ended(void) { return atomic32_load_acquire(&leader_has_ended) != 0; }
void thread_await_leaders_end(int milliseconds) { os_futex_wait(&leader_has_ended, 0, milliseconds); }

static void leader_ends(void) {
  atomic32_store_release(&leader_has_ended, 1);
  os_futex_wake(&leader_has_ended, 1);
}

/* Whether it is the first thread of the process that ends, and nobody knows. Its heap knows the ids without a call to
 * the system, once what a fork has left is in order. */
static bool is_leader(const heap_t *heap) {
  if (thread_leader_has_ended()) return false;
  if (heap == &the_null_heap) return os_thread_id() == os_process_id();
  pool_settle();
  return heap->owner.thread_id == heap->owner.process_id;
}

static void thread_ends(void *value) {
  if ((uintptr_t)value == THREAD_IS_WATCHED) {
    set_thread_state(THREAD_ENDS);
    return;
  }
  heap_t *heap = the_heap;
  the_heap = &the_null_heap;
  thread_has_ended = true;
  region_thread_ends();
  bool leads = is_leader(heap);
  if (heap != &the_null_heap) detach(heap);
  if (leads) leader_ends();
  bell_ring(); /* somebody may have to look after what it leaves, and for who is left */
}

void thread_prepare(void) {
  if (atomic32_load_acquire(&thread_key_exists)) return;
  lock_acquire(&key_lock);
  if (!atomic32_load_relaxed(&thread_key_exists) && pthread_key_create(&thread_key, thread_ends) == 0)
    atomic32_store_release(&thread_key_exists, 1);
  lock_release(&key_lock);
}

void thread_watch(void) {
  thread_prepare();
  if (!atomic32_load_acquire(&thread_key_exists) || thread_has_ended || pthread_getspecific(thread_key) != NULL) return;
  set_thread_state(THREAD_IS_WATCHED);
}

void thread_watch_caches(void) {
  if (HAK_UNLIKELY(!cache_thread_has_any())) thread_watch();
}

/* ---- Entering ------------------------------------------------------------------*/
static heap_t *attach(void) {
  owner_t *owner = pool_attach();
  if (owner == NULL) return NULL;
  heap_t *heap = heap_of(owner);
  if (heap->id_word == 0) {
    memcpy(heap->slots, the_null_heap.slots, sizeof heap->slots);
    heap->sampler = (struct sampler *)&the_null_sampler;
    heap_begins(heap);
  }
  sample_attach(heap);
  HAK_PROBE(thread_start, heap->owner.id);
  return heap;
}

/* The thread has no heap, or no longer. */
static HAK_NOINLINE heap_t *enter_anew(void) {
  for (;;) {
    the_heap = &the_null_heap;
    thread_prepare();
    heap_t *heap = attach();
    if (heap == NULL) return NULL;
    if (!thread_has_ended) {
      the_heap = heap; /* first: pthread_setspecific may allocate */
      set_thread_state(THREAD_IS_WATCHED);
    }
    if (HAK_LIKELY(enter(heap))) {
      room_count_again(heap);
      return heap;
    }
  }
}

heap_t *thread_enter(void) {
  heap_t *heap = the_heap;
  return HAK_LIKELY(heap != &the_null_heap) && HAK_LIKELY(enter(heap)) ? heap : enter_anew();
}

heap_t *thread_enter_if_any(void) { return the_heap != &the_null_heap ? thread_enter() : NULL; }

void thread_leave(heap_t *heap) {
  owner_leave(&heap->owner);
  if (HAK_UNLIKELY(the_heap != heap)) detach(heap); /* borrowed by an ended thread */
  error_settle();
}

/* ---- Leaving for good, and forks ---------------------------------------------------*/
void thread_flush(void) {
  region_thread_flush();
  depot_send_home(); /* before the heap collects: some of it may be the thread's own */
  heap_t *heap = thread_enter_if_any();
  if (heap != NULL) {
    flush_heap(heap);
    thread_leave(heap);
  }
  error_settle();
  bell_ring(); /* without a heap, too: the thread may have caches of regions */
}

void thread_before_fork(void) { pool_before_fork(); }
void thread_after_fork(void) {
  atomic32_store_relaxed(&leader_has_ended, 0); /* the only thread there is leads */
  atomic32_store_relaxed(&key_lock.state, 0);   /* who held it is the parent's */
  heap_t *heap = the_heap != &the_null_heap ? the_heap : NULL;
  bool is_left = pool_after_fork(heap != NULL ? &heap->owner : NULL);
  if (!is_left) the_heap = &the_null_heap;
  room_after_fork(is_left ? heap : NULL);
}
