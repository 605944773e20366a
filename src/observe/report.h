/*
 * The figures for people, and what is written when a process ends. Nothing here allocates.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_REPORT_H
#define HAK_REPORT_H

#include "../base/base.h"

HAK_C_BEGIN

/* The readable report, on standard error. `classes`: with a table of the size classes. */
void report_print(bool classes);
/* Whether HAKMEM_STATS or HAKMEM_STATS_FILE asks for something, and that. */
bool report_is_wanted(void);
void report_at_exit(void);

HAK_C_END
#endif
