/* See huge.h. SPDX-License-Identifier: MIT */
#include "huge.h"

#include "../base/probe.h"
#include "../os/os.h"
#include "arena.h"
#include "arena_purge.h"
#include "drop.h"
#include "huge_pages.h"
#include "pages.h"

#include <string.h>

/* A run on a huge page's boundary: it can be moved by whole page tables, and its
 * pages can be huge. It is no block before publish. */
static unit_t take(size_t units, size_t alignment, bool *is_zero) {
  size_t must_units = max_size(alignment >> UNIT_SHIFT, 1);
  size_t align_units = units < SUPERSLAB_UNITS ? must_units : max_size(must_units, SUPERSLAB_UNITS);
  unit_t first = arena_take(ZONE_HUGE, units, align_units, is_zero);
  if (first == 0 && must_units < align_units) first = arena_take(ZONE_HUGE, units, must_units, is_zero);
  if (first == 0) return 0;
  map_record(first)->huge.asked_units = (uint32_t)units;
  map_write_words(first, 0, units, word_make(0, KIND_INNER));
  return first;
}

/* The run is a block from now on, also for a thread that frees it by mistake because
 * another block was there before: nothing of it is written any more. Release: whoever
 * claims it finds it as it is now. Pairs with the compare-and-swap in claim. */
static void publish(unit_t first) { atomic32_store_release(map_word(first), word_make(0, KIND_HUGE)); }

/* The system has taken the memory of a run away, and does not map it again: the run
 * stays out of use. */
static void lose(unit_t first, size_t units) { map_write_words(first, 0, units, word_make(0, KIND_INNER)); }

/* Most that blocks leave which grow beside each other is not what the next ones need. */
static void give_grown(unit_t first, size_t units) {
  if (arena_keeps_grown(first, units)) {
    arena_give(first, units);
  } else if (map_commit_again(map_address(first), units << UNIT_SHIFT)) {
    arena_give_clean(first, units, 0);
  } else if (os_is_readable(map_address(first))) {
    arena_give(first, units);
  } else {
    lose(first, units);
  }
}

static void give(unit_t first, huge_source_t state) {
  size_t units = map_record(first)->run_units;
  map_write_words(first, 1, units, 0);
  if (state == HUGE_SOURCE_CLEAN) arena_give_clean(first, units, 0);
  else if (drop_has_grown(first, units)) give_grown(first, units);
  else arena_give(first, units);
}

void *huge_alloc(size_t bytes, size_t alignment, bool zeroed) {
  bool is_zero = false;
  size_t units = map_units_for(bytes);
  unit_t first = take(units, alignment, &is_zero);
  if (first == 0) return NULL;
  if (is_zero) arena_note_clean(units);
  huge_pages_use(first, units);
  if (zeroed && !is_zero) arena_clear_stale(first, units);
  publish(first);
  HAK_PROBE(huge_take, map_address(first), units << UNIT_SHIFT);
  return map_address(first);
}

/* Of two threads that free the same block, one gets the word. */
static bool claim(unit_t first, uint32_t word) {
  uint32_t expected = word_make(0, KIND_HUGE);
  return atomic32_cas_acq_rel(map_word(first), &expected, word);
}

bool huge_claim(void *address) { return claim((unit_t)map_unit_of(address), word_make(0, KIND_INNER)); }
void huge_unclaim(void *address) { publish((unit_t)map_unit_of(address)); }

bool huge_free(void *address) {
  unit_t first = (unit_t)map_unit_of(address);
  if (!claim(first, 0)) return false;
  size_t units = map_record(first)->run_units; /* not before: another thread may have freed it, too */
  HAK_PROBE(huge_give, address, units << UNIT_SHIFT);
  huge_pages_learn(first, units);
  give(first, HUGE_SOURCE_THERE);
  arena_relieve(units);
  return true;
}

/* A run for a block that is growing: with an eighth to spare, so that one that
 * grows by small steps moves rarely; without, if memory is short. */
static unit_t take_for_growth(size_t units) {
  unit_t first = take(units + units / 8, 1, NULL);
  return first != 0 ? first : take(units, 1, NULL);
}

