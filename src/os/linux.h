/*
 * What the files of the system layer for Linux share.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_LINUX_H
#define HAK_LINUX_H

#include "os.h"

HAK_C_BEGIN

/* A call that is refused, for which there is a next best, is counted. Returns `done`. */
HAK_INLINE bool linux_counted(bool done, atomic64 *refused) {
  if (HAK_UNLIKELY(!done)) atomic64_add_relaxed(refused, 1);
  return done;
}

/* Whether there was no filter when the process began. */
bool linux_was_unfiltered(void);
/* Whether files may be looked at as the loader has looked at the program's. */
bool linux_may_look_at_files(void);

/* Reads /proc/self/status, and shows it line by line, each cut at 63 bytes. false: it cannot be opened. */
typedef void linux_status_line_fn(const char *line, void *context);
bool linux_read_status(linux_status_line_fn *on_line, void *context);

/* Whether this call fails by os_fault_set, with errno; and whether all do from then on. */
#if defined(HAK_FAULT_INJECTION)
bool linux_fault_here(void);
bool linux_fault_is_sticky(void);
#else
HAK_INLINE bool linux_fault_here(void) { return false; }
#endif

HAK_C_END
#endif
