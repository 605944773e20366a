/*
 * Addresses that are not ours: blocks of the next allocator in link order, as a
 * library that has bound to it hands them out, or mistakes.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_FOREIGN_H
#define HAK_FOREIGN_H

#include "../os/lock.h"

HAK_C_BEGIN

/* One thread at a time asks the next allocator whether it is awake. */
extern hak_gate_t foreign_gate;

/* Finds it, before the program's first thread is started: a free that looks for it later would wait for the loader's
 * lock, which a thread may hold that waits for this one in a plug-in's constructor. Does nothing the second time. */
void foreign_prepare(void);
/* Both: false when there is no next allocator, or it cannot have allocated the
 * address. Otherwise it has been asked. */
bool foreign_free(void *block);
bool foreign_usable_size(const void *block, size_t *bytes);

HAK_C_END
#endif
