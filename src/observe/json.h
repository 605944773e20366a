/*
 * The figures as JSON. Nothing here allocates.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_JSON_H
#define HAK_JSON_H

#include "../../include/hakmem.h"
#include "../base/base.h"

HAK_C_BEGIN

/* As hak_stats_json. */
void json_write(hak_write_fn *write, void *context);

HAK_C_END
#endif
