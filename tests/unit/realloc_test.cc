/* What realloc leaves for later calls to know. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/process.h"

#include <hakmem.h>

#include <array>
#include <cstring>
#include <vector>

namespace {
/* What is resident of the blocks themselves, which begin at units: what the process has holds pages of an emulator,
 * too. */
template <std::size_t kBlocks> std::size_t resident_of(const std::array<void *, kBlocks> &blocks, std::size_t bytes) {
  std::size_t sum = 0;
  for (void *block : blocks) {
    std::size_t resident = 0;
    EXPECT_TRUE(pages_count_resident(static_cast<char *>(block), align_up(bytes, os_page_bytes()), &resident));
    sum += resident;
  }
  return sum;
}
}  // namespace

/* A block that grows by a small step is copied to one that is larger than asked for. The size that was asked
 * for is right all the same, also for operator delete, which takes no block for one that was shrunk: a report
 * would end the process. */
TEST(Realloc, WhatGrewAheadIsFreedByTheSizeAskedFor) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const std::size_t bytes = size_classes[c].block_bytes;
    for (std::size_t asked : {bytes + 1, bytes + bytes / 8 + 1, bytes + bytes / 4}) {
      void *block = hak_realloc(hak_malloc(bytes), asked);
      ASSERT_NE(block, nullptr);
      alloc_delete_sized(block, asked);
    }
  }
}

/* Of each array only the ends are used. What is freed lies dirty beside the next ones that grow, and is no reason for
 * the heap to become larger. */
TEST(Realloc, ArraysThatDoubleAgainAndAgainFindThePlaceOfThoseBefore) {
  constexpr std::size_t kLeast = 64, kMost = hak_test::kMiB, kAtATime = 8;
  auto round = [] {
    std::array<char *, kAtATime> arrays{};
    for (std::size_t bytes = kLeast; bytes <= kMost; bytes *= 2) {
      for (char *&array : arrays) {
        array = static_cast<char *>(hak_realloc(array, bytes));
        array[bytes / 2] = array[bytes - 1] = 1;
      }
    }
    for (char *array : arrays) hak_free(array);
  };
  for (int i = 0; i < 20; i++) round();
  const std::size_t committed = arena_usage().committed;
  for (int i = 0; i < 300; i++) round();
  EXPECT_LE(arena_usage().committed, committed + 2 * kAtATime * kMost);
}

TEST(Realloc, AHugeBlockIsCutWhereItIsAndGrowsAgain) {
  using hak_test::kMiB;
  void *block = hak_malloc(8 * kMiB);
  EXPECT_EQ(hak_realloc(block, kMiB), block);
  EXPECT_EQ(hak_usable_size(block), kMiB);
  EXPECT_EQ(hak_realloc(block, 6 * kMiB), block) << "what was cut off lies behind it still";
  void *little = hak_realloc(block, 50 * 1024);
  EXPECT_NE(little, block) << "to copy that takes no time";
  hak_free(little);
}

/* Four at a time are filled, cut and kept, as buffers are that something was read into. The next ones do not
 * fit into what was cut off. */
TEST(Realloc, WhereCutBlocksLeaveGapsTheyAreCopied) {
  constexpr std::size_t kBlocks = 40, kAtATime = 4, kWhole = 8 * hak_test::kMiB, kLeft = 3 * hak_test::kMiB;
  std::array<void *, kBlocks> blocks{};
  for (std::size_t i = 0; i < kBlocks; i += kAtATime) {
    for (std::size_t j = i; j < i + kAtATime; j++) blocks[j] = std::memset(hak_malloc(kWhole), 1, kWhole);
    for (std::size_t j = i; j < i + kAtATime; j++) blocks[j] = hak_realloc(blocks[j], kLeft);
  }
  EXPECT_LE(arena_usage().dirty, 2 * kAtATime * kWhole) << "beside " << kBlocks * kLeft << " in use";
  for (void *block : blocks) hak_free(block);
}

