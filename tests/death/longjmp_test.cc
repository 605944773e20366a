/*
 * Programs that outlive the report of a mistake: their handler of SIGABRT leaves by
 * siglongjmp, as interpreters and test frameworks do, or never returns. Wherever the
 * mistake was found, all threads go on allocating, that one as well, and the
 * allocator's own data stays whole.
 *
 * SPDX-License-Identifier: MIT
 */
#include "death/mistakes.h"
#include "support/process.h"
#include "support/worker.h"

#include <gtest/gtest.h>
#include <observe/check.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using hak_test::Random;

namespace {

enum Child { kGood = 0, kUnnoticed = 2, kOverwritten = 3, kNoMemory = 4, kForked = 5 };
const char *const kMeaning = "2: nobody noticed, 3: a block was overwritten, 4: NULL, 5: a child of the child failed";

thread_local sigjmp_buf escape;
std::atomic<int> caught;

void leave(int) {
  caught++;
  siglongjmp(escape, 1);
}
void stay(int) {
  caught++;
  for (;;) pause();
}

void on_abort(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(SIGABRT, &action, nullptr);
}

/* Whether `mistake` was reported, in this thread or one that it started. */
bool escapes_from(const std::function<void()> &mistake) {
  const int before = caught;
  on_abort(leave);
  if (sigsetjmp(escape, 1) == 0) mistake();
  on_abort(SIG_DFL); /* whatever is found from here on is the allocator's fault */
  return caught > before;
}

/* Allocates in every range, checks and frees. */
int work(std::uint64_t seed, std::size_t operations) {
  struct Block {
    void *at;
    std::size_t bytes;
  };
  Random random(seed);
  std::vector<Block> own;
  auto release = [&](const Block &block) {
    const bool intact = hak_test::stamped(block.at, block.bytes, seed);
    hak_free(block.at);
    return intact;
  };
  for (std::size_t i = 0; i < operations; i++) {
    const std::size_t bytes = random.below(50) == 0 ? random.size_between(2000, 6 << 20) : random.between(1, 2000);
    own.push_back({hak_malloc(bytes), bytes});
    if (own.back().at == nullptr) return kNoMemory;
    hak_test::stamp(own.back().at, bytes, seed);
    if (own.size() < 80) continue;
    std::swap(own[random.below(own.size())], own.back());
    if (!release(own.back())) return kOverwritten;
    own.pop_back();
  }
  for (const Block &block : own)
    if (!release(block)) return kOverwritten;
  return kGood;
}

/* Threads that work before, during and after a mistake. */
class Others {
 public:
  Others() {
    for (std::uint64_t t = 0; t < 2; t++)
      threads_.emplace_back([this, t] {
        for (std::uint64_t i = 0; !stop_; i++) {
          std::lock_guard<std::mutex> lock(at_work_[t]);
          if (int bad = work(t << 32 | i, 500)) worst_ = bad;
          rounds_++;
        }
        hak_thread_flush();
      });
    wait();
  }
  /* Each has done something since. */
  void wait() {
    for (int until = rounds_ + 6; rounds_ < until;) std::this_thread::yield();
  }
  /* Nobody works, and holds blocks, until the end of the result. */
  auto rest() {
    return std::make_pair(std::unique_lock<std::mutex>(at_work_[0]), std::unique_lock<std::mutex>(at_work_[1]));
  }
  int stop() {
    stop_ = true;
    for (std::thread &thread : threads_) thread.join();
    threads_.clear();
    return worst_;
  }

 private:
  std::mutex at_work_[2];
  std::atomic<bool> stop_{false};
  std::atomic<int> rounds_{0}, worst_{kGood};
  std::vector<std::thread> threads_;
};

/* What a program does after it has survived. The invariants hold when nobody works. */
int go_on(Others &others) {
  int worst = work(77, 3000);
  others.wait();
  for (std::uint64_t i = 0; i < 6; i++) {
    int results[2];
    std::thread one([&] { results[0] = work(100 + i, 1000); }), other([&] { results[1] = work(200 + i, 1000); });
    one.join();
    other.join();
    worst = std::max({worst, results[0], results[1]});
  }
  pid_t child = fork();
  if (child == 0) {
    alarm(hak_test::kWatchdogSeconds); /* is not inherited */
    _exit(work(300, 1000));
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) worst = std::max<int>(worst, kForked);
  worst = std::max(worst, others.stop());
  hak_thread_flush();
  hak_trim(0);
  hak__check_all();
  return std::max(worst, work(400, 3000));
}

enum Meanwhile { kOthersWork, kOthersRest };

/* The thread that made the mistake lives on, again and again, and then ends. Where the
 * mistake takes time, the others have to rest: they could be given the block. */
void expect_survival(const std::function<void()> &mistake, Meanwhile meanwhile = kOthersWork) {
  hak_test::Outcome outcome = hak_test::in_child([&] {
    Others others;
    int result = kGood;
    std::thread([&] {
      for (int again = 0; again < 3 && result == kGood; again++) {
        bool noticed = false;
        if (meanwhile == kOthersRest) {
          auto nobody_works = others.rest();
          noticed = escapes_from(mistake);
        } else {
          noticed = escapes_from(mistake);
        }
        result = noticed ? work(55, 1000) : static_cast<int>(kUnnoticed);
      }
    }).join();
    return result == kGood ? go_on(others) : (others.stop(), result);
  });
  EXPECT_TRUE(outcome.exited_with(kGood)) << kMeaning << "\n" << outcome.describe();
}

/* Two blocks more than are wrong, so that something is left to be done after it. */
void free_twice(const Range &range) {
  Victim v = make(range.bytes), other = make(range.bytes);
  hak_free(v.block);
  hak_free(v.block);
  hak_free(other.block);
}

class Longjmp : public testing::TestWithParam<Range> {
 protected:
  const Range range = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Of, Longjmp, testing::ValuesIn(kRanges), [](const auto &info) { return info.param.name; });

}  // namespace

