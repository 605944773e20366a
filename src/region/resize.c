/*
 * Sizes of a region's blocks, and how they change: see region.h.
 * SPDX-License-Identifier: MIT
 */
#include "../support/error.h"
#include "blocks.h"
#include "region.h"
#include "units.h"

#include <string.h>

/* Set once a realloc had to leave a slab's block larger than its new size for want of memory. Relaxed:
 * what hands the block over orders it. */
static atomic32 some_stayed_large;

HAK_LOOKS_ON size_t region_usable_size(const void *block, uint32_t word) {
  unsigned what = word_what(word);
  if (what < MID_CLASS_END) return size_classes[what].block_bytes;
  if (what != REGION_LONE) return 0;
  return (size_t)HAK_LOOK(map_record((unit_t)map_unit_of(block))->region.units) << UNIT_SHIFT;
}

HAK_LOOKS_ON static size_t asked_units(const void *block) {
  return HAK_LOOK(map_record((unit_t)map_unit_of(block))->region.asked_units);
}

bool region_may_have_size(const void *block, uint32_t word, size_t bytes, size_t alignment, bool may_be_shrunk) {
  size_t held = region_usable_size(block, word);
  if (held == 0) return true; /* no block: whoever frees it says so */
  if (bytes > held) return false;
  bool is_lone = word_what(word) == REGION_LONE;
  if (is_lone && units_for_lone(bytes) != asked_units(block)) return false;
  if (may_be_shrunk &&
      (is_lone || size_stays_when_shrunk(held, bytes) || atomic32_load_relaxed(&some_stayed_large) != 0))
    return true;
  if (!is_power_of_two(alignment)) return false;
  unsigned wanted = size_class_aligned(alignment, bytes);
  return is_lone ? wanted >= MID_CLASS_END || size_classes[wanted].slab_units > 1 : word_what(word) == wanted;
}

/* A block that stays where it is has another size. It is the caller's, and so is this member of its record: no
 * gate. */
static void *stay(void *block, unsigned what, size_t bytes) {
  if (what == REGION_LONE) map_record((unit_t)map_unit_of(block))->region.asked_units = (uint32_t)units_for_lone(bytes);
  return block;
}

/* A lone block in a run of its own. To cut it to less than `least` is not worth the gap: it is copied. */
static bool resize_whole(region_t *region, unit_t first, size_t units, size_t least) {
  size_t before = map_record(first)->region.units;
  if (units > before) return units_extend_whole(region, first, units);
  if (units == before || units < least) return false;
  units_cut_whole(region, first, units);
  return true;
}

/* One in a run in which others lie, too: it is copied as long as there is memory, so that rows stay long. */
static bool resize_part(region_t *region, unit_t first, size_t units, size_t least) {
  if (least > 1 || units >= map_record(first)->region.units) return false;
  units_return_tail(region, first, units);
  return true;
}

/* A lone block. `least_units` is 1 where nothing else is left. */
static bool resize_in_place(void *block, uint32_t word, size_t bytes, size_t least_units) {
  unit_t first = (unit_t)map_unit_of(block);
  region_t *region = registry_enter_number(word_region(word));
  if (region == NULL) return false;
  unit_record_t *r = map_record(first);
  size_t units = units_for_lone(bytes);
  bool done = false;
  if (!region->is_lost && map_lookup(block) == word)
    done = map_record(r->region.run)->region.is_whole ? resize_whole(region, first, units, least_units)
                                                      : resize_part(region, first, units, least_units);
  if (done) {
    region->lone_units -= r->region.units;
    blocks_make_lone(region, first, units);
  }
  units_leave(region);
  return done;
}

/* The handle of the block's region; 0: it is being destroyed. */
static uint64_t handle_of(uint32_t word) {
  region_t *region = registry_record(word_region(word));
  return region != NULL ? atomic64_load_relaxed(&region->handle) : 0;
}

