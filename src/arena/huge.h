/*
 * Huge blocks: each a run of its own, mostly in the huge zone, larger than the largest
 * size class, or more aligned than a slab can promise, or cut where it was by realloc. They grow in place where
 * the range behind them is free, else by moving their pages, not their bytes; but
 * where pages lie behind the other place, too, bytes are copied.
 *
 * A block belongs to its holder, so its record needs no lock. Thread-safe in
 * that sense: different blocks at once.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_HUGE_H
#define HAK_HUGE_H

#include "map.h"

HAK_C_BEGIN

/* `alignment` is a power of two. NULL when there is no memory. */
void *huge_alloc(size_t bytes, size_t alignment, bool zeroed);
/* The block starts at `address`: its word is KIND_HUGE. false: another thread
 * freed it first. */
bool huge_free(void *address);
/* The block with its first min(old, new) bytes. NULL: there is no memory, and the old block is as it was; or, and then
 * `*is_lost`, which is left alone else, another thread frees or reallocates it, and was first. `bytes` may be any size
 * above zero. */
void *huge_realloc(void *address, size_t bytes, bool *is_lost);
/* Whether a block of `old_bytes` that shrinks to `bytes` had better be copied elsewhere, and freed: it is so
 * small then that this takes little time; or such blocks leave gaps that the next ones do not fit into, it
 * takes a millisecond or two, and most of what is copied is resident: else the copy alone would be. */
#define HUGE_CUT_BY_COPY_BYTES HAK_KIB(256)
#define HUGE_COPIED_BYTES HAK_MIB(4)
bool huge_is_cut_by_copy(void *block, size_t old_bytes, size_t bytes);
/* Claims a block while somebody changes it, or reads what another thread's realloc, by mistake, might move away: a
 * thread that frees or reallocates it meanwhile finds no block. false: as huge_free. */
bool huge_claim(void *address);
/* It is a block again. */
void huge_unclaim(void *address);
/* What has become of the run whose contents were taken over. */
typedef enum {
  HUGE_SOURCE_THERE, /* it may hold pages                                                      */
  HUGE_SOURCE_CLEAN, /* it has been mapped anew                                                */
  HUGE_SOURCE_LOST,  /* the system has taken away what lay there: the run must stay out of use */
} huge_source_t;
/* A huge block of `bytes` that takes over the contents of [from, from + length),
 * copying to where pages lie already and moving whole pages else where it can; `from` is a run that is the
 * caller's, claimed, a large block's or a huge one's; its contents are unspecified afterwards. NULL: `from` is as it
 * was. */
void *huge_from_run(void *from, size_t length, size_t bytes, huge_source_t *source);
/* These two look at a block that they have not claimed: if another thread frees it
 * meanwhile, by mistake, what they say is of no use, and no harm is done. */
size_t huge_usable_size(const void *address);
/* Whether the block can be one that was asked for with `least` to `most` bytes:
 * exact to a unit. */
bool huge_may_have_size(const void *address, size_t least, size_t most);

HAK_C_END
#endif