TEST_P(Longjmp, OutOfAFlush) {
  expect_survival([&] {
    free_twice(range);
    hak_thread_flush();
  });
}

TEST_P(Longjmp, OutOfATrim) {
  expect_survival([&] {
    free_twice(range);
    hak_trim(0);
  });
}

/* Found when a magazine runs full or empty. */
TEST_P(Longjmp, OutOfOrdinaryTraffic) {
  expect_survival([&] {
    std::vector<void *> others(std::min<std::size_t>(3000, (8 << 20) / range.bytes + 20));
    for (void *&other : others) other = hak_malloc(range.bytes);
    free_twice(range);
    for (void *other : others) hak_free(other);
    for (void *&other : others) other = hak_malloc(range.bytes);
    for (void *other : others) hak_free(other);
    hak_thread_flush();
  });
}

/* The owner has freed it, too, and finds what the other thread has sent it. Where a block
 * has its slab for itself, the other thread finds that it is gone. */
TEST_P(Longjmp, OutOfFetchingWhatAnotherThreadFreed) {
  expect_survival(
      [&] {
        Victim v = make(range.bytes);
        hak_free(v.block);
        hak_thread_flush();
        std::thread([&] {
          escapes_from([&] {
            hak_free(v.block);
            hak_thread_flush();
          });
        }).join();
        on_abort(leave);
        hak_thread_flush();
      },
      kOthersRest);
}

TEST_P(Longjmp, OutOfAFreeOfAnotherThreadsBlock) {
  expect_survival(
      [&] {
        Victim v;
        std::thread([&] { v = make(range.bytes); }).join();
        for (int i = 0; i < 2; i++) {
          hak_free(v.block);
          hak_thread_flush();
        }
        /* Where somebody has looked after the slabs of the ended thread in between, the next one to do so finds it. */
        hak_trim(0);
      },
      kOthersRest);
}

TEST_P(Longjmp, OutOfAFreeOfAnInteriorPointer) {
  expect_survival([&] {
    Victim v = make(range.bytes);
    hak_free(v.block + 16);
    hak_thread_flush();
  });
}

TEST_P(Longjmp, OutOfASizedFreeAndARealloc) {
  expect_survival([&] {
    Victim v = make(range.bytes);
    hak_free_sized(v.block, range.bytes * 10);
  });
  expect_survival([&] {
    Victim v = make(range.bytes);
    (void)!hak_test::opaque(hak_realloc(v.block + 16, range.bytes * 2));
  });
}

/* What realloc has found while it looked for memory was not the fault of the block, which is there as it was. */
TEST(LongjmpOutOfARealloc, LeavesTheBlockAsItWas) {
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{9} << 20}) {
    hak_test::Outcome outcome = hak_test::in_child([&] {
      int jumps = 0;
      for (int round = 0; round < 20 && jumps < 3; round++) {
        void *block = hak_malloc(bytes), *twice = hak_malloc(2000), *stays = hak_malloc(2000);
        hak_test::stamp(block, bytes, 7);
        hak_free(twice);
        hak_thread_flush();
        std::thread([&] { hak_free(twice); }).join(); /* sent home, and found by whoever refills next */
        void *moved = nullptr;
        if (escapes_from([&] { moved = hak_realloc(block, 3000); })) {
          jumps++;
          if (hak_usable_size(block) < bytes || !hak_test::stamped(block, bytes, 7)) return kOverwritten;
        } else {
          block = moved;
        }
        hak_free(block);
        hak_free(stays);
        escapes_from([] { hak_thread_flush(); });
      }
      hak__check_all();
      return jumps > 0 ? kGood : kUnnoticed;
    });
    EXPECT_TRUE(outcome.exited_with(kGood)) << bytes << " bytes; " << kMeaning << "\n" << outcome.describe();
  }
}

/* At the end of a thread there is nowhere to jump to. It stays in the handler, for ever. */
TEST_P(Longjmp, TheEndOfAThreadIsNeverReached) {
  hak_test::Outcome outcome = hak_test::in_child([&] {
    Others others;
    on_abort(stay);
    std::thread([&] { free_twice(range); }).detach();
    while (caught == 0) std::this_thread::yield();
    on_abort(SIG_DFL);
    return go_on(others);
  });
  EXPECT_TRUE(outcome.exited_with(kGood)) << kMeaning << "\n" << outcome.describe();
}
