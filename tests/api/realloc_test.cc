/*
 * realloc and reallocarray: what was in the block is in the block.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/surface.h"
#include "support/payload.h"
#include "support/process.h"

#include <hakmem.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

using hak_test::stamp_as;
using hak_test::stamped_as;

class Realloc : public BothSurfaces {
 protected:
  /* The sizes at which the allocator's answer changes, and one more than each. */
  std::vector<std::size_t> boundaries(std::size_t up_to) {
    std::vector<std::size_t> sizes;
    /* The first ones of a size may be lent from a larger class. */
    constexpr int kMostLent = 64;
    for (std::size_t bytes = 1; bytes <= up_to;) {
      std::vector<void *> blocks;
      for (int i = 0; i < kMostLent; i++) blocks.push_back(s.malloc(bytes));
      std::size_t usable = s.usable(blocks.back());
      for (void *block : blocks) s.free(block);
      sizes.push_back(usable);
      sizes.push_back(usable + 1);
      bytes = usable + 1;
    }
    return sizes;
  }

  void check(std::size_t from, std::size_t to) {
    void *block = s.malloc(from);
    ASSERT_NE(block, nullptr);
    stamp_as(block, from, from + to);
    void *neighbour = s.malloc(from);
    stamp_as(neighbour, from, 99);
    void *moved = s.realloc(block, to);
    ASSERT_NE(moved, nullptr) << from << " to " << to;
    ASSERT_GE(s.usable(moved), to) << from << " to " << to;
    ASSERT_TRUE(aligned_to(moved, 16));
    ASSERT_TRUE(stamped_as(moved, std::min(from, to), from + to, from)) << "content lost from " << from << " to " << to;
    stamp_as(moved, s.usable(moved), 1);
    ASSERT_TRUE(stamped_as(neighbour, from, 99, from)) << "the neighbour was overwritten, " << from << " to " << to;
    s.free(moved);
    s.free(neighbour);
  }
};
FOR_BOTH_SURFACES(Realloc);

TEST_P(Realloc, AcrossEverySizeBoundaryOfSmallBlocks) {
  std::vector<std::size_t> sizes = boundaries(65536);
  ASSERT_GT(sizes.size(), 200u) << "so few sizes waste too much";
  for (std::size_t i = 0; i < sizes.size(); i++) {
    for (std::size_t other : {i + 1, i + 2, i + 7, i * 2}) {
      if (other >= sizes.size()) continue;
      ASSERT_NO_FATAL_FAILURE(check(sizes[i], sizes[other]));
      ASSERT_NO_FATAL_FAILURE(check(sizes[other], sizes[i]));
    }
  }
}

TEST_P(Realloc, BetweenAllRanges) {
  std::vector<std::size_t> sizes = {
      1,      16,     100,    1024,    1025,    4096,          20000,   32768,         32769,   65536,   65537,
      131072, 131073, 200000, 1 << 20, 2 << 20, (2 << 20) + 1, 4 << 20, (4 << 20) + 1, 5 << 20, 9 << 20, 17 << 20};
  for (std::size_t from : sizes)
    for (std::size_t to : sizes) {
      if (std::min(from, to) > kLargestRealloc) continue;
      ASSERT_NO_FATAL_FAILURE(check(from, to));
    }
}

TEST_P(Realloc, GrowsAndShrinksStepByStep) {
  struct Walk {
    std::size_t step, top;
  };
  for (Walk walk : {Walk{1, 5000}, Walk{997, 400000}, Walk{65536, 12 << 20}, Walk{(1 << 20) + 13, 80 << 20}}) {
    if (walk.top > kLargestRealloc) continue;
    auto *block = static_cast<unsigned char *>(s.malloc(1));
    std::size_t bytes = 1;
    block[0] = 1;
    auto mark = [](std::size_t at) { return static_cast<unsigned char>(at * 31 + at / 251); };
    /* Marks the ends of each step's piece. */
    std::vector<std::size_t> marks;
    while (bytes < walk.top) {
      std::size_t bigger = bytes + walk.step;
      block = static_cast<unsigned char *>(s.realloc(block, bigger));
      ASSERT_NE(block, nullptr) << bigger;
      for (std::size_t at : {bytes, bigger - 1}) {
        block[at] = mark(at);
        marks.push_back(at);
      }
      bytes = bigger;
    }
    while (!marks.empty()) {
      for (std::size_t at : marks) {
        ASSERT_EQ(block[at], mark(at)) << "byte " << at << " changed in a block of " << bytes;
        if (marks.size() > 1000) break; /* the first always; all of them near the end */
      }
      ASSERT_EQ(block[marks.back()], mark(marks.back())) << "byte " << marks.back() << " of " << bytes;
      marks.resize(marks.size() - 2);
      bytes -= walk.step;
      block = static_cast<unsigned char *>(s.realloc(block, bytes));
      ASSERT_NE(block, nullptr) << bytes;
    }
    EXPECT_EQ(block[0], 1);
    s.free(block);
  }
}

