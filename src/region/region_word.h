/*
 * What the page map says of a region's units.
 *
 * Their kind is no class, so free's fast path, which asks for a class, leaves them to the
 * slow one, and no block of a region ever gets into a thread's ordinary magazines or outbox.
 * The owner's part of the word is the region's number and what lies in the unit:
 *
 *   number << 8 | class          a unit of a slab of that class
 *   number << 8 | REGION_LONE    the first unit of a lone block; the others are KIND_INNER
 *   number << 8 | REGION_COPIED  the same while realloc copies it: it is no block for others
 *   number << 8 | REGION_SPARE   nothing: the region holds the unit for its next slab
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_REGION_WORD_H
#define HAK_REGION_WORD_H

#include "../slab/size_class.h"

HAK_C_BEGIN

enum { REGION_COPIED = 253, REGION_LONE = 254, REGION_SPARE = 255 };
/* The largest number of a region: what owners' numbers leave beside the class, and one less, as
 * no region has the last one (cache_unbound in cache.h). */
enum { REGIONS_MOST = (1 << (32 - 2 * KIND_BITS)) - 2 };

static_assert((int)MID_CLASS_END <= (int)REGION_COPIED, "a class is below what is none");

HAK_INLINE uint32_t region_word(uint32_t number, unsigned what) {
  return word_make(number << KIND_BITS | what, KIND_REGION);
}
HAK_INLINE bool word_is_region(uint32_t word) { return word_kind(word) == KIND_REGION; }
HAK_INLINE uint32_t word_region(uint32_t word) { return word >> 2 * KIND_BITS; }
HAK_INLINE unsigned word_what(uint32_t word) { return word_kind(word_owner(word)); }
HAK_INLINE bool what_is_lone(unsigned what) { return what == REGION_LONE || what == REGION_COPIED; }

HAK_C_END
#endif
