/*
 * A thread's free blocks of a region, in magazines as front/heap.h has them: what makes most calls
 * cost no gate.
 *
 * A cache is its thread's. It is bound to one region at a time and in that region's list;
 * a thread finds it by the region's number in a small table, where two regions may want
 * the same place: then the cache goes from one to the other. Who destroys a region does not
 * touch its caches, but for their handles: what lies in them is never handed out again, and
 * the thread begins anew with each. Not even those, of caches of threads that a forked child has not. A thread that
 * goes on with a region while another one destroys it, which it must not, gets blocks that are gone; caches and
 * regions stay in order.
 *
 * Tables are linked, so that what a thread leaves that ends unseen (it used its first region in the last round of its
 * destructors) is found by threads that need a cache, and what a child's parent's threads had, too.
 *
 *   slots of a class:  NULL  oldest … newest            top == limit: full
 *                                     ^ top
 * A class without slots so far has the_region_null_slot for both: empty and full at once.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_REGION_CACHE_H
#define HAK_REGION_CACHE_H

#include "../base/slots.h"
#include "registry.h"

HAK_C_BEGIN

enum {
  CACHE_TABLE = 64, /* places for regions, by their numbers */
  CACHE_BYTES = 16 * 1024,
  CACHE_SLOTS = 1809,
  CACHE_MOST_BLOCKS = 64, /* of a class */
  CACHE_REAPS = 2,        /* of threads that are gone, in one call of many */
};

typedef struct region_cache {
  atomic64 handle;        /* cache_unbound's: not bound. Changed inside the region    */
  uint32_t thread, forks; /* its number; registry_forks when the cache was made */
  struct region_cache *previous, *next;
  uint64_t open[(MID_CLASS_END + 63) / 64]; /* a bit of each magazine that has slots: the others need no look */
  slots_t magazines[MID_CLASS_END];
  void *slots[]; /* CACHE_SLOTS */
} region_cache_t;
/* Regions that want the same place share a gate, so that a cache that goes from one to the other is never changed
 * inside both at a time. */
static_assert(CACHE_TABLE % REGION_GATES == 0, "a place's gate");
static_assert(sizeof(region_cache_t) + CACHE_SLOTS * sizeof(void *) <= CACHE_BYTES, "a cache");

extern void *the_region_null_slot[1];
/* Of the calling thread; before it has a table, one of caches that are bound to nothing. */
extern __thread region_cache_t **the_region_caches __attribute__((tls_model("initial-exec")));

/* The handle of caches that are bound to nothing, in the place of regions of that number. Its own number is no
 * region's, and belongs to another place: so no handle, not even one that is nonsense, is found to be
 * this one where it is looked for. */
HAK_INLINE uint64_t cache_unbound(uint32_t number) { return number % 2 == 0 ? UINT64_MAX : UINT64_MAX << 16; }
static_assert(CACHE_TABLE % 2 == 0 && (int)REGIONS_MOST < UINT16_MAX, "odd numbers and even ones have other places");
HAK_INLINE region_cache_t *cache_at(uint32_t number) { return the_region_caches[number % CACHE_TABLE]; }
HAK_INLINE bool cache_is_of(const region_cache_t *cache, uint64_t handle) {
  return HAK_LIKELY(atomic64_load_relaxed(&cache->handle) == handle);
}

/* A block of the class; NULL: there is none. */
HAK_INLINE void *cache_pop(region_cache_t *cache, unsigned size_class) {
  return slots_pop(&cache->magazines[size_class]);
}
/* false: the magazine is full. */
HAK_INLINE bool cache_push(region_cache_t *cache, unsigned size_class, void *block) {
  return slots_push(&cache->magazines[size_class], block);
}

/* How many blocks of a class a cache holds at the most. */
size_t cache_capacity(unsigned size_class);
/* Blocks of a class in a cache, which may be another thread's; and bytes of all. */
size_t cache_count(const region_cache_t *cache, unsigned size_class);
size_t cache_bytes(const region_cache_t *cache);

/* ---- Whoever is in no region --------------------------------------------------*/

/* The calling thread's cache, bound to the region; NULL: there is no such region, or no memory for a
 * cache, or the thread has ended. */
region_cache_t *cache_bind(uint64_t handle);
/* Sends home what the calling thread's caches hold. Returns the bytes. */
size_t cache_flush_all(void);
/* The same, and gives the caches' memory back: the thread has none until it needs one again. */
size_t cache_drop_all(void);
/* The same for good. */
void cache_thread_ends(void);
bool cache_thread_has_any(void);

/* ---- Whoever is in the region ---------------------------------------------------*/

/* A magazine has slots, and has them from now on. */
HAK_INLINE bool cache_is_open(const region_cache_t *cache, unsigned size_class) {
  return cache->magazines[size_class].limit != the_region_null_slot;
}
void cache_open(region_cache_t *cache, unsigned size_class);
/* Sends the `count` oldest blocks home. */
void cache_flush(region_t *region, region_cache_t *cache, unsigned size_class, size_t count);
size_t cache_flush_whole(region_t *region, region_cache_t *cache);
/* In a forked child, done by those who come first: sends home what caches of threads hold that it has not, some at a
 * time or all, and forgets what they were fetching. */
void cache_reap(region_t *region);
void cache_reap_all(region_t *region);
HAK_INLINE void cache_reap_if_forked(region_t *region) {
  if (region_has_forked(region)) cache_reap(region);
}
/* The region is being destroyed. */
void cache_forsake_all(region_t *region);

HAK_C_END
#endif
