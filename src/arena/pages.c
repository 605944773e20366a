/* See pages.h. SPDX-License-Identifier: MIT */
#include "pages.h"

#include "../base/turns.h"

enum {
  PAGES_AT_ONCE = 1024, /* a byte of stack each */
  VERY_FEW = 64,        /* a part of so many */
  DROP_EVERY = 16,
  BARE_LEAST_PAGES = 256,
  BARE_EVEN_PAGES = 3, /* to ask takes as long as to fault in so many */
  BARE_LOOK_EVERY = 4,
  BARE_IN_USE = 16, /* so many times the pages of a piece that is in use count */
  BARE_TRUSTED_FROM = 24,
  BARE_CREDIT_MOST = 48,
  BARE_DEBT_MOST = 32768,
};

static size_t count_resident(const unsigned char *resident, size_t from, size_t to) {
  size_t count = 0;
  for (size_t i = from; i < to; i++) count += resident[i] & 1;
  return count;
}

bool pages_count_resident(char *at, size_t bytes, size_t *resident_bytes) {
  unsigned char resident[PAGES_AT_ONCE];
  size_t page = os_page_bytes(), found = 0;
  for (char *next = at, *end = next + bytes; next < end;) {
    size_t pages = min_size((size_t)(end - next) / page, PAGES_AT_ONCE);
    if (!os_resident_pages(next, pages * page, resident)) return false;
    found += count_resident(resident, 0, pages);
    next += pages * page;
  }
  *resident_bytes = found * page;
  return true;
}

/* How many of the pages come before those that are to be dropped. */
static size_t skip_kept(const unsigned char *resident, size_t pages, size_t page, size_t *keep) {
  size_t first = 0;
  for (; first < pages && *keep >= page; first++)
    if ((resident[first] & 1) != 0) *keep -= page;
  return first;
}

size_t pages_drop(void *at, size_t bytes, size_t *keep, bool *are_gone) {
  unsigned char resident[PAGES_AT_ONCE];
  size_t page = os_page_bytes(), dropped = 0;
  *are_gone = true;
  for (char *next = at, *end = next + bytes; next < end;) {
    size_t pages = min_size((size_t)(end - next) / page, PAGES_AT_ONCE);
    /* Where nobody says what is resident, all is supposed to be, and nothing counted. */
    bool is_known = os_resident_pages(next, pages * page, resident);
    if (!is_known) memset(resident, 1, pages);
    size_t first = skip_kept(resident, pages, page, keep);
    size_t count = count_resident(resident, first, pages);
    bool have_gone = count == 0 || os_purge(next + first * page, (pages - first) * page);
    if (have_gone && is_known) dropped += count * page;
    *are_gone = *are_gone && have_gone && count_resident(resident, 0, first) == 0;
    next += pages * page;
  }
  return dropped;
}

/* A row of pages that are resident, or that are not. */
typedef struct {
  size_t from, to;
  bool is_resident;
} page_row_t;

static bool next_row(page_row_t *row, const unsigned char *resident, size_t pages) {
  row->from = row->to;
  if (row->from == pages) return false;
  row->is_resident = (resident[row->from] & 1) != 0;
  while (row->to < pages && ((resident[row->to] & 1) != 0) == row->is_resident) row->to++;
  return true;
}

/* Pages that are not resident hold zeroes, unless they are swapped out: to drop
 * them is safe in both cases, and cheap in the first. Short rows are not worth a
 * call: they are written like those that are resident. */
static bool is_worth_a_call(const page_row_t *row) { return !row->is_resident && row->to - row->from >= 8; }

/* Few are resident, here and there: whoever had the memory used little of it, and whoever gets it will not need
 * those pages much. Written to, they would stay, and be more each time. */
static bool is_scattered(const unsigned char *resident, size_t pages) {
  enum { TOO_MANY_CALLS = 3 };
  size_t calls = 0, written = 0;
  for (page_row_t row = {0}; next_row(&row, resident, pages);) {
    if (is_worth_a_call(&row)) calls++;
    else written += row.to - row.from;
  }
  return calls >= TOO_MANY_CALLS && written < pages / 4;
}

/* To ask what is resident of a piece takes as long as to fault in a few pages. Where that was less, many times
 * in a row, the next pieces are dropped unasked, but for one of some: by a credit, of the pages that were less,
 * from which those that were more are taken; of pieces that are in use, many times as many, as some such pieces
 * have been dropped for one that is seen. So a program that fills one of some thousand pieces is asked each
 * time. Signed; relaxed, and a lost update is no harm: an estimate. */
static atomic32 bare_credit;

static bool is_taken_for_bare(size_t pages) {
  static atomic32 turns;
  return pages >= BARE_LEAST_PAGES && (int32_t)atomic32_load_relaxed(&bare_credit) >= BARE_TRUSTED_FROM &&
         !turn_has_come(&turns, BARE_LOOK_EVERY);
}

static void note_whether_bare(size_t resident_pages, bool in_use) {
  int32_t before = (int32_t)atomic32_load_relaxed(&bare_credit);
  int32_t less = BARE_EVEN_PAGES - (int32_t)resident_pages;
  int32_t after = before + (in_use ? less * BARE_IN_USE : less);
  if (after > BARE_CREDIT_MOST) after = BARE_CREDIT_MOST;
  if (after < -BARE_DEBT_MOST) after = -BARE_DEBT_MOST;
  if (after != before) atomic32_store_relaxed(&bare_credit, (uint32_t)after);
}

/* Scattered pages are dropped, all of them at once, each time where they are very few, and else now and then.
 * Dropped each time they would be faulted in each time, and that takes longer than to write to all that lies
 * between them. */
static void clear_piece(char *at, size_t pages, size_t page) {
  static atomic32 turns;
  unsigned char resident[PAGES_AT_ONCE];
  if (is_taken_for_bare(pages) && os_purge(at, pages * page)) return;
  if (!os_resident_pages(at, pages * page, resident)) memset(resident, 1, pages); /* supposed */
  size_t count = count_resident(resident, 0, pages);
  bool scattered = is_scattered(resident, pages), very_few = scattered && count < pages / VERY_FEW;
  /* Very few are dropped in any case. */
  if (pages >= BARE_LEAST_PAGES) note_whether_bare(very_few ? 0 : count, count >= pages / 4);
  if ((very_few || (scattered && turn_has_come(&turns, DROP_EVERY))) && os_purge(at, pages * page)) return;
  for (page_row_t row = {0}; next_row(&row, resident, pages);) {
    char *start = at + row.from * page;
    size_t length = (row.to - row.from) * page;
    if (!is_worth_a_call(&row) || !os_purge(start, length)) memset(start, 0, length);
  }
}

HAK_NOINLINE void pages_clear(void *at, size_t bytes) {
  size_t page = os_page_bytes();
  for (char *next = at, *end = next + bytes; next < end;) {
    size_t pages = min_size((size_t)(end - next) / page, PAGES_AT_ONCE);
    clear_piece(next, pages, page);
    next += pages * page;
  }
}
