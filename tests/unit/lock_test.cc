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
  while (waiting.load() < kThreads || (atomic32_load_relaxed(&lock.state) & LOCK_CONTENDED) == 0)
    std::this_thread::yield();
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
  while (!trying || (atomic32_load_relaxed(&second.lock.state) & LOCK_CONTENDED) == 0) std::this_thread::yield();
  EXPECT_FALSE(inside.load()) << "a thread changes what is being copied";
  gates_open(gates, 2);
  other.join();
  EXPECT_TRUE(inside.load());
  EXPECT_EQ(atomic32_load_relaxed(&first.lock.state), 0u);
  EXPECT_EQ(atomic32_load_relaxed(&second.lock.state), 0u);
}

TEST(Lock, NamesItsHolder) {
  static hak_lock_t lock;
  EXPECT_FALSE(lock_is_mine(&lock));
  lock_acquire(&lock);
  EXPECT_TRUE(lock_is_mine(&lock));
  std::thread([] {
    EXPECT_FALSE(lock_is_mine(&lock)) << "a thread without a number";
    thread_number();
    EXPECT_FALSE(lock_is_mine(&lock));
  }).join();
  lock_release(&lock);
  EXPECT_FALSE(lock_is_mine(&lock));
}

TEST(LockDeathTest, AThreadThatWaitsForItselfIsTold) {
  static hak_lock_t lock;
  EXPECT_DEATH(
      {
        lock_acquire(&lock);
        lock_acquire(&lock); /* as in a signal handler */
      },
      "hakmem: a signal handler has called the allocator");
}

/* A signal handler forks and the code that it interrupted holds a gate. */
TEST(Gate, WhatTheThreadHoldsAlreadyStaysHeld) {
  static hak_gate_t first, second, third;
  hak_gate_t *const gates[] = {&first, &second, &third};
  for (bool in_child : {false, true}) {
    gate_enter(&second);
    gates_close(gates, 3);
    EXPECT_TRUE(lock_is_mine(&first.lock) && lock_is_mine(&third.lock));
    (in_child ? gates_open_in_child : gates_open)(gates, 3);
    EXPECT_TRUE(lock_is_mine(&second.lock)) << "the interrupted code is inside still";
    EXPECT_EQ(atomic32_load_relaxed(&first.lock.state), 0u);
    EXPECT_EQ(atomic32_load_relaxed(&third.lock.state), 0u);
    gate_leave(&second);
    EXPECT_EQ(atomic32_load_relaxed(&second.lock.state), 0u);
  }
}

/* The holder of an outer gate waits for the inner one, which we hold: nobody would ever go on. */
TEST(Gate, AnOuterGateWhoseHolderWaitsForUsIsMissed) {
  static hak_gate_t outer, inner;
  hak_gate_t *const gates[] = {&outer, &inner};
  gate_enter(&inner);
  std::thread other([] {
    gate_enter(&outer);
    gate_enter(&inner);
    gate_leave(&inner);
    gate_leave(&outer);
  });
  while ((atomic32_load_relaxed(&inner.lock.state) & LOCK_CONTENDED) == 0) std::this_thread::yield();
  gates_close(gates, 2); /* hangs if it insists */
  EXPECT_FALSE(lock_is_mine(&outer.lock));
  gates_open(gates, 2);
  EXPECT_NE(atomic32_load_relaxed(&outer.lock.state), 0u) << "the other thread's gate was opened";
  gate_leave(&inner);
  other.join();
  EXPECT_EQ(atomic32_load_relaxed(&outer.lock.state), 0u);
}

TEST(Gate, ForksMayNest) {
  static hak_gate_t first, second;
  hak_gate_t *const gates[] = {&first, &second};
  gates_close(gates, 2);
  gates_close(gates, 2); /* a signal handler forks between our fork handlers */
  gates_open(gates, 2);
  EXPECT_TRUE(lock_is_mine(&first.lock) && lock_is_mine(&second.lock)) << "the outer fork is not over";
  gates_open(gates, 2);
  EXPECT_EQ(atomic32_load_relaxed(&first.lock.state), 0u);
  EXPECT_EQ(atomic32_load_relaxed(&second.lock.state), 0u);
}

TEST(Gate, AfterTheForkItIsALockAgain) {
  static hak_gate_t gate;
  hak_gate_t *const gates[] = {&gate};
  gates_close(gates, 1);
  gates_open(gates, 1);
  gate_enter(&gate);
  EXPECT_TRUE(lock_is_mine(&gate.lock)) << "the thread that forked passes for ever";
  gate_leave(&gate);
  EXPECT_EQ(atomic32_load_relaxed(&gate.lock.state), 0u);
}