/* Where the contents are, and what is left to be had. */
typedef enum {
  MOVE_DONE,             /* and nothing of the source's was copied                   */
  MOVE_COPIED,           /* all or a part of it                                      */
  MOVE_SOURCE_LOST,      /* the contents are at the destination                 */
  MOVE_DESTINATION_LOST, /* the contents are at the source                      */
} move_t;

static move_t move_contents(char *to, char *from, size_t bytes);

/* The contents of [from, from + head) are at `to`, or copies of them: `first`. Now the rest. If there is no
 * place for it they go back, as half of all would be here and half there. */
static move_t move_rest(char *to, char *from, size_t bytes, size_t head, move_t first) {
  move_t rest = move_contents(to + head, from + head, bytes - head);
  if (rest == MOVE_DESTINATION_LOST) {
    HAK_CHECK(first != MOVE_SOURCE_LOST); /* twice the system has not mapped again what was mapped */
    memcpy(from, to, head);
    return rest;
  }
  return first > rest ? first : rest; /* in the order of the names: what is less to be had */
}

/* Moves whole pages; where the system refuses, piece by piece, and copies those
 * pieces that it refuses as well: kernels before 6.17 move only what lies in one
 * mapping, and have unmapped the destination when they find that it does not; later ones
 * have moved what lies before the one that they refuse. What
 * lay at `from` is mapped anew: otherwise the system could put something else there. */
static move_t move_contents(char *to, char *from, size_t bytes) {
  size_t whole_pages = align_up(bytes, os_page_bytes()), gone;
  os_moved_t moved = os_move_pages(from, to, whole_pages, &gone);
  move_t first = MOVE_DONE;
  if (gone > 0 && map_commit_moved(from, gone) != OS_MAPPED) first = MOVE_SOURCE_LOST;
  if (gone == whole_pages) return first;
  if (moved == OS_MOVE_REFUSED && !map_commit_again(to + gone, whole_pages - gone) && !os_is_readable(to + gone)) {
    HAK_CHECK(first != MOVE_SOURCE_LOST); /* as in move_rest */
    memcpy(from, to, gone);
    return MOVE_DESTINATION_LOST;
  }
  if (gone > 0) return move_rest(to, from, bytes, gone, first);
  if (moved == OS_MOVE_UNTRIED || bytes <= OS_HUGE_PAGE_BYTES) {
    memcpy(to, from, bytes);
    return MOVE_COPIED;
  }
  size_t head = align_up(bytes / 2, OS_HUGE_PAGE_BYTES);
  first = move_contents(to, from, head);
  return first == MOVE_DESTINATION_LOST ? first : move_rest(to, from, bytes, head, first);
}

static bool is_mostly_resident(char *at, size_t bytes) {
  return pages_resident(at, align_down(bytes, os_page_bytes())) >= bytes / 4 * 3;
}

/* Where pages lie behind at least half of the place, and nearly all of what is to go there, copying takes
 * little new memory, and no page is faulted in twice: those of the place would go, and those of the source be
 * missed by the next block there. */
static bool is_better_copied(char *to, char *from, size_t bytes) {
  enum { COPY_MOST_UNITS = 256 };
  return map_units_for(bytes) <= COPY_MOST_UNITS && is_mostly_resident(from, bytes) &&
         pages_resident(to, align_down(bytes, os_page_bytes())) >= bytes / 2;
}

/* The run is taken. false: it is lost, and the contents are where they were. */
static bool take_over(unit_t to, char *from, size_t bytes, huge_source_t *source) {
  size_t units = map_units_for(bytes), run_units = map_record(to)->run_units;
  arena_note_grown(to, run_units);
  if (is_better_copied(map_address(to), from, bytes)) {
    huge_pages_use(to, run_units);
    memcpy(map_address(to), from, bytes);
    return true;
  }
  move_t moved = move_contents(map_address(to), from, bytes);
  if (moved == MOVE_DESTINATION_LOST) return false;
  if (moved == MOVE_DONE) *source = HUGE_SOURCE_CLEAN;
  if (moved == MOVE_SOURCE_LOST) *source = HUGE_SOURCE_LOST;
  huge_pages_moved((unit_t)map_unit_of(from), to, units);
  huge_pages_use((unit_t)(to + units), run_units - units);
  return true;
}

