/* See region.h. SPDX-License-Identifier: MIT */
#include "region.h"

#include "../arena/arena.h"
#include "../arena/arena_purge.h"
#include "../arena/pages.h"
#include "../os/os.h"
#include "../support/error.h"
#include "blocks.h"
#include "units.h"

#include <string.h>

static region_result_t result_of(fetched_t fetched) {
  switch (fetched) {
    case UNITS_FETCHED: return REGION_OK;
    case UNITS_AT_LIMIT:
    case UNITS_AWAITED: return REGION_AT_LIMIT;
    case UNITS_REGION_GONE: return REGION_GONE;
    default: return REGION_NO_MEMORY;
  }
}

/* NULL, too, for a region that a fork has left in disorder: `*is_lost`. */
static region_t *enter(uint64_t handle, bool *is_lost) {
  region_t *region = registry_enter(handle);
  *is_lost = region != NULL && region->is_lost;
  if (HAK_LIKELY(!*is_lost)) {
    if (region != NULL) cache_reap_if_forked(region);
    return region;
  }
  registry_leave(region);
  return NULL;
}
static region_result_t why_not(bool is_lost) { return is_lost ? REGION_NO_MEMORY : REGION_GONE; }

bool region_is_gone(uint64_t handle) {
  region_t *region = registry_enter(handle);
  if (region != NULL) registry_leave(region);
  return region == NULL;
}

/* ---- Slabs' blocks ---------------------------------------------------------------*/

enum { FIRST_BATCH = 8, BATCH_MOST = CACHE_MOST_BLOCKS / 2 + 1 };

/* A batch into the cache, if there is one: half of what it holds, so that frees find room; few the first time, as
 * many a region has few blocks of a size. NULL: there are no units for a slab. */
static void *refill(region_t *region, region_cache_t *cache, unsigned size_class) {
  void *batch[BATCH_MOST];
  size_t wanted = cache != NULL ? cache_capacity(size_class) / 2 + 1 : 1;
  if (cache != NULL && !cache_is_open(cache, size_class)) wanted = min_size(wanted, FIRST_BATCH);
  HAK_ASSERT(wanted <= BATCH_MOST);
  size_t count = blocks_take(region, size_class, batch, wanted);
  if (count == 0) return NULL;
  if (cache != NULL) cache_open(cache, size_class);
  while (count > 1) cache_push(cache, size_class, batch[--count]); /* the lowest is popped first */
  return batch[0];
}

/* Everything that the calling thread can give up of a region that has no room. */
static void squeeze(uint64_t handle) {
  bool is_lost;
  region_t *region = enter(handle, &is_lost);
  if (region == NULL) return;
  region_cache_t *cache = cache_at(region_number(handle));
  if (cache_is_of(cache, handle)) cache_flush_whole(region, cache);
  cache_reap_all(region);
  blocks_release_empty(region);
  units_leave(region);
}

/* Whether a request that has been refused is tried again: once without what the thread can give up. And as long as
 * nothing but what other threads are fetching is in its way: that may serve both, or never come. Not for ever, as one
 * of them may be this one, in a signal handler. */
static bool is_tried_again(uint64_t handle, fetched_t why, unsigned *tries) {
  enum { AWAITED_MOST_MS = 50 };
  if (why == UNITS_REGION_GONE) return false;
  if (*tries > 0 && (why != UNITS_AWAITED || *tries > AWAITED_MOST_MS)) return false;
  if (*tries == 0) squeeze(handle);
  else os_sleep(1);
  (*tries)++;
  return true;
}

static region_result_t alloc_class(uint64_t handle, unsigned size_class, void **block) {
  region_cache_t *cache = cache_bind(handle);
  if (cache != NULL && (*block = cache_pop(cache, size_class)) != NULL) return REGION_OK;
  for (unsigned tries = 0;;) {
    bool is_lost;
    region_t *region = enter(handle, &is_lost);
    if (region == NULL) return why_not(is_lost);
    *block = refill(region, cache, size_class);
    units_leave(region);
    if (HAK_LIKELY(*block != NULL)) return REGION_OK;
    fetched_t fetched = units_fetch(handle, size_classes[size_class].slab_units);
    if (fetched != UNITS_FETCHED && !is_tried_again(handle, fetched, &tries)) return result_of(fetched);
  }
}

/* ---- Lone blocks -----------------------------------------------------------------*/

/* A run of its own. */
static fetched_t fetch_whole(uint64_t handle, size_t units, size_t align_units, bool zeroed, void **block) {
  unit_t first;
  bool is_zero;
  region_t *region;
  fetched_t fetched = units_fetch_whole(handle, units, align_units, &first, &is_zero, &region);
  if (fetched != UNITS_FETCHED) return fetched;
  blocks_make_lone(region, first, units);
  units_leave(region);
  *block = map_address(first);
  if (zeroed && !is_zero) arena_clear_stale(first, units);
  return UNITS_FETCHED;
}

