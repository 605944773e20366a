/*
 * Adoption: a thread that needs a slab takes over one that waits in the pool.
 *
 * From other nodes it takes only what is more than a share of all that is in use: else memory would be as many
 * times what is needed as there are nodes.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ADOPT_H
#define HAK_ADOPT_H

#include "owner.h"

HAK_C_BEGIN

/* Takes over a slab of the class with a free block from a pooled owner, or one that was disowned. Looks at a
 * bounded number of them, and goes on there the next time: on the node on which the calling thread runs and,
 * where much lies free on others, on each of those in turn. It is then in the owner's list. false: there is
 * none, or another thread is behind the gate: it is waited for only where much lies free, for a tenth of a
 * second at the most. */
bool adopt(owner_t *owner, unsigned size_class);
/* There is no memory: the same on all nodes, of whatever owner that waits there, and what the orphanages lend
 * from. What was freed and nobody has collected is not seen everywhere. Waits for the gate, but not in a signal
 * handler that has interrupted its own thread behind it. */
unit_t adopt_any(owner_t *owner, unsigned size_class);
/* The same for an orphanage, from an owner that waits on its node and is known to have such a slab. The gate is
 * held. */
bool adopt_found(owner_t *orphanage, unsigned size_class);
/* Aborts through HAK_CHECK unless every owner on that node that has a slab of the class will be found. The gate
 * is held. */
void adopt_check_search(uint32_t node, unsigned size_class);

HAK_C_END
#endif
