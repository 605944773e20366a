/*
 * Threads that come and go: what they leave behind is used again, and their
 * last allocations, in destructors that run when they are half gone, work.
 *
 * SPDX-License-Identifier: MIT
 */
#include "life/busy_threads.h"
#include "life/heap_view.h"
#include "support/process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <functional>
#include <malloc.h>
#include <numeric>
#include <pthread.h>
#include <string>
#include <sys/time.h>
#include <unistd.h>

using hak_test::Random;
using hak_test::resident_bytes;

namespace {

constexpr std::size_t kMiB = 1 << 20;

void in_thread(const std::function<void()> &body) { std::thread(body).join(); }

/* What a thread of a server does: some blocks of all sizes, all freed. */
void allocate_and_free(std::uint64_t seed, int count) {
  Random random(seed);
  std::vector<Held> own;
  for (int i = 0; i < count; i++)
    own.push_back(Held::make(random.size_between(1, 30000), seed << 20 | static_cast<unsigned>(i)));
  for (const Held &held : own) {
    if (!held.intact()) std::abort();
    free(held.block);
  }
}

}  // namespace

TEST(Threads, TenThousandStartedAndEnded) {
  constexpr int kAtOnce = 20;
  const std::size_t heaps = heap_view::stats().heap_count;
  std::size_t after_a_tenth = 0;
  for (int started = 0; started < 10000; started += kAtOnce) {
    std::vector<std::thread> threads;
    /* The same twenty again and again: whatever accumulates is not the load's. */
    for (std::uint64_t t = 0; t < kAtOnce; t++) threads.emplace_back([=] { allocate_and_free(t, 60); });
    for (std::thread &thread : threads) thread.join();
    if (started == 1000) {
      heap_view::trim(0);
      after_a_tenth = resident_bytes();
    }
  }
  /* Some of the ended threads' memory is kept for the next ones, but it has a bound, and can be had back. */
  EXPECT_LE(resident_bytes(), after_a_tenth + 48 * kMiB) << "resident after 10000 threads, against after 1000";
  heap_view::trim(0);
  EXPECT_LE(resident_bytes(), after_a_tenth + 4 * kMiB) << "resident after trimming, against after 1000 threads";
  EXPECT_LE(heap_view::stats().heap_count, heaps + 4u * kAtOnce) << "heaps made for 10000 threads, 20 at a time";
}

TEST(Threads, BlocksOutliveTheirThread) {
  for (int round = 0; round < 100; round++) {
    std::vector<Held> left;
    in_thread([&] {
      Random random(static_cast<std::uint64_t>(round));
      for (std::uint64_t i = 0; i < 300; i++) left.push_back(Held::make(some_size(random), i));
    });
    allocate_and_free(1, 100);
    in_thread([] { allocate_and_free(2, 300); });
    for (const Held &held : left) ASSERT_TRUE(held.intact()) << "a block of an ended thread was given to another";
    auto drop = [&](std::size_t parity) {
      for (std::size_t i = parity; i < left.size(); i += 2) free(left[i].block);
    };
    drop(0);
    in_thread([&] { drop(1); });
  }
}

/* Each of 500 threads leaves one small block of the 5000 that it allocated: the
 * slabs around the 500 blocks have to serve the threads that follow. */
TEST(Threads, WhatAThreadLeftIsUsedByTheNext) {
  std::vector<void *> left;
  const std::size_t before = resident_bytes();
  for (int t = 0; t < 500; t++) {
    in_thread([&] {
      std::vector<void *> own(5000);
      for (void *&block : own) {
        block = malloc(64);
        std::memset(block, t, 64);
      }
      left.push_back(own[2500]);
      own[2500] = nullptr;
      for (void *block : own) free(block);
    });
  }
  EXPECT_LE(resident_bytes(), before + 16 * kMiB) << "bytes resident while 500 blocks of 64 bytes are live";
  for (void *block : left) free(block);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* All of it, and the statistics, work on the smallest stack that a thread can have, as under the C library. */
TEST(Threads, SmallestStacksWillDo) {
  const auto work = [](void *) -> void * {
    void *blocks[100];
    for (int round = 0; round < 200; round++) {
      for (std::size_t i = 0; i < 100; i++) blocks[i] = malloc(static_cast<std::size_t>(round) * 37 % 5000 + i * 40);
      for (void *block : blocks) free(block);
    }
    for (std::size_t bytes = 1; bytes < (8u << 20); bytes *= 2)
      free(realloc(realloc(malloc(bytes), 2 * bytes), 8 * bytes));
    free(memalign(4096, 10));
    free(calloc(1000, 1000));
    malloc_trim(0);
    return mallinfo2().arena > 0 ? nullptr : blocks;
  };
  pthread_attr_t smallest;
  pthread_attr_init(&smallest);
  ASSERT_EQ(pthread_attr_setstacksize(&smallest, static_cast<std::size_t>(PTHREAD_STACK_MIN)), 0);
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, &smallest, work, nullptr), 0);
    void *failed = nullptr;
    pthread_join(thread, &failed);
    EXPECT_EQ(failed, nullptr);
  }
  pthread_attr_destroy(&smallest);
}
#endif