TEST_P(Realloc, ToZeroFreesAndGivesNull) {
  hak_thread_flush();
  hak_stats_t before, after;
  hak_stats(&before, sizeof before);
  for (std::size_t bytes : kSizes) {
    void *block = s.malloc(bytes);
    EXPECT_EQ(s.realloc(block, 0), nullptr) << "of a block of " << bytes << " bytes";
    block = s.malloc(bytes);
    EXPECT_EQ(s.reallocarray(block, 0, 8), nullptr);
  }
  hak_thread_flush();
  hak_stats(&after, sizeof after);
  EXPECT_EQ(after.live, before.live) << "realloc(p, 0) did not free";
}

TEST_P(Realloc, OfNullAllocates) {
  void *block = s.realloc(nullptr, 1000);
  ASSERT_NE(block, nullptr);
  EXPECT_GE(s.usable(block), 1000u);
  s.free(block);
  block = s.reallocarray(nullptr, 10, 100);
  ASSERT_NE(block, nullptr);
  EXPECT_GE(s.usable(block), 1000u);
  s.free(block);
}

TEST_P(Realloc, SuccessKeepsErrno) {
  for (std::size_t from : kSizes) {
    void *block = s.malloc(from);
    errno = 4711;
    block = s.realloc(block, from * 2 + 1);
    EXPECT_EQ(errno, 4711) << from;
    block = s.realloc(block, from / 2 + 1);
    EXPECT_EQ(errno, 4711) << from;
    s.free(block);
  }
}

TEST_P(Realloc, ArrayKeepsContent) {
  auto *block = static_cast<int *>(s.reallocarray(nullptr, 1, sizeof(int)));
  for (int count = 1; count < 20000; count += count / 3 + 1) {
    block = static_cast<int *>(s.reallocarray(block, static_cast<std::size_t>(count), sizeof(int)));
    ASSERT_NE(block, nullptr);
    for (int i = 0; i < count; i++) block[i] = i ^ count;
    int next = count + count / 3 + 1;
    block = static_cast<int *>(s.reallocarray(block, static_cast<std::size_t>(next), sizeof(int)));
    ASSERT_NE(block, nullptr);
    for (int i = 0; i < count; i++) ASSERT_EQ(block[i], i ^ count) << "element " << i << " of " << count;
  }
  s.free(block);
}

/* What is cut off a big block does not stay resident. */
TEST_P(Realloc, ShrinkingABigBlockGivesItsMemoryBack) {
  const std::size_t big = std::size_t{256} << 20;
  auto *block = static_cast<unsigned char *>(s.malloc(big));
  ASSERT_NE(block, nullptr);
  for (std::size_t at = 0; at < big; at += 1024) block[at] = 1;
  const std::size_t full = hak_test::resident_bytes();
  block = static_cast<unsigned char *>(s.realloc(block, 1 << 20));
  ASSERT_NE(block, nullptr);
  hak_trim(0);
  EXPECT_LT(hak_test::resident_bytes() + (big - (std::size_t{32} << 20)), full) << "256 MiB shrunk to 1 MiB";
  s.free(block);
}

/* A huge block grows by moving its pages, not by copying them into new ones. */
TEST_P(Realloc, GrowingAHugeBlockDoesNotDoubleItsMemory) {
  const std::size_t half = std::size_t{192} << 20;
  auto *block = static_cast<unsigned char *>(s.malloc(half));
  ASSERT_NE(block, nullptr);
  hak_test::stamp_as(block, half, 8);
  void *in_the_way = s.malloc(half);
  hak_test::reset_peak();
  const std::size_t before = hak_test::status_kib("VmHWM:");
  block = static_cast<unsigned char *>(s.realloc(block, 2 * half));
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(hak_test::stamped_as(block, half, 8, half));
  EXPECT_LT(hak_test::status_kib("VmHWM:"), before + (half >> 10) / 4)
      << "KiB at the peak while 192 MiB grew to 384 MiB: the old block was copied";
  s.free(block);
  s.free(in_the_way);
}
