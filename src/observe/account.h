/*
 * Where the memory is: what the public figures are, counted when somebody asks. Only events
 * are counted as they happen, at the batch boundary. Nothing here allocates.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ACCOUNT_H
#define HAK_ACCOUNT_H

#include "../../include/hakmem.h"
#include "census.h"

HAK_C_BEGIN

/* By the books, and counts. */
void stats_collect(hak_stats_t *stats);
/* By what is resident. */
void account_collect(hak_account_t *account);

/* The same from one census, so that they agree. */
void stats_from(const census_t *census, hak_stats_t *stats);
/* The census was to be measured. */
void account_from(const census_t *census, hak_account_t *account);

HAK_C_END
#endif
