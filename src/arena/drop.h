/*
 * How the pages of free units go back to the system, and what is forgotten with them.
 *
 * The units are the caller's: used, or taken out of the free ones. No gate is needed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_DROP_H
#define HAK_DROP_H

#include "zone.h"

HAK_C_BEGIN

/* Whether a block that grew has been in one of their SuperSlabs, so that pages may have been moved there. */
bool drop_has_grown(unit_t first, size_t units);
/* Units have been mapped anew: SuperSlabs that lie among them as a whole have no huge pages, and nothing has
 * grown there. The rest of a SuperSlab is as it was. */
void drop_note_anew(unit_t first, size_t units);

/* zone_kind_t's purge: of huge blocks; of slabs and large blocks, with the bitmaps of slabs that may have been
 * there. */
purge_t drop_pages(void *at, size_t bytes);
purge_t drop_slabs(void *at, size_t bytes);

HAK_C_END
#endif
