/* What the system says of the machine. SPDX-License-Identifier: MIT */
#include "layers.h"

#include "filter.h"
#include "support/process.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

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

using hak_test::begin_under_a_filter;
using hak_test::give_up_privileges;
using hak_test::install_filter;
using hak_test::kNoFilters;

/* A thread which spins, or waits: for a byte, or for the child of a vfork. */
class Other {
 public:
  enum Way { kSpins, kWaits, kWaitsForAVfork };
  explicit Other(Way way) : way_(way) {
    EXPECT_EQ(pipe(ends_), 0);
    thread_ = std::thread([this] { run(); });
    while (id_ == 0) std::this_thread::yield();
  }
  Other(const Other &) = delete;
  Other &operator=(const Other &) = delete;
  ~Other() {
    end_ = true;
    EXPECT_EQ(write(ends_[1], "", 1), 1);
    thread_.join();
    close(ends_[0]), close(ends_[1]);
  }
  std::uint32_t id() const { return id_; }

 private:
  void run() {
    const std::uint32_t id = os_thread_id();
    char byte;
    if (way_ == kWaitsForAVfork) {
      const pid_t child = vfork();
      if (child == 0) {
        id_ = id; /* the parent's memory, and it waits by now */
        _exit(read(ends_[0], &byte, 1) == 1 ? 0 : 1);
      }
      EXPECT_EQ(waitpid(child, nullptr, 0), child);
      return;
    }
    id_ = id;
    while (way_ == kSpins && !end_) continue;
    EXPECT_EQ(read(ends_[0], &byte, 1), 1);
  }
  const Way way_;
  int ends_[2];
  std::atomic<std::uint32_t> id_{0};
  std::atomic<bool> end_{false};
  std::thread thread_;
};

/* Whether it comes to that within a second: a thread that is about to wait runs until then. */
bool becomes(std::uint32_t thread_id, os_fenced_t expected) {
  for (int i = 0; i < 1000 && os_fence_thread(thread_id) != expected; i++) usleep(1000);
  return os_fence_thread(thread_id) == expected;
}

}  // namespace

/* As a container's by default; a further one comes after the process has given up its privileges. */
TEST(System, AFilterThatWasThereBeforeTellsOfOthers) {
  const auto outcome = hak_test::in_child([] {
    const uint32_t threads = os_thread_count(); /* a sanitizer may have one */
    if (!begin_under_a_filter()) return (int)kNoFilters;
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

/* Under a filter, or where the system has no membarrier, a thread is looked at. */
TEST(System, AThreadThatWaitsNeedsNoFence) {
  const auto outcome = hak_test::in_child([] {
    if (!begin_under_a_filter()) return (int)kNoFilters;
    if (!os_was_loaded()) return os_fence_thread(os_thread_id()) == OS_FENCE_REFUSED ? 0 : 1;
    errno = 7;
    const uint64_t refused = atomic64_load_relaxed(&os_calls.refused_membarriers);
    if (os_fence_all_threads() || os_fence_thread(os_thread_id()) != OS_FENCED) return 2;
    {
      Other waits(Other::kWaits);
      if (!becomes(waits.id(), OS_FENCED)) return 3;
      uint64_t before = 0, after = 0;
      if (!os_thread_time(waits.id(), &before) || !os_thread_time(waits.id(), &after) || before != after) return 4;
    }
    {
      Other spins(Other::kSpins);
      for (int i = 0; i < 100; i++)
        if (os_fence_thread(spins.id()) != OS_FENCE_RUNS) return 5;
      uint64_t before = 0, after = 0; /* it is told at the tick of a clock, and not before the first one */
      for (int i = 0; i < 5000 && !os_thread_time(spins.id(), &before); i++) usleep(1000);
      for (int i = 0; i < 5000 && after <= before; i++) {
        usleep(1000);
        if (!os_thread_time(spins.id(), &after)) return 7;
      }
      if (before == 0 || after <= before) return 8;
    }
    if (!HAK_THREAD_SANITIZER) { /* whose vfork is a fork */
      Other parent(Other::kWaitsForAVfork);
      for (int i = 0; i < 100; i++, usleep(1000))
        if (os_fence_thread(parent.id()) == OS_FENCED) return 9;
    }
    if (errno != 7) return 10;
    if (atomic64_load_relaxed(&os_calls.refused_membarriers) != refused) return 11;
    if (os_fence_thread(0x7fffffff) != OS_FENCE_REFUSED) return 12;
    if (atomic64_load_relaxed(&os_calls.refused_membarriers) != refused + 1) return 13;
    give_up_privileges(); /* and may have installed another */
    return os_fence_thread(os_thread_id()) == OS_FENCE_REFUSED ? 0 : 14;
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