TEST(Threads, EndInAnyOrder) {
  for (std::uint64_t round = 0; round < 5; round++) {
    constexpr std::size_t kCount = 60;
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t allocated = 0;
    std::vector<bool> may_end(kCount);
    std::vector<std::vector<Held>> blocks(kCount);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kCount; t++)
      threads.emplace_back([&, t] {
        Random random(t);
        std::vector<Held> own;
        for (std::uint64_t i = 0; i < 100; i++) own.push_back(Held::make(some_size(random), t << 32 | i));
        std::unique_lock<std::mutex> lock(mutex);
        blocks[t] = own;
        allocated++;
        changed.notify_all();
        changed.wait(lock, [&] { return allocated == kCount && may_end[t]; });
        /* Frees what another thread allocated, which may be gone by now. */
        std::vector<Held> others;
        others.swap(blocks[(t * 7 + 1) % kCount]);
        lock.unlock();
        for (const Held &held : others) {
          if (!held.intact()) std::abort();
          free(held.block);
        }
      });
    std::vector<std::size_t> order(kCount);
    std::iota(order.begin(), order.end(), 0);
    Random random(round);
    random.shuffle(order);
    for (std::size_t t : order) {
      {
        std::lock_guard<std::mutex> lock(mutex);
        may_end[t] = true;
        changed.notify_all();
      }
      threads[t].join();
    }
  }
}

/* ---- The ways a thread ends -----------------------------------------------------------*/

TEST(Threads, ThatCallPthreadExit) {
  for (int i = 0; i < 50; i++) {
    pthread_t thread;
    ASSERT_EQ(pthread_create(
                  &thread, nullptr,
                  [](void *) -> void * {
                    allocate_and_free(1, 50);
                    pthread_exit(malloc(100));
                  },
                  nullptr),
              0);
    void *result;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    free(result);
  }
}

TEST(Threads, ThatAreCancelled) {
  static int never[2];
  ASSERT_EQ(pipe(never), 0);
  for (int i = 0; i < 50; i++) {
    pthread_t thread;
    ASSERT_EQ(pthread_create(
                  &thread, nullptr,
                  [](void *) -> void * {
                    void *block = malloc(1000);
                    pthread_cleanup_push(free, block);
                    allocate_and_free(1, 50);
                    char byte;
                    if (read(never[0], &byte, 1) < 0) std::abort();
                    pthread_cleanup_pop(1);
                    return nullptr;
                  },
                  nullptr),
              0);
    ASSERT_EQ(pthread_cancel(thread), 0);
    void *result;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
  }
  allocate_and_free(3, 1000);
}

TEST(Threads, ThatAreDetached) {
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  for (int i = 0; i < 300; i++) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return running < 10; });
    running++;
    std::thread([&, i] {
      allocate_and_free(static_cast<std::uint64_t>(i), 50);
      std::lock_guard<std::mutex> inner(mutex);
      running--;
      changed.notify_all();
    }).detach();
  }
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return running == 0; });
}

/* ---- Destructors of thread-specific data -----------------------------------------------*/

namespace {

constexpr int kKeys = 8;
pthread_key_t keys[kKeys];
std::atomic<int> destructor_runs, destructor_failures;

struct Specific {
  int key, iteration;
  char *payload;
};

/* Frees what the thread had, allocates in every range, and sets the key again
 * so that it is called in every iteration that POSIX grants. */
void destroy(void *argument) {
  auto *specific = static_cast<Specific *>(argument);
  destructor_runs++;
  if (specific->payload[0] != 'x' || specific->payload[4999] != 'x') destructor_failures++;
  free(specific->payload);
  for (std::size_t bytes : {10, 500, 3000, 40000, 200000}) {
    void *block = malloc(bytes);
    if (block == nullptr) destructor_failures++;
    std::memset(block, 1, bytes);
    free(block);
  }
  Specific last = *specific;
  free(specific);
  if (last.iteration >= PTHREAD_DESTRUCTOR_ITERATIONS) return;
  auto *next = static_cast<Specific *>(malloc(sizeof(Specific)));
  *next = {last.key, last.iteration + 1, static_cast<char *>(malloc(5000))};
  std::memset(next->payload, 'x', 5000);
  pthread_setspecific(keys[last.key], next);
}

}  // namespace

