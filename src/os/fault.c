/*
 * Fault injection: system calls that fail in tests. See os.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "linux.h"

#include <errno.h>

#if defined(HAK_FAULT_INJECTION)
static atomic64 fault_calls, fault_nth, fault_sticky;

uint64_t os_fault_set(uint64_t nth, bool sticky) {
  uint64_t seen = atomic64_load_relaxed(&fault_calls);
  atomic64_store_relaxed(&fault_calls, 0);
  atomic64_store_relaxed(&fault_sticky, sticky);
  atomic64_store_relaxed(&fault_nth, nth);
  return seen;
}
bool linux_fault_is_sticky(void) { return atomic64_load_relaxed(&fault_sticky) != 0; }
bool linux_fault_here(void) {
  uint64_t call = atomic64_add_relaxed(&fault_calls, 1) + 1, nth = atomic64_load_relaxed(&fault_nth);
  bool fails = nth != 0 && (call == nth || (call > nth && linux_fault_is_sticky()));
  if (fails) errno = ENOMEM;
  return fails;
}
#endif
