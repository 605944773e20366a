/* See address.h. SPDX-License-Identifier: MIT */
#include "address.h"

#include "../arena/arena_look.h"
#include "../arena/huge.h"
#include "../region/region.h"
#include "../support/error.h"

/* Whether an inner unit is of a run that lies on the shelf, which is no longer than the
 * longest large block. Right behind such a run there may be a block whose first unit is an
 * inner one as well, as it is being changed. */
static bool is_in_shelved_run(size_t unit) {
  size_t least = unit - min_size(unit, LARGE_MAX_BYTES / UNIT_BYTES), first = unit;
  while (first > least && atomic32_load_relaxed(map_word(first)) == word_make(0, KIND_INNER)) first--;
  uint32_t word = atomic32_load_relaxed(map_word(first));
  return word_is_shelved(word) && unit < first + size_classes[word_kind(word)].slab_units;
}

address_kind_t address_kind_of_others(const void *address, uint32_t word) {
  if (word == word_make(0, KIND_HUGE))
    return address == map_address((unit_t)map_unit_of(address)) ? ADDRESS_HUGE : ADDRESS_INNER;
  if (word_is_region(word)) return ADDRESS_REGION;
  if (word == word_make(0, KIND_INNER)) return is_in_shelved_run(map_unit_of(address)) ? ADDRESS_FREE : ADDRESS_INNER;
  if (word_is_shelved(word)) return ADDRESS_FREE;
  return arena_has(map_unit_of(address)) ? ADDRESS_FREE : ADDRESS_OUTSIDE;
}

/* Bytes of the block that an inner address lies in. */
static size_t bytes_around(const void *address) {
  size_t unit = map_unit_of(address);
  while (atomic32_load_relaxed(map_word(unit)) == word_make(0, KIND_INNER)) unit--;
  uint32_t word = atomic32_load_relaxed(map_word(unit));
  if (word_is_class(word)) return size_classes[word_kind(word)].block_bytes;
  if (word_is_region(word)) return region_usable_size(map_address((unit_t)unit), word);
  return word == word_make(0, KIND_HUGE) ? huge_usable_size(map_address((unit_t)unit)) : 0;
}

bool address_is_owned(const void *address) {
  uint32_t word = map_lookup(address);
  address_kind_t kind = word != 0 ? address_kind(address, word) : ADDRESS_FREE;
  if (kind == ADDRESS_REGION) return word_what(word) != REGION_SPARE;
  return kind != ADDRESS_FREE;
}

void address_report_free(const void *address, address_kind_t kind) {
  uint32_t word = map_lookup(address);
  bool was_block = word_is_shelved(word) && address == map_address((unit_t)map_unit_of(address));
  if (kind == ADDRESS_INNER) error_report(ERROR_INTERIOR_FREE, address, bytes_around(address), 0);
  else if (was_block) error_report(ERROR_DOUBLE_FREE, address, size_classes[word_kind(word)].block_bytes, 0);
  else error_report(ERROR_WILD_FREE, address, 0, 0);
}