/* A block for what has to be copied because it grows: with an eighth to spare, as huge blocks have, so that all the
 * copies of one that grows by small steps are some times its size, whatever lies behind it; without, if the region's
 * limit or the system has no more. */
static region_result_t alloc_grown(uint64_t handle, size_t bytes, void **moved) {
  size_t spare = units_for_lone(bytes) / 8 << UNIT_SHIFT;
  if (spare == 0 || region_try_alloc(handle, bytes + spare, 1, false, moved) != REGION_OK)
    return region_try_alloc(handle, bytes, 1, false, moved);
  stay(*moved, REGION_LONE, bytes);
  return REGION_OK;
}

/* false: another thread was first, or the region is being destroyed. */
static bool claim(void *block, uint32_t word) {
  region_t *region = registry_enter_number(word_region(word));
  bool is_there = region != NULL && !region->is_lost && blocks_claim_lone(region, (unit_t)map_unit_of(block));
  if (region != NULL) registry_leave(region);
  return is_there;
}

static void free_claimed(void *block, uint32_t word) {
  unit_t first = (unit_t)map_unit_of(block);
  region_t *region = registry_enter_number(word_region(word));
  if (region == NULL) return;
  if (!region->is_lost) blocks_free_claimed(region, first);
  units_leave(region);
}

/* The block goes, and its contents are in the other. A lone one is claimed meanwhile, as another thread that frees it
 * at the same time, by mistake, would give its run to others, who may move its pages away. */
static region_result_t replace(void *block, uint32_t word, size_t contents, void *moved) {
  bool is_lone = word_what(word) == REGION_LONE;
  if (is_lone && !claim(block, word)) {
    region_free(moved, map_lookup(moved));
    error_report(ERROR_DOUBLE_FREE, block, 0, 0);
    return REGION_OTHER;
  }
  memcpy(moved, block, contents);
  if (is_lone) free_claimed(block, word);
  else region_free(block, word);
  return REGION_OK;
}

static region_result_t resize(void *block, uint32_t word, size_t held, size_t bytes, void **moved) {
  enum { CUT_LEAST_UNITS = 4 };
  unsigned what = word_what(word);
  bool may_stay = bytes <= held;
  *moved = block;
  if (size_stays_when_shrunk(held, bytes)) {
    stay(block, what, bytes);
    return REGION_OK;
  }
  if (what == REGION_LONE && bytes <= PTRDIFF_MAX && resize_in_place(block, word, bytes, CUT_LEAST_UNITS))
    return REGION_OK;
  uint64_t handle = handle_of(word);
  region_result_t result = may_stay ? region_try_alloc(handle, bytes, 1, false, moved)
                                    : alloc_grown(handle, bytes, moved);
  if (result == REGION_OK) return replace(block, word, min_size(held, bytes), *moved);
  *moved = block;
  /* Without memory for a copy it is cut where it is, or made longer: all that the region can do without has gone. */
  if (what == REGION_LONE && bytes <= PTRDIFF_MAX && resize_in_place(block, word, bytes, 1)) return REGION_OK;
  if (!may_stay) return region_note_refused(handle, result);
  atomic32_store_relaxed(&some_stayed_large, 1);
  stay(block, what, bytes);
  return REGION_OK;
}

region_result_t region_realloc(void *block, uint32_t word, size_t bytes, void **moved) {
  unsigned what = word_what(word);
  size_t held = region_usable_size(block, word);
  bool is_start = what < MID_CLASS_END ? slab_starts_block(block, what)
                                       : block == map_address((unit_t)map_unit_of(block));
  if (held != 0 && is_start) return resize(block, word, held, bytes, moved);
  bool is_copied = what == REGION_COPIED && is_start; /* by another thread's realloc */
  error_report(is_copied ? ERROR_DOUBLE_FREE : held == 0 ? ERROR_WILD_FREE : ERROR_INTERIOR_FREE, block, held, 0);
  return REGION_OTHER;
}
