/*
 * Looks at the container: the program does not notice them. What they find depends on the
 * machine; what they make of it is in cgroup_test.cc and limit_test.cc.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layers.h"
#include "support/process.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <int/background.h>
#include <int/container.h>

namespace {

size_t open_files() {
  size_t count = 0;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) (void)entry, count++;
  return count;
}

/* Looks again and again in a thread of its own, as the background thread would. */
class Looking : public testing::Test {
 protected:
  void SetUp() override {
    if (!container_look_apart())
      GTEST_SKIP() << "there is no close_range, a filter is in force, or it is the thread sanitizer's build";
    looking_ = std::thread([this] {
      while (!ends_) looks_ += container_look_apart();
    });
    while (looks_ == 0) std::this_thread::yield(); /* sanitizers open files when a thread begins */
  }
  void TearDown() override {
    ends_ = true;
    if (looking_.joinable()) looking_.join();
  }
  size_t looks() const { return looks_; }

 private:
  std::atomic<bool> ends_{false};
  std::atomic<size_t> looks_{0};
  std::thread looking_;
};

}  // namespace

TEST(ContainerAlone, LeavesEverythingAsItWas) {
  if (os_thread_count() != 1) GTEST_SKIP() << "there is another thread, the sanitizer's for one";
  const size_t files = open_files();
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  errno = 1234;
  EXPECT_TRUE(container_look_alone());
  EXPECT_EQ(limits_now().container != 0, container_is_known());
  EXPECT_EQ(errno, 1234);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < 32; signal++) EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
  EXPECT_EQ(open_files(), files);
  if (!container_is_known()) {
    EXPECT_FALSE(limit_exists());
  }
}

TEST_F(Looking, NobodyLooksAloneBesideAnotherThread) { EXPECT_FALSE(container_look_alone()); }

/* The lowest number that is free is the program's, always. */
TEST_F(Looking, NumbersOfDescriptorsStayTheProgramsOwn) {
  const int lowest = dup(0);
  ASSERT_GE(lowest, 0);
  close(lowest);
  while (looks() < 200) {
    const int again = dup(0);
    ASSERT_EQ(again, lowest) << "the number was taken for a moment";
    close(again);
  }
}

TEST_F(Looking, WhatTheProgramClosesIsClosed) {
  while (looks() < 200) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[1]);
    char byte;
    ASSERT_EQ(read(ends[0], &byte, 1), 0) << "it has an end, or this would wait for ever";
    close(ends[0]);
  }
}

TEST_F(Looking, AChildOfAForkCanLook) {
  for (int i = 0; i < 60; i++) {
    hak_test::Outcome outcome = hak_test::in_child([] {
      background_after_fork(); /* as api/life.c does */
      return os_thread_count() != 1 || container_look_alone() ? 0 : 1;
    });
    ASSERT_TRUE(outcome.exited_with(0)) << outcome.describe();
  }
}
