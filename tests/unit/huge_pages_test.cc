/* Which huge blocks get huge pages: those of programs that use them to the last page. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <sys/mman.h>

namespace {

using hak_test::huge_resized;
using hak_test::kMiB;
using hak_test::purge_dirty;
constexpr size_t kHugePage = 2 * kMiB;

class HugePages : public testing::Test {
 protected:
  /* As in a program that has not used a huge block yet: an empty one, larger than all credit, ends all credit. */
  void SetUp() override { ASSERT_TRUE(huge_free(Allocated(1024 * kMiB))); }
  void TearDown() override {
    for (void *block : kept) EXPECT_TRUE(huge_free(block));
    purge_dirty(); /* the next test's blocks are fresh again */
    arena_check();
  }

  char *Allocated(size_t bytes) {
    auto *block = static_cast<char *>(huge_alloc(bytes, 1, false));
    EXPECT_NE(block, nullptr);
    return block;
  }
  char *Filled(size_t bytes) {
    char *block = Allocated(bytes);
    std::memset(block, 1, bytes);
    return block;
  }
  char *Kept(char *block) { return kept.push_back(block), block; }

  /* Of the huge pages that would fit wholly into the block, those that were asked for, in MiB. */
  static size_t AskedMiB(const char *block, size_t bytes) {
    size_t first = map_unit_of(block), end = first + bytes / UNIT_BYTES, asked = 0;
    for (size_t n = align_up(first, SUPERSLAB_UNITS) / SUPERSLAB_UNITS; (n + 1) * SUPERSLAB_UNITS <= end; n++)
      asked += the_map.superslabs[n].huge_page ? 2 : 0;
    return asked;
  }
  /* Whether one was asked for where a block of so many units ends, in a SuperSlab of which it has a part. */
  static bool AskedAtTheEnd(const char *block, size_t units) {
    return the_map.superslabs[(map_unit_of(block) + units) / SUPERSLAB_UNITS].huge_page;
  }
  /* A free SuperSlab of which so many units are resident, in small pages. */
  static char *DirtyUnits(size_t units) {
    unit_t first = arena_take(ZONE_HUGE, units, SUPERSLAB_UNITS, nullptr);
    EXPECT_NE(first, 0u);
    map_refuse_huge_pages(first / SUPERSLAB_UNITS, first / SUPERSLAB_UNITS + 1);
    std::memset(map_address(first), 1, units * UNIT_BYTES);
    arena_give(first, units);
    return map_address(first);
  }
  static size_t ResidentPages(char *at, size_t bytes) {
    std::vector<unsigned char> pages(bytes / os_page_bytes());
    EXPECT_TRUE(os_resident_pages(at, bytes, pages.data()));
    return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
  }
  std::vector<char *> kept;
};
}  // namespace

TEST_F(HugePages, NobodyGetsThemUnseen) {
  char *block = Kept(Filled(8 * kMiB));
  EXPECT_EQ(AskedMiB(block, 8 * kMiB), 0u);
}

TEST_F(HugePages, ABlockThatWasFullEarnsThemForOthers) {
  huge_free(Filled(8 * kMiB));
  char *block = Kept(Allocated(13 * kMiB));
  EXPECT_EQ(AskedMiB(block, 13 * kMiB), 12u) << "all but the end that is no whole huge page";
}

constexpr size_t kHalf = SUPERSLAB_UNITS / 2;

TEST_F(HugePages, SoDoesTheEndIfHalfOfThatIsTheBlocks) {
  huge_free(Filled(8 * kMiB));
  purge_dirty();
  EXPECT_TRUE(AskedAtTheEnd(Kept(Allocated(12 * kMiB + kHalf * UNIT_BYTES)), 6 * SUPERSLAB_UNITS + kHalf));
  EXPECT_FALSE(AskedAtTheEnd(Kept(Allocated(12 * kMiB + (kHalf - 1) * UNIT_BYTES)), 6 * SUPERSLAB_UNITS + kHalf - 1));
}