/* The copies would be resident, of blocks of which a page is. */
TEST(Realloc, WhatWasHardlyWrittenToIsNotCopiedWhateverGapsItLeaves) {
  constexpr std::size_t kBlocks = 40, kAtATime = 4, kWhole = 8 * hak_test::kMiB, kLeft = 3 * hak_test::kMiB;
  std::array<void *, kBlocks> blocks{};
  for (std::size_t i = 0; i < kBlocks; i += kAtATime) {
    for (std::size_t j = i; j < i + kAtATime; j++) blocks[j] = std::memset(hak_malloc(kWhole), 1, 1);
    for (std::size_t j = i; j < i + kAtATime; j++) blocks[j] = hak_realloc(blocks[j], kLeft);
  }
  EXPECT_LE(resident_of(blocks, kLeft), 2 * kLeft);
  for (void *block : blocks) hak_free(block);
}

/* As a buffer into which something was read that is shorter. */
TEST(Realloc, ALargeBlockThatWasHardlyWrittenToStaysWhereItIs) {
  for (std::size_t whole : {hak_test::kMiB / 5, 3 * hak_test::kMiB}) {
    const std::size_t left = whole / 3;
    void *block = std::memset(hak_malloc(whole), 1, left / 10);
    EXPECT_EQ(hak_realloc(block, left), block) << whole;
    hak_free_sized(block, left);
    block = std::memset(hak_malloc(whole), 1, whole);
    void *copy = hak_realloc(block, left);
    EXPECT_NE(copy, block) << whole << ", of which two thirds would stay";
    hak_free_sized(copy, left);
  }
}

TEST(Realloc, ALargeBlockThatWasHardlyWrittenToKeepsNoMoreThanItNeeds) {
  constexpr std::size_t kBlocks = 40, kWhole = 4000000;
  for (std::size_t left : {std::size_t{40000}, std::size_t{100000}, kWhole / 3}) {
    std::array<void *, kBlocks> blocks{};
    const std::size_t before = arena_usage().used;
    for (void *&block : blocks) {
      block = std::memset(hak_malloc(kWhole), 7, 100);
      block = hak_realloc(block, left);
      EXPECT_LT(hak_usable_size(block), left + left / 3 + UNIT_BYTES);
    }
    EXPECT_LE(arena_usage().used, before + kBlocks * (left + left / 3 + UNIT_BYTES) + kWhole) << left;
    hak__check_all();
    for (void *block : blocks) {
      EXPECT_EQ(static_cast<char *>(block)[99], 7);
      hak_free_sized(block, left);
    }
  }
}

TEST(Realloc, ALargeBlockThatWasNeverWrittenToIsNotCopied) {
  constexpr std::size_t kBlocks = 40, kWhole = 4000000;
  for (std::size_t bytes : {kWhole / 3, 3 * kWhole}) {
    std::array<void *, kBlocks> blocks{};
    for (void *&block : blocks) block = hak_malloc(kWhole);
    const std::size_t before = resident_of(blocks, kWhole);
    for (void *&block : blocks) block = hak_realloc(block, bytes);
    EXPECT_LE(resident_of(blocks, bytes), before + kWhole) << bytes;
    for (void *block : blocks) hak_free_sized(block, bytes);
  }
}

TEST(Realloc, ALargeBlockThatWasHardlyWrittenToIsNotCopiedWhenItGrows) {
  constexpr std::size_t kBlocks = 40, kGrown = 3900000;
  for (std::size_t whole : {std::size_t{300000}, std::size_t{2000000}}) {
    std::array<void *, kBlocks> blocks{};
    for (void *&block : blocks) block = std::memset(hak_malloc(whole), 7, 100);
    const std::size_t before = resident_of(blocks, whole);
    for (void *&block : blocks) block = hak_realloc(block, kGrown);
    EXPECT_LE(resident_of(blocks, kGrown), before + kBlocks * hak_test::kMiB / 16) << whole;
    hak__check_all();
    for (void *&block : blocks) block = hak_realloc(block, kGrown / 4); /* huge now, and small */
    hak__check_all();
    for (void *block : blocks) {
      EXPECT_EQ(static_cast<char *>(block)[99], 7);
      hak_free_sized(block, kGrown / 4);
    }
  }
}