/* Spare units of a run in which others may lie, too. NULL: there are none, or no such region. */
static void *cut_lone(uint64_t handle, size_t units, bool is_thorough) {
  bool is_lost;
  region_t *region = enter(handle, &is_lost);
  if (region == NULL) return NULL;
  unit_t first = units_cut(region, units, 1, is_thorough);
  if (first != 0) blocks_make_lone(region, first, units);
  units_leave(region);
  return first != 0 ? map_address(first) : NULL;
}

/* Before it is refused every run is looked at, which costs less than to give up what is cached. */
static fetched_t try_lone(uint64_t handle, size_t bytes, size_t align_units, bool zeroed, void **block) {
  size_t units = units_for_lone(bytes);
  bool is_cut = units <= LONE_UNITS_MOST_IN_A_RUN && align_units == 1;
  *block = is_cut ? cut_lone(handle, units, false) : NULL;
  if (is_cut && *block == NULL) {
    bool is_thorough = units_fetch(handle, units) != UNITS_FETCHED;
    *block = cut_lone(handle, units, is_thorough);
  }
  if (*block == NULL) return fetch_whole(handle, units, align_units, zeroed, block);
  if (zeroed) pages_clear_block(*block, bytes);
  return UNITS_FETCHED;
}

/* What is squeezed out may be spare units of runs that stay: so all is tried again. */
static region_result_t alloc_lone(uint64_t handle, size_t bytes, size_t alignment, bool zeroed, void **block) {
  size_t align_units = max_size(alignment >> UNIT_SHIFT, 1);
  for (unsigned tries = 0;;) {
    fetched_t fetched = try_lone(handle, bytes, align_units, zeroed, block);
    if (fetched == UNITS_FETCHED || !is_tried_again(handle, fetched, &tries)) return result_of(fetched);
  }
}

/* ---- All blocks ------------------------------------------------------------------*/

region_result_t region_note_refused(uint64_t handle, region_result_t result) {
  if (HAK_LIKELY(result != REGION_AT_LIMIT)) return result;
  region_t *region = registry_enter(handle);
  if (region == NULL) return REGION_GONE;
  region->refused++;
  registry_leave(region);
  return result;
}

region_result_t region_try_alloc(uint64_t handle, size_t bytes, size_t alignment, bool zeroed, void **block) {
  *block = NULL;
  unsigned size_class = bytes <= PTRDIFF_MAX ? size_class_aligned(alignment, bytes) : SIZE_CLASS_COUNT;
  if (size_class >= MID_CLASS_END) {
    if (bytes > PTRDIFF_MAX || alignment > (size_t)PTRDIFF_MAX / 2)
      return region_is_gone(handle) ? REGION_GONE : REGION_NO_MEMORY;
    return alloc_lone(handle, bytes, alignment, zeroed, block);
  }
  region_result_t result = alloc_class(handle, size_class, block);
  /* Where there is no room for a slab of several units, there may be for the block alone, which begins with a unit:
   * a class has no greater alignment. */
  if ((result == REGION_AT_LIMIT || result == REGION_NO_MEMORY) && size_classes[size_class].slab_units > 1)
    return alloc_lone(handle, bytes, 1, zeroed, block);
  if (zeroed && *block != NULL) memset(*block, 0, bytes);
  return result;
}

region_result_t region_alloc(uint64_t handle, size_t bytes, size_t alignment, bool zeroed, void **block) {
  return region_note_refused(handle, region_try_alloc(handle, bytes, alignment, zeroed, block));
}

/* The caller is the first to free the lone block, or one of several. */
static void free_lone(void *block, uint32_t number) {
  unit_t first = (unit_t)map_unit_of(block);
  region_t *region = registry_enter_number(number);
  bool was_there = region != NULL && (region->is_lost || blocks_free_lone(region, first));
  if (region != NULL) units_leave(region);
  if (!was_there) error_report(ERROR_DOUBLE_FREE, block, 0, 0);
}

/* Its magazine is full, or the thread has no cache for the region. */
static HAK_NOINLINE void free_slowly(void *block, uint32_t number, unsigned size_class) {
  region_t *region = registry_record(number);
  region_cache_t *cache = region != NULL ? cache_bind(atomic64_load_relaxed(&region->handle)) : NULL;
  if (cache != NULL && cache_push(cache, size_class, block)) return;
  region = registry_enter_number(number);
  if (region == NULL) { /* destroyed just now */
    error_report(ERROR_WILD_FREE, block, 0, 0);
    return;
  }
  if (HAK_LIKELY(!region->is_lost)) {
    cache_reap_if_forked(region);
    if (cache == NULL || !cache_is_of(cache, atomic64_load_relaxed(&region->handle))) {
      blocks_put(region, size_class, block);
    } else {
      cache_open(cache, size_class);
      if (!cache_push(cache, size_class, block)) {
        cache_flush(region, cache, size_class, cache_capacity(size_class) / 2 + 1);
        cache_push(cache, size_class, block);
      }
    }
  }
  units_leave(region);
}

