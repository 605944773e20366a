/*
 * A size that is not the block's, in a free that names one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "death/mistakes.h"
#include "death/reports.h"
#include "support/worker.h"

#include <gtest/gtest.h>
#include <hakmem.h>

#include <cstdlib>
#include <new>

extern "C" void free_sized(void *, std::size_t) noexcept;
extern "C" void free_aligned_sized(void *, std::size_t, std::size_t) noexcept;

using hak_test::Worker;

namespace {

class WrongSize : public testing::TestWithParam<Range> {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
  const Range range = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Of, WrongSize, testing::ValuesIn(kRanges), [](const auto &info) { return info.param.name; });

const std::size_t kWrongSizes[] = {100, 480, 5000, 50000, 200000, 2 << 20, 6 << 20, 50 << 20, SIZE_MAX};

/* Whether `claimed` is a size that no block of the range can have been asked for with. */
bool is_wrong(const Range &range, std::size_t claimed) {
  return claimed < range.bytes / 2 || claimed > 2 * range.bytes + 64;
}

}  // namespace

TEST_P(WrongSize, SizedFreeWithAnotherSize) {
  for (std::size_t claimed : kWrongSizes) {
    if (!is_wrong(range, claimed)) continue;
    auto mistake = [&] {
      Victim v = make(range.bytes);
      announce(v.block, v.usable);
      free_sized(v.block, claimed);
      hak_thread_flush();
    };
    SCOPED_TRACE(claimed);
    EXPECT_REPORT(mistake(), kSize, true);
  }
}

TEST_P(WrongSize, SizedDeleteWithAnotherSize) {
  for (std::size_t claimed : {std::size_t{160}, std::size_t{20000}, std::size_t{1} << 20, std::size_t{30} << 20}) {
    if (!is_wrong(range, claimed)) continue;
    auto mistake = [&](bool array) {
      make(range.bytes);
      void *block = hak_test::opaque(array ? operator new[](range.bytes) : operator new(range.bytes));
      announce(block, hak_usable_size(block));
      array ? operator delete[](block, claimed) : operator delete(block, claimed);
      hak_thread_flush();
    };
    SCOPED_TRACE(claimed);
    EXPECT_REPORT(mistake(false), kSize, true);
    EXPECT_REPORT(mistake(true), kSize, true);
  }
}

TEST_P(WrongSize, AlignedSizedFreeWithAnotherSize) {
  auto mistake = [&](bool cpp, std::size_t alignment, std::size_t claimed) {
    void *block = hak_test::opaque(aligned_alloc(64, range.bytes));
    announce(block, hak_usable_size(block));
    if (cpp) operator delete(block, claimed, std::align_val_t(alignment));
    else free_aligned_sized(block, alignment, claimed);
    hak_thread_flush();
  };
  for (bool cpp : {false, true}) {
    EXPECT_REPORT(mistake(cpp, 64, range.bytes * 10), kSize, true);
    if (range.bytes > 4 << 20) continue; /* it may have been a huge block */
    EXPECT_REPORT(mistake(cpp, 64, SIZE_MAX), kSize, true);
    EXPECT_REPORT(mistake(cpp, 16 << 20, range.bytes), kSize, true);
  }
}

TEST_P(WrongSize, SizedFreeWithAnotherSizeByAnotherThread) {
  for (std::size_t claimed : {range.bytes * 10, range.bytes / 10}) {
    auto mistake = [&] {
      Worker owner;
      Victim v;
      owner.run([&] { v = make(range.bytes); });
      announce(v.block, v.usable);
      free_sized(v.block, claimed);
      hak_thread_flush();
      owner.run([] { hak_thread_flush(); });
    };
    SCOPED_TRACE(claimed);
    EXPECT_REPORT(mistake(), kSize, true);
  }
}

/* The same function on a block that is already free: either mistake may be named. */
TEST_P(WrongSize, SizedDoubleFree) {
  auto mistake = [&] {
    Victim v = make(range.bytes);
    announce(v.block, v.usable);
    free_sized(v.block, range.bytes);
    free_sized(v.block, range.bytes);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

/* Growth may leave a block larger than it was asked to be, by some: a size that is far
 * off is wrong all the same. */
TEST_P(WrongSize, AfterRealloc) {
  for (std::size_t grown : {range.bytes + range.bytes / 100 + 1, range.bytes * 3}) {
    for (std::size_t claimed : {grown * 3 + 64, grown / 10, grown * 10}) {
      auto mistake = [&](bool cpp) {
        make(range.bytes);
        void *block = hak_test::opaque(realloc(malloc(range.bytes), grown));
        announce(block, hak_usable_size(block));
        cpp ? operator delete(block, claimed) : free_sized(block, claimed);
        hak_thread_flush();
      };
      SCOPED_TRACE(testing::Message() << range.bytes << " grown to " << grown << ", freed as " << claimed);
      EXPECT_REPORT(mistake(false), kSize, true);
      EXPECT_REPORT(mistake(true), kSize, true);
    }
  }
}

/* More than the block holds is never its size. */
TEST_P(WrongSize, OfOneByteMoreThanTheBlockHolds) {
  auto mistake = [&](bool grown) {
    void *block = hak_test::opaque(grown ? realloc(malloc(range.bytes), range.bytes + 1) : malloc(range.bytes));
    announce(block, hak_usable_size(block));
    free_sized(block, hak_usable_size(block) + 1);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(false), kSize, true);
  EXPECT_REPORT(mistake(true), kSize, true);
}
