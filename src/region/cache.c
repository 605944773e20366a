/* See cache.h. SPDX-License-Identifier: MIT */
#include "cache.h"

#include "../arena/metadata.h"
#include "../os/os.h"
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

/* A thread's caches by their regions' numbers. Tables are never given back, but used again. */
typedef enum { TABLE_FREE, TABLE_USED, TABLE_FORGOTTEN, TABLE_CLAIMED } table_state_t;
typedef struct table {
  region_cache_t *caches[CACHE_TABLE];
  struct table *next; /* of all; written before it is linked */
  struct table *next_free;
  table_state_t state;
  uint32_t thread, forks;         /* as of a cache               */
  uint32_t thread_id, process_id; /* the system's                */
} table_t;
enum { TABLE_BYTES = 1024 };
static_assert(sizeof(table_t) <= TABLE_BYTES, "a table");

/* Guarded by registry_gate; whole at every step, as a child may have missed it. A table that is claimed is in nobody's
 * way: of one whose thread was just ending when a child was forked, it is lost to the child. */
static struct {
  table_t *all, *free;
  table_t *next_look; /* NULL: at the first */
} tables;

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
  cache->magazines[size_class].top = bottom;
  cache->open[size_class / 64] |= (uint64_t)1 << size_class % 64;
  __atomic_signal_fence(__ATOMIC_RELEASE);
  cache->magazines[size_class].limit = bottom + slots - 1;
}

static void close_all(region_cache_t *cache) {
  memset(cache->open, 0, sizeof cache->open);
  for (unsigned c = 0; c < MID_CLASS_END; c++)
    cache->magazines[c] = (slots_t){the_region_null_slot, the_region_null_slot};
}

/* The first open class from that one on; MID_CLASS_END: there is none. */
static unsigned next_open(const region_cache_t *cache, unsigned from) {
  for (unsigned at = from / 64; at < sizeof cache->open / sizeof *cache->open; at++) {
    uint64_t bits = cache->open[at] & (at == from / 64 ? UINT64_MAX << from % 64 : UINT64_MAX);
    if (bits != 0) return at * 64 + (unsigned)__builtin_ctzll(bits);
  }
  return MID_CLASS_END;
}
#define FOR_EACH_OPEN(cache, c) for (unsigned c = next_open(cache, 0); c < MID_CLASS_END; c = next_open(cache, c + 1))

HAK_LOOKS_ON size_t cache_count(const region_cache_t *cache, unsigned size_class) {
  unsigned slots;
  void *const *bottom = &cache->slots[place_of(size_class, &slots)];
  void *const *top = HAK_LOOK(cache->magazines[size_class].top);
  return top >= bottom && top < bottom + slots ? (size_t)(top - bottom) : 0;
}

size_t cache_bytes(const region_cache_t *cache) {
  size_t bytes = 0;
  FOR_EACH_OPEN(cache, c) bytes += cache_count(cache, c) * size_classes[c].block_bytes;
  return bytes;
}

/* ---- Home ------------------------------------------------------------------------*/

void cache_flush(region_t *region, region_cache_t *cache, unsigned size_class, size_t count) {
  if (!cache_is_open(cache, size_class)) return;
  void **bottom = bottom_of(cache, size_class);
  size_t held = (size_t)(cache->magazines[size_class].top - bottom), left = held - min_size(count, held);
  for (size_t i = 1; i <= held - left; i++) blocks_put(region, size_class, bottom[i]);
  memmove(bottom + 1, bottom + 1 + held - left, left * sizeof *bottom);
  cache->magazines[size_class].top = bottom + left;
}

