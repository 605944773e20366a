/* See huge.h. SPDX-License-Identifier: MIT */
#include "huge.h"

#include "../os/os.h"
#include "arena.h"

#include <string.h>

HAK_INLINE unit_record_t *record(unit_t unit) { return &the_map.records[unit]; }
static size_t units_for(size_t bytes) { return (bytes + UNIT_BYTES - 1) >> UNIT_SHIFT; }

/* Release: a thread that is handed the block later reads these words; what
 * hands it over orders that, so relaxed is enough. */
static void write_words(unit_t first, size_t from, size_t to, uint32_t word) {
  for (size_t i = from; i < to; i++) atomic32_store_relaxed(map_word(first + i), word);
}

/* A run on a huge page's boundary: it can be moved by whole page tables, and its
 * pages can be huge. */
static unit_t take(size_t units, size_t alignment, bool *is_zero) {
  size_t align_units = max_size(alignment, OS_HUGE_PAGE_BYTES) >> UNIT_SHIFT;
  unit_t first = arena_take(ZONE_HUGE, units, align_units, is_zero);
  if (first == 0 && alignment < OS_HUGE_PAGE_BYTES) first = arena_take(ZONE_HUGE, units, max_size(alignment >> UNIT_SHIFT, 1), is_zero);
  if (first == 0) return 0;
  record(first)->huge.moved = false;
  record(first)->huge.asked_units = (uint32_t)units;
  write_words(first, 1, units, word_make(0, KIND_INNER));
  write_words(first, 0, 1, word_make(0, KIND_HUGE));
  return first;
}

static void give(unit_t first) {
  size_t units = record(first)->run_units;
  write_words(first, 1, units, 0);
  if (record(first)->huge.moved && os_renew(map_address(first), units << UNIT_SHIFT))
    arena_give_clean(first, units);
  else
    arena_give(first, units);
}

void *huge_alloc(size_t bytes, size_t alignment, bool zeroed) {
  bool is_zero = false;
  size_t units = units_for(bytes);
  unit_t first = take(units, alignment, &is_zero);
  if (first == 0) return NULL;
  if (zeroed && !is_zero) arena_clear_stale(first, units);
  return map_address(first);
}

bool huge_free(void *address) {
  unit_t first = (unit_t)map_unit_of(address);
  /* Of two threads that free the same block, one gets the word. */
  uint32_t expected = word_make(0, KIND_HUGE);
  if (!atomic32_cas_acq_rel(map_word(first), &expected, 0)) return false;
  give(first);
  return true;
}

/* A run for a block that is growing: with an eighth to spare, so that one that
 * grows by small steps moves rarely; without, if memory is short. */
static unit_t take_for_growth(size_t units) {
  unit_t first = take(units + units / 8, 1, NULL);
  return first != 0 ? first : take(units, 1, NULL);
}

static void move_contents(unit_t to, void *from, size_t bytes) {
  size_t whole_pages = align_up(bytes, os_page_bytes());
  if (os_move_pages(from, map_address(to), whole_pages))
    record(to)->huge.moved = true;
  else
    memcpy(map_address(to), from, bytes);
}

void *huge_from_run(void *from, size_t length, size_t bytes) {
  unit_t to = take_for_growth(units_for(bytes));
  if (to == 0) return NULL;
  record(to)->huge.asked_units = (uint32_t)units_for(bytes);
  move_contents(to, from, min_size(length, bytes));
  return map_address(to);
}

void *huge_realloc(void *address, size_t bytes) {
  unit_t first = (unit_t)map_unit_of(address);
  size_t old_units = record(first)->run_units, new_units = units_for(bytes);
  if (new_units > UINT32_MAX / 2) return NULL;
  if (new_units > old_units) {
    if (arena_extend(first, old_units, new_units)) {
      write_words(first, old_units, new_units, word_make(0, KIND_INNER));
      record(first)->huge.asked_units = (uint32_t)new_units;
      return address;
    }
    void *moved = huge_from_run(address, old_units << UNIT_SHIFT, bytes);
    if (moved != NULL) huge_free(address);
    return moved;
  }
  /* Shrinking gives the tail back, but not for a trifle. */
  size_t surplus = old_units - new_units;
  if (surplus > old_units / 8) {
    write_words(first, new_units, old_units, 0);
    record(first)->run_units = (uint32_t)new_units;
    unit_t tail = (unit_t)(first + new_units);
    record(tail)->run_units = (uint32_t)surplus;
    record(tail)->huge.moved = record(first)->huge.moved;
    give(tail);
  }
  record(first)->huge.asked_units = (uint32_t)new_units;
  return address;
}

bool huge_may_have_size(const void *address, size_t bytes) {
  return units_for(max_size(bytes, 1)) == record((unit_t)map_unit_of(address))->huge.asked_units;
}

size_t huge_usable_size(const void *address) {
  return (size_t)record((unit_t)map_unit_of(address))->run_units << UNIT_SHIFT;
}