void *huge_from_run(void *from, size_t length, size_t bytes, huge_source_t *source) {
  *source = HUGE_SOURCE_THERE;
  unit_t to = take_for_growth(map_units_for(bytes));
  if (to == 0) return NULL;
  map_record(to)->huge.asked_units = (uint32_t)map_units_for(bytes);
  if (!take_over(to, from, min_size(length, bytes), source)) {
    lose(to, map_record(to)->run_units);
    return NULL;
  }
  publish(to);
  return map_address(to);
}

/* In place, or nothing is changed. The block is claimed. */
static bool grow_in_place(unit_t first, size_t old_units, size_t new_units) {
  bool is_much = new_units - old_units >= SUPERSLAB_UNITS;
  if (is_much) huge_pages_learn(first, old_units);
  if (!arena_extend(first, old_units, new_units)) return false;
  if (is_much) huge_pages_use((unit_t)(first + old_units), new_units - old_units);
  map_write_words(first, old_units, new_units, word_make(0, KIND_INNER));
  return true;
}

static bool is_trifle(size_t surplus, size_t of) { return surplus <= of / 8; }

/* Shrinking gives the tail back, but not for a trifle. The block is claimed. */
static void shrink(unit_t first, size_t old_units, size_t new_units) {
  size_t surplus = old_units - new_units;
  if (is_trifle(surplus, old_units)) return;
  unit_t tail = (unit_t)(first + new_units);
  map_write_words(tail, 0, 1, 0);
  map_split_run(first, new_units, surplus);
  give(tail, HUGE_SOURCE_THERE);
}

/* The block is elsewhere now. */
static void leave(unit_t first, huge_source_t source) {
  size_t units = map_record(first)->run_units;
  if (source == HUGE_SOURCE_THERE) {
    huge_pages_learn(first, units);
    arena_note_grown(first, units); /* for the next one that grows, as what that one leaves */
  }
  map_write_words(first, 0, 1, 0);
  give(first, source);
  arena_relieve(units);
}

void *huge_realloc(void *address, size_t bytes, bool *is_lost) {
  unit_t first = (unit_t)map_unit_of(address);
  size_t new_units = map_units_for(bytes);
  /* Claimed while it changes, so that a thread that frees it meanwhile, by mistake,
   * finds no block and does not give back a run that is being changed. */
  if (new_units > UINT32_MAX / 2) return NULL;
  if (!huge_claim(address)) {
    *is_lost = true;
    return NULL;
  }
  size_t old_units = map_record(first)->run_units;
  void *result = address;
  bool stays = true;
  huge_source_t source = HUGE_SOURCE_THERE;
  if (new_units <= old_units) {
    shrink(first, old_units, new_units);
  } else if (!grow_in_place(first, old_units, new_units)) {
    result = huge_from_run(address, old_units << UNIT_SHIFT, bytes, &source);
    stays = result == NULL;
    if (stays) new_units = map_record(first)->huge.asked_units;
  }
  if (stays) {
    map_record(first)->huge.asked_units = (uint32_t)new_units;
    publish(first);
  } else if (source == HUGE_SOURCE_LOST) {
    lose(first, old_units);
  } else {
    leave(first, source);
  }
  if (result != NULL && new_units > old_units) arena_relieve_growth(new_units - old_units);
  if (new_units < old_units) arena_relieve(old_units - new_units);
  return result;
}

bool huge_is_cut_by_copy(void *block, size_t old_bytes, size_t bytes) {
  if (bytes >= old_bytes || is_trifle(old_bytes - bytes, old_bytes)) return false;
  if (bytes <= HUGE_CUT_BY_COPY_BYTES) return true;
  return bytes <= HUGE_COPIED_BYTES && arena_passes_gaps((old_bytes - bytes) >> UNIT_SHIFT) &&
         is_mostly_resident(block, bytes);
}

HAK_LOOKS_ON bool huge_may_have_size(const void *address, size_t least, size_t most) {
  size_t asked = HAK_LOOK(map_record((unit_t)map_unit_of(address))->huge.asked_units);
  return map_units_for(max_size(least, 1)) <= asked && asked <= map_units_for(max_size(most, 1));
}

HAK_LOOKS_ON size_t huge_usable_size(const void *address) {
  return (size_t)HAK_LOOK(map_record((unit_t)map_unit_of(address))->run_units) << UNIT_SHIFT;
}
