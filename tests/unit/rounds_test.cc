/* One round at a time. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/process.h"

#include <atomic>
#include <thread>

#include <front/reclaim.h>
#include <front/rounds.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

/* Threads that do the same at once, as far as one that sleeps lets them. */
class Crowd {
 public:
  template <typename Body> Crowd(size_t count, Body body) : ids_(count) {
    for (size_t i = 0; i < count; i++)
      threads_.emplace_back([this, i, body] {
        ids_[i] = gettid();
        body();
      });
  }
  ~Crowd() { join(); }
  void join() {
    for (std::thread &thread : threads_) thread.join();
    threads_.clear();
  }
  /* Returns when each of them sleeps. */
  void sleeps() const {
    for (const std::atomic<int> &id : ids_) hak_test::wait_until_asleep(id);
  }

 private:
  std::vector<std::atomic<int>> ids_;
  std::vector<std::thread> threads_;
};

}  // namespace

TEST(Rounds, OneGoesForAllThatCameMeanwhile) {
  static rounds_t rounds; /* zero is valid */
  const uint64_t round = rounds_begin(&rounds);
  ASSERT_NE(round, 0u);
  std::atomic<int> went{0}, returned{0};
  Crowd crowd(20, [&] {
    if (const uint64_t its = rounds_begin(&rounds)) {
      went++;
      rounds_end(&rounds, its);
    }
    returned++;
  });
  crowd.sleeps();
  EXPECT_EQ(returned, 0) << "our round began before they came: it may have passed by what they have freed";
  rounds_end(&rounds, round);
  crowd.join();
  EXPECT_EQ(went, 1);
  EXPECT_EQ(atomic64_load_relaxed(&rounds.begun), 2u);
  EXPECT_EQ(atomic32_load_relaxed(&rounds.runner), 0u);
}

/* As one does that a signal handler has jumped out of. */
TEST(Rounds, WhoNeverComesToTheEndIsReplaced) {
  static rounds_t rounds;
  uint64_t lost = 0;
  std::thread([&] { lost = rounds_begin(&rounds); }).join();
  const uint64_t round = rounds_begin(&rounds);
  EXPECT_GT(round, lost);
  rounds_end(&rounds, lost); /* it comes to its end after all */
  rounds_end(&rounds, round);
  const uint64_t next = rounds_begin(&rounds);
  EXPECT_GT(next, round);
  rounds_end(&rounds, next);
}

TEST(Rounds, ASignalHandlerOfTheRunnerDoesNotWaitForIt) {
  static rounds_t rounds;
  const uint64_t outer = rounds_begin(&rounds), inner = rounds_begin(&rounds);
  EXPECT_GT(inner, outer);
  rounds_end(&rounds, inner);
  rounds_end(&rounds, outer);
  EXPECT_EQ(atomic64_load_relaxed(&rounds.ended), inner);
  EXPECT_EQ(atomic32_load_relaxed(&rounds.runner), 0u);
}

/* The runner may wait for a gate that the fork holds. */
TEST(Rounds, AThreadThatForksDoesNotWait) {
  static rounds_t rounds;
  static hak_gate_t gate;
  hak_gate_t *const gates[] = {&gate};
  std::thread([&] { rounds_begin(&rounds); }).join();
  const uint32_t runner = atomic32_load_relaxed(&rounds.runner);
  gates_close(gates, 1, 1);
  EXPECT_NE(rounds_begin(&rounds), 0u);
  EXPECT_EQ(atomic32_load_relaxed(&rounds.runner), runner) << "it has not taken that one's place";
  gates_open(gates, 1);
}

TEST(Rounds, AChildHasNoRunnerButItself) {
  static rounds_t rounds;
  std::thread([&] { rounds_begin(&rounds); }).join();
  const pid_t child = fork();
  if (child == 0) {
    rounds_after_fork(&rounds);
    const bool nobody_goes = atomic32_load_relaxed(&rounds.runner) == 0;
    rounds_begin(&rounds);
    rounds_after_fork(&rounds);
    _exit(nobody_goes && atomic32_load_relaxed(&rounds.runner) == thread_number() ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/* The invariant of rounds.h, by a clock of their own. */
TEST(Rounds, WhoDoesNotGoHasHadARoundThatBeganLater) {
  static rounds_t rounds;
  constexpr int kThreads = 4, kCalls = 20000;
  std::atomic<uint64_t> clock{1}, latest{0} /* beginning of those that have ended */, wrong{0};
  {
    Crowd crowd(kThreads, [&] {
      for (int i = 0; i < kCalls; i++) {
        const uint64_t called = clock++;
        if (const uint64_t round = rounds_begin(&rounds)) {
          const uint64_t began = clock++;
          if (i % 16 == 0) std::this_thread::yield();
          for (uint64_t seen = latest; seen < began && !latest.compare_exchange_weak(seen, began);) continue;
          rounds_end(&rounds, round);
        } else if (latest <= called) {
          wrong++;
        }
      }
    });
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_LE(atomic64_load_relaxed(&rounds.begun), uint64_t{kThreads} * kCalls);
}

TEST(Reclaim, OfManyAtOnceOneGoesRound) {
  ASSERT_TRUE(arena_ready());
  if (HAK_THREAD_SANITIZER || !os_fence_all_threads()) GTEST_SKIP() << "nobody's heap can be claimed here";
  constexpr size_t kCrowd = 16;
  std::atomic<int> step{0}, attached{0};
  Crowd crowd(kCrowd, [&] {
    hak_free(hak_malloc(100)); /* for a heap to go round to */
    attached++;
    while (step == 0) usleep(1000);
    reclaim();
    attached--;
    while (step == 1) usleep(1000);
  });
  while (attached < static_cast<int>(kCrowd)) usleep(1000);
  auto fences = [] { return atomic64_load_relaxed(&os_calls.membarrier); };
  const uint64_t before = fences();
  reclaim();
  const uint64_t once = fences() - before;
  ASSERT_GE(once, kCrowd);
  pool_enter(); /* who goes round stops here */
  step = 1;
  usleep(50000); /* they have looked at the step */
  crowd.sleeps();
  const uint64_t at_once = fences();
  pool_leave();
  while (attached > 0) usleep(1000);
  EXPECT_LE(fences() - at_once, 3 * once) << "each has gone round itself";
  step = 2;
}
