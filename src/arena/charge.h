/*
 * What runs count for against the limits (support/limit.h): units from the moment at which
 * they are taken until their pages have gone back to the system, and the tables as far as
 * units have ever been in use. Of a slab in use, what has gone back to the system does not count.
 *
 * All but pages is guarded by the arena's gate. Invariant: charged are the units that are
 * used, dirty, or taken out to be purged, those tables, and what the metadata part has
 * committed, less the pages of used units that have gone.
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
/* So many units have gone back to the system, of which so many bytes had before, as pages. */
void charge_gone(size_t units, size_t gone_before);

/* What the tables count for. */
size_t charge_tables(void);

/* ---- Pages of used units: without the gate ----------------------------------------*/

/* Pages in which nothing is in use have gone back to the system. */
void charge_pages_gone(size_t bytes);
/* They are about to be used again. false: a hard limit does not allow that, and they still do not count. */
bool charge_pages_back(size_t bytes);
/* They count again, whatever the limit: the system has refused to take the rest of their slab, which is to go. */
void charge_pages_back_anyway(size_t bytes);

/* Whether what is charged is `used_and_dirty`, which is what the invariant says but for pages. The gate is held; waits
 * for threads that are between two steps of the functions above. */
bool charge_is_sound(size_t used_and_dirty);

HAK_C_END
#endif
