/*
 * What frees that come with a size have to know of blocks that realloc has resized: a block's class may be another
 * one than its size leads to.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SIZED_H
#define HAK_SIZED_H

#include "../base/base.h"

HAK_C_BEGIN

/* Set once a realloc had to leave a block larger than its new size for want of
 * memory: from then on a size in C's free_sized may be any that is smaller.
 * Relaxed: what hands the block over orders it. */
extern atomic32 sized_some_stayed_large;
/* Set once a realloc has copied a growing block to a larger one than was asked
 * for: from then on a block may be as much too large. Relaxed, as above. */
extern atomic32 sized_some_grew_ahead;

/* The most that realloc copies a growing block to which is to have so many bytes. */
HAK_INLINE size_t most_grown(size_t bytes) { return bytes + bytes / 4; }

HAK_C_END
#endif
