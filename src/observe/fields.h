/*
 * The names of the public figures, and what they mean in a few words.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_FIELDS_H
#define HAK_FIELDS_H

#include "../../include/hakmem.h"
#include "../base/base.h"

HAK_C_BEGIN

typedef struct {
  const char *name, *meaning;
  size_t offset;
  bool is_bytes;
} field_t;

enum { STATS_FIELDS = 41, ACCOUNT_FIELDS = 11 };
extern const field_t stats_fields[STATS_FIELDS];     /* of a hak_stats_t, in order   */
extern const field_t account_fields[ACCOUNT_FIELDS]; /* of a hak_account_t, in order */
/* The struct that the field is one of begins at `figures`. */
uint64_t field_value(const void *figures, const field_t *field);

/* "MAJOR.MINOR.PATCH" */
#define VERSION_STRING_(x) #x
#define VERSION_STRING(x) VERSION_STRING_(x)
#define VERSION_TEXT \
  VERSION_STRING(HAK_VERSION_MAJOR) "." VERSION_STRING(HAK_VERSION_MINOR) "." VERSION_STRING(HAK_VERSION_PATCH)
const char *version_text(void);

HAK_C_END
#endif