TEST_F(HugePages, NobodyPaysForTheEndWithCreditThatHeDoesNotHave) {
  huge_free(Filled(8 * kMiB));
  purge_dirty();
  EXPECT_FALSE(AskedAtTheEnd(Kept(Allocated(64 * kMiB + kMiB)), 32 * SUPERSLAB_UNITS + kHalf));
}

TEST_F(HugePages, WithoutCreditTheyEndThereAgain) {
  huge_free(Filled(8 * kMiB));
  purge_dirty();
  char *block = Allocated(63 * kMiB);
  ASSERT_TRUE(AskedAtTheEnd(block, 31 * SUPERSLAB_UNITS + kHalf));
  huge_free(block);
  purge_dirty();
  EXPECT_FALSE(AskedAtTheEnd(Kept(Allocated(63 * kMiB)), 31 * SUPERSLAB_UNITS + kHalf));
}

/* Its first touch makes all of it resident: what nobody uses of it goes back with the block. */
TEST_F(HugePages, WhatLiesBehindTheEndIsDirtyOnceTheBlockIsFree) {
  unit_t first = arena_take(ZONE_HUGE, SUPERSLAB_UNITS + kHalf, SUPERSLAB_UNITS, nullptr);
  ASSERT_NE(first, 0u);
  ASSERT_TRUE(arena_widen_end(first, SUPERSLAB_UNITS + kHalf, true));
  EXPECT_FALSE(arena_widen_end(first, SUPERSLAB_UNITS + kHalf, true)) << "that is no news";
  size_t before = arena_usage().dirty;
  arena_give(first, SUPERSLAB_UNITS + kHalf);
  EXPECT_EQ(arena_usage().dirty - before, 2 * kHugePage);
}

TEST_F(HugePages, WhereSomethingElseLiesTheEndStaysAsItIs) {
  unit_t first = arena_take(ZONE_HUGE, SUPERSLAB_UNITS + kHalf, SUPERSLAB_UNITS, nullptr);
  unit_t other = arena_take(ZONE_HUGE, 1, 1, nullptr);
  ASSERT_EQ(other, first + SUPERSLAB_UNITS + kHalf) << "the gap behind it is the shortest";
  EXPECT_FALSE(arena_widen_end(first, SUPERSLAB_UNITS + kHalf, true));
  arena_give(other, 1);
  EXPECT_FALSE(arena_widen_end(first, SUPERSLAB_UNITS + kHalf, true)) << "that is resident";
  arena_give(first, SUPERSLAB_UNITS + kHalf);
}

TEST_F(HugePages, LittleThatIsResidentInSmallPagesGoesForThem) {
  huge_free(Filled(8 * kMiB));
  for (size_t units : {kHalf, kHalf + 1}) {
    purge_dirty();
    DirtyUnits(units);
    auto *block = static_cast<char *>(huge_alloc(kHugePage, kHugePage, false));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(ResidentPages(block, kHugePage), units == kHalf ? 0 : units * UNIT_BYTES / os_page_bytes());
    Kept(block);
  }
}

TEST_F(HugePages, WithoutCreditItStays) {
  DirtyUnits(kHalf);
  EXPECT_EQ(ResidentPages(Kept(Allocated(kHugePage)), kHugePage), kHalf * UNIT_BYTES / os_page_bytes());
}

TEST_F(HugePages, WhatHasGoneForThemNeedsNoClearing) {
  huge_free(Filled(8 * kMiB));
  purge_dirty();
  DirtyUnits(3);
  auto *block = static_cast<char *>(huge_alloc(kHugePage, kHugePage, true));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(ResidentPages(block, kHugePage), 0u);
  EXPECT_TRUE(hak_test::is_zero(block, kHugePage));
  Kept(block);
}