/* A call would take tens of milliseconds. */
TEST(Realloc, WhatIsMuchIsNotCopiedWhateverGapsItLeaves) {
  constexpr std::size_t kBlocks = 40, kAtATime = 4, kWhole = 8 * hak_test::kMiB, kLeft = 5 * hak_test::kMiB;
  std::array<void *, kBlocks> blocks{};
  for (std::size_t i = 0; i < kBlocks; i += kAtATime) {
    for (std::size_t j = i; j < i + kAtATime; j++) blocks[j] = hak_malloc(kWhole);
    for (std::size_t j = i; j < i + kAtATime; j++) {
      void *whole = blocks[j];
      blocks[j] = hak_realloc(whole, kLeft);
      EXPECT_EQ(blocks[j], whole) << j;
    }
  }
  for (void *block : blocks) hak_free(block);
}

/* What a program at its limit gives back may be all there is: where there is no memory for a smaller copy, the block is
 * cut where it is. */
TEST(Realloc, AtTheEndOfMemoryABlockIsCutWhereItIs) {
  constexpr std::size_t kHuge = 20 * hak_test::kMiB, kLarge = 4 * hak_test::kMiB, kLess = 200 * 1024, kMid = 60000;
  for (std::size_t bytes : {kHuge, kLarge}) {
    void *first = std::memset(hak_malloc(bytes), 1, bytes), *second = std::memset(hak_malloc(bytes), 1, bytes);
    limit_set_hard(limit_charged());
    std::vector<void *> rest;
    for (std::size_t less : {kLess, kMid})
      while (void *block = hak_malloc(less)) rest.push_back(block);
    EXPECT_EQ(hak_realloc(first, kLess), first);
    EXPECT_EQ(hak_usable_size(first), align_up(kLess, UNIT_BYTES));
    for (void *block; (block = hak_malloc(kLess)) != nullptr; rest.push_back(block)) ASSERT_LT(rest.size(), 1000u);
    while (void *block = hak_malloc(kMid)) rest.push_back(block);
    EXPECT_EQ(hak_realloc(second, kMid), second);
    EXPECT_LE(hak_usable_size(second), 2 * UNIT_BYTES);
    void *more = hak_malloc(kLess);
    EXPECT_NE(more, nullptr) << "of what " << bytes << " bytes gave back";
    limit_set_hard(0);
    hak_free_sized(first, kLess);
    hak_free_sized(second, kMid);
    hak_free(more);
    for (void *block : rest) hak_free(block);
  }
}

/* What is free but dirty goes before a block that can grow where it is is refused. */
TEST(Realloc, AtTheEndOfMemoryABlockGrowsWhereItIs) {
  constexpr std::size_t kFew = 2 * hak_test::kMiB, kMore = 3 * hak_test::kMiB, kPart = 512 * 1024;
  limit_set_hard(64 * hak_test::kMiB);
  void *grows = hak_malloc(kFew), *behind = hak_malloc(kFew);
  ASSERT_EQ(static_cast<char *>(behind) - static_cast<char *>(grows), static_cast<std::ptrdiff_t>(kFew)) << "void";
  std::vector<void *> rest, others; /* these lie elsewhere, by their alignment */
  while (void *block = hak_malloc(hak_test::kMiB)) rest.push_back(block);
  hak_free(behind);
  hak_thread_flush();
  hak_trim(0);
  while (void *block = hak_aligned_alloc(2 * UNIT_BYTES, kPart)) others.push_back(block);
  for (std::size_t i = 0; i < 3; i++) hak_free(others[i]);
  EXPECT_EQ(hak_realloc(grows, kMore), grows);
  limit_set_hard(0);
  hak_free(grows);
  for (std::size_t i = 3; i < others.size(); i++) hak_free(others[i]);
  for (void *block : rest) hak_free(block);
}

/* The same of a region's, at its own limit. */
TEST(Realloc, AtTheEndOfARegionABlockIsCutWhereItIs) {
  hak_heap_t *heap = hak_heap_new(32 * hak_test::kMiB);
  ASSERT_NE(heap, nullptr);
  void *block = hak_heap_malloc(heap, 20 * hak_test::kMiB);
  ASSERT_NE(block, nullptr);
  for (std::size_t bytes : {hak_test::kMiB, std::size_t{100000}, std::size_t{60000}})
    while (hak_heap_malloc(heap, bytes) != nullptr) {}
  EXPECT_EQ(hak_heap_realloc(heap, block, 100000), block);
  EXPECT_NE(hak_heap_malloc(heap, 16 * hak_test::kMiB), nullptr);
  hak_heap_destroy(heap);
}
