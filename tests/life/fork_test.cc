/*
 * fork: the child has one thread, and a heap that any thread of the parent may
 * have been working on at that moment.
 *
 * SPDX-License-Identifier: MIT
 */
#include "life/busy_threads.h"
#include "life/heap_view.h"
#include "support/process.h"
#include "support/worker.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

using hak_test::Random;

namespace {

enum Child { kGood = 0, kOverwritten = 10, kNoMemory = 11, kGrandchildFailed = 12, kThreads = 13, kForgotten = 14 };

const char *meaning(int code) {
  switch (code) {
    case kGood: return "good";
    case kOverwritten: return "a block was overwritten";
    case kNoMemory: return "an allocation failed";
    case kGrandchildFailed: return "the grandchild failed";
    case kThreads: return "the child has another thread than its own";
    case kForgotten: return "the heaps of the parent's threads are lost to the child";
    default: return "?";
  }
}

/* Forks; returns how the child that ran `body` ended, as text, "" if well. */
std::string in_fork(const std::function<int()> &body) {
  pid_t child = fork();
  if (child < 0) return "fork failed";
  if (child == 0) {
    alarm(hak_test::kWatchdogSeconds);
    _exit(body());
  }
  int status;
  if (waitpid(child, &status, 0) != child) return "waitpid failed";
  if (WIFEXITED(status)) {
    int code = WEXITSTATUS(status);
    return code == kGood ? "" : "exit status " + std::to_string(code) + ": " + meaning(code);
  }
  return std::string("killed by ") + strsignal(WTERMSIG(status)) + (WTERMSIG(status) == SIGALRM ? " (it hung)" : "");
}

/* Allocates, checks and frees in every range. */
int use_the_heap(std::uint64_t seed, int operations) {
  Random random(seed);
  std::vector<Held> own;
  for (int i = 0; i < operations; i++) {
    std::size_t bytes = some_size(random);
    void *block = malloc(bytes);
    if (block == nullptr) return kNoMemory;
    free(block);
    own.push_back(Held::make(bytes, seed * 1000003 + static_cast<std::uint64_t>(i)));
    if (own.size() < 60) continue;
    std::swap(own[random.below(own.size())], own.back());
    if (!own.back().intact()) return kOverwritten;
    free(own.back().block);
    own.pop_back();
  }
  for (const Held &held : own) {
    if (!held.intact()) return kOverwritten;
    free(held.block);
  }
  return kGood;
}

int free_all(std::vector<Held> &blocks) {
  for (const Held &held : blocks) {
    if (!held.intact()) return kOverwritten;
    free(held.block);
  }
  blocks.clear();
  return kGood;
}

}  // namespace

TEST(Fork, FromABusyParentAtAnyMoment) {
  BusyThreads busy(3);
  for (int i = 0; i < 50; i++) {
    std::string ending = in_fork([&] { return use_the_heap(static_cast<std::uint64_t>(i), 300); });
    ASSERT_EQ(ending, "") << "child number " << i;
  }
}

TEST(Fork, ChildAndGrandchildFreeWhatTheParentsThreadsAllocated) {
  BusyThreads busy(3);
  std::vector<Held> own;
  for (std::uint64_t i = 0; i < 200; i++) own.push_back(Held::make(i * i + 1, i << 50));
  for (int i = 0; i < 15; i++) {
    std::string ending;
    {
      /* So that the list is whole in the child; the threads work on meanwhile. */
      std::lock_guard<std::mutex> lock(busy.mutex);
      ending = in_fork([&]() -> int {
        std::string grandchild = in_fork([&] {
          int code = free_all(busy.published);
          if (code == kGood) code = free_all(own);
          return code != kGood ? code : use_the_heap(1, 200);
        });
        if (!grandchild.empty()) return kGrandchildFailed;
        int code = use_the_heap(2, 200);
        if (code == kGood) code = free_all(busy.published);
        if (code == kGood) code = free_all(own);
        return code != kGood ? code : use_the_heap(3, 200);
      });
    }
    ASSERT_EQ(ending, "") << "child number " << i;
  }
  EXPECT_EQ(free_all(own), kGood) << "the parent's blocks changed when children freed theirs";
}