TEST_F(HugePages, WhatTheSystemDoesNotTakeBackIsCleared) {
  huge_free(Filled(8 * kMiB));
  purge_dirty();
  char *dirty = DirtyUnits(3);
  if (mlock(dirty, UNIT_BYTES) != 0) GTEST_SKIP() << "no memory may be locked";
  auto *block = static_cast<char *>(huge_alloc(kHugePage, kHugePage, true));
  EXPECT_EQ(block, dirty);
  EXPECT_TRUE(hak_test::is_zero(block, kHugePage));
  munlock(dirty, UNIT_BYTES);
  Kept(block);
}

TEST_F(HugePages, TheSystemIsAsked) {
  huge_free(Filled(8 * kMiB));
  uint64_t calls = atomic64_load_relaxed(&os_calls.madvise);
  Kept(Allocated(64 * kMiB));
  EXPECT_GT(atomic64_load_relaxed(&os_calls.madvise), calls);
}

TEST_F(HugePages, OfNeighboursTheFirstTellsOfTheNext) {
  Kept(Filled(8 * kMiB));
  char *next = Kept(Allocated(8 * kMiB));
  EXPECT_EQ(AskedMiB(next, 8 * kMiB), 8u);
}

TEST_F(HugePages, ANeighbourThatIsNotFilledYetTellsNothing) {
  char *first = Kept(Allocated(8 * kMiB));
  char *next = Kept(Allocated(8 * kMiB));
  EXPECT_EQ(AskedMiB(next, 8 * kMiB), 0u);
  std::memset(first, 1, 8 * kMiB);
  std::memset(next, 1, 8 * kMiB);
  char *last = Kept(Allocated(8 * kMiB));
  EXPECT_EQ(AskedMiB(last, 8 * kMiB), 8u);
}

TEST_F(HugePages, ASparseBlockEndsAllCredit) {
  std::string system_default; /* first word of the setting */
  std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled") >> system_default;
  if (system_default == "[always]") GTEST_SKIP() << "the system gives huge pages unasked";
  huge_free(Filled(16 * kMiB));
  char *sparse = Allocated(512 * kMiB); /* more than there is credit for */
  EXPECT_EQ(AskedMiB(sparse, 512 * kMiB), 0u);
  for (size_t at = 0; at < 512 * kMiB; at += kHugePage) sparse[at] = 1;
  huge_free(sparse);
  purge_dirty();
  char *block = Kept(Allocated(64 * kMiB));
  EXPECT_EQ(AskedMiB(block, 64 * kMiB), 0u);
}

/* Most of what is done for a block that is not used would be to ask whether it was. */
TEST_F(HugePages, WhoHardlyUsesHisBlocksIsAskedNowAndThen) {
  constexpr uint64_t kBlocks = 64;
  for (int i = 0; i < 16; i++) huge_free(Allocated(kHugePage));
  uint64_t asked = 0;
  for (uint64_t i = 0; i < kBlocks; i++) {
    const uint64_t before = atomic64_load_relaxed(&os_calls.mincore);
    huge_free(Allocated(kHugePage)); /* so little is not purged */
    asked += atomic64_load_relaxed(&os_calls.mincore) - before;
    purge_dirty(); /* it is clean, and could tell */
  }
  EXPECT_GE(asked, kBlocks / 8) << "else nobody would see that it fills them now";
  EXPECT_LE(asked, kBlocks / 2) << "by one that it may still fill, and when they are freed";
}

TEST_F(HugePages, OneThatIsNeverFilledIsAskedAboutNowAndThen) {
  constexpr uint64_t kBlocks = 64;
  purge_dirty();
  char *first = Allocated(8 * kMiB);
  Kept(Allocated(13 * kMiB)); /* the newest in clean memory */
  huge_free(first);
  uint64_t before = atomic64_load_relaxed(&os_calls.mincore);
  for (uint64_t i = 0; i < kBlocks; i++) huge_free(Allocated(8 * kMiB)); /* in what the first one has left */
  uint64_t asked = atomic64_load_relaxed(&os_calls.mincore) - before;
  EXPECT_GE(asked, kBlocks / 8);
  EXPECT_LE(asked, kBlocks / 3);
}

