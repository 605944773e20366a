/*
 * Mistakes with heaps of the program's own end it with one line.
 *
 * SPDX-License-Identifier: MIT
 */
#include "death/mistakes.h"
#include "death/reports.h"
#include "support/worker.h"

#include <gtest/gtest.h>
#include <hakmem.h>

#include <cstdlib>

extern "C" void free_sized(void *, std::size_t) noexcept;

using hak_test::Worker;

namespace {

constexpr const char *kNoHeap = "use of the heap";
constexpr const char *kOtherHeap = "no block of the heap";

class HeapMisuse : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};
class HeapBlockMisuse : public testing::TestWithParam<Range> {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
  const Range range = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Of, HeapBlockMisuse, testing::ValuesIn(kRanges),
                         [](const auto &info) { return info.param.name; });

/* The heap is gone, and another has its number. */
hak_heap_t *gone() {
  hak_heap_t *heap = hak_heap_new(0);
  hak_heap_free(heap, hak_heap_malloc(heap, 100));
  hak_heap_destroy(heap);
  hak_heap_t *next = hak_heap_new(0);
  hak_heap_free(next, hak_heap_malloc(next, 100));
  announce(heap, 0);
  return heap;
}

}  // namespace

TEST_F(HeapMisuse, DestroyedTwice) { EXPECT_REPORT(hak_heap_destroy(gone()), kNoHeap, false); }
TEST_F(HeapMisuse, MallocFromADestroyedHeap) {
  EXPECT_REPORT((void)!hak_heap_malloc(gone(), 100), kNoHeap, false);
  EXPECT_REPORT((void)!hak_heap_malloc(gone(), 100000), kNoHeap, false);
  EXPECT_REPORT((void)!hak_heap_calloc(gone(), 1, 100), kNoHeap, false);
  EXPECT_REPORT((void)!hak_heap_aligned_alloc(gone(), 64, 100), kNoHeap, false);
  EXPECT_REPORT((void)!hak_heap_realloc(gone(), nullptr, 100), kNoHeap, false);
}
TEST_F(HeapMisuse, MallocFromWhatNeverWasAHeap) {
  for (std::uintptr_t nonsense : {UINTPTR_MAX, UINTPTR_MAX << 16, std::uintptr_t{65535}, std::uintptr_t{65536}}) {
    auto mistake = [nonsense] {
      auto *heap = reinterpret_cast<hak_heap_t *>(nonsense); /* NOLINT(performance-no-int-to-ptr) */
      announce(heap, 0);
      (void)!hak_heap_malloc(heap, 100);
    };
    EXPECT_REPORT(mistake(), kNoHeap, false);
  }
}
TEST_F(HeapMisuse, StatsOfADestroyedHeap) {
  auto mistake = [] {
    hak_heap_stats_t stats;
    hak_heap_stats(gone(), &stats, sizeof stats);
  };
  EXPECT_REPORT(mistake(), kNoHeap, false);
  EXPECT_REPORT(hak_heap_set_limit(gone(), 1), kNoHeap, false);
}
TEST_F(HeapMisuse, FreeIntoADestroyedHeap) {
  EXPECT_REPORT(hak_heap_free(gone(), hak_malloc(10)), kNoHeap, false);
  EXPECT_REPORT((void)!hak_heap_realloc(gone(), hak_malloc(10), 100), kNoHeap, false);
}
TEST_F(HeapMisuse, NullAndNonsense) {
  for (std::uintptr_t nonsense : {std::uintptr_t{1}, std::uintptr_t{4096}, std::uintptr_t{1} << 40 | 1}) {
    auto *heap = reinterpret_cast<hak_heap_t *>(nonsense);
    EXPECT_REPORT((announce(heap, 0), (void)!hak_heap_malloc(heap, 100)), kNoHeap, false);
    EXPECT_REPORT((announce(heap, 0), hak_heap_destroy(heap)), kNoHeap, false);
  }
  EXPECT_EXIT((void)!hak_heap_malloc(nullptr, 100), testing::KilledBySignal(SIGABRT), kNoHeap);
}

TEST_P(HeapBlockMisuse, GivenToAnotherHeap) {
  auto mistake = [&](bool common, bool reallocated) {
    hak_heap_t *heap = hak_heap_new(0), *other = hak_heap_new(0);
    hak_heap_free(other, hak_heap_malloc(other, range.bytes));
    void *block = common ? hak_malloc(range.bytes) : hak_heap_malloc(heap, range.bytes);
    announce(block, 0);
    if (reallocated) (void)!hak_heap_realloc(other, block, range.bytes * 2);
    else hak_heap_free(other, block);
  };
  for (bool common : {false, true})
    for (bool reallocated : {false, true}) EXPECT_REPORT(mistake(common, reallocated), kOtherHeap, false);
}

TEST_P(HeapBlockMisuse, FreedTwice) {
  auto mistake = [&](void (*first)(hak_heap_t *, void *), void (*second)(hak_heap_t *, void *), bool elsewhere) {
    hak_heap_t *heap = hak_heap_new(0);
    (void)!hak_heap_malloc(heap, range.bytes);
    void *block = hak_heap_malloc(heap, range.bytes);
    announce(block, hak_usable_size(block));
    first(heap, block);
    auto again = [&] {
      second(heap, block);
      hak_thread_flush();
    };
    Worker worker;
    if (elsewhere) worker.run(again);
    else again();
    hak_thread_flush();
  };
  auto common = [](hak_heap_t *, void *block) { free(block); };
  for (bool elsewhere : {false, true}) {
    EXPECT_REPORT(mistake(hak_heap_free, hak_heap_free, elsewhere), kAnyFree, false);
    EXPECT_REPORT(mistake(common, hak_heap_free, elsewhere), "double free|already free|invalid|no block", false);
    EXPECT_REPORT(mistake(hak_heap_free, common, elsewhere), kAnyFree, false);
  }
}

TEST_P(HeapBlockMisuse, AddressInsideABlock) {
  auto mistake = [&](std::size_t offset, bool common) {
    hak_heap_t *heap = hak_heap_new(0);
    auto *block = static_cast<char *>(hak_heap_malloc(heap, range.bytes)) + offset;
    announce(block, 0);
    if (common) free(block);
    else hak_heap_free(heap, block);
  };
  for (std::size_t offset : {std::size_t{8}, range.bytes / 2 + 8, range.bytes - 1})
    EXPECT_REPORT(mistake(offset, true), kInvalid, false);
  EXPECT_REPORT(mistake(8, false), kInvalid, false);
}

TEST_P(HeapBlockMisuse, BlockOfADestroyedHeap) {
  auto mistake = [&] {
    hak_heap_t *heap = hak_heap_new(0);
    void *block = hak_heap_malloc(heap, range.bytes);
    announce(block, 0);
    hak_heap_destroy(heap);
    free(block);
  };
  EXPECT_REPORT(mistake(), kInvalid, false);
}

TEST_P(HeapBlockMisuse, WrongSize) {
  auto mistake = [&](std::size_t claimed) {
    hak_heap_t *heap = hak_heap_new(0);
    void *block = hak_heap_malloc(heap, range.bytes);
    announce(block, hak_usable_size(block));
    free_sized(block, claimed);
  };
  EXPECT_REPORT(mistake(range.bytes / 3), kSize, true);
  EXPECT_REPORT(mistake(range.bytes * 3), kSize, true);
}
