/*
 * Surplus: what lies free in slabs in use, beyond what the program will soon want again.
 *
 * In a process without a background thread nobody gives back what a program has freed when
 * it does nothing more. So a free that reaches the batch boundary does it: where an owner
 * has much more free memory resident in its slabs than the heap in use warrants, slabs
 * that become mostly free lose their free pages at once; short rows of such, pieces, only at a
 * bounded pace, or when their slab has been left alone. What was given back and soon
 * wanted again is regretted, and many times as much is kept for a while.
 *
 * The functions are the owning thread's.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SURPLUS_H
#define HAK_SURPLUS_H

#include "owner.h"

HAK_C_BEGIN

/* What an owner may have free and resident in any case. */
#define SURPLUS_LEAST_BYTES HAK_MIB(1)

/* Before a free puts blocks into slabs: whether there is a surplus. */
void surplus_begin_now(owner_t *owner);
HAK_INLINE void surplus_begin(owner_t *owner) {
  bool may_be_much = owner->free_bytes - owner->purged_bytes > owner->surplus_from + (int64_t)SURPLUS_LEAST_BYTES;
  bool is_news = owner->free_bytes - owner->free_bytes_told > (int64_t)SURPLUS_LEAST_BYTES;
  if (HAK_UNLIKELY(may_be_much || is_news)) surplus_begin_now(owner);
}
/* Afterwards: gives some of it back. */
void surplus_end_now(owner_t *owner);
HAK_INLINE void surplus_end(owner_t *owner) {
  if (HAK_UNLIKELY(owner->has_surplus)) surplus_end_now(owner);
}

HAK_C_END
#endif
