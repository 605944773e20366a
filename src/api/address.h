/*
 * What an address is that a program hands in: the one place that says so.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ADDRESS_H
#define HAK_ADDRESS_H

#include "../region/region_word.h"

HAK_C_BEGIN

typedef enum {
  ADDRESS_CLASS,   /* in a slab; the kind of its word is the class. Whether a block starts there the slab says */
  ADDRESS_HUGE,    /* the start of a huge block                                    */
  ADDRESS_REGION,  /* in a unit of a region: region.h says what is there           */
  ADDRESS_INNER,   /* inside a huge block, or in a later unit of a large one       */
  ADDRESS_FREE,    /* in memory of ours that is no block's                         */
  ADDRESS_OUTSIDE, /* not ours                                                     */
} address_kind_t;

HAK_INLINE bool word_is_class(uint32_t word) { return word_owner(word) != 0 && word_kind(word) < SIZE_CLASS_COUNT; }

/* `word` is the address's, and no class's. */
address_kind_t address_kind_of_others(const void *address, uint32_t word);

/* `word` is the address's: map_lookup. */
HAK_INLINE address_kind_t address_kind(const void *address, uint32_t word) {
  return HAK_LIKELY(word_is_class(word)) ? ADDRESS_CLASS : address_kind_of_others(address, word);
}

/* Whether it is in a slab, or in a block. */
bool address_is_owned(const void *address);

/* Reports a free of an address of the kinds inner, free and outside, which are no
 * block's start. */
HAK_COLD void address_report_free(const void *address, address_kind_t kind);

HAK_C_END
#endif
