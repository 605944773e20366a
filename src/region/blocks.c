/* See blocks.h. SPDX-License-Identifier: MIT */
#include "blocks.h"

#include "../slab/bits.h"
#include "../slab/slab.h"
#include "../support/error.h"
#include "spare.h"
#include "units.h"

/* ---- Lists ---------------------------------------------------------------------*/
static void list(region_t *region, unit_t slab) {
  unit_record_t *r = map_record(slab);
  unit_t first = region->slabs[r->region.size_class];
  r->region.previous = 0;
  r->region.next = first;
  if (first != 0) map_record(first)->region.previous = slab;
  region->slabs[r->region.size_class] = slab;
  r->region.listed = true;
}

static void unlist(region_t *region, unit_t slab) {
  unit_record_t *r = map_record(slab);
  if (r->region.next != 0) map_record(r->region.next)->region.previous = r->region.previous;
  if (r->region.previous != 0) map_record(r->region.previous)->region.next = r->region.next;
  else region->slabs[r->region.size_class] = r->region.next;
  r->region.listed = false;
}

static bool is_empty(unit_t slab) { return map_record(slab)->region.free_count == map_record(slab)->region.capacity; }

/* ---- Slabs ---------------------------------------------------------------------*/

/* false: there are no units for it. */
static bool add_slab(region_t *region, unsigned size_class) {
  const size_class_t *c = &size_classes[size_class];
  unit_t slab = units_cut(region, c->slab_units, c->slab_units, false);
  if (slab == 0) return false;
  unit_record_t *r = map_record(slab);
  r->region.capacity = r->region.free_count = c->capacity;
  r->region.first_word = 0;
  r->region.size_class = (uint8_t)size_class;
  bits_fill(slab, c, c->capacity);
  map_write_words(slab, 0, c->slab_units, region_word(region->number, size_class));
  list(region, slab);
  region->slab_bytes += (size_t)c->capacity * c->block_bytes;
  region->free_bytes += (size_t)c->capacity * c->block_bytes;
  return true;
}

static void release(region_t *region, unit_t slab) {
  const size_class_t *c = &size_classes[map_record(slab)->region.size_class];
  unlist(region, slab);
  region->slab_bytes -= (size_t)c->capacity * c->block_bytes;
  region->free_bytes -= (size_t)c->capacity * c->block_bytes;
  units_return(region, slab, c->slab_units);
}

static size_t take_of(region_t *region, unit_t slab, void **blocks, size_t wanted) {
  unit_record_t *r = map_record(slab);
  const size_class_t *c = &size_classes[r->region.size_class];
  size_t count = min_size(wanted, r->region.free_count);
  r->region.first_word = (uint16_t)bits_take(slab, c, r->region.first_word, blocks + count, count);
  r->region.free_count = (uint16_t)(r->region.free_count - count);
  region->free_bytes -= count * c->block_bytes;
  if (r->region.free_count == 0) unlist(region, slab);
  return count;
}

size_t blocks_take(region_t *region, unsigned size_class, void **blocks, size_t wanted) {
  size_t taken = 0;
  while (taken < wanted) {
    unit_t slab = region->slabs[size_class];
    if (slab != 0) taken += take_of(region, slab, blocks + taken, wanted - taken);
    else if (taken > 0 || !add_slab(region, size_class)) break; /* a short batch will do */
  }
  return taken;
}

void blocks_put(region_t *region, unsigned size_class, const void *block) {
  size_t block_bytes = size_classes[size_class].block_bytes;
  if (HAK_UNLIKELY(map_lookup(block) != region_word(region->number, size_class))) {
    error_note(ERROR_DOUBLE_FREE, block, block_bytes, 0); /* its slab is gone already */
    return;
  }
  slab_place_t place;
  if (HAK_UNLIKELY(!slab_find_place(block, size_class, &place))) {
    error_note(ERROR_INTERIOR_FREE, block, block_bytes, 0);
    return;
  }
  unit_t slab = place.slab;
  unit_record_t *r = map_record(slab);
  uint64_t *free_bits = &the_map.free_bits[slab][place.bitmap_word];
  if (HAK_UNLIKELY((*free_bits & place.bit) != 0)) {
    error_note(ERROR_DOUBLE_FREE, block, block_bytes, 0);
    return;
  }
  *free_bits |= place.bit;
  if (place.bitmap_word < r->region.first_word) r->region.first_word = (uint16_t)place.bitmap_word;
  r->region.free_count++;
  region->free_bytes += block_bytes;
  if (!r->region.listed) list(region, slab);
  bool is_only = region->slabs[size_class] == slab && r->region.next == 0;
  if (is_empty(slab) && !is_only) release(region, slab);
}

void blocks_release_empty(region_t *region) {
  for (unsigned c = 0; c < MID_CLASS_END; c++) {
    for (unit_t slab = region->slabs[c], next; slab != 0; slab = next) {
      next = map_record(slab)->region.next;
      if (is_empty(slab)) release(region, slab);
    }
  }
  units_drop_spare(region);
}

/* ---- Lone blocks ------------------------------------------------------------------*/

void blocks_make_lone(region_t *region, unit_t first, size_t units) {
  map_record(first)->region.units = map_record(first)->region.asked_units = (uint32_t)units;
  map_write_words(first, 1, units, word_make(0, KIND_INNER));
  atomic32_store_relaxed(map_word(first), region_word(region->number, REGION_LONE));
  region->lone_units += units;
}

static bool is_lone(const region_t *region, unit_t first) {
  return atomic32_load_relaxed(map_word(first)) == region_word(region->number, REGION_LONE);
}