void region_free(void *block, uint32_t word) {
  uint32_t number = word_region(word);
  unsigned what = word_what(word);
  if (HAK_LIKELY(what < MID_CLASS_END)) {
    if (HAK_UNLIKELY(!slab_starts_block(block, what))) {
      error_report(ERROR_INTERIOR_FREE, block, size_classes[what].block_bytes, 0);
      return;
    }
    region_cache_t *cache = cache_at(number);
    bool is_its = region_number(atomic64_load_relaxed(&cache->handle)) == number;
    if (!is_its || !cache_push(cache, what, block)) free_slowly(block, number, what);
  } else if (what != REGION_LONE) {
    error_report(what == REGION_COPIED ? ERROR_DOUBLE_FREE : ERROR_WILD_FREE, block, 0, 0);
  } else if (block != map_address((unit_t)map_unit_of(block))) {
    error_report(ERROR_INTERIOR_FREE, block, region_usable_size(block, word), 0);
  } else {
    free_lone(block, number);
  }
}

region_result_t region_free_of(uint64_t handle, void *block) {
  uint32_t word = map_lookup(block), number = region_number(handle);
  if (HAK_LIKELY(cache_is_of(cache_at(number), handle)) && HAK_LIKELY(word_is_region(word)) &&
      HAK_LIKELY(word_region(word) == number)) {
    region_free(block, word);
    return REGION_OK;
  }
  region_t *region = registry_enter(handle);
  if (region == NULL) return REGION_GONE;
  registry_leave(region);
  if (!word_is_region(word) || word_region(word) != number) return REGION_OTHER;
  region_free(block, word);
  return REGION_OK;
}

/* ---- The region as a whole ---------------------------------------------------------*/

uint64_t region_new(size_t limit_bytes) { return registry_new(limit_bytes); }

region_result_t region_set_limit(uint64_t handle, size_t limit_bytes) {
  region_t *region = registry_enter(handle);
  if (region == NULL) return REGION_GONE;
  registry_set_limit(region, limit_bytes);
  registry_leave(region);
  return REGION_OK;
}

/* Nobody finds it any more once its handle is gone; then there is time for the rest. The caches are let go
 * first: a thread that ends does not come in here when it sees no handle, and gives its cache's memory back.
 * What has been noted is reported last: a handler of SIGABRT may jump away from there. */
region_result_t region_destroy(uint64_t handle) {
  region_t *region = registry_enter(handle);
  if (region == NULL) return REGION_GONE;
  bool is_lost = region->is_lost;
  unit_t runs = region->runs;
  cache_forsake_all(region);
  atomic64_store_release(&region->handle, 0); /* pairs with the acquire in registry_enter */
  region->runs = 0;
  registry_leave(region);
  if (is_lost) return REGION_OK; /* what it has stays, and so does its number */
  size_t units = units_give_all(runs);
  registry_drop(region);
  arena_relieve(units);
  error_settle();
  return REGION_OK;
}

/* Runs go to the arena after each region is left; the next threads to use one have its gate meanwhile. */
void region_release_empty(void) {
  for (uint32_t number = registry_next_untidy(0); number != 0; number = registry_next_untidy(number)) {
    if (gate_is_mine(registry_gate_of(number))) continue; /* a handler has interrupted the thread there */
    region_t *region = registry_enter_number(number);
    if (region == NULL) continue;
    if (HAK_LIKELY(!region->is_lost)) {
      cache_reap_all(region);
      blocks_release_empty(region);
      region->is_tidy = true;
    }
    units_leave(region);
  }
}

bool region_owns(uint64_t handle, const void *address) {
  region_t *region = registry_record(region_number(handle));
  if (region == NULL || atomic64_load_relaxed(&region->handle) != handle) return false;
  size_t unit = map_unit_of(address);
  uint32_t word = map_lookup(address);
  while (word == word_make(0, KIND_INNER)) word = atomic32_load_relaxed(map_word(--unit));
  return word_is_region(word) && word_region(word) == region_number(handle) && word_what(word) != REGION_SPARE;
}

region_result_t region_figures(uint64_t handle, region_figures_t *figures) {
  bool is_lost;
  region_t *region = enter(handle, &is_lost);
  if (region == NULL) return why_not(is_lost);
  size_t cached = 0;
  for (const region_cache_t *cache = region->caches; cache != NULL; cache = cache->next) cached += cache_bytes(cache);
  size_t out = region->slab_bytes - region->free_bytes;
  cached = min_size(cached, out); /* other threads may be filling theirs */
  *figures = (region_figures_t){
      .taken = (region->taken_units - region->coming_units) << UNIT_SHIFT, /* what is on its way may never come */
      .peak = region->peak_units << UNIT_SHIFT,
      .limit = region->limit_bytes,
      .live = out - cached + (region->lone_units << UNIT_SHIFT),
      .cached = cached,
      .refused = region->refused,
  };
  figures->free = figures->taken - min_size(figures->taken, figures->live + cached);
  units_leave(region);
  return REGION_OK;
}
