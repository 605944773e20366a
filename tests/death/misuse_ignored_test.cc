/*
 * With HAKMEM_ABORT_ON_ERROR=0 a mistake is counted, nothing is said, and the
 * heap is as if the wrong call had not been made.
 *
 * SPDX-License-Identifier: MIT
 */
#include "death/mistakes.h"
#include "support/payload.h"
#include "support/settings.h"
#include "support/worker.h"

#include <gtest/gtest.h>
#include <hakmem.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" void free_sized(void *, std::size_t) noexcept;

using hak_test::Worker;

namespace {

constexpr std::uint64_t kSeed = 5;

hak_stats_t stats() {
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  return now;
}

class Ignored : public testing::TestWithParam<Range> {
 protected:
  const Range range = GetParam();
  const std::uint64_t errors_before = stats().errors;

  Victim make() {
    for (int i = 0; i < 3; i++) {
      blocks_.push_back(malloc(range.bytes));
      hak_test::stamp(blocks_.back(), range.bytes, kSeed);
    }
    void *block = blocks_[blocks_.size() - 2];
    return {static_cast<char *>(block), range.bytes, hak_usable_size(block)};
  }
  /* The program gave this one back: it may be given out again. */
  void given_back(const Victim &v) { blocks_.erase(std::find(blocks_.begin(), blocks_.end(), v.block)); }

  /* Exactly `errors` mistakes were counted, and the heap is sound: no block is
   * given out twice, none that is live is given out again, none was overwritten. */
  void expect_sound_heap(std::uint64_t errors) {
    hak_thread_flush();
    EXPECT_EQ(stats().errors - errors_before, errors) << "mistakes counted";
    const std::size_t more = std::min<std::size_t>(20000, (std::size_t{64} << 20) / range.bytes + 10);
    for (std::size_t i = 0; i < more; i++) {
      blocks_.push_back(malloc(range.bytes));
      ASSERT_NE(blocks_.back(), nullptr);
      hak_test::stamp(blocks_.back(), range.bytes, kSeed);
    }
    for (void *block : blocks_)
      EXPECT_TRUE(hak_test::stamped(block, range.bytes, kSeed)) << block << " was given to two owners";
    std::sort(blocks_.begin(), blocks_.end());
    EXPECT_EQ(std::adjacent_find(blocks_.begin(), blocks_.end()), blocks_.end()) << "a block was given out twice";
    for (void *block : blocks_) free(block);
    hak_thread_flush();
    hak_stats_t now = stats();
    EXPECT_EQ(now.errors - errors_before, errors) << "a correct free was counted as a mistake";
    EXPECT_EQ(now.live + now.cached + now.outboxes + now.free_in_slabs,
              now.slab_bytes + now.large_bytes + now.huge_bytes)
        << "the sums of hak_stats are off after a mistake";
  }

 private:
  std::vector<void *> blocks_;
};
INSTANTIATE_TEST_SUITE_P(Of, Ignored, testing::ValuesIn(kRanges), [](const auto &info) { return info.param.name; });

}  // namespace

/* Whose an address outside is, libc's own heap is asked, which is as good as unused and prepares itself at the first
 * question. First in this file: each child has to be a process in which nobody has asked yet. */
TEST(FirstWildPointers, OfTwoThreadsAtOnceAreBothCounted) {
  for (unsigned round = 0; round < 1000; round++) {
    hak_test::Outcome outcome = hak_test::in_child([round] {
      const std::uint64_t errors_before = stats().errors;
      std::atomic<unsigned> arrived{0};
      auto free_wild_pointer = [&](unsigned delay) {
        void *mine = malloc(100);
        arrived.fetch_add(1);
        for (unsigned spins = 0; arrived.load() < 2; spins++)
          if (spins > 10000) std::this_thread::yield();
        for (volatile unsigned i = 0; i < delay;) i = i + 1;
        free(reinterpret_cast<void *>(16));
        free(mine);
      };
      std::thread first(free_wild_pointer, 0u), second(free_wild_pointer, round % 32 * 16);
      first.join();
      second.join();
      return stats().errors - errors_before == 2 ? 0 : 1;
    });
    ASSERT_TRUE(outcome.exited_with(0)) << "in round " << round << ": " << outcome.describe();
  }
}

