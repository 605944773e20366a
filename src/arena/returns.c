/* See returns.h. SPDX-License-Identifier: MIT */
#include "returns.h"

returns_t returns;

void returns_put(unit_t first, size_t units, bool is_clean, size_t gone_bytes) {
  unit_record_t *r = map_record(first);
  r->run_units = (uint32_t)units;
  r->returned.is_clean = is_clean;
  r->returned.gone_bytes = (uint32_t)gone_bytes;
  uint32_t below = atomic32_load_relaxed(&returns.newest);
  do r->returned.next = below;
  while (!atomic32_cas_acq_rel(&returns.newest, &below, first)); /* N1 */
}

unit_t returns_take(void) {
  if (returns.chain == 0) returns.chain = atomic32_exchange_acquire(&returns.newest, 0); /* N2 */
  unit_t first = returns.chain;
  if (first != 0) returns.chain = map_record(first)->returned.next;
  return first;
}
