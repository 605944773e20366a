/* See huge_pages.h. SPDX-License-Identifier: MIT */
#include "huge_pages.h"

#include "../base/turns.h"
#include "../os/os.h"
#include "../support/limit.h"
#include "arena.h"
#include "huge_credit.h"
#include "pages.h"

enum {
  PROBES = 4,
  /* Of a SuperSlab in which a block ends, so many units must be the block's: what a huge page makes
   * resident beside them is no more. A huge page takes as long as a third of its small ones. */
  END_LEAST_UNITS = SUPERSLAB_UNITS / 2,
  /* So many that are resident in small pages are given up for a huge one, as the others would be
   * faulted in page by page. */
  GIVE_UP_MOST_UNITS = SUPERSLAB_UNITS / 2,
};

/* All relaxed, and a lost update is no harm: they are estimates. */
/* The newest block without huge pages, first unit << 32 | units, until somebody
 * has looked at it. It may be freed by then: we look at no more than which pages
 * are resident, and the window is ours for ever. */
static atomic64 newest;
static atomic32 newest_looks; /* at it */
/* Blocks that were sparse when they were freed, or grew, since the last dense one. */
static atomic32 sparse_in_a_row;

/* ---- SuperSlabs in a row -----------------------------------------------------*/

/* SuperSlabs that lie wholly in a run are its holder's alone: no lock. */
typedef struct {
  size_t from, to; /* their numbers */
} superslab_row_t;

static superslab_row_t whole_superslabs(unit_t first, size_t units) {
  size_t from = align_up(first, SUPERSLAB_UNITS) / SUPERSLAB_UNITS, to = (first + units) / SUPERSLAB_UNITS;
  return (superslab_row_t){from, max_size(from, to)};
}

/* The one that a run ends inside of, if it does not begin there: others may take the rest of it. */
static superslab_row_t open_end(unit_t first, size_t units) {
  size_t end = first + units, number = end / SUPERSLAB_UNITS;
  bool is_open = end % SUPERSLAB_UNITS != 0 && number * SUPERSLAB_UNITS >= first;
  return (superslab_row_t){number, number + is_open};
}

static char *address(size_t number) { return map_address((unit_t)(number * SUPERSLAB_UNITS)); }

static bool has_not_asked(size_t number) { return !map_wants_huge_page(number); }
static bool was_clean(size_t number) { return map_superslab(number)->stale == 0; }
/* What is resident there is its holder's doing, page by page. */
static bool is_witness(size_t number) { return has_not_asked(number) && was_clean(number); }
/* Nothing was resident there, but huge pages will be. */
static bool is_huge_anew(size_t number) { return !has_not_asked(number) && was_clean(number); }
/* Part of it was resident, so it is in small pages: a huge page is dirty as a whole (dirty_note_used). */
static bool is_in_pieces(size_t number) {
  return !was_clean(number) && __builtin_popcount(map_superslab(number)->stale) <= GIVE_UP_MOST_UNITS;
}
static bool is_asked_in_pieces(size_t number) { return !has_not_asked(number) && is_in_pieces(number); }

static size_t count(superslab_row_t row, bool (*is_meant)(size_t number)) {
  size_t found = 0;
  for (size_t n = row.from; n < row.to; n++) found += is_meant(n);
  return found;
}

static void for_each_part(superslab_row_t row, bool (*is_meant)(size_t number), void (*act)(superslab_row_t part)) {
  for (size_t from = row.from, to; from < row.to; from = to + 1) {
    for (to = from; to < row.to && is_meant(to);) to++;
    if (to > from) act((superslab_row_t){from, to});
  }
}

static void ask(superslab_row_t row) { map_want_huge_pages(row.from, row.to); }
static void do_without(superslab_row_t row) { map_refuse_huge_pages(row.from, row.to); }

/* What is resident there goes. `stale` is the holder's, as the units are. */
static void give_up(superslab_row_t row) {
  if (!os_purge(address(row.from), (row.to - row.from) * OS_HUGE_PAGE_BYTES)) return;
  for (size_t n = row.from; n < row.to; n++) map_superslab(n)->stale = 0;
}

/* ---- Learning --------------------------------------------------------------------*/

