/*
 * What runs count for against the limits (support/limit.h): units from the moment at which
 * they are taken until their pages have gone back to the system, and the tables as far as
 * units have ever been in use.
 *
 * Everything here is guarded by the arena's gate. Invariant: charged are the units that are
 * used, dirty, or taken out to be purged, those tables, and what the metadata part has
 * committed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_CHARGE_H
#define HAK_CHARGE_H

#include "map.h"

HAK_C_BEGIN

/* For free units that are about to be taken, with a hard limit; those that are dirty count
 * already. false: it does not allow them. */
bool charge_run(unit_t first, size_t units);
/* For units that have been taken, without one: `clean` of them were not dirty, one at least. */
void charge_taken(unit_t first, size_t units, size_t clean);
/* Whether as many units may be allowed, if all that is dirty goes. */
bool charge_may_allow(size_t units);

/* So many units beside that run, in its SuperSlabs, have become dirty without having been used. */
void charge_dirty(unit_t first, size_t units, size_t more);
/* So many units have gone back to the system. */
void charge_gone(size_t units);

/* What the tables count for. */
size_t charge_tables(void);

HAK_C_END
#endif
