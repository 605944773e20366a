/*
 * Two threads free the same blocks at the same moment, again and again. Of the two
 * frees of a block exactly one is a mistake, whichever it is: each is counted, once,
 * and the allocator's own data stays whole.
 *
 * SPDX-License-Identifier: MIT
 */
#include "death/mistakes.h"
#include "support/payload.h"
#include "support/settings.h"

#include <gtest/gtest.h>
#include <hakmem.h>
#include <observe/check.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace {

hak_stats_t stats() {
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  return now;
}

/* Two threads that do things at once, as nearly as the machine lets them. */
class Pair {
 public:
  /* Returns when both are done. */
  void run(const std::function<void()> &first, const std::function<void()> &second) {
    jobs_[0] = &first;
    jobs_[1] = &second;
    round_.fetch_add(1);
    while (done_.load() != 2) std::this_thread::yield();
    done_ = 0;
  }
  ~Pair() {
    const std::function<void()> nothing;
    run(nothing, nothing);
    for (std::thread &thread : threads_) thread.join();
  }

 private:
  void loop(int which) {
    for (unsigned seen = 0;;) {
      while (round_.load() == seen) std::this_thread::yield();
      seen = round_.load();
      const bool more = static_cast<bool>(*jobs_[which]);
      /* Both run from here: who arrives first waits, without sleeping where it can. */
      arrived_.fetch_add(1);
      for (unsigned spins = 0; arrived_.load() < 2 * seen; spins++)
        if (spins > 10000) std::this_thread::yield();
      if (more) (*jobs_[which])();
      done_.fetch_add(1);
      if (!more) return;
    }
  }
  const std::function<void()> *jobs_[2] = {};
  std::atomic<unsigned> round_{0}, arrived_{0}, done_{0};
  std::thread threads_[2] = {std::thread([this] { loop(0); }), std::thread([this] { loop(1); })};
};

class DoubleFreeRace : public testing::TestWithParam<Range> {
 protected:
  const Range range = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Of, DoubleFreeRace, testing::ValuesIn(kRanges),
                         [](const auto &info) { return info.param.name; });

/* Frees all, from either end, beginning a little later or not. */
void free_in_order(const std::vector<void *> &blocks, bool backwards, std::size_t delay) {
  for (volatile std::size_t i = 0; i < delay;) i = i + 1;
  for (std::size_t i = 0; i < blocks.size(); i++) hak_free(blocks[backwards ? blocks.size() - 1 - i : i]);
  hak_thread_flush();
}

/* Each of two threads reallocates the same blocks, to so many bytes, and frees the results: of a block's two frees, be
 * they realloc's, one is a mistake. The contents are nobody's. */
void race_reallocs(const Range &range, std::size_t first_bytes, std::size_t second_bytes, std::size_t filled_bytes) {
  const std::size_t blocks_at_once = 8, rounds = 800 / HAK_RACE_DIVISOR;
  hak_test::Random random(range.bytes);
  const std::uint64_t errors_before = stats().errors;
  std::size_t mistakes = 0;
  Pair pair;
  std::vector<void *> blocks(blocks_at_once);
  for (std::size_t round = 0; round < rounds; round++) {
    const std::size_t delays[2] = {random.below(500), random.below(500)};
    auto resize_and_free = [&](int thread, std::size_t bytes) {
      for (volatile std::size_t i = 0; i < delays[thread];) i = i + 1;
      for (void *block : blocks) hak_free(hak_realloc(block, bytes));
      hak_thread_flush();
    };
    pair.run(
        [&] {
          for (void *&block : blocks) std::memset(block = hak_malloc(range.bytes), 1, filled_bytes);
        },
        [] {});
    pair.run([&] { resize_and_free(0, first_bytes); }, [&] { resize_and_free(1, second_bytes); });
    pair.run([] { hak_thread_flush(); }, [] {});
    mistakes += blocks_at_once;
    ASSERT_EQ(stats().errors - errors_before, mistakes)
        << "a block was freed twice unnoticed, or a correct free was taken for a mistake, in round " << round;
    if (round % 100 == 0) hak__check_all();
  }
  hak__check_all();
}

}  // namespace

TEST_P(DoubleFreeRace, IsCountedOnceAndBreaksNothing) {
  /* Often: two checks in a row that are not one are nanoseconds apart. (Two idle processors come between them
   * within some ten rounds.) */
  const std::size_t blocks_at_once = 12;
  const bool huge = range.bytes >= 4 << 20;
  const std::size_t rounds = (huge ? 1200 : 2000) / HAK_RACE_DIVISOR;
  hak_test::Random random(range.bytes);
  const std::uint64_t errors_before = stats().errors;
  auto errors = [=] { return stats().errors - errors_before; };
  std::size_t mistakes = 0;
  {
    Pair pair;
    std::vector<void *> blocks(blocks_at_once);
    for (std::size_t round = 0; round < rounds; round++) {
      const std::size_t first_delay = random.below(500), second_delay = random.below(500);
      const bool first_backwards = random.below(2) == 0, second_backwards = random.below(2) == 0;
      /* In half of the rounds the first has freed already, and the race is with its flush. */
      const bool freed_before = random.below(2) == 0;
      auto free_first = [&] {
        for (void *block : blocks) hak_free(block);
      };
      pair.run(
          [&] {
            for (void *&block : blocks) block = hak_malloc(range.bytes);
            if (freed_before) free_first();
          },
          [] {});
      pair.run([&] { freed_before ? hak_thread_flush() : free_in_order(blocks, first_backwards, first_delay); },
               [&] { free_in_order(blocks, second_backwards, second_delay); });
      /* What the second left for the first to fetch. */
      pair.run([] { hak_thread_flush(); }, [] {});
      mistakes += blocks_at_once;
      ASSERT_EQ(errors(), mistakes) << "a double free was not noticed, or a correct free was taken for one, in round "
                                    << round;
      if (round % 500 == 0) hak__check_all();
    }
  }
  hak__check_all();
  /* Everything that was freed can be had, once. */
  std::vector<void *> held;
  for (std::size_t i = 0; i < std::max<std::size_t>(4 * blocks_at_once, (4 << 20) / range.bytes); i++) {
    held.push_back(hak_malloc(range.bytes));
    ASSERT_NE(held.back(), nullptr);
    hak_test::stamp(held.back(), range.bytes, 3);
  }
  for (void *block : held) EXPECT_TRUE(hak_test::stamped(block, range.bytes, 3)) << block << " was given to two owners";
  for (void *block : held) hak_free(block);
  hak_thread_flush();
  EXPECT_EQ(errors(), mistakes) << "of so many double frees, by threads that have ended";
  hak__check_all();
}

TEST_P(DoubleFreeRace, OfReallocsIsCountedOnceAndBreaksNothing) {
  race_reallocs(range, 3 * range.bytes, 3 * range.bytes, 0);
}

/* One thread makes them smaller, by a copy, of which the other one may just move the pages. */
TEST_P(DoubleFreeRace, OfReallocsThatShrinkAndGrowIsCountedOnceAndBreaksNothing) {
  const std::size_t less = std::min<std::size_t>(range.bytes / 3, 200 * 1024); /* huge ones that keep more are cut */
  race_reallocs(range, less, 3 * range.bytes, less);
}

int main(int argc, char **argv) {
  hak_test::init_with(argc, argv, {"HAKMEM_ABORT_ON_ERROR=0"});
  return RUN_ALL_TESTS();
}
