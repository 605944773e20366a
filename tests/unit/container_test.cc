/*
 * A look at the container: the program does not notice it. What it finds depends on the
 * machine; what it makes of it is in cgroup_test.cc and limit_test.cc. When
 * nobody looks: tests/fault.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layers.h"

#include <csignal>
#include <filesystem>

#include <pthread.h>

#include <int/container.h>
#include <os/cgroup.h>

namespace {

size_t open_files() {
  size_t count = 0;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) (void)entry, count++;
  return count;
}

/* What the machine says, without regard to who asks. */
size_t limit_of_the_machine() {
  uint64_t bytes = 0;
  return cgroup_memory_limit("", &bytes) ? bytes : 0;
}

}  // namespace

TEST(Container, ALookLeavesEverythingElseAsItWas) {
  if (os_thread_count() != 1) GTEST_SKIP() << "there is another thread, the sanitizer's for one";
  const size_t files = open_files();
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  errno = 1234;
  container_look();
  EXPECT_EQ(errno, 1234);
  EXPECT_EQ(limits_now().container, limit_of_the_machine());
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < 32; signal++) EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
  EXPECT_EQ(open_files(), files);
}