TEST(Fork, FromManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::vector<std::string> endings(4);
  for (std::size_t t = 0; t < endings.size(); t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30 && endings[t].empty(); i++) {
        if (use_the_heap(t, 300) != kGood) endings[t] = "in the parent: a block was overwritten";
        std::string ending = in_fork([&] { return use_the_heap(t, 300); });
        if (!ending.empty()) endings[t] = ending;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (const std::string &ending : endings) EXPECT_EQ(ending, "");
}

TEST(Fork, ChildStartsThreadsOfItsOwn) {
  BusyThreads busy(2);
  for (int i = 0; i < 20; i++) {
    std::string ending = in_fork([] {
      std::atomic<int> worst{kGood};
      for (int round = 0; round < 2; round++) {
        std::vector<std::thread> threads;
        for (std::uint64_t t = 0; t < 3; t++)
          threads.emplace_back([&, t] {
            int code = use_the_heap(t, 300);
            if (code != kGood) worst = code;
          });
        for (std::thread &thread : threads) thread.join();
      }
      return worst.load();
    });
    ASSERT_EQ(ending, "") << "child number " << i;
  }
}

/* Each generation forks the next: what is inherited is inherited again. */
TEST(Fork, FortyGenerations) {
  std::vector<Held> inherited;
  std::function<int(int)> generation = [&](int number) -> int {
    for (std::uint64_t i = 0; i < 50; i++)
      inherited.push_back(Held::make(i * 97 + 1, static_cast<std::uint64_t>(number) << 32 | i));
    int code = use_the_heap(static_cast<std::uint64_t>(number), 100);
    if (code != kGood) return code;
    if (number < 40 && !in_fork([&] { return generation(number + 1); }).empty()) return kGrandchildFailed;
    return free_all(inherited);
  };
  EXPECT_EQ(in_fork([&] { return generation(1); }), "");
}

/* The child's frees and writes are not seen by the parent, nor the other way round. */
TEST(Fork, MemoryIsCopiedNotShared) {
  std::vector<Held> blocks;
  for (std::size_t bytes : {16, 1000, 8000, 60000, 300000, 3000000, 20000000})
    for (std::uint64_t i = 0; i < 5; i++) blocks.push_back(Held::make(bytes, bytes << 8 | i));
  std::string ending = in_fork([&] {
    std::vector<Held> copy = blocks;
    for (const Held &held : copy)
      if (!held.intact()) return static_cast<int>(kOverwritten);
    for (const Held &held : copy) std::memset(held.block, 0xee, held.bytes);
    for (const Held &held : copy) free(held.block);
    return use_the_heap(9, 2000);
  });
  EXPECT_EQ(ending, "");
  EXPECT_EQ(free_all(blocks), kGood) << "the child wrote into the parent's memory";
}

/* A lone program that forks must not become multithreaded through its allocator. */
TEST(Fork, ChildHasOneThread) {
  ASSERT_EQ(use_the_heap(1, 20000), kGood);
  EXPECT_EQ(heap_view::thread_count(), 1) << "a program without threads was given some";
  EXPECT_EQ(in_fork([] {
              int code = use_the_heap(2, 20000);
              return code != kGood ? code : heap_view::thread_count() == 1 ? kGood : kThreads;
            }),
            "");
  BusyThreads busy(2);
  EXPECT_EQ(in_fork([] {
              int code = use_the_heap(3, 2000);
              return code != kGood ? code : heap_view::thread_count() == 1 ? kGood : kThreads;
            }),
            "");
}

/* The parent's other threads do not exist in the child; what they had of the heap does. */
TEST(Fork, ChildReusesTheHeapsOfTheParentsThreads) {
  hak_test::Worker workers[3];
  for (hak_test::Worker &worker : workers)
    worker.run([] {
      if (use_the_heap(1, 1000) != kGood) std::abort();
    });
  const std::size_t heaps = heap_view::stats().heap_count;
  ASSERT_GE(heaps, 4u);
  EXPECT_EQ(in_fork([=] {
              std::vector<std::thread> threads;
              for (int round = 0; round < 3; round++) {
                for (std::uint64_t t = 0; t < 3; t++) threads.emplace_back([=] { use_the_heap(t, 300); });
                for (std::thread &thread : threads) thread.join();
                threads.clear();
              }
              return heap_view::stats().heap_count <= heaps ? kGood : kForgotten;
            }),
            "");
}

/* ---- Handlers of pthread_atfork that allocate ---------------------------------------*/

namespace {
/* What the handlers hold between prepare and the end of fork; and how often each ran. */
struct Handlers {
  std::vector<Held> held;
  int prepared = 0, in_parent = 0, in_child = 0;
} handlers;

void prepare() {
  handlers.prepared++;
  Random random(1);
  for (std::uint64_t i = 0; i < 200; i++) handlers.held.push_back(Held::make(some_size(random), i));
}
void finish() {
  if (free_all(handlers.held) != kGood || use_the_heap(4, 200) != kGood) std::abort();
}
void after_in_parent() {
  handlers.in_parent++;
  finish();
}
void after_in_child() {
  handlers.in_child++;
  finish();
}
}  // namespace

/* The ones of a library that was initialised before anything else are the hard
 * case: prepare handlers run in the opposite order of their registration. */
TEST(Fork, HandlersOfTheProgramAndOfALibraryMayAllocate) {
  auto *library_runs = heap_view::find<int()>("atfork_library_runs");
  const int library_before = library_runs();
  ASSERT_EQ(pthread_atfork(prepare, after_in_parent, after_in_child), 0);
  BusyThreads busy(3);
  for (int i = 1; i <= 20; i++) {
    std::string ending = in_fork([&] {
      if (handlers.in_child != 1 || handlers.prepared != i) return 20;
      return use_the_heap(5, 300);
    });
    ASSERT_EQ(ending, "") << "child number " << i;
    ASSERT_EQ(handlers.in_parent, i);
  }
  EXPECT_EQ(library_runs() - library_before, 40) << "prepare and parent handlers of the library, 20 times each";
}
