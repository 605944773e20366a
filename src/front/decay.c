/* See decay.h. SPDX-License-Identifier: MIT */
#include "decay.h"

#include "../arena/arena_purge.h"
#include "../os/os.h"
#include "../slab/tidy.h"
#include "../slab/purge.h"
#include "../slab/remote.h"
#include "../support/config.h"
#include "../support/tally.h"
#include "array.h"
#include "bell.h"
#include "flush.h"
#include "order.h"
#include "room.h"
#include "strip.h"
#include "travel.h"

enum {
  DECAY_MS = 1000,
  /* Since the last look, from which on a thread's boundaries are so rare that each may look; and that a malloc may do
   * more: its magazines fit what it does, and there may be no free that comes here. */
  SELDOM_MS = 50,
  RARE_MS = 250,
};

/* Shrinks a magazine that was not used. Returns what that cost, as array_shrink. */
static size_t decay_magazine(heap_t *heap, unsigned size_class) {
  size_t held = magazine_count(heap, size_class), cost = array_shrink(heap, size_class);
  tally_add(TALLY_UNUSED, (held - magazine_count(heap, size_class)) * size_classes[size_class].block_bytes);
  return cost;
}

/* Shrinks magazines that were not used for a second, a few at a time. */
static void decay_magazines(heap_t *heap, uint64_t now_ms) {
  enum { STEP_COST = 8192 }; /* see capacity_block_cost */
  if (heap->decay_classes == 0) {
    if ((uint32_t)now_ms - heap->decayed_ms < profile_wait(DECAY_MS)) return;
    heap->decayed_ms = (uint32_t)now_ms;
    room_age(heap);
    heap->decay_classes = SIZE_CLASS_COUNT;
    remote_flush(&heap->owner);
  }
  for (size_t cost = 0; heap->decay_classes > 0 && cost < STEP_COST;) {
    unsigned c = --heap->decay_classes;
    magazine_t *m = &heap->magazines[c];
    if (m->capacity > 0 && !m->used) cost += decay_magazine(heap, c);
    m->used = false;
    travel_decay(heap, c);
    order_age(heap, c);
  }
}

/* One kind of work in a call, in turn, so that no call takes long. What is not the thread's own is
 * left to the background thread: it sleeps most of the time, and so loses its processor to others less
 * than a thread at work; while one has lost it inside the kernel, others that need the kernel's locks
 * of the address space wait. Returns whether there may be more. */
static bool give_back(heap_t *heap, uint64_t now_ms) {
  enum { IDLE_SLABS, ENDED_THREADS, DIRTY_MEMORY, KINDS };
  bool worked = false, has_more = false, is_attended = bell_is_attended(now_ms);
  for (int i = 0; i < KINDS && !worked; i++) {
    heap->decay_turn = (uint8_t)((heap->decay_turn + 1) % KINDS);
    if (heap->decay_turn == IDLE_SLABS) {
      worked = has_more = purge_idle(&heap->owner, now_ms, PURGE_STEP_CALLS) > 0;
    } else if (is_attended) {
      continue;
    } else if (heap->decay_turn == ENDED_THREADS) {
      tidied_t tidied = tidy_some(now_ms, flush_step, strip_if_unused);
      worked = tidied != TIDY_NOTHING, has_more = tidied == TIDY_MORE;
    } else {
      worked = has_more = arena_tick(now_ms) > 0;
    }
  }
  return has_more;
}

void decay_outside(void) {
  if (config()->over_time == OVER_TIME_OFF) return;
  uint64_t now_ms = os_now_ms();
  if (!bell_is_attended(now_ms)) arena_tick(now_ms);
}

void decay_now(heap_t *heap, bool may_purge) {
  if (config()->over_time == OVER_TIME_OFF) return;
  room_look_at_out(heap);
  uint64_t now_ms = os_now_ms();
  uint32_t since_ms = heap->looked_ms == 0 ? 1 : (uint32_t)now_ms - heap->looked_ms; /* 0: a new heap's first look */
  if (since_ms == 0) return; /* the clock moves on every few milliseconds */
  heap->looked_ms = (uint32_t)now_ms;
  decay_magazines(heap, now_ms);
  bool has_more = (may_purge || since_ms >= RARE_MS) && give_back(heap, now_ms);
  /* Where there is more of it the next boundary looks, too: a thread that comes here some times a second would
   * take a minute for what was half a gigabyte. */
  if (has_more || since_ms >= SELDOM_MS) heap->events |= DECAY_EVERY - 1;
}
