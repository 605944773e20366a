/* The lock, and the gate that a fork closes. SPDX-License-Identifier: MIT */
#include "layers.h"

#include <atomic>
#include <thread>
#include <unistd.h>

TEST(Lock, OneAtATime) {
  static hak_lock_t lock; /* zero is unlocked */
  constexpr int kThreads = 4, kRounds = 50000;
  long counter = 0; /* plain: a lost increment shows that two were inside */
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; i++) {
        lock_acquire(&lock);
        counter++;
        if (i % 1000 == 0) std::this_thread::yield(); /* long enough for others to fall asleep */
        lock_release(&lock);
      }
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(counter, long{kThreads} * kRounds);
  EXPECT_EQ(atomic32_load_relaxed(&lock.state), 0u);
}

TEST(Lock, SleepersAreWoken) {
  static hak_lock_t lock;
  constexpr int kThreads = 8;
  std::atomic<int> waiting{0}, done{0};
  lock_acquire(&lock);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&] {
      waiting++;
      lock_acquire(&lock);
      done++;
      lock_release(&lock);
    });
  /* Until one of them has said that it may sleep. */
  while (waiting.load() < kThreads || atomic32_load_relaxed(&lock.state) != 2) std::this_thread::yield();
  EXPECT_EQ(done.load(), 0) << "somebody entered a lock that is held";
  lock_release(&lock);
  for (std::thread &thread : threads) thread.join(); /* hangs if one is not woken */
  EXPECT_EQ(done.load(), kThreads);
}

TEST(Gate, TheForkingThreadPassesAndOthersWait) {
  static hak_gate_t first, second;
  hak_gate_t *const gates[] = {&first, &second};
  gates_close(gates, 2);
  gate_enter(&second); /* another library's fork handler allocates */
  gate_enter(&first);
  gate_leave(&first);
  gate_leave(&second);
  std::atomic<bool> trying{false}, inside{false};
  std::thread other([&] {
    trying = true;
    gate_enter(&second);
    inside = true;
    gate_leave(&second);
  });
  while (!trying || atomic32_load_relaxed(&second.lock.state) != 2) std::this_thread::yield();
  EXPECT_FALSE(inside.load()) << "a thread changes what is being copied";
  gates_open(gates, 2);
  other.join();
  EXPECT_TRUE(inside.load());
  EXPECT_EQ(atomic32_load_relaxed(&first.lock.state), 0u);
  EXPECT_EQ(atomic32_load_relaxed(&second.lock.state), 0u);
}

/* A handler of SIGABRT may want memory, whatever the thread was doing. */
TEST(Gate, AThreadThatAbortsPassesAllOfThem) {
  static hak_gate_t gate;
  EXPECT_EXIT(
      {
        gate_enter(&gate);
        gates_pass_for_ever();
        gate_enter(&gate);
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST(Gate, AfterTheForkItIsALockAgain) {
  static hak_gate_t gate;
  hak_gate_t *const gates[] = {&gate};
  gates_close(gates, 1);
  gates_open(gates, 1);
  gate_enter(&gate);
  EXPECT_EQ(atomic32_load_relaxed(&gate.lock.state), 1u) << "the thread that forked passes for ever";
  gate_leave(&gate);
  EXPECT_EQ(atomic32_load_relaxed(&gate.lock.state), 0u);
}