TEST(ThreadDestructors, MayAllocateAndFreeInEveryIteration) {
  for (pthread_key_t &key : keys) ASSERT_EQ(pthread_key_create(&key, destroy), 0);
  constexpr int kCount = 1000;
  const std::size_t heaps = heap_view::stats().heap_count;
  destructor_runs = destructor_failures = 0;
  std::size_t live_early = 0, resident_early = 0;
  for (int t = 0; t < kCount; t++) {
    in_thread([] {
      for (int key = 0; key < kKeys; key++) {
        auto *specific = static_cast<Specific *>(malloc(sizeof(Specific)));
        *specific = {key, 1, static_cast<char *>(malloc(5000))};
        std::memset(specific->payload, 'x', 5000);
        pthread_setspecific(keys[key], specific);
      }
    });
    if (t == 100) {
      heap_view::flush();
      live_early = heap_view::stats().live;
      resident_early = resident_bytes();
    }
  }
  for (pthread_key_t key : keys) pthread_key_delete(key);
  EXPECT_EQ(destructor_failures, 0);
  EXPECT_EQ(destructor_runs, kCount * kKeys * PTHREAD_DESTRUCTOR_ITERATIONS);
  heap_view::flush();
  hak_stats_t now = heap_view::stats();
  EXPECT_EQ(now.live, live_early) << "bytes that the destructors freed and the allocator holds as live";
  EXPECT_LE(now.heap_count, heaps + 20) << "heaps made for threads of which one lived at a time";
  EXPECT_LE(resident_bytes(), resident_early + 8 * kMiB) << "resident after 1000 threads, against after 100";
}

/* The first allocation of the thread's life happens in its destructor. */
TEST(ThreadDestructors, MayBeTheFirstToAllocate) {
  static pthread_key_t key;
  static std::atomic<int> runs;
  const std::size_t heaps = heap_view::stats().heap_count;
  ASSERT_EQ(pthread_key_create(&key,
                               [](void *) {
                                 runs++;
                                 allocate_and_free(1, 100);
                               }),
            0);
  for (int i = 0; i < 300; i++) {
    pthread_t thread;
    ASSERT_EQ(pthread_create(
                  &thread, nullptr,
                  [](void *) -> void * {
                    pthread_setspecific(key, &key);
                    return nullptr;
                  },
                  nullptr),
              0);
    pthread_join(thread, nullptr);
  }
  EXPECT_EQ(runs, 300);
  EXPECT_LE(heap_view::stats().heap_count, heaps + 20) << "heaps made for threads of which one lived at a time";
}

namespace {
std::atomic<int> objects;
struct Member {
  std::string text = std::string(1000, 'y');
  std::vector<std::string> more = std::vector<std::string>(20, std::string(300, 'z'));
  Member() { objects++; }
  ~Member() {
    if (text[999] != 'y' || more[19][299] != 'z') std::abort();
    allocate_and_free(1, 20);
    objects--;
  }
};
thread_local Member first_member;
thread_local std::vector<Member> members;
}  // namespace

TEST(ThreadDestructors, OfThreadLocalObjectsMayAllocateAndFree) {
  heap_view::flush();
  std::size_t live_early = 0;
  for (int t = 0; t < 500; t++) {
    in_thread([] {
      members.resize(5);
      first_member.text[0] = 'y';
    });
    if (t == 50) {
      heap_view::flush();
      live_early = heap_view::stats().live;
    }
  }
  EXPECT_EQ(objects, 0);
  heap_view::flush();
  EXPECT_EQ(heap_view::stats().live, live_early) << "bytes that the destructors freed and the allocator holds as live";
}

/* ---- Signals ---------------------------------------------------------------------------*/

namespace {
std::atomic<int> signals_taken;
std::atomic<pid_t> taken_by;
}  // namespace

/* Interrupted at any instruction, by a handler that does not allocate. */
TEST(Signals, AtAnyMomentAreHarmless) {
  struct sigaction action = {};
  action.sa_handler = [](int) { signals_taken++; };
  ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
  itimerval every = {{0, 300}, {0, 300}}, never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every, nullptr), 0);
  std::thread other([] {
    for (std::uint64_t i = 0; i < 400; i++) allocate_and_free(i, 300);
  });
  for (std::uint64_t i = 0; i < 400; i++) allocate_and_free(i + 1000, 300);
  other.join();
  ASSERT_EQ(setitimer(ITIMER_REAL, &never, nullptr), 0);
  EXPECT_GT(signals_taken, 10) << "too few signals: the test is void";
}

/* A thread of the allocator must not take the program's signals: the program
 * has blocked this one everywhere and waits for it. */
TEST(Signals, AreNotTakenByThreadsOfTheAllocator) {
  { BusyThreads busy(3); } /* whatever the allocator starts when a program has threads, it has started now */
  struct sigaction action = {};
  action.sa_handler = [](int) { taken_by = gettid(); };
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
  for (int i = 0; i < 100; i++) {
    ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
    timespec patience = {30, 0};
    ASSERT_EQ(sigtimedwait(&set, nullptr, &patience), SIGUSR1)
        << "the signal went to thread " << taken_by << " instead";
  }
  EXPECT_EQ(taken_by, 0);
}
