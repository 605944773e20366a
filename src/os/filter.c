/*
 * The system layer for Linux: filters of system calls, seccomp(2). See os.h for the contracts.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "linux.h"

#include <errno.h>
#include <sys/prctl.h>

/* Asked each time: filters are mostly installed when a program has started up. */
bool os_is_unfiltered(void) {
  int saved_errno = errno;
  bool is_filtered = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0; /* an error: a system that has no filters */
  errno = saved_errno;
  return !is_filtered;
}

/* Who is not privileged sets this to install a filter, and so does libseccomp by default. An error: it is not known. */
static bool may_gain_privileges(void) {
  int saved_errno = errno;
  bool may = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0;
  errno = saved_errno;
  return may;
}

/* Written while there is one thread. */
static enum { UNFILTERED, FILTERED_AND_TELLS, FILTERED_AND_HIDES } at_the_start;
void os_note_filter(void) {
  if (os_is_unfiltered()) return; /* the page stays untouched */
  at_the_start = may_gain_privileges() ? FILTERED_AND_TELLS : FILTERED_AND_HIDES;
}
bool os_has_confined_itself(void) {
  if (at_the_start == UNFILTERED) return !os_is_unfiltered();
  return at_the_start == FILTERED_AND_TELLS && !may_gain_privileges();
}
bool linux_was_unfiltered(void) { return at_the_start == UNFILTERED; }
bool os_hides_filters(void) { return at_the_start == FILTERED_AND_HIDES; }

bool linux_may_look_at_files(void) {
  return os_is_unfiltered() || (at_the_start == FILTERED_AND_TELLS && os_was_loaded() && !os_has_confined_itself());
}
