/*
 * Sizes of a region's blocks, and how they change: see region.h.
 * SPDX-License-Identifier: MIT
 */
#include "../arena/arena.h"
#include "../support/error.h"
#include "blocks.h"
#include "region.h"
#include "units.h"

#include <string.h>

/* Set once a realloc had to leave a block larger than its new size for want of memory. Relaxed:
 * what hands the block over orders it. */
static atomic32 some_stayed_large;

HAK_LOOKS_ON size_t region_usable_size(const void *block, uint32_t word) {
  unsigned what = word_what(word);
  if (what < MID_CLASS_END) return size_classes[what].block_bytes;
  if (what != REGION_LONE) return 0;
  return (size_t)HAK_LOOK(map_record((unit_t)map_unit_of(block))->region.units) << UNIT_SHIFT;
}

bool region_may_have_size(const void *block, uint32_t word, size_t bytes, size_t alignment, bool may_be_shrunk) {
  size_t held = region_usable_size(block, word);
  if (held == 0) return true; /* no block: whoever frees it says so */
  if (bytes > held) return false;
  if (may_be_shrunk && (size_stays_when_shrunk(held, bytes) || atomic32_load_relaxed(&some_stayed_large) != 0))
    return true;
  if (!is_power_of_two(alignment)) return false;
  unsigned wanted = size_class_aligned(alignment, bytes);
  return word_what(word) < MID_CLASS_END ? word_what(word) == wanted
                                         : wanted >= MID_CLASS_END && units_for_lone(bytes) << UNIT_SHIFT == held;
}

/* A lone block that has a run of its own, in place. */
static bool grow_in_place(void *block, uint32_t word, size_t bytes) {
  unit_t first = (unit_t)map_unit_of(block);
  region_t *region = registry_enter_number(word_region(word));
  if (region == NULL) return false;
  unit_record_t *r = map_record(first);
  size_t units = units_for_lone(bytes);
  bool grown = !region->is_lost && map_lookup(block) == word && r->region.run == first && r->region.is_whole &&
               units > r->region.units && units_extend_whole(region, first, units);
  if (grown) {
    region->lone_units -= r->region.units;
    blocks_make_lone(region, first, units);
  }
  units_leave(region);
  return grown;
}

/* The handle of the block's region; 0: it is being destroyed. */
static uint64_t handle_of(uint32_t word) {
  region_t *region = registry_record(word_region(word));
  return region != NULL ? atomic64_load_relaxed(&region->handle) : 0;
}

void *region_realloc(void *block, uint32_t word, size_t bytes) {
  unsigned what = word_what(word);
  size_t held = region_usable_size(block, word);
  bool is_start = what < MID_CLASS_END ? region_starts_block(block, what)
                                       : block == map_address((unit_t)map_unit_of(block));
  if (held == 0 || !is_start) {
    error_report(held == 0 ? ERROR_WILD_FREE : ERROR_INTERIOR_FREE, block, held, 0);
    return NULL;
  }
  if (size_stays_when_shrunk(held, bytes)) return block;
  if (what == REGION_LONE && bytes > held && bytes <= PTRDIFF_MAX && grow_in_place(block, word, bytes)) return block;
  void *moved;
  bool may_stay = bytes <= held;
  region_result_t (*alloc)(uint64_t, size_t, size_t, bool, void **) = may_stay ? region_try_alloc : region_alloc;
  if (alloc(handle_of(word), bytes, 1, false, &moved) != REGION_OK) {
    if (!may_stay) return NULL;
    atomic32_store_relaxed(&some_stayed_large, 1);
    return block;
  }
  memcpy(moved, block, min_size(held, bytes));
  region_free(block, word);
  return moved;
}
