/* See invariants.h. SPDX-License-Identifier: MIT */
#include "invariants.h"

#include "dirty.h"
#include "runs.h"
#include "shelf.h"
#include "zone.h"

typedef struct {
  size_t used, dirty, dirty_superslabs, free_runs, free_units, shelved_runs;
} sums_t;

static void check_run(unit_t first, size_t units, bool is_free, bool may_lack_words) {
  for (unit_t u = first; u < first + units; u++) {
    HAK_CHECK(zone_is_free(u) == is_free);
    HAK_CHECK(!is_free || atomic32_load_relaxed(map_word(u)) == 0);
    HAK_CHECK(is_free || atomic32_load_relaxed(map_word(u)) != 0 || may_lack_words);
  }
  if (is_free) HAK_CHECK(map_record((unit_t)(first + units - 1))->run_first == first);
}

static void check_extent(const extent_t *extent, bool may_lack_words, sums_t *sums) {
  bool was_free = false;
  for (unit_t unit = extent->first; unit < extent->end;) {
    bool is_free = zone_is_free(unit);
    size_t units = map_record(unit)->run_units;
    HAK_CHECK(units > 0 && unit + units <= extent->end);
    HAK_CHECK(!is_free || !was_free); /* neighbours are joined */
    check_run(unit, units, is_free, may_lack_words);
    if (is_free) sums->free_runs++, sums->free_units += units;
    else sums->used += units, sums->shelved_runs += word_is_shelved(atomic32_load_relaxed(map_word(unit)));
    was_free = is_free;
    unit += (unit_t)units;
  }
  for (uint32_t n = extent->first / SUPERSLAB_UNITS; n < extent->end / SUPERSLAB_UNITS; n++) {
    HAK_CHECK((map_superslab(n)->used & map_superslab(n)->dirty) == 0);
    sums->dirty += (size_t)__builtin_popcount(map_superslab(n)->dirty);
    sums->dirty_superslabs += map_superslab(n)->dirty != 0;
  }
}

size_t invariants_check(bool may_lack_words) {
  sums_t all = {0};
  for (zone_id_t z = 0; z < ZONE_COUNT; z++) {
    const zone_t *zone = zone_look(z);
    sums_t sums = {0};
    size_t in_tree = 0;
    for (size_t i = 0; i < zone->extent_count; i++) check_extent(&zone->extents[i], may_lack_words, &sums);
    size_t runs_in_tree = runs_check(zone->free_runs, &in_tree);
    HAK_CHECK(sums.free_runs == runs_in_tree && sums.free_units == in_tree);
    HAK_CHECK(sums.free_units == zone->free_units);
    all.used += sums.used;
    all.dirty += sums.dirty;
    all.dirty_superslabs += sums.dirty_superslabs;
    all.shelved_runs += sums.shelved_runs;
  }
  HAK_CHECK(shelf_check(!may_lack_words) == all.shelved_runs || may_lack_words);
  dirty_check(all.dirty_superslabs, all.dirty);
  return all.used;
}