TEST_F(HugePages, WhoFillsThemAllOfASuddenIsSeenSoon) {
  for (int i = 0; i < 100; i++) huge_free(Allocated(8 * kMiB));
  purge_dirty();
  size_t full = 0, asked = 0;
  for (; asked == 0 && full < 20; full++) {
    huge_free(Filled(8 * kMiB));
    purge_dirty(); /* in memory that was clean */
    char *block = Allocated(8 * kMiB);
    asked = AskedMiB(block, 8 * kMiB);
    huge_free(block);
  }
  EXPECT_GT(asked, 0u);
  EXPECT_LE(full, 8u);
}

/* What could become resident without need: eight times what was seen to be used. */
TEST_F(HugePages, CreditIsSpent) {
  huge_free(Filled(8 * kMiB));
  purge_dirty();
  size_t asked = 0;
  for (int i = 0; i < 40; i++) asked += AskedMiB(Kept(Allocated(8 * kMiB)), 8 * kMiB);
  EXPECT_EQ(asked, 64u);
}

TEST_F(HugePages, SeenAgainAndAgainItIsWorthNoMore) {
  for (int i = 0; i < 10; i++) {
    huge_free(Filled(8 * kMiB));
    purge_dirty();
  }
  EXPECT_EQ(AskedMiB(Kept(Allocated(128 * kMiB)), 128 * kMiB), 0u);
}

/* A program that used to fill its blocks and does so no more, in the same place. */
TEST_F(HugePages, WhereThereAreHugePagesTheyEndAgain) {
  huge_free(Filled(32 * kMiB));
  purge_dirty();
  size_t with = 0;
  for (int i = 0; i < 20; i++) {
    char *block = Allocated(32 * kMiB);
    with += AskedMiB(block, 32 * kMiB) != 0;
    huge_free(block);
    purge_dirty();
  }
  EXPECT_EQ(with, 8u) << "32 MiB that were full are credit for eight such blocks; after them one shows it is sparse";
}

/* What is resident in small pages stays so, until it is purged. */
TEST_F(HugePages, UsedMemoryIsClearedAsEver) {
  char *first = Filled(8 * kMiB), *second = Filled(24 * kMiB);
  huge_free(first);
  huge_free(second);
  auto *block = static_cast<char *>(huge_alloc(24 * kMiB, 1, true));
  EXPECT_EQ(AskedMiB(block, 24 * kMiB), 24u);
  EXPECT_TRUE(hak_test::is_zero(block, 24 * kMiB));
  Kept(block);
}

TEST_F(HugePages, ABlockEarnsThemForItsOwnGrowth) {
  char *block = Allocated(8 * kMiB);
  for (size_t bytes = 8 * kMiB; bytes < 128 * kMiB; bytes *= 2) {
    hak_test::stamp_as(block, bytes, 4);
    block = static_cast<char *>(huge_resized(block, 2 * bytes));
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(hak_test::stamped_as(block, bytes, 4, bytes));
  }
  EXPECT_GE(AskedMiB(block, 128 * kMiB), 64u);
  Kept(block);
}

/* The same when each step has to move the block. */
TEST_F(HugePages, MovedPagesKeepWhatIsKnownOfThem) {
  char *block = Allocated(8 * kMiB);
  size_t bytes = 8 * kMiB;
  for (; bytes < 64 * kMiB; bytes *= 2) {
    Kept(Allocated(6 * kMiB)); /* in the way */
    hak_test::stamp_as(block, bytes, 4);
    block = static_cast<char *>(huge_resized(block, 2 * bytes));
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(hak_test::stamped_as(block, bytes, 4, bytes));
  }
  EXPECT_EQ(AskedMiB(block, 8 * kMiB), 0u) << "they came in small pages";
  EXPECT_GT(AskedMiB(block, bytes), 0u);
  Kept(block);
}
