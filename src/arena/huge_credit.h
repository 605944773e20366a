/*
 * What huge blocks that were used to their last page have earned: huge pages for others (huge_pages.h), and for
 * the large blocks that such a program has beside them (dense.h).
 *
 * Thread-safe; an estimate, of which an update may be lost.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_HUGE_CREDIT_H
#define HAK_HUGE_CREDIT_H

#include "map.h"

HAK_C_BEGIN

/* So much is trusted unseen. Once, before anything is earned. */
void huge_credit_begin(size_t bytes);
/* So many SuperSlabs were seen in use: from now on there is credit for eight times as many, or what there was
 * if that is more. Not added up: what a program once did is worth no more for having been seen often. */
void huge_credit_earn(size_t superslabs);
/* Takes credit for so many; false: there is less, and nothing was taken. */
bool huge_credit_spend(size_t superslabs);
void huge_credit_lose(void);
bool huge_credit_is_gone(void);

HAK_C_END
#endif
