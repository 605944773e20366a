/*
 * The free bitmap of a slab, a bit for each block: what the slabs of threads (slab.c) and those of
 * regions (region/blocks.c) have in common. Whoever calls has the slab.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_BITS_H
#define HAK_BITS_H

#include "../arena/map.h"
#include "size_class.h"

HAK_C_BEGIN

/* Mostly one; the baseline has no instruction to count more. */
HAK_INLINE size_t bits_count(uint64_t bits) {
  return (bits & (bits - 1)) == 0 ? bits != 0 : (size_t)__builtin_popcountll(bits);
}

/* The first `count` blocks are free, which are all, or none of a slab of one. */
HAK_INLINE void bits_fill(unit_t slab, const size_class_t *c, size_t count) {
  uint64_t *bits = the_map.free_bits[slab];
  size_t whole = count / 64;
  for (size_t w = 0; w < whole; w++) bits[w] = UINT64_MAX;
  if (c->capacity % 64 != 0) bits[whole] = ((uint64_t)1 << count % 64) - 1;
}

/* Takes `count` blocks of those that are free, which are as many at the least, those with the lowest addresses;
 * the lowest comes to lie just before `end`, the others below it. `from`: the first word that may have a bit.
 * Returns what it is then. */
HAK_INLINE unsigned bits_take(unit_t slab, const size_class_t *c, unsigned from, void **end, size_t count) {
  uint64_t *bits = the_map.free_bits[slab];
  void **lowest = end - count;
  size_t block_bytes = c->block_bytes;
  unsigned w = from;
  while (end > lowest) {
    uint64_t word = bits[w];
    char *base = map_address(slab) + (size_t)w * 64 * block_bytes;
    while (word != 0 && end > lowest) {
      *--end = base + (size_t)__builtin_ctzll(word) * block_bytes;
      word &= word - 1;
    }
    bits[w] = word;
    if (word == 0 && end > lowest) w++;
  }
  return w;
}

HAK_C_END
#endif
