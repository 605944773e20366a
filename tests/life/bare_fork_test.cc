/*
 * _Fork, which runs no fork handlers: the child may use the heap as after fork.
 *
 * SPDX-License-Identifier: MIT
 */
#include "life/busy_threads.h"
#include "life/heap_view.h"
#include "support/process.h"
#include "support/worker.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 34)
#define HAS_NO_BARE_FORK
#endif

#if !defined(HAS_NO_BARE_FORK)

using hak_test::Random;

namespace {

/* Every kind of block comes and goes. Returns an exit status. */
int use_the_heap(std::uint64_t seed) {
  Random random(seed);
  std::vector<Held> own;
  for (std::uint64_t i = 0; i < 300; i++) own.push_back(Held::make(some_size(random), seed << 20 | i));
  for (const Held &held : own) {
    if (!held.intact()) return 1;
    free(held.block);
  }
  free(malloc(300000));
  free(malloc(9 << 20));
  return 0;
}

/* How a child ends that runs `body`, or uses the heap. */
template <typename Body> int ending_of(Body body) {
  const pid_t child = _Fork();
  if (child == 0) {
    alarm(hak_test::kWatchdogSeconds);
    _exit(body());
  }
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return status;
}
int ending_of_a_child(std::uint64_t seed) {
  return ending_of([=] { return use_the_heap(seed); });
}

}  // namespace

TEST(BareFork, FromABusyParentAtAnyMoment) {
  BusyThreads busy(3);
  for (std::uint64_t i = 0; i < 60; i++) ASSERT_EQ(ending_of_a_child(i), 0) << "child number " << i;
}

TEST(BareFork, InAChildOfOne) {
  BusyThreads busy(2);
  for (std::uint64_t i = 0; i < 10; i++) {
    const int status = ending_of([i] {
      int wrong = 0;
      std::thread([&] { wrong = use_the_heap(i) != 0 || ending_of_a_child(i) != 0; }).join();
      return wrong;
    });
    ASSERT_EQ(status, 0) << "child number " << i;
  }
}

TEST(BareFork, ChildReusesTheHeapsOfTheParentsThreads) {
  hak_test::Worker workers[3];
  for (hak_test::Worker &worker : workers)
    worker.run([] {
      if (use_the_heap(1) != 0) std::abort();
    });
  const std::size_t heaps = heap_view::stats().heap_count;
  ASSERT_GE(heaps, 4u);
  EXPECT_EQ(ending_of([=] {
              std::vector<std::thread> threads;
              for (std::uint64_t t = 0; t < 3; t++) threads.emplace_back([=] { use_the_heap(t); });
              for (std::thread &thread : threads) thread.join();
              return heap_view::stats().heap_count <= heaps ? 0 : 1;
            }),
            0);
}

/* The program has one thread, as far as it knows, and another is there that tidies up. */
TEST(BareFork, WhereAllThreadsAreJoined) {
  for (std::uint64_t i = 0; i < 30; i++) {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 3; t++)
      threads.emplace_back([=] {
        if (use_the_heap(i * 3 + t) != 0) std::abort();
      });
    for (std::thread &thread : threads) thread.join();
    usleep(static_cast<useconds_t>(i * 977 % 60000));
    ASSERT_EQ(ending_of_a_child(i), 0) << "child number " << i;
  }
}

#else

TEST(BareFork, IsNotThere) { GTEST_SKIP() << "glibc has _Fork from 2.34 on"; }

#endif
