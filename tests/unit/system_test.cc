/* What the system says of the machine. SPDX-License-Identifier: MIT */
#include "layers.h"

#include "support/process.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace {

/* The numbers of "Mems_allowed_list:	0-1,4" of /proc/self/status; none where the kernel does not say. */
std::vector<std::uint32_t> allowed_nodes() {
  std::ifstream status("/proc/self/status");
  std::vector<std::uint32_t> nodes;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Mems_allowed_list:", 0) != 0) continue;
    std::istringstream ranges(line.substr(line.find(':') + 1));
    for (std::string range; std::getline(ranges, range, ',');) {
      const auto dash = range.find('-');
      const auto first = std::stoul(range), last = dash == range.npos ? first : std::stoul(range.substr(dash + 1));
      for (auto node = first; node <= last; node++) nodes.push_back(static_cast<std::uint32_t>(node));
    }
  }
  return nodes;
}

/* One that allows everything. */
bool install_filter() {
  sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog program = {1, allow};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
bool give_up_privileges() { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }
enum { kNoFilters = 77 };

}  // namespace

/* As a container's by default; a further one comes after the process has given up its privileges. */
TEST(System, AFilterThatWasThereBeforeTellsOfOthers) {
  const auto outcome = hak_test::in_child([] {
    const uint32_t threads = os_thread_count(); /* a sanitizer may have one */
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0 || !install_filter()) return (int)kNoFilters;
    os_note_filter();
    errno = 7;
    if (os_is_unfiltered() || os_has_confined_itself() || os_hides_filters() || errno != 7) return 1;
    if (os_thread_count() != (os_was_loaded() ? threads : 0)) return 2;
    if (!give_up_privileges() || !os_has_confined_itself() || os_hides_filters() || errno != 7) return 3;
    return os_thread_count() == 0 ? 0 : 4;
  });
  if (outcome.exited_with(kNoFilters)) GTEST_SKIP() << "no filter can be installed here";
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

TEST(System, AFilterThatWasThereBeforeHidesOthers) {
  const auto outcome = hak_test::in_child([] {
    if (!give_up_privileges() || !install_filter()) return (int)kNoFilters;
    os_note_filter();
    return os_has_confined_itself() || !os_hides_filters() || os_thread_count() != 0 ? 1 : 0;
  });
  if (outcome.exited_with(kNoFilters)) GTEST_SKIP() << "no filter can be installed here";
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

TEST(System, AProgramsOwnFilterIsSeen) {
  if (!os_is_unfiltered()) GTEST_SKIP() << "there is one";
  const auto outcome = hak_test::in_child([] {
    os_note_filter();
    if (os_has_confined_itself() || !give_up_privileges() || os_has_confined_itself()) return 1;
    if (!install_filter()) return (int)kNoFilters;
    return os_has_confined_itself() && !os_hides_filters() && os_thread_count() == 0 ? 0 : 2;
  });
  if (outcome.exited_with(kNoFilters)) GTEST_SKIP() << "no filter can be installed here";
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

TEST(System, NodesAreThoseThatTheProcessMayUse) {
  const auto nodes = allowed_nodes();
  if (nodes.empty()) GTEST_SKIP() << "the kernel knows of no nodes";
  if (!os_is_unfiltered()) GTEST_SKIP() << "under a filter of system calls nobody is asked";
  errno = 7;
  EXPECT_EQ(os_node_count(), nodes.size());
  const std::uint32_t here = os_node_here();
  EXPECT_EQ(errno, 7);
  if (nodes.size() == 1) {
    EXPECT_EQ(here, nodes[0]) << "there is no other";
  }
}
