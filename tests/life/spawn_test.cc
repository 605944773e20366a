/*
 * Starting other programs: vfork and posix_spawn share the parent's memory until
 * the new program runs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "life/busy_threads.h"
#include "support/process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace {

const char *const kProgram = "/bin/true";

int wait_for(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0) {}
  return status;
}

}  // namespace

TEST(Spawn, VforkWhileThreadsAllocate) {
  BusyThreads busy(3);
  for (int i = 0; i < 100; i++) {
    Held held = Held::make(1000, 1);
    pid_t child = vfork();
    if (child == 0) {
      execl(kProgram, kProgram, static_cast<char *>(nullptr));
      _exit(127);
    }
    ASSERT_EQ(wait_for(child), 0) << "number " << i;
    EXPECT_TRUE(held.intact());
    free(held.block);
  }
}

TEST(Spawn, PosixSpawnWhileThreadsAllocate) {
  BusyThreads busy(3);
  for (int i = 0; i < 100; i++) {
    posix_spawn_file_actions_t actions;
    ASSERT_EQ(posix_spawn_file_actions_init(&actions), 0);
    ASSERT_EQ(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0), 0);
    char name[] = "true";
    char *argv[] = {name, nullptr};
    pid_t child;
    ASSERT_EQ(posix_spawn(&child, kProgram, &actions, nullptr, argv, environ), 0);
    ASSERT_EQ(wait_for(child), 0) << "number " << i;
    posix_spawn_file_actions_destroy(&actions);
  }
}

TEST(Spawn, FromManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 25; i++) {
        char name[] = "true";
        char *argv[] = {name, nullptr};
        pid_t child;
        if (posix_spawn(&child, kProgram, nullptr, nullptr, argv, environ) != 0 || wait_for(child) != 0) failures++;
        free(malloc(5000));
      }
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(Spawn, SystemAndPopen) {
  BusyThreads busy(2);
  for (int i = 0; i < 20; i++) {
    EXPECT_EQ(std::system("exit 7"), 7 << 8);
    FILE *pipe = popen("echo one; echo two", "r");
    ASSERT_NE(pipe, nullptr);
    char text[16] = {};
    EXPECT_EQ(std::fread(text, 1, sizeof text, pipe), 8u);
    EXPECT_STREQ(text, "one\ntwo\n");
    EXPECT_EQ(pclose(pipe), 0);
  }
}