size_t cache_flush_whole(region_t *region, region_cache_t *cache) {
  size_t bytes = cache_bytes(cache);
  FOR_EACH_OPEN(cache, c) cache_flush(region, cache, c, SIZE_MAX);
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

/* Nothing of the list points to it any more. Release: pairs with the acquire in unbind. The thread may bind it to
 * another region now. */
static void let_go(const region_t *region, region_cache_t *cache) {
  atomic64_store_release(&cache->handle, cache_unbound(region->number));
}

static void unlink(region_t *region, region_cache_t *cache) {
  region_cache_t **place = place_in_list(region, cache), *next = cache->next;
  if (region->inherited == cache) region->inherited = next;
  if (place != NULL) {
    *place = next;
    __atomic_signal_fence(__ATOMIC_RELEASE);
    if (next != NULL) next->previous = cache->previous;
  }
  let_go(region, cache);
}

/* A cache whose region was destroyed meanwhile holds nothing that counts. One of a thread that is gone may have been
 * let go by another in the region. */
static size_t unbind(region_cache_t *cache) {
  uint64_t handle = atomic64_load_acquire(&cache->handle);
  region_t *region = registry_enter(handle);
  if (region == NULL) return 0;
  size_t bytes = 0;
  if (cache_is_of(cache, handle)) {
    if (!region->is_lost) bytes = cache_flush_whole(region, cache);
    unlink(region, cache);
  }
  units_leave(region);
  return bytes;
}

/* ---- Tables ------------------------------------------------------------------------*/

/* Of a thread of this child's parent, and not of the one that has forked it. */
static bool is_parents(uint32_t thread, uint32_t forks) {
  return forks != registry_forks && thread != registry_forker();
}

/* The calling thread's from now on. In a child that a bare clone(2) has made, the threads' ids say nothing. */
static void use_table(table_t *table) {
  table->thread = thread_number();
  table->forks = registry_forks;
  table->thread_id = os_thread_id();
  table->process_id = os_process_id();
  table->state = TABLE_USED;
}

static table_t *take_free_table(void) {
  gate_enter(&registry_gate);
  table_t *table = tables.free;
  if (table != NULL) {
    tables.free = table->next_free;
    use_table(table);
  }
  gate_leave(&registry_gate);
  return table;
}

static table_t *make_table(void) {
  table_t *table = metadata_take(TABLE_BYTES);
  if (table == NULL) return NULL;
  memcpy(table->caches, no_caches, sizeof no_caches);
  use_table(table);
  gate_enter(&registry_gate);
  table->next = tables.all;
  __atomic_signal_fence(__ATOMIC_RELEASE);
  tables.all = table;
  gate_leave(&registry_gate);
  return table;
}

static bool have_table(void) {
  if (the_region_caches != no_caches) return true;
  table_t *table = take_free_table();
  if (table == NULL) table = make_table();
  if (table == NULL) return false;
  the_region_caches = table->caches;
  return true;
}

static void set_table_state(table_t *table, table_state_t state) {
  gate_enter(&registry_gate);
  table->state = state;
  if (state == TABLE_FREE) {
    table->next_free = tables.free;
    tables.free = table;
  }
  if (state == TABLE_FORGOTTEN) tables.next_look = table;
  gate_leave(&registry_gate);
}

/* Empties a table that was claimed, of so many caches at the most. Returns the bytes that went home. */
static size_t empty_table(table_t *table, unsigned most) {
  size_t bytes = 0;
  unsigned i = 0;
  for (; i < CACHE_TABLE && most > 0; i++) {
    region_cache_t *cache = table->caches[i];
    if (is_none(cache)) continue;
    bytes += unbind(cache);
    table->caches[i] = no_caches[i];
    metadata_give(cache, CACHE_BYTES);
    most--;
  }
  set_table_state(table, i == CACHE_TABLE ? TABLE_FREE : TABLE_FORGOTTEN);
  return bytes;
}

/* What the thread has written to its caches is seen: the system has ended it, and says so. */
static bool is_forgotten(const table_t *table) {
  if (table->state != TABLE_USED) return table->state == TABLE_FORGOTTEN;
  if (table->forks != registry_forks) return is_parents(table->thread, table->forks);
  return table->process_id == os_process_id() && !os_thread_exists(table->thread_id);
}

static table_t *claim_forgotten(void) {
  enum { LOOKS = 4 };
  table_t *found = NULL;
  gate_enter(&registry_gate);
  for (int i = 0; i < LOOKS && found == NULL && tables.all != NULL; i++) {
    table_t *table = tables.next_look != NULL ? tables.next_look : tables.all;
    tables.next_look = table->next;
    if (table->caches == the_region_caches || !is_forgotten(table)) continue;
    table->state = TABLE_CLAIMED;
    found = table;
  }
  gate_leave(&registry_gate);
  return found;
}

/* Some of what a thread has left that ended unseen. */
static void reap_the_forgotten(void) {
  table_t *table = claim_forgotten();
  if (table != NULL) empty_table(table, CACHE_REAPS);
}

/* ---- Of the calling thread -----------------------------------------------------------*/

static region_cache_t *make_cache(uint32_t number) {
  reap_the_forgotten();
  region_cache_t *cache = metadata_take(CACHE_BYTES);
  if (cache == NULL) return NULL;
  atomic64_store_relaxed(&cache->handle, cache_unbound(number));
  cache->thread = thread_number();
  cache->forks = registry_forks;
  __atomic_signal_fence(__ATOMIC_RELEASE); /* a child may find it in the table */
  the_region_caches[number % CACHE_TABLE] = cache;
  return cache;
}

region_cache_t *cache_bind(uint64_t handle) {
  region_cache_t *cache = cache_at(region_number(handle));
  if (cache_is_of(cache, handle)) return cache;
  if (has_ended || !have_table()) return NULL;
  if (!is_none(cache)) unbind(cache);
  else cache = make_cache(region_number(handle));
  if (cache == NULL) return NULL;
  close_all(cache);
  region_t *region = registry_enter(handle);
  if (region == NULL) return NULL;
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

size_t cache_drop_all(void) {
  if (the_region_caches == no_caches) return 0;
  table_t *table = (table_t *)the_region_caches; /* its first member */
  the_region_caches = no_caches;
  set_table_state(table, TABLE_CLAIMED);
  return empty_table(table, CACHE_TABLE);
}

void cache_thread_ends(void) {
  has_ended = true;
  cache_drop_all();
}

/* Who comes first notes where they begin: a cache that is bound later lies before them. Their memory goes with their
 * tables. */
static void reap(region_t *region, unsigned most) {
  if (region->forks != registry_forks) {
    units_forget_coming(region);
    region->inherited = region->caches;
    region->forks = registry_forks;
  }
  for (unsigned i = 0; region->inherited != NULL && i < most; i++) {
    region_cache_t *cache = region->inherited;
    region->inherited = cache->next;
    if (!is_parents(cache->thread, cache->forks)) continue; /* it lives, whoever has come first */
    cache_flush_whole(region, cache);
    unlink(region, cache);
  }
}

void cache_reap(region_t *region) { reap(region, CACHE_REAPS); }
void cache_reap_all(region_t *region) { reap(region, UINT32_MAX); }

/* Each is its thread's still. Those of threads that are not here stay as they are: to write to them would copy them. */
void cache_forsake_all(region_t *region) {
  for (region_cache_t *cache; (cache = region->caches) != NULL;) {
    region->caches = cache->next; /* not by unlink: the `previous` of one behind a parent's is that one */
    __atomic_signal_fence(__ATOMIC_RELEASE);
    if (!is_parents(cache->thread, cache->forks)) let_go(region, cache);
  }
  region->inherited = NULL;
}
