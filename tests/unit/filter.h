/* A filter of system calls for the calling process. SPDX-License-Identifier: MIT */
#ifndef HAK_TEST_FILTER_H
#define HAK_TEST_FILTER_H

#include "layers.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

namespace hak_test {

/* One that allows everything. Takes a privilege, unless they have been given up. */
inline bool install_filter() {
  sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog program = {1, allow};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
/* As if the process had begun under that one, as in a container, and may still gain privileges. */
inline bool begin_under_a_filter() {
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0 || !install_filter()) return false;
  os_note_filter();
  return true;
}
/* The exit status of a child that cannot. */
enum { kNoFilters = 77 };
inline bool give_up_privileges() { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }

}  // namespace hak_test
#endif
