/* See cache.h. SPDX-License-Identifier: MIT */
#include "cache.h"

#include "../arena/metadata.h"
#include "blocks.h"
#include "units.h"

#include <string.h>

void *the_region_null_slot[1];

/* For even places and for odd ones: cache_unbound. Nobody writes them. */
static const region_cache_t no_cache[2] = {{.handle = {UINT64_MAX}}, {.handle = {UINT64_MAX << 16}}};
#define FOUR(...) __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__
#define NO_CACHE(n) ((region_cache_t *)&no_cache[n])
static region_cache_t *no_caches[] = {FOUR(FOUR(NO_CACHE(0), NO_CACHE(1), NO_CACHE(0), NO_CACHE(1)))};
static_assert(sizeof no_caches == CACHE_TABLE * sizeof *no_caches, "a place each");
__thread region_cache_t **the_region_caches __attribute__((tls_model("initial-exec"))) = no_caches;
/* Its blocks have gone home; destructors that come later have no cache. */
static __thread bool has_ended __attribute__((tls_model("initial-exec")));

bool cache_thread_has_any(void) { return the_region_caches != no_caches || has_ended; }

static bool is_none(const region_cache_t *cache) { return cache == &no_cache[0] || cache == &no_cache[1]; }

/* ---- Slots -----------------------------------------------------------------------
 * Each row of classes has as many slots, the first of which is the NULL.           */
typedef struct {
  unsigned from; /* the first class */
  unsigned slots;
} class_row_t;
static const class_row_t rows[] = {{0, CACHE_MOST_BLOCKS + 1}, {9, 25}, {33, 12}, {65, 8}, {83, 4}, {99, 2},
                                   {MID_CLASS_END, 0}};
static_assert(CACHE_MOST_BLOCKS + 1 >= 25, "no class has more slots than the first ones");
static_assert(9 * (CACHE_MOST_BLOCKS + 1) + 24 * 25 + 32 * 12 + 18 * 8 + 16 * 4 + 16 * 2 <= CACHE_SLOTS,
              "a row after the other");

/* The first slot of a class, and how many it has. */
static unsigned place_of(unsigned size_class, unsigned *slots) {
  unsigned at = 0;
  const class_row_t *row = rows;
  for (; size_class >= row[1].from; row++) at += (row[1].from - row->from) * row->slots;
  *slots = row->slots;
  return at + (size_class - row->from) * row->slots;
}

size_t cache_capacity(unsigned size_class) {
  unsigned slots;
  place_of(size_class, &slots);
  return slots - 1;
}

static void **bottom_of(region_cache_t *cache, unsigned size_class) {
  unsigned slots;
  return &cache->slots[place_of(size_class, &slots)];
}

void cache_open(region_cache_t *cache, unsigned size_class) {
  if (cache_is_open(cache, size_class)) return;
  unsigned slots;
  void **bottom = &cache->slots[place_of(size_class, &slots)];
  *bottom = NULL;
  cache->top[size_class] = bottom;
  __atomic_signal_fence(__ATOMIC_RELEASE);
  cache->limit[size_class] = bottom + slots - 1;
}

static void close_all(region_cache_t *cache) {
  for (unsigned c = 0; c < MID_CLASS_END; c++) cache->top[c] = cache->limit[c] = the_region_null_slot;
}

HAK_LOOKS_ON size_t cache_count(const region_cache_t *cache, unsigned size_class) {
  unsigned slots;
  void *const *bottom = &cache->slots[place_of(size_class, &slots)];
  void *const *top = HAK_LOOK(cache->top[size_class]);
  return top >= bottom && top < bottom + slots ? (size_t)(top - bottom) : 0;
}

size_t cache_bytes(const region_cache_t *cache) {
  size_t bytes = 0;
  for (unsigned c = 0; c < MID_CLASS_END; c++) bytes += cache_count(cache, c) * size_classes[c].block_bytes;
  return bytes;
}

/* ---- Home ------------------------------------------------------------------------*/

void cache_flush(region_t *region, region_cache_t *cache, unsigned size_class, size_t count) {
  if (!cache_is_open(cache, size_class)) return;
  void **bottom = bottom_of(cache, size_class);
  size_t held = (size_t)(cache->top[size_class] - bottom), left = held - min_size(count, held);
  for (size_t i = 1; i <= held - left; i++) blocks_put(region, size_class, bottom[i]);
  memmove(bottom + 1, bottom + 1 + held - left, left * sizeof *bottom);
  cache->top[size_class] = bottom + left;
}

size_t cache_flush_whole(region_t *region, region_cache_t *cache) {
  size_t bytes = cache_bytes(cache);
  for (unsigned c = 0; c < MID_CLASS_END; c++) cache_flush(region, cache, c, SIZE_MAX);
  return bytes;
}

