/*
 * Which huge blocks get huge pages.
 *
 * Memory that is used to its last page is faulted in several times faster by huge pages, and found faster in
 * the page tables later. Where one page in a block is used here and there, they make 512 times as much
 * resident. Of a new block nobody knows which it will be; of older ones it shows which of their pages are
 * resident. So a block without huge pages that turns out to be dense is credit for others, of eight times its
 * size together; one that is sparse takes all credit away. Where many in a row were sparse, one of some is
 * looked at. When credit is used up, the next block goes without again and shows what the program does now.
 * What is resident without need is never more than eight times what was once seen in use, or than what the profile
 * trusts unseen, and mostly nothing.
 *
 * Of a SuperSlab in which a block ends, half may be resident without need while the block lives.
 * Where up to half of one is resident in small pages, from an earlier use, they go back for a huge
 * one. Where more is, they stay; the hint is for when they were purged.
 *
 * Slabs and large blocks: dense.h.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_HUGE_PAGES_H
#define HAK_HUGE_PAGES_H

#include "map.h"

HAK_C_BEGIN

/* Looks, mostly, whether a block is dense that is freed now, or grows. The caller holds
 * it, as below. */
void huge_pages_learn(unit_t first, size_t units);
/* Asks for huge pages behind a new block, or what a block has grown by, if there
 * is credit: behind the SuperSlabs that lie wholly in it, and one that it ends inside of, if that is
 * nobody else's. Nothing is in it yet. Best effort. */
void huge_pages_use(unit_t first, size_t units);
/* Pages were moved from a run to the start of another: what is known of them goes
 * with them. */
void huge_pages_moved(unit_t from, unit_t to, size_t units);

HAK_C_END
#endif
