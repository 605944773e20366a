/* The lock, and the gate that a fork closes. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/process.h"

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include <csignal>
#include <ucontext.h>
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

/* The lock is taken again before the thread that was woken for it can run. */
TEST(Lock, AWokenThreadLooksAgain) {
  static hak_lock_t lock;
  for (int round = 0; round < 50; round++) {
    std::atomic<int> id{0};
    std::atomic<bool> held{true}, both{false};
    lock_acquire(&lock);
    std::thread waiter([&] {
      id = gettid();
      lock_acquire(&lock);
      both = held.load();
      lock_release(&lock);
    });
    hak_test::wait_until_asleep(id);
    held = false;
    lock_release(&lock);
    lock_acquire(&lock);
    held = true;
    for (int i = 0; i < 100 && !both; i++) std::this_thread::yield(); /* its turn to look */
    held = false;
    lock_release(&lock);
    waiter.join();
    ASSERT_FALSE(both.load()) << "two are inside";
    ASSERT_EQ(atomic32_load_relaxed(&lock.state), 0u);
  }
}

TEST(Gate, TheForkingThreadPassesAndOthersWait) {
  static hak_gate_t first, second;
  hak_gate_t *const gates[] = {&first, &second};
  gates_close(gates, 2, 1);
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
      "hakmem: the allocator was called where it had been interrupted: no signal handler may");
}

/* A signal handler forks and the code that it interrupted holds a gate. */
TEST(Gate, WhatTheThreadHoldsAlreadyStaysHeld) {
  static hak_gate_t first, second, third;
  hak_gate_t *const gates[] = {&first, &second, &third};
  for (bool in_child : {false, true}) {
    gate_enter(&second);
    gates_close(gates, 3, 1);
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
  gates_close(gates, 2, 1); /* hangs if it insists */
  EXPECT_FALSE(lock_is_mine(&outer.lock));
  gates_open(gates, 2);
  EXPECT_NE(atomic32_load_relaxed(&outer.lock.state), 0u) << "the other thread's gate was opened";
  gate_leave(&inner);
  other.join();
  EXPECT_EQ(atomic32_load_relaxed(&outer.lock.state), 0u);
}

/* Threads that were woken for a gate and are in signal handlers by then, one of which forks: they cannot
 * take the gate, and the thread that can is the holder of the one that the fork waits for. */
TEST(Gate, AForkPassesOnTheWakeUpOfTheCodeThatItInterrupted) {
  static hak_gate_t outer, inner;
  hak_gate_t *const gates[] = {&outer, &inner};
  gate_enter(&inner);
  atomic32_store_relaxed(&inner.lock.state, atomic32_load_relaxed(&inner.lock.state) | LOCK_CONTENDED);
  std::array<std::atomic<int>, LOCK_WOKEN> ids{};
  std::array<std::thread, LOCK_WOKEN> interrupted;
  for (int i = 0; i < LOCK_WOKEN; i++) {
    interrupted[i] = std::thread([&, i] {
      ids[i] = gettid();
      os_futex_wait(&inner.lock.state, atomic32_load_relaxed(&inner.lock.state), OS_FOR_EVER); /* as in hak_lock_wait */
      if (i > 0) return;        /* its handler never ends */
      gates_close(gates, 2, 1); /* hangs if the wake-up is lost */
      gates_open(gates, 2);
    });
    hak_test::wait_until_asleep(ids[i]);
  }
  std::atomic<int> other_id{0};
  std::thread other([&] {
    gate_enter(&outer);
    other_id = gettid();
    gate_enter(&inner);
    gate_leave(&inner);
    gate_leave(&outer);
  });
  hak_test::wait_until_asleep(other_id);
  gate_leave(&inner); /* wakes those that have slept longest */
  for (std::thread &each : interrupted) each.join();
  other.join();
  EXPECT_EQ(atomic32_load_relaxed(&outer.lock.state), 0u);
  EXPECT_EQ(atomic32_load_relaxed(&inner.lock.state), 0u);
}

TEST(Gate, ForksMayNest) {
  static hak_gate_t first, second;
  hak_gate_t *const gates[] = {&first, &second};
  gates_close(gates, 2, 1);
  gates_close(gates, 2, 1); /* a signal handler forks between our fork handlers */
  gates_open(gates, 2);
  EXPECT_TRUE(lock_is_mine(&first.lock) && lock_is_mine(&second.lock)) << "the outer fork is not over";
  gates_open(gates, 2);
  EXPECT_EQ(atomic32_load_relaxed(&first.lock.state), 0u);
  EXPECT_EQ(atomic32_load_relaxed(&second.lock.state), 0u);
}

#if defined(__x86_64__) && !HAK_THREAD_SANITIZER
namespace {

hak_gate_t stepped_gates[3];
hak_gate_t *const stepped[] = {&stepped_gates[0], &stepped_gates[1], &stepped_gates[2]};
volatile int steps_left; /* until the handler forks */

constexpr greg_t kTrapFlag = 0x100;

/* After each instruction. */
void on_step(int, siginfo_t *, void *context) {
  if (--steps_left != 0) return;
  gates_close(stepped, 3, 1);
  gates_open(stepped, 3);
  static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
}

/* The stack below the red zone. */
void set_stepping(bool on) {
  if (on)
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "cc");
  else __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "cc");
}

}  // namespace

TEST(Gate, AHandlerMayForkAtAnyInstructionOfAFork) {
  struct sigaction action = {};
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGTRAP, &action, nullptr), 0);
  for (bool in_child : {false, true}) {
    const auto open = in_child ? gates_open_in_child : gates_open;
    bool is_over = false;
    for (int step = 1; !is_over; step++) {
      steps_left = step;
      set_stepping(true);
      gates_close(stepped, 3, 1);
      open(stepped, 3);
      set_stepping(false);
      is_over = steps_left > 0;
      for (hak_gate_t *gate : stepped) {
        ASSERT_EQ(atomic32_load_relaxed(&gate->lock.state), 0u) << "step " << step;
        gate_enter(gate);
        ASSERT_TRUE(lock_is_mine(&gate->lock)) << "step " << step << ": it lets the thread through";
        gate_leave(gate);
      }
    }
  }
}
#endif

TEST(Gate, AfterTheForkItIsALockAgain) {
  static hak_gate_t gate;
  hak_gate_t *const gates[] = {&gate};
  gates_close(gates, 1, 1);
  gates_open(gates, 1);
  gate_enter(&gate);
  EXPECT_TRUE(lock_is_mine(&gate.lock)) << "the thread that forked passes for ever";
  gate_leave(&gate);
  EXPECT_EQ(atomic32_load_relaxed(&gate.lock.state), 0u);
}
