/*
 * How much memory the heap may have, and how near to that it is.
 *
 * "Charged" is what may be resident of the allocator's memory: runs that are in use, each as
 * a whole, free memory that has not been given back to the system, the tables as far as they
 * have been used, thread heaps and magazines. It may be more than what is resident: a block
 * counts from the moment at which it is handed out. It is never less, but for memory that is
 * locked, or where huge pages fill gaps; so there are none with a hard limit.
 *
 * Three things bound it: the hard limit, beyond which there is no memory; the soft limit; and
 * that of the container. From nine tenths of the tightest on the heap is "near": "slack", which
 * is charged and serves speed alone, shrinks to a fourth of what is left, and at the end to a
 * 32nd of the rest, before more is taken from the system.
 *
 * Whoever charges may hold a gate, and has no time. So passing a mark only sets a flag, which
 * threads look at when they have left the gates (int/pressure.h). There are two marks: one
 * from which on it is worth asking for the container's limit, and one from which on the heap
 * is to be squeezed, again as it grows. The second looks at what is charged without slack:
 * blocks that come and go near a limit do not pass it.
 *
 * Thread-safe, without a lock: a child that is forked at any moment finds it usable. Relaxed,
 * but where limits are set: these are sums, which order nothing.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_LIMIT_H
#define HAK_LIMIT_H

#include "../base/inspected.h"

HAK_C_BEGIN

/* ---- Charging ------------------------------------------------------------------*/

/* false: the hard limit does not allow so much, and nothing is charged. */
bool limit_charge(size_t bytes);
/* What is resident already. */
void limit_charge_anyway(size_t bytes);
void limit_credit(size_t bytes);
size_t limit_charged(void);

/* Whether limit_charge would succeed. */
bool limit_allows(size_t bytes);
/* Whether there is a hard limit. */
bool limit_is_hard(void);
/* Whether the hard limit would allow so many bytes if nothing else were charged; any are allowed where there is
 * none. */
bool limit_could_ever_allow(size_t bytes);

/* ---- Being near ------------------------------------------------------------------*/

/* Whether there is a limit of any kind: what follows need not be asked otherwise. */
extern atomic64 limit_near_any; /* charged bytes from which on the heap is near; UINT64_MAX: there is none. Relaxed */
HAK_INLINE bool limit_exists(void) { return HAK_UNLIKELY(atomic64_load_relaxed(&limit_near_any) != UINT64_MAX); }

/* Whether the heap is near with what it needs, or would be with so much more. */
bool limit_is_near(size_t more_bytes);
/* Whether it is with its slack: some of that has to go. */
bool limit_is_tight(void);
/* How much slack may stay; SIZE_MAX without a limit. At the least, whatever the limits are, a 32nd of what
 * is needed: to take, fill and free blocks one after the other would cost sixty times as much
 * without. */
size_t limit_slack(void);
/* Whether new memory may have huge pages, which make more of it resident than is used. */
bool limit_allows_huge_pages(size_t more_bytes);

/* ---- The limits ------------------------------------------------------------------*/

/* In bytes; 0 is none. The hard one is set before there is a second thread. */
void limit_set_hard(size_t bytes);
void limit_set_soft(size_t bytes);
void limit_set_container(size_t bytes);

/* For statistics: the limits in bytes, 0 where there is none, and what is charged. */
typedef struct {
  size_t hard, soft, container, charged;
} limits_t;
limits_t limits_now(void);
extern const inspect_field_t limit_inspected[4]; /* there the hard one is UINT64_MAX where there is none */

/* ---- Marks that have been passed ------------------------------------------------*/

extern atomic32 limit_passed; /* relaxed, a hint */
HAK_INLINE bool limit_is_passed(void) { return atomic32_load_relaxed(&limit_passed) != 0; }

/* The heap has grown or shrunk, and of what is charged now so much is slack. For whoever holds
 * the arena's gate. */
void limit_watch(size_t slack_bytes);
/* The same, where pages of slabs have changed what is charged, but not the slack. Needs no gate. */
void limit_watch_again(void);

typedef struct {
  bool look, squeeze; /* what is to be done */
} limit_answer_t;
/* What the calling thread has to do, and nobody else: the marks are moved on. */
limit_answer_t limit_answer(void);

HAK_C_END
#endif
