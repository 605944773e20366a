/* See huge.h. SPDX-License-Identifier: MIT */
#include "huge.h"

#include "../os/os.h"
#include "arena.h"
#include "huge_pages.h"

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
  size_t must_units = max_size(alignment >> UNIT_SHIFT, 1);
  size_t align_units = units < SUPERSLAB_UNITS ? must_units : max_size(must_units, SUPERSLAB_UNITS);
  unit_t first = arena_take(ZONE_HUGE, units, align_units, is_zero);
  if (first == 0 && must_units < align_units) first = arena_take(ZONE_HUGE, units, must_units, is_zero);
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
  if (!record(first)->huge.moved) {
    arena_give(first, units);
  } else if (os_renew(map_address(first), units << UNIT_SHIFT, the_map.is_reserved)) {
    arena_give_clean(first, units);
  } else if (os_is_readable(map_address(first))) {
    arena_give(first, units);
  } else {
    /* The system has unmapped it, then refused to map it afresh: as in
     * huge_from_run, the range stays out of use. */
    write_words(first, 0, units, word_make(0, KIND_INNER));
  }
}

void *huge_alloc(size_t bytes, size_t alignment, bool zeroed) {
  bool is_zero = false;
  size_t units = units_for(bytes);
  unit_t first = take(units, alignment, &is_zero);
  if (first == 0) return NULL;
  huge_pages_use(first, units);
  if (zeroed && !is_zero) arena_clear_stale(first, units);
  return map_address(first);
}

/* Of two threads that free the same block, one gets the word. */
static bool claim(unit_t first) {
  uint32_t expected = word_make(0, KIND_HUGE);
  return atomic32_cas_acq_rel(map_word(first), &expected, 0);
}

bool huge_free(void *address) {
  unit_t first = (unit_t)map_unit_of(address);
  if (!claim(first)) return false;
  huge_pages_learn(first, record(first)->run_units);
  give(first);
  return true;
}

/* A run for a block that is growing: with an eighth to spare, so that one that
 * grows by small steps moves rarely; without, if memory is short. */
static unit_t take_for_growth(size_t units) {
  unit_t first = take(units + units / 8, 1, NULL);
  return first != 0 ? first : take(units, 1, NULL);
}

/* Moves whole pages; where the system refuses, piece by piece, and copies those
 * pieces that it refuses as well: kernels before 6.17 move only what lies in one
 * mapping, and have unmapped the destination when they find that it does not. */
static bool move_contents(char *to, char *from, size_t bytes) {
  size_t whole_pages = align_up(bytes, os_page_bytes());
  if (os_move_pages(from, to, whole_pages)) return true;
  if (!os_renew(to, whole_pages, the_map.is_reserved) && !os_is_readable(to)) return false;
  if (bytes <= OS_HUGE_PAGE_BYTES) {
    memcpy(to, from, bytes);
    return true;
  }
  size_t head = align_up(bytes / 2, OS_HUGE_PAGE_BYTES);
  return move_contents(to, from, head) && move_contents(to + head, from + head, bytes - head);
}

void *huge_from_run(void *from, size_t length, size_t bytes) {
  unit_t to = take_for_growth(units_for(bytes));
  if (to == 0) return NULL;
  record(to)->huge.asked_units = (uint32_t)units_for(bytes);
  record(to)->huge.moved = true;
  size_t kept = min_size(length, bytes);
  /* The system has taken the destination away and does not give it back: it stays
   * out of use. That can only be at the first step, before anything has moved:
   * what was mapped again once can be so again. */
  if (!move_contents(map_address(to), from, kept)) return NULL;
  huge_pages_moved((unit_t)map_unit_of(from), to, units_for(kept));
  huge_pages_use((unit_t)(to + units_for(kept)), record(to)->run_units - units_for(kept));
  return map_address(to);
}

void *huge_realloc(void *address, size_t bytes) {
  unit_t first = (unit_t)map_unit_of(address);
  size_t old_units = record(first)->run_units, new_units = units_for(bytes);
  if (new_units > UINT32_MAX / 2) return NULL;
  if (new_units > old_units) {
    bool is_much = new_units - old_units >= SUPERSLAB_UNITS;
    if (is_much) huge_pages_learn(first, old_units);
    if (arena_extend(first, old_units, new_units)) {
      if (is_much) huge_pages_use((unit_t)(first + old_units), new_units - old_units);
      write_words(first, old_units, new_units, word_make(0, KIND_INNER));
      record(first)->huge.asked_units = (uint32_t)new_units;
      return address;
    }
    void *moved = huge_from_run(address, old_units << UNIT_SHIFT, bytes);
    if (moved != NULL && claim(first)) give(first); /* it is empty now: nothing to learn */
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
