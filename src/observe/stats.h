/*
 * Statistics: what the heap looks like now. Counted when somebody asks, from the
 * page map and the slab records; only events are counted as they happen, at the
 * batch boundary. Nothing here allocates.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_STATS_H
#define HAK_STATS_H

#include "../../include/hakmem.h"
#include "../base/base.h"

HAK_C_BEGIN

/* "MAJOR.MINOR.PATCH" */
const char *stats_version(void);
void stats_collect(hak_stats_t *stats);
void stats_write_json(hak_write_fn *write, void *context);
/* The readable report, on standard error. */
void stats_print(void);
/* What HAKMEM_STATS and HAKMEM_STATS_FILE ask for. */
void stats_report_at_exit(void);

HAK_C_END
#endif