/* ---- Bound to a region ---------------------------------------------------------------*/

/* The stores' order is kept: the list is whole from its first cache on at every moment. So it is in a child
 * that was forked in between, of whose region `previous` is not to be trusted then. */
static void link(region_t *region, region_cache_t *cache) {
  region_cache_t *first = region->caches;
  cache->previous = NULL;
  cache->next = first;
  __atomic_signal_fence(__ATOMIC_RELEASE);
  region->caches = cache;
  if (first != NULL) first->previous = cache;
}

/* What points to the cache; NULL, in a region that is lost: nothing does, as another thread was just letting
 * it go when the process was forked. */
static region_cache_t **place_in_list(region_t *region, region_cache_t *cache) {
  if (HAK_LIKELY(!region->is_lost)) return cache->previous != NULL ? &cache->previous->next : &region->caches;
  region_cache_t **place = &region->caches;
  while (*place != NULL && *place != cache) place = &(*place)->next;
  return *place != NULL ? place : NULL;
}

static void unlink(region_t *region, region_cache_t *cache) {
  region_cache_t **place = place_in_list(region, cache), *next = cache->next;
  if (place != NULL) {
    *place = next;
    __atomic_signal_fence(__ATOMIC_RELEASE);
    if (next != NULL) next->previous = cache->previous;
  }
  /* Release: pairs with the acquire in unbind. The thread may bind it to another region now. */
  atomic64_store_release(&cache->handle, cache_unbound(region->number));
}

/* A cache whose region was destroyed meanwhile holds nothing that counts. */
static size_t unbind(region_cache_t *cache) {
  region_t *region = registry_enter(atomic64_load_acquire(&cache->handle));
  if (region == NULL) return 0;
  size_t bytes = 0;
  if (!region->is_lost) bytes = cache_flush_whole(region, cache);
  unlink(region, cache);
  units_leave(region);
  return bytes;
}

static bool make_table(void) {
  if (the_region_caches != no_caches) return true;
  region_cache_t **table = metadata_take(CACHE_TABLE * sizeof *table);
  if (table == NULL) return false;
  for (unsigned i = 0; i < CACHE_TABLE; i++) table[i] = no_caches[i];
  the_region_caches = table;
  return true;
}

region_cache_t *cache_bind(uint64_t handle) {
  region_cache_t *cache = cache_at(region_number(handle));
  if (cache_is_of(cache, handle)) return cache;
  if (has_ended || !make_table()) return NULL;
  region_cache_t **place = &the_region_caches[region_number(handle) % CACHE_TABLE];
  if (!is_none(*place)) {
    cache = *place;
    unbind(cache);
  } else {
    cache = metadata_take(CACHE_BYTES);
    if (cache == NULL) return NULL;
    atomic64_store_relaxed(&cache->handle, cache_unbound(region_number(handle)));
    cache->thread = thread_number();
    *place = cache;
  }
  close_all(cache);
  region_t *region = registry_enter(handle);
  if (region == NULL) return NULL;
  /* Before there are caches of this process's in the list: those of the parent's are told by being there. */
  if (region_has_forked(region) && !region->is_lost) cache_reap(region);
  link(region, cache);
  atomic64_store_relaxed(&cache->handle, handle);
  units_leave(region);
  return cache;
}

size_t cache_flush_all(void) {
  size_t bytes = 0;
  for (unsigned i = 0; i < CACHE_TABLE && the_region_caches != no_caches; i++) {
    region_cache_t *cache = the_region_caches[i];
    region_t *region = !is_none(cache) ? registry_enter(atomic64_load_relaxed(&cache->handle)) : NULL;
    if (region == NULL) continue;
    if (!region->is_lost) bytes += cache_flush_whole(region, cache);
    units_leave(region);
  }
  return bytes;
}

void cache_thread_ends(void) {
  region_cache_t **table = the_region_caches;
  has_ended = true;
  the_region_caches = no_caches;
  if (table == no_caches) return;
  for (unsigned i = 0; i < CACHE_TABLE; i++) {
    if (is_none(table[i])) continue;
    unbind(table[i]);
    metadata_give(table[i], CACHE_BYTES);
  }
  metadata_give(table, CACHE_TABLE * sizeof *table);
}

void cache_reap(region_t *region) {
  units_forget_coming(region);
  region->forks = registry_forks;
  for (region_cache_t *cache = region->caches, *next; cache != NULL; cache = next) {
    next = cache->next;
    if (cache->thread == registry_forker()) continue; /* it lives, whoever has come first */
    cache_flush_whole(region, cache);
    unlink(region, cache);
    metadata_give(cache, CACHE_BYTES);
  }
}

/* Each is its thread's still. */
void cache_forsake_all(region_t *region) {
  while (region->caches != NULL) unlink(region, region->caches);
}
