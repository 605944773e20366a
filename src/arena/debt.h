/*
 * Debts: who takes clean units, or grows into such, while dirty ones lie beside, owes the system as many of these.
 *
 * Where somebody attends, what has fallen out of use may stay dirty for whoever comes next (kept.h). What comes
 * next may find no place there, and then both would be resident. So as much of what is dirty is to be purged as
 * was taken elsewhere, a bounded amount a call (arena_pay_owed), but no more than in use and dirty together are
 * beyond what was in use lately.
 *
 * Everything here is guarded by the arena's gate.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_DEBT_H
#define HAK_DEBT_H

#include "../base/base.h"

HAK_C_BEGIN

/* So many clean units have been taken. As many dirty ones are owed for them, of those that stay only because
 * somebody attends. Returns whether anything is owed now, be it for these or for earlier ones. */
bool debt_for_clean(size_t units);
/* A block has grown by so many units, which makes a new peak. As many dirty ones are owed for them, whatever
 * these stay for. Returns false where nobody attends, or the program has said how much is to stay: nothing is
 * owed then, and the caller has to purge as many at once. */
bool debt_for_growth(size_t units);
/* How many dirty units are owed still. It is none where in use and dirty together are no more than was in use
 * lately, or while the system takes nothing back. A block that has grown by a copy may owe for both reasons:
 * what goes for one counts for the other. */
size_t debt_units(void);
/* So many units have been purged for it. */
void debt_pay(size_t purged_units);

HAK_C_END
#endif
