/*
 * Pages of memory in use that hold nothing of worth: cleared, or dropped. The
 * caller holds the memory, so nothing is locked.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_PAGES_H
#define HAK_PAGES_H

#include "../base/base.h"

HAK_C_BEGIN

/* Makes memory read as zero, whole pages, without making pages resident that are
 * not. */
void pages_clear(void *at, size_t bytes);
/* Drops pages of memory in use that hold nothing of worth; they read as zero
 * afterwards. The first ones stay, as many as have `*keep` bytes resident, which are taken off
 * that. Returns the bytes that were resident and are not any more. */
size_t pages_drop(void *at, size_t bytes, size_t *keep);

HAK_C_END
#endif
