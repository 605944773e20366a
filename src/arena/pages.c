/* See pages.h. SPDX-License-Identifier: MIT */
#include "pages.h"

enum {
  PAGES_AT_ONCE = 1024, /* a byte of stack each */
  VERY_FEW = 64,        /* a part of so many */
  BARE_LEAST_PAGES = 256,
  BARE_TRUSTED_FROM = 4,
};

static size_t count_resident(const unsigned char *resident, size_t from, size_t to) {
  size_t count = 0;
  for (size_t i = from; i < to; i++) count += resident[i] & 1;
  return count;
}

size_t pages_resident(char *at, size_t bytes) {
  unsigned char resident[PAGES_AT_ONCE];
  size_t page = os_page_bytes(), found = 0;
  for (char *next = at, *end = next + bytes; next < end;) {
    size_t pages = min_size((size_t)(end - next) / page, PAGES_AT_ONCE);
    if (!os_resident_pages(next, pages * page, resident)) return 0;
    found += count_resident(resident, 0, pages);
    next += pages * page;
  }
  return found * page;
}

/* How many of the pages come before those that are to be dropped. */
static size_t skip_kept(const unsigned char *resident, size_t pages, size_t page, size_t *keep) {
  size_t first = 0;
  for (; first < pages && *keep >= page; first++)
    if ((resident[first] & 1) != 0) *keep -= page;
  return first;
}

size_t pages_drop(void *at, size_t bytes, size_t *keep) {
  unsigned char resident[PAGES_AT_ONCE];
  size_t page = os_page_bytes(), dropped = 0;
  for (char *next = at, *end = next + bytes; next < end;) {
    size_t pages = min_size((size_t)(end - next) / page, PAGES_AT_ONCE);
    /* Where nobody says what is resident, all is supposed to be, and nothing counted. */
    bool is_known = os_resident_pages(next, pages * page, resident);
    if (!is_known) memset(resident, 1, pages);
    size_t first = skip_kept(resident, pages, page, keep);
    size_t count = count_resident(resident, first, pages);
    if (count > 0 && os_purge(next + first * page, (pages - first) * page) && is_known) dropped += count * page;
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

/* Few are resident, here and there: whoever had the memory used little of it, and whoever gets it will not need those pages
 * much. Written to, they would stay, and be more each time. */
static bool is_scattered(const unsigned char *resident, size_t pages) {
  enum { TOO_MANY_CALLS = 3 };
  size_t calls = 0, written = 0;
  for (page_row_t row = {0}; next_row(&row, resident, pages);) {
    if (is_worth_a_call(&row)) calls++;
    else written += row.to - row.from;
  }
  return calls >= TOO_MANY_CALLS && written < pages / 4;
}

/* Whether to drop scattered pages, all of them at once: each time where they are very few, and else now and then. Dropped each
 * time they would be faulted in each time, and that takes longer than to write to all that lies between them. Relaxed: it
 * matters little whose turn it is exactly. */
static bool is_better_dropped(const unsigned char *resident, size_t pages) {
  enum { DROP_EVERY = 16 };
  static atomic32 turns;
  if (!is_scattered(resident, pages)) return false;
  return count_resident(resident, 0, pages) < pages / VERY_FEW || atomic32_add_relaxed(&turns, 1) % DROP_EVERY == 0;
}

/* To ask takes longer than to drop all. Where of so many pieces in a row, of so many pages each, very few pages were resident, the
 * next ones are taken to be so, and one of some is looked at. Relaxed: estimates. */
static atomic32 bare_in_a_row;

static bool is_taken_for_bare(size_t pages) {
  enum { LOOK_EVERY = 4 };
  static atomic32 turns;
  return pages >= BARE_LEAST_PAGES && atomic32_load_relaxed(&bare_in_a_row) >= BARE_TRUSTED_FROM &&
         atomic32_add_relaxed(&turns, 1) % LOOK_EVERY != 0;
}

static void note_whether_bare(const unsigned char *resident, size_t pages) {
  if (pages < BARE_LEAST_PAGES) return;
  uint32_t before = atomic32_load_relaxed(&bare_in_a_row);
  bool is_bare = count_resident(resident, 0, pages) < pages / VERY_FEW;
  uint32_t after = is_bare ? before + (before < BARE_TRUSTED_FROM) : 0;
  if (after != before) atomic32_store_relaxed(&bare_in_a_row, after);
}

static void clear_piece(char *at, size_t pages, size_t page) {
  unsigned char resident[PAGES_AT_ONCE];
  if (is_taken_for_bare(pages) && os_purge(at, pages * page)) return;
  if (!os_resident_pages(at, pages * page, resident)) memset(resident, 1, pages); /* supposed */
  note_whether_bare(resident, pages);
  if (is_better_dropped(resident, pages) && os_purge(at, pages * page)) return;
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
