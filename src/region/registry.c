/* See registry.h. SPDX-License-Identifier: MIT */
#include "registry.h"

#include "../arena/arena.h"
#include "../arena/metadata.h"

#include <string.h>

hak_gate_t registry_gate;
hak_gate_t region_gates[REGION_GATES];
atomic64 region_inside[REGION_GATES];
uint32_t registry_forks;

enum { PAGE_RECORDS = 256, PAGES = (REGIONS_MOST + PAGE_RECORDS) / PAGE_RECORDS };

/* Changed while registry_gate is held, a step at a time: a child that was forked in between, because
 * its gate was missed, finds it in order. */
static struct {
  atomic64 pages[PAGES]; /* addresses of arrays of addresses of records; release: pairs with registry_record */
  atomic32 made;
  region_t *free;
  uint64_t generation;
  uint32_t forker;
} registry HAK_RARELY_USED;

uint32_t registry_made(void) { return atomic32_load_relaxed(&registry.made); }

static atomic64 *page_of(uint32_t number) {
  return (atomic64 *)(uintptr_t)atomic64_load_acquire(&registry.pages[number / PAGE_RECORDS]);
}

region_t *registry_record(uint32_t number) {
  atomic64 *page = number > 0 && number <= REGIONS_MOST ? page_of(number) : NULL;
  return page != NULL ? (region_t *)(uintptr_t)atomic64_load_acquire(&page[number % PAGE_RECORDS]) : NULL;
}

/* A bit of each number: see registry_next_untidy. Each is changed inside its region. Relaxed: hints. So that who
 * has no memory does not enter thousands of regions in vain, each time. */
static atomic64 untidy[REGIONS_MOST / 64 + 1] HAK_RARELY_USED;

static void note_untidy(const region_t *region) {
  atomic64 *word = &untidy[region->number / 64];
  uint64_t bit = (uint64_t)1 << region->number % 64;
  bool was = (atomic64_load_relaxed(word) & bit) != 0, is = region->taken_units != 0 && !region->is_tidy;
  if (atomic64_load_relaxed(&region->handle) == 0) is = false;
  if (HAK_LIKELY(was == is)) return;
  if (is) atomic64_or_relaxed(word, bit);
  else atomic64_and_relaxed(word, ~bit);
}

uint32_t registry_next_untidy(uint32_t number) {
  uint32_t next = number + 1, words = registry_made() / 64 + 1;
  for (uint32_t at = next / 64; at < words; at++) {
    uint64_t bits = atomic64_load_relaxed(&untidy[at]) & (at == next / 64 ? UINT64_MAX << next % 64 : UINT64_MAX);
    if (bits != 0) return at * 64 + (uint32_t)__builtin_ctzll(bits);
  }
  return 0;
}

/* ---- Making and dropping --------------------------------------------------------*/

static region_t *make_record(void) {
  uint32_t number = registry_made() + 1;
  if (number > REGIONS_MOST) return NULL;
  if (page_of(number) == NULL) {
    void *page = metadata_take(PAGE_RECORDS * sizeof(atomic64));
    if (page == NULL) return NULL;
    memset(page, 0, PAGE_RECORDS * sizeof(atomic64));
    atomic64_store_release(&registry.pages[number / PAGE_RECORDS], (uintptr_t)page);
  }
  region_t *region = metadata_take(REGION_RECORD_BYTES);
  if (region == NULL) return NULL;
  memset(region, 0, sizeof *region);
  region->number = number;
  atomic64_store_release(&page_of(number)[number % PAGE_RECORDS], (uintptr_t)region);
  atomic32_store_relaxed(&registry.made, number);
  return region;
}

static region_t *take_record(uint64_t *generation) {
  gate_enter(&registry_gate);
  region_t *region = registry.free;
  if (region != NULL) registry.free = region->next_free;
  else region = make_record();
  *generation = ++registry.generation;
  gate_leave(&registry_gate);
  return region;
}

/* The stores in between are seen by a forked child only with this one, see docs/design.md ("Fork"). A thread that
 * forks, and passes, is in the child as well, and leaves the word to who may be behind the gate. */
static void enter(region_t *region) {
  if (gate_enter(registry_gate_of(region->number)))
    atomic64_store_relaxed(&region_inside[region->number % REGION_GATES],
                           region_inside_word(region->number, thread_number()));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  region->is_tidy = false;
}
void registry_leave(region_t *region) {
  note_untidy(region);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  atomic64 *inside = &region_inside[region->number % REGION_GATES];
  if (atomic64_load_relaxed(inside) == region_inside_word(region->number, thread_number()))
    atomic64_store_relaxed(inside, 0);
  gate_leave(registry_gate_of(region->number));
}

void registry_set_limit(region_t *region, size_t limit_bytes) {
  region->limit_bytes = limit_bytes;
  region->limit_units = limit_bytes == 0 ? SIZE_MAX : limit_bytes >> UNIT_SHIFT;
}

uint64_t registry_new(size_t limit_bytes) {
  uint64_t generation;
  region_t *region = arena_ready() ? take_record(&generation) : NULL;
  if (region == NULL) return 0;
  enter(region);
  uint32_t number = region->number;
  size_t until_slabs = offsetof(region_t, is_lost);
  memset((char *)region + until_slabs, 0, sizeof *region - until_slabs);
  region->forks = registry_forks;
  registry_set_limit(region, limit_bytes);
  uint64_t handle = generation << 16 | number;
  /* Release: who sees it instead of the 0 before it knows as much of the region that was destroyed. */
  atomic64_store_release(&region->handle, handle);
  registry_leave(region);
  return handle;
}

void registry_drop(region_t *region) {
  gate_enter(&registry_gate);
  region->next_free = registry.free;
  registry.free = region;
  gate_leave(&registry_gate);
}

/* ---- Entering ------------------------------------------------------------------*/

region_t *registry_enter_number(uint32_t number) {
  region_t *region = registry_record(number);
  if (region == NULL || atomic64_load_relaxed(&region->handle) == 0) return NULL;
  enter(region);
  if (HAK_LIKELY(atomic64_load_relaxed(&region->handle) != 0)) return region;
  registry_leave(region);
  return NULL;
}

/* Acquire: a thread that is told that its region is gone may give back its cache, which whoever has
 * destroyed the region has changed before (region_destroy). */
region_t *registry_enter(uint64_t handle) {
  region_t *region = handle != 0 ? registry_record(region_number(handle)) : NULL;
  if (region == NULL || atomic64_load_acquire(&region->handle) != handle) return NULL;
  enter(region);
  if (HAK_LIKELY(atomic64_load_relaxed(&region->handle) == handle)) return region;
  registry_leave(region);
  return NULL;
}

uint32_t registry_forker(void) { return registry.forker; }

void registry_after_fork(void) {
  registry.forker = thread_number();
  registry_forks++;
  /* What is in caches of threads that the child has not is to be had now. */
  for (uint32_t at = 0; at <= registry_made() / 64; at++) atomic64_store_relaxed(&untidy[at], UINT64_MAX);
  for (unsigned gate = 0; gate < REGION_GATES; gate++) {
    uint64_t word = atomic64_load_relaxed(&region_inside[gate]);
    if (word == 0 || word >> 32 == thread_number()) continue;
    atomic64_store_relaxed(&region_inside[gate], 0);
    region_t *region = registry_record((uint32_t)word);
    /* Without a handle it was being made or destroyed: registry_new makes the record anew. */
    if (atomic64_load_relaxed(&region->handle) != 0) region->is_lost = true;
  }
}
