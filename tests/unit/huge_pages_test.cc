/* Which huge blocks get huge pages: those of programs that use them to the last page. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"

#include <fstream>
#include <string>

namespace {

using hak_test::kMiB;
constexpr size_t kHugePage = 2 * kMiB;

class HugePages : public testing::Test {
 protected:
  /* As in a program that has not used a huge block yet: an empty one, larger than all credit, ends all credit. */
  void SetUp() override { ASSERT_TRUE(huge_free(Allocated(1024 * kMiB))); }
  void TearDown() override {
    for (void *block : kept) EXPECT_TRUE(huge_free(block));
    arena_purge(0); /* the next test's blocks are fresh again */
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
  arena_purge(0);
  char *block = Kept(Allocated(64 * kMiB));
  EXPECT_EQ(AskedMiB(block, 64 * kMiB), 0u);
}

/* What could become resident without need: eight times what was seen to be used. */
TEST_F(HugePages, CreditIsSpent) {
  huge_free(Filled(8 * kMiB));
  arena_purge(0);
  size_t asked = 0;
  for (int i = 0; i < 40; i++) asked += AskedMiB(Kept(Allocated(8 * kMiB)), 8 * kMiB);
  EXPECT_EQ(asked, 64u);
}

TEST_F(HugePages, SeenAgainAndAgainItIsWorthNoMore) {
  for (int i = 0; i < 10; i++) {
    huge_free(Filled(8 * kMiB));
    arena_purge(0);
  }
  EXPECT_EQ(AskedMiB(Kept(Allocated(128 * kMiB)), 128 * kMiB), 0u);
}

/* A program that used to fill its blocks and does so no more, in the same place. */
TEST_F(HugePages, WhereThereAreHugePagesTheyEndAgain) {
  huge_free(Filled(32 * kMiB));
  arena_purge(0);
  size_t with = 0;
  for (int i = 0; i < 20; i++) {
    char *block = Allocated(32 * kMiB);
    with += AskedMiB(block, 32 * kMiB) != 0;
    huge_free(block);
    arena_purge(0);
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
    block = static_cast<char *>(huge_realloc(block, 2 * bytes));
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
    block = static_cast<char *>(huge_realloc(block, 2 * bytes));
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(hak_test::stamped_as(block, bytes, 4, bytes));
  }
  EXPECT_EQ(AskedMiB(block, 8 * kMiB), 0u) << "they came in small pages";
  EXPECT_GT(AskedMiB(block, bytes), 0u);
  Kept(block);
}