/* By its last page, as memory is mostly filled from the start. */
static bool is_used(size_t number) { return page_is_resident(address(number + 1) - 1); }

/* That it is not dense says nothing: it may not be filled yet. One that never is need not be asked about each time. */
static void learn_from_newest(void) {
  enum { LOOKS = 8, LOOK_EVERY = 8 };
  uint64_t block = atomic64_load_relaxed(&newest);
  if (block == 0) return;
  uint32_t looks = atomic32_add_relaxed(&newest_looks, 1);
  if (looks >= LOOKS && looks % LOOK_EVERY != 0) return;
  superslab_row_t row = whole_superslabs((unit_t)(block >> 32), (uint32_t)block);
  size_t step = (row.to - row.from) / PROBES + 1;
  for (size_t n = row.from; n < row.to; n += step)
    if (!is_used(n)) return;
  atomic64_store_relaxed(&newest, 0);
  huge_credit_earn(row.to - row.from);
}

/* To ask takes longer than all else that is done for a block that is not used. Where some in a row were sparse,
 * and there is no credit that another one could end, one of some is asked about. */
static bool is_taken_for_sparse(void) {
  enum { TRUSTED_FROM = 8, LOOK_EVERY = 8 };
  static atomic32 turns;
  return atomic32_load_relaxed(&sparse_in_a_row) >= TRUSTED_FROM && huge_credit_is_gone() &&
         !turn_has_come(&turns, LOOK_EVERY);
}

static void note_sparse(void) {
  atomic32_add_relaxed(&sparse_in_a_row, 1);
  huge_credit_lose();
}

static void note_dense(size_t superslabs) {
  atomic32_store_relaxed(&sparse_in_a_row, 0);
  huge_credit_earn(superslabs);
}

void huge_pages_learn(unit_t first, size_t units) {
  superslab_row_t row = whole_superslabs(first, units);
  size_t witnesses = count(row, is_witness), step = witnesses / PROBES + 1, met = 0;
  if (witnesses == 0) return;
  /* It says now what it can. */
  if (atomic64_load_relaxed(&newest) >> 32 == first) atomic64_store_relaxed(&newest, 0);
  if (is_taken_for_sparse()) return;
  for (size_t n = row.from; n < row.to; n++)
    if (is_witness(n) && met++ % step == 0 && !is_used(n)) return note_sparse();
  note_dense(witnesses);
}

static void widen_end(unit_t first, size_t units, bool wanted) {
  superslab_row_t end = open_end(first, units);
  if (end.from == end.to || map_wants_huge_page(end.from) == wanted) return;
  if (wanted && ((first + units) % SUPERSLAB_UNITS < END_LEAST_UNITS || !huge_credit_spend(1))) return;
  if (arena_widen_end(first, units, wanted)) (wanted ? ask : do_without)(end);
}

void huge_pages_use(unit_t first, size_t units) {
  superslab_row_t row = whole_superslabs(first, units);
  size_t price = count(row, has_not_asked) + count(row, is_huge_anew) + count(row, is_asked_in_pieces);
  bool allowed = limit_allows_huge_pages(0),
       granted = allowed && huge_credit_spend(price); /* the run is charged already */
  if (allowed && !granted) {
    learn_from_newest();
    granted = huge_credit_spend(price);
  }
  if (granted) {
    for_each_part(row, has_not_asked, ask);
    for_each_part(row, is_in_pieces, give_up);
    widen_end(first, units, true);
    return;
  }
  for_each_part(row, is_huge_anew, do_without);
  widen_end(first, units, false);
  if (count(row, is_witness) < row.to - row.from) return;
  atomic64_store_relaxed(&newest, (uint64_t)first << 32 | units);
  atomic32_store_relaxed(&newest_looks, 0);
}

void huge_pages_moved(unit_t from, unit_t to, size_t units) {
  superslab_row_t row = whole_superslabs(to, units);
  bool pairwise = from % SUPERSLAB_UNITS == to % SUPERSLAB_UNITS;
  /* Where nothing is known of their pages they are said to have got one: they would be witnesses of another place. */
  for (size_t n = row.from; n < row.to; n++)
    map_note_huge_page(n, !pairwise || map_wants_huge_page(n - to / SUPERSLAB_UNITS + from / SUPERSLAB_UNITS));
}
