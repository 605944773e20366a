/*
 * A thread that frees while another allocates for the first time: where the C library allocates elsewhere, nothing
 * has found the window before. Each try is a process of its own.
 *
 * SPDX-License-Identifier: MIT
 */
#include <base/base.h>
#include <hakmem.h>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace {

bool HasWindow() {
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  return now.reserved != 0;
}

/* In a child. */
[[noreturn]] void FreesMeanwhile() {
  std::atomic<bool> begins{false}, ends{false};
  std::thread frees([&] {
    begins = true;
    while (!ends) hak_free(nullptr);
  });
  while (!begins) std::this_thread::yield();
  usleep(100);
  void *block = hak_malloc(100);
  ends = true;
  frees.join();
  hak_free(block);
  _exit(block != nullptr && HasWindow() ? 0 : 1);
}

TEST(FirstCall, FindsTheWindowWhileOthersFree) {
  if (HAK_THREAD_SANITIZER) GTEST_SKIP() << "no threads in a forked child; and the window's variables are plain";
  if (HasWindow()) GTEST_SKIP() << "another test has found it: to be run alone";
  enum { TRIES = 100 }; /* of which a third fail with the base at 0 */
  for (int i = 0; i < TRIES; i++) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) FreesMeanwhile();
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "try " << i;
  }
  EXPECT_FALSE(HasWindow());
}

}  // namespace
