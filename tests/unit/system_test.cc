/* What the system says of the machine. SPDX-License-Identifier: MIT */
#include "layers.h"

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

}  // namespace

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