static void free_lone(region_t *region, unit_t first) {
  unit_record_t *r = map_record(first);
  region->lone_units -= r->region.units;
  atomic32_store_relaxed(map_word(first), region_word(region->number, REGION_SPARE));
  if (map_record(r->region.run)->region.is_whole) units_return_whole(region, first);
  else units_return(region, first, r->region.units);
}

bool blocks_free_lone(region_t *region, unit_t first) {
  if (!is_lone(region, first)) return false;
  free_lone(region, first);
  return true;
}

bool blocks_claim_lone(region_t *region, unit_t first) {
  if (!is_lone(region, first)) return false;
  atomic32_store_relaxed(map_word(first), region_word(region->number, REGION_COPIED));
  return true;
}

void blocks_free_claimed(region_t *region, unit_t first) {
  if (atomic32_load_relaxed(map_word(first)) == region_word(region->number, REGION_COPIED)) free_lone(region, first);
}

/* ---- Checking --------------------------------------------------------------------*/
static void check_slab(const region_t *region, unit_t slab, unsigned size_class) {
  const unit_record_t *r = map_record(slab);
  size_t count = 0;
  HAK_CHECK(r->region.size_class == size_class && r->region.capacity == size_classes[size_class].capacity);
  for (unsigned i = 0; i < size_classes[size_class].slab_units; i++)
    HAK_CHECK(atomic32_load_relaxed(map_word(slab + i)) == region_word(region->number, size_class));
  for (unsigned w = 0; w < size_class_bitmap_words(size_class); w++) {
    count += (size_t)__builtin_popcountll(the_map.free_bits[slab][w]);
    HAK_CHECK(w >= r->region.first_word || the_map.free_bits[slab][w] == 0);
  }
  HAK_CHECK(count == r->region.free_count);
  HAK_CHECK(r->region.listed == (count > 0));
}

/* What lies in the run at a unit that is not spare. Returns its units. In a child, a thread of the parent's may have
 * been copying a block, which stays so. */
static size_t check_piece(region_t *region, unit_t unit, region_t *sums) {
  unsigned what = word_what(atomic32_load_relaxed(map_word(unit)));
  if (what_is_lone(what)) {
    size_t units = map_record(unit)->region.units;
    HAK_CHECK(map_record(unit)->region.asked_units <= units);
    for (size_t i = 1; i < units; i++) HAK_CHECK(atomic32_load_relaxed(map_word(unit + i)) == word_make(0, KIND_INNER));
    sums->lone_units += units;
    return units;
  }
  HAK_CHECK(what < MID_CLASS_END);
  check_slab(region, unit, what);
  sums->slab_bytes += (size_t)size_classes[what].capacity * size_classes[what].block_bytes;
  sums->free_bytes += (size_t)map_record(unit)->region.free_count * size_classes[what].block_bytes;
  return size_classes[what].slab_units;
}

/* Each open run is in the list of its longest row, and no other is. Returns how many there are. */
static size_t check_open(const region_t *region) {
  size_t count = 0;
  for (unsigned list = 0; list < OPEN_LISTS; list++) {
    for (unit_t run = region->open[list], previous = 0; run != 0; run = map_record(run)->region.open_next) {
      const unit_record_t *r = map_record(run);
      HAK_CHECK(r->region.spare != 0 && spare_list_of(r->region.spare) == list);
      HAK_CHECK(r->region.open_previous == previous &&
                word_region(atomic32_load_relaxed(map_word(run))) == region->number);
      previous = run;
      count++;
    }
  }
  return count;
}

static void check_region(region_t *region) {
  region_t sums = {0};
  size_t open_runs = 0;
  for (unit_t run = region->runs; run != 0; run = map_record(run)->region.run_next) {
    const unit_record_t *r = map_record(run);
    HAK_CHECK(r->region.is_whole ? r->region.spare == 0 : r->run_units <= RUN_UNITS_MOST);
    open_runs += r->region.spare != 0;
    sums.taken_units += r->run_units;
    for (size_t i = 0; i < r->run_units;) {
      uint32_t word = atomic32_load_relaxed(map_word(run + i));
      bool is_spare = i < RUN_UNITS_MOST && (r->region.spare >> i & 1) != 0;
      HAK_CHECK(word_is_region(word) && word_region(word) == region->number);
      HAK_CHECK(is_spare == (word_what(word) == REGION_SPARE));
      if (!is_spare) HAK_CHECK(map_record((unit_t)(run + i))->region.run == run);
      sums.spare_units += is_spare;
      i += is_spare ? 1 : check_piece(region, (unit_t)(run + i), &sums);
    }
  }
  HAK_CHECK(sums.taken_units + region->coming_units == region->taken_units && sums.spare_units == region->spare_units);
  HAK_CHECK(sums.slab_bytes == region->slab_bytes && sums.free_bytes == region->free_bytes);
  HAK_CHECK(sums.lone_units == region->lone_units && region->going == 0);
  HAK_CHECK(check_open(region) == open_runs);
  for (unsigned c = 0; c < MID_CLASS_END; c++)
    for (unit_t slab = region->slabs[c]; slab != 0; slab = map_record(slab)->region.next)
      HAK_CHECK(map_record(slab)->region.listed && map_record(slab)->region.size_class == c);
}

void blocks_check_all(void) {
  for (uint32_t number = 1; number <= registry_made(); number++) {
    region_t *region = registry_enter_number(number);
    if (region == NULL) continue;
    if (!region->is_lost) check_region(region);
    registry_leave(region);
  }
}
