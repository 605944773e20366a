/* A filter of system calls for the calling process. SPDX-License-Identifier: MIT */
#ifndef HAK_TEST_FILTER_H
#define HAK_TEST_FILTER_H

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
inline bool give_up_privileges() { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }

}  // namespace hak_test
#endif
