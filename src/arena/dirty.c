/* See dirty.h. SPDX-License-Identifier: MIT */
#include "dirty.h"

#include "zone.h"

/* The list of SuperSlabs, by dirtied_ms; 0 is none. */
static struct {
  uint32_t oldest, newest;
  size_t units[ZONE_COUNT];
  size_t grown_units; /* of these, where a block that grew has been */
} list __attribute__((aligned(HAK_CACHE_LINE)));

/* See dirty_add_slack; 0 is none. */
static uint32_t newest_slack;

static void list_remove(uint32_t number) {
  superslab_t *s = map_superslab(number);
  *(s->dirty_previous ? &map_superslab(s->dirty_previous)->dirty_next : &list.oldest) = s->dirty_next;
  *(s->dirty_next ? &map_superslab(s->dirty_next)->dirty_previous : &list.newest) = s->dirty_previous;
  s->dirty_previous = s->dirty_next = 0;
}

static void list_append(uint32_t number) {
  superslab_t *s = map_superslab(number);
  s->dirty_next = 0;
  s->dirty_previous = list.newest;
  *(list.newest ? &map_superslab(list.newest)->dirty_next : &list.oldest) = number;
  list.newest = number;
}

static void count(uint32_t number, size_t units) {
  list.units[zone_of(number * SUPERSLAB_UNITS)] += units;
  if (HAK_UNLIKELY(map_has_grown(number))) list.grown_units += units;
}

/* Some free units, and with slack all: what was never used goes with what was. */
static void add(uint32_t number, uint32_t some, uint64_t now_ms) {
  superslab_t *s = map_superslab(number);
  if (s->dirty != 0) list_remove(number);
  uint32_t added = (s->has_slack ? ~s->used : some) & ~s->dirty;
  s->has_slack = false;
  s->dirty |= added;
  s->dirtied_ms = now_ms;
  list_append(number);
  count(number, (size_t)__builtin_popcount(added));
}

size_t dirty_add(unit_t first, size_t units, uint64_t now_ms) {
  size_t before = dirty_units();
  FOR_EACH_SUPERSLAB(c, first, units) {
    HAK_ASSERT(((map_superslab(c.number)->used | map_superslab(c.number)->dirty) & c.mask) == 0);
    add(c.number, c.mask, now_ms);
  }
  return dirty_units() - before;
}

size_t dirty_add_slack(uint64_t now_ms, unit_t *first) {
  size_t before = dirty_units();
  uint32_t number = newest_slack;
  newest_slack = 0;
  *first = number * SUPERSLAB_UNITS;
  const superslab_t *s = map_superslab(number);
  if (number != 0 && s->has_slack && (s->used | s->dirty) != UINT32_MAX) add(number, 0, now_ms);
  return dirty_units() - before;
}

static void note_slack(uint32_t number) {
  if (HAK_LIKELY(!map_wants_huge_page(number))) return;
  map_superslab(number)->has_slack = true;
  newest_slack = number;
}

/* SuperSlabs between the first and the last have no free units. */
void dirty_note_used(unit_t first, size_t units) {
  note_slack(first / SUPERSLAB_UNITS);
  note_slack((unit_t)(first + units - 1) / SUPERSLAB_UNITS);
}

size_t dirty_take(unit_t first, size_t units) {
  size_t taken = 0;
  FOR_EACH_SUPERSLAB(c, first, units) {
    superslab_t *s = map_superslab(c.number);
    uint32_t stale = s->dirty & c.mask;
    s->stale = (s->stale & ~c.mask) | stale;
    if (stale == 0) continue;
    s->dirty &= ~stale;
    taken += (size_t)__builtin_popcount(stale);
    count(c.number, -(size_t)__builtin_popcount(stale));
    if (s->dirty == 0) list_remove(c.number);
  }
  return taken;
}

size_t dirty_count(unit_t first, size_t units) {
  size_t count = 0;
  FOR_EACH_SUPERSLAB(c, first, units) count += (size_t)__builtin_popcount(map_superslab(c.number)->dirty & c.mask);
  return count;
}

void dirty_note_grown(unit_t first, size_t units) {
  FOR_EACH_SUPERSLAB(c, first, units) {
    if (map_has_grown(c.number)) continue;
    map_note_grown(c.number, true);
    list.grown_units += (size_t)__builtin_popcount(map_superslab(c.number)->dirty);
  }
}
size_t dirty_grown_units(void) { return list.grown_units; }

size_t dirty_units_of(zone_id_t zone) { return list.units[zone]; }
size_t dirty_units(void) { return list.units[ZONE_SMALL] + list.units[ZONE_HUGE]; }
uint64_t dirty_oldest_ms(void) { return list.oldest != 0 ? map_superslab(list.oldest)->dirtied_ms : UINT64_MAX; }

/* What ends inside of a huge page splits it, and leaves a table of small pages, with which the SuperSlab gets no huge
 * page the next time. */
static bool goes_as_a_whole(uint32_t number) {
  return map_superslab(number)->dirty == UINT32_MAX && map_wants_huge_page(number);
}

size_t dirty_oldest_row(uint64_t until_ms, size_t most, size_t whole_most, unit_t *first) {
  if (dirty_oldest_ms() > until_ms || list.oldest == 0) return 0;
  uint32_t dirty = map_superslab(list.oldest)->dirty;
  unsigned from = (unsigned)__builtin_ctz(dirty), to = from;
  while (to < SUPERSLAB_UNITS && (dirty >> to & 1) != 0) to++;
  *first = list.oldest * SUPERSLAB_UNITS + from;
  if (whole_most >= SUPERSLAB_UNITS && goes_as_a_whole(list.oldest)) return SUPERSLAB_UNITS;
  return min_size(to - from, most);
}

void dirty_check(size_t superslabs, size_t units) {
  size_t listed = 0, grown = 0;
  uint64_t last_ms = 0;
  for (uint32_t n = list.oldest, before = 0; n != 0; before = n, n = map_superslab(n)->dirty_next) {
    const superslab_t *s = map_superslab(n);
    HAK_CHECK(s->dirty_previous == before && s->dirty != 0 && s->dirtied_ms >= last_ms);
    last_ms = s->dirtied_ms;
    listed++;
    if (map_has_grown(n)) grown += (size_t)__builtin_popcount(s->dirty);
  }
  HAK_CHECK(grown == list.grown_units);
  HAK_CHECK(listed == superslabs && dirty_units() == units);
}
