/*
 * A thread that is to be cancelled, and has not noticed yet. No call of the library
 * is a point at which it does: a mistake is punished there as anywhere, and what
 * reports or gives memory back does so to its end.
 *
 * SPDX-License-Identifier: MIT
 */
#include "death/mistakes.h"
#include "death/reports.h"
#include "support/payload.h"
#include "support/process.h"

#include <gtest/gtest.h>
#include <hakmem.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <string>
#include <vector>

extern "C" void free_sized(void *, std::size_t) noexcept;

namespace {

/* Runs `body` in a thread that has been cancelled, and lets it end. Whether the thread
 * came to the end of `body`. */
bool cancelled_thread_finishes(const std::function<void()> &body) {
  struct Job {
    const std::function<void()> *body;
    bool finished;
  } job = {&body, false};
  pthread_t thread;
  auto run = [](void *argument) -> void * {
    auto *mine = static_cast<Job *>(argument);
    free(malloc(100)); /* it has a heap */
    pthread_cancel(pthread_self());
    (*mine->body)();
    mine->finished = true;
    pthread_testcancel();
    return argument;
  };
  if (pthread_create(&thread, nullptr, run, &job) != 0) std::abort();
  void *result;
  pthread_join(thread, &result);
  if (job.finished && result != PTHREAD_CANCELED) std::abort(); /* nothing was pending: the test is void */
  return job.finished;
}

class CancelPending : public testing::TestWithParam<Range> {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
  const Range range = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Of, CancelPending, testing::ValuesIn(kRanges),
                         [](const auto &info) { return info.param.name; });

}  // namespace

TEST_P(CancelPending, ADoubleFreeIsReported) {
  auto mistake = [&] {
    cancelled_thread_finishes([&] {
      Victim v = make(range.bytes);
      announce(v.block, v.usable);
      free(v.block);
      free(v.block);
      hak_thread_flush();
    });
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(CancelPending, AnInvalidFreeIsReported) {
  auto mistake = [&] {
    cancelled_thread_finishes([&] {
      Victim v = make(range.bytes);
      announce(v.block + 16, v.usable);
      free(v.block + 16);
      hak_thread_flush();
    });
  };
  EXPECT_REPORT(mistake(), kInvalid, range.has_class);
}

/* Of an address beside the heap, the next allocator is asked first. */
TEST(CancelPendingCalls, AWildFreeIsReported) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  auto mistake = [&] {
    cancelled_thread_finishes([&] {
      alignas(64) char local[256] = {};
      announce(local + 64, 0);
      free(hak_test::opaque(local + 64));
    });
  };
  EXPECT_REPORT(mistake(), kInvalid, false);
}

TEST_P(CancelPending, AWrongSizeIsReported) {
  auto mistake = [&] {
    cancelled_thread_finishes([&] {
      Victim v = make(range.bytes);
      announce(v.block, v.usable);
      free_sized(v.block, range.bytes * 10);
    });
  };
  EXPECT_REPORT(mistake(), kSize, true);
}

TEST(CancelPendingCalls, NoCallActsOnIt) {
  struct Call {
    const char *name;
    std::function<void()> call;
  };
  static FILE *unbuffered = std::fopen("/dev/null", "w");
  ASSERT_NE(unbuffered, nullptr);
  std::setvbuf(unbuffered, nullptr, _IONBF, 0);
  hak_stats_t stats;
  const std::vector<Call> calls = {
      {"malloc and free in every range",
       [] {
         std::vector<void *> blocks;
         for (const Range &range : kRanges)
           for (std::size_t i = 0; i < 20 + 200000 / range.bytes; i++) blocks.push_back(malloc(range.bytes));
         for (void *block : blocks) free(block);
       }},
      {"calloc of what was used before",
       [] {
         for (std::size_t bytes : {100, 70000, 3 << 20, 40 << 20}) {
           void *block = hak_test::opaque(malloc(bytes));
           std::memset(block, 1, bytes);
           free(block);
           free(hak_test::opaque(calloc(1, bytes)));
         }
       }},
      {"realloc through every range",
       [] {
         void *block = nullptr;
         for (std::size_t bytes = 1; bytes < 60 << 20; bytes = bytes * 3 / 2 + 1) block = realloc(block, bytes);
         for (std::size_t bytes = 50 << 20; bytes > 0; bytes /= 3) block = realloc(block, bytes);
         free(block);
       }},
      {"operator new that fails",
       [] {
         if (::operator new(SIZE_MAX / 2, std::nothrow) != nullptr) std::abort();
       }},
      {"hak_thread_flush", [] { hak_thread_flush(); }},
      {"hak_trim", [] { hak_trim(0); }},
      {"malloc_trim", [] { malloc_trim(0); }},
      {"malloc_stats", [] { malloc_stats(); }},
      {"malloc_info", [] { malloc_info(0, unbuffered); }},
      {"mallinfo2", [] { (void)mallinfo2(); }},
      {"hak_stats", [&] { hak_stats(&stats, sizeof stats); }},
      {"hak_stats_json", [] { hak_stats_json([](void *, const char *, std::size_t) { return true; }, nullptr); }},
      {"hak_owns", [&] { (void)hak_owns(&stats); }},
      {"malloc_usable_size of another allocator's block", [&] { (void)malloc_usable_size(&stats); }},
  };
  for (const Call &call : calls) {
    hak_test::Outcome outcome = hak_test::in_child([&] { return cancelled_thread_finishes(call.call) ? 0 : 1; });
    EXPECT_TRUE(outcome.exited_with(0)) << "the thread was cancelled in " << call.name << ": " << outcome.describe();
  }
}
