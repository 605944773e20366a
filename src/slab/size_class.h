/*
 * Size classes: which block size serves a request.
 *
 *   tiny   0..65     16-byte steps to 1040 bytes, so that a KiB with a header is one;
 *                    class 0 is malloc(0)
 *   mid   66..114    eight steps a doubling to 64 KiB, of which one is a little
 *                    above a power of two from 4 KiB on; beside them 2112 bytes
 *   large 115..145   whole units to 1 MiB, then eight steps a doubling to 4 MiB:
 *                    a slab of one block each
 * Every size is a multiple of 16. Slabs start on a unit, so a block of a power
 * of two is aligned to its size, up to a unit.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SIZE_CLASS_H
#define HAK_SIZE_CLASS_H

#include "../arena/map.h"
#include "size_class_counts.h"

HAK_C_BEGIN

/* The page map's words tell classes from what is no class by their number. */
static_assert((int)SIZE_CLASS_COUNT <= (int)KIND_REGION, "a class is below every other kind");
#define TINY_MAX_BYTES (HAK_KIB(1) + 16)
#define MID_MAX_BYTES HAK_KIB(64)
#define LARGE_MAX_BYTES HAK_MIB(4)
static_assert(LARGE_MAX_BYTES == (size_t)LARGE_MOST_UNITS << UNIT_SHIFT, "the arena knows what is longer");
#define WIDE_ABOVE_BYTES HAK_KIB(8)

typedef struct {
  uint32_t block_bytes;
  uint16_t slab_units;
  uint16_t capacity;   /* blocks in a slab                      */
  uint64_t reciprocal; /* floor(2^40 / block_bytes) + 1         */
} size_class_t;

static_assert(UNIT_BYTES * 8 / 16 <= UINT16_MAX, "the blocks of the longest slab of several are counted in 16 bits");

extern const size_class_t size_classes[SIZE_CLASS_COUNT];
/* What each is lent blocks from: size_class_coarse. */
extern const uint8_t size_class_coarser[SIZE_CLASS_COUNT];
/* Of a request of n bytes, up to MID_MAX_BYTES: at (n - 1) / 16. Arithmetic would need steps of one form. */
extern const uint8_t size_class_of_mid[MID_MAX_BYTES / 16];

HAK_INLINE size_t size_class_tiny(size_t bytes) { return (bytes + 15) >> 4; }

/* The class of a request above TINY_MAX_BYTES, up to LARGE_MAX_BYTES. */
HAK_INLINE unsigned size_class_above_tiny(size_t bytes) {
  size_t last = bytes - 1;
  if (bytes <= MID_MAX_BYTES) return size_class_of_mid[last >> 4];
  if (bytes <= HAK_MIB(1)) return MID_CLASS_END - 1 + (unsigned)(last >> UNIT_SHIFT);
  unsigned log2 = log2_floor(last);
  return LARGE_CLASS_STEPPED + (log2 - 20) * 8 + (unsigned)(last >> (log2 - 3)) - 8;
}

/* bytes <= LARGE_MAX_BYTES */
HAK_INLINE unsigned size_class_of(size_t bytes) {
  return bytes <= TINY_MAX_BYTES ? (unsigned)size_class_tiny(bytes) : size_class_above_tiny(bytes);
}

/* The smallest class whose blocks are all aligned so, to a power of two, and hold so much;
 * SIZE_CLASS_COUNT if none is. Slabs start on a unit. */
HAK_INLINE unsigned size_class_aligned(size_t alignment, size_t bytes) {
  if (alignment > UNIT_BYTES || bytes > LARGE_MAX_BYTES) return SIZE_CLASS_COUNT;
  unsigned c = size_class_of(alignment > 16 ? max_size(bytes, 1) : bytes);
  if ((size_classes[c].block_bytes & (alignment - 1)) == 0) return c;
  /* Such a block is a multiple of the alignment long, so no smaller one will do. */
  size_t least = align_up(max_size(bytes, 1), alignment);
  c = least <= LARGE_MAX_BYTES ? size_class_of(least) : (unsigned)SIZE_CLASS_COUNT;
  while (c < SIZE_CLASS_COUNT && (size_classes[c].block_bytes & (alignment - 1)) != 0) c++;
  return c;
}

/* Whether realloc leaves a block of `held` bytes where it is when it shrinks to
 * `bytes`: what would be saved is less than a copy costs. */
HAK_INLINE bool size_stays_when_shrunk(size_t held, size_t bytes) {
  return bytes <= held && (bytes >= held / 2 || held <= 32);
}

HAK_INLINE size_t size_class_slab_bytes(const size_class_t *c) { return (size_t)c->slab_units << UNIT_SHIFT; }
/* Behind a slab's last block. */
HAK_INLINE size_t size_class_tail_bytes(const size_class_t *c) {
  return size_class_slab_bytes(c) - (size_t)c->capacity * c->block_bytes;
}

/* Words of a slab's bitmaps that have a block's bit. */
HAK_INLINE unsigned size_class_bitmap_words(unsigned size_class) {
  return (size_classes[size_class].capacity + 63u) / 64;
}

HAK_INLINE bool size_class_is_single(unsigned size_class) { return size_class >= MID_CLASS_END; }

/* Blocks of several pages, of which a program may use one: see arena/dense.h. */
HAK_INLINE bool size_class_is_wide(unsigned size_class) {
  return size_classes[size_class].block_bytes > WIDE_ABOVE_BYTES;
}

/* A class of which a thread has few blocks borrows those of this class, see
 * front/magazine.c: two steps a doubling, and 1152. Aligned at least as well. */
HAK_INLINE unsigned size_class_coarse(unsigned size_class) { return size_class_coarser[size_class]; }

/* The same in a process with many threads, see orphanage_lend: blocks of whole lines of the cache. */
HAK_INLINE unsigned size_class_shared(unsigned size_class) {
  if (size_class <= 8) return size_class <= 4 ? 4 : 8;
  return size_class_coarse(size_class);
}
HAK_INLINE bool size_class_is_shared(unsigned size_class) {
  return size_class < TINY_CLASS_COUNT && size_class_shared(size_class) == size_class;
}

/* The largest class whose blocks may serve a large class's requests, see
 * front/magazine.c: at most a quarter larger, or one unit. Others serve themselves. */
HAK_INLINE unsigned size_class_stand_in(unsigned size_class) {
  if (!size_class_is_single(size_class)) return size_class;
  unsigned last = size_class + (size_class < LARGE_CLASS_HALF_MIB ? 1 : 2);
  return last < SIZE_CLASS_COUNT ? last : SIZE_CLASS_COUNT - 1;
}

/* The number of the block that holds a byte `offset` into a slab: exact for all
 * offsets below 2^19, since offset * block_bytes < 2^40. */
HAK_INLINE unsigned size_class_block_at(const size_class_t *c, size_t offset) {
  return (unsigned)((offset * c->reciprocal) >> 40);
}

/* Whether a block starts there, and which. */
HAK_INLINE bool size_class_starts_block(const size_class_t *c, size_t offset, unsigned *number) {
  *number = size_class_block_at(c, offset);
  return HAK_LIKELY((size_t)*number * c->block_bytes == offset && *number < c->capacity);
}

HAK_C_END
#endif