TEST_P(Ignored, NoMistake) {
  make();
  expect_sound_heap(0);
}

TEST_P(Ignored, DoubleFree) {
  Victim v = make();
  given_back(v);
  free(v.block);
  free(v.block);
  expect_sound_heap(1);
}

TEST_P(Ignored, ManyDoubleFrees) {
  for (int i = 0; i < 20; i++) {
    Victim v = make();
    given_back(v);
    free(v.block);
    free(v.block);
    hak_thread_flush();
  }
  expect_sound_heap(20);
}

TEST_P(Ignored, DoubleFreeInTwoBatches) {
  Victim v = make();
  given_back(v);
  free(v.block);
  hak_thread_flush();
  free(v.block);
  expect_sound_heap(1);
}

TEST_P(Ignored, DoubleFreeByAnotherThread) {
  Victim v = make();
  given_back(v);
  Worker other;
  other.run([&] {
    free(v.block);
    free(v.block);
    hak_thread_flush();
  });
  expect_sound_heap(1);
}

TEST_P(Ignored, DoubleFreeByTwoThreads) {
  Victim v = make();
  given_back(v);
  Worker first, second;
  first.run([&] { free(v.block); });
  second.run([&] { free(v.block); });
  first.run([] { hak_thread_flush(); });
  second.run([] { hak_thread_flush(); });
  expect_sound_heap(1);
}

TEST_P(Ignored, DoubleFreeByTheOwnerAndAnotherThread) {
  Victim v = make();
  given_back(v);
  Worker other;
  free(v.block);
  other.run([&] {
    free(v.block);
    hak_thread_flush();
  });
  expect_sound_heap(1);
}

TEST_P(Ignored, InteriorPointer) {
  Victim v = make();
  std::uint64_t mistakes = 0;
  for (std::size_t offset : {std::size_t{1}, std::size_t{16}, range.bytes / 2, range.bytes - 1}) {
    free(v.block + offset);
    hak_thread_flush();
    mistakes++;
  }
  expect_sound_heap(mistakes);
}

TEST_P(Ignored, InteriorPointerByAnotherThread) {
  Victim v = make();
  Worker other;
  other.run([&] {
    free(v.block + 16);
    free(v.block + range.bytes - 1);
    hak_thread_flush();
  });
  expect_sound_heap(2);
}

TEST_P(Ignored, WildPointers) {
  Victim v = make();
  std::uint64_t mistakes = 0;
  for (void *wild : {static_cast<void *>(v.block + (std::size_t{1} << 30)), reinterpret_cast<void *>(16),
                     reinterpret_cast<void *>(std::uintptr_t{0xdeadbeefdeadbee0})}) {
    free(wild);
    hak_thread_flush();
    mistakes++;
  }
  expect_sound_heap(mistakes);
}

TEST_P(Ignored, WrongSizeLeavesTheBlockLive) {
  Victim v = make();
  free_sized(v.block, range.bytes * 10);
  hak_thread_flush();
  free_sized(v.block, range.bytes / 10);
  hak_thread_flush();
  operator delete(v.block, range.bytes * 10);
  expect_sound_heap(3);
}

/* A thread that is to be cancelled goes on all the same. */
TEST_P(Ignored, MistakesOfAThreadThatIsToBeCancelled) {
  Victim v = make();
  given_back(v);
  bool finished = false;
  std::thread([&] {
    free(malloc(100));
    pthread_cancel(pthread_self());
    alignas(64) char local[256] = {};
    free(v.block);
    free(v.block);
    hak_thread_flush();
    free(hak_test::opaque(local + 64));
    finished = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr); /* std::thread ends as usual */
  }).join();
  EXPECT_TRUE(finished) << "the thread was cancelled inside a free";
  expect_sound_heap(2);
}

int main(int argc, char **argv) {
  hak_test::init_with(argc, argv, {"HAKMEM_ABORT_ON_ERROR=0"});
  return RUN_ALL_TESTS();
}
