/* Pages of memory in use that are cleared or dropped. SPDX-License-Identifier: MIT */
#include "layers.h"

namespace {

using hak_test::is_zero;
using hak_test::record;

size_t none = 0; /* stays */
bool are_gone;   /* after the last drop */

/* Clears pages of which some are in use, and says how many are resident then. */
size_t ResidentAfterClearing(const std::vector<size_t> &used) {
  const size_t page = os_page_bytes(), pages = 200;
  unit_t run = arena_take(ZONE_SMALL, align_up(pages * page, UNIT_BYTES) >> UNIT_SHIFT, 1, nullptr);
  size_t units = record(run).run_units;
  hak_test::write_words(run, units, hak_test::kInUse);
  char *at = map_address(run);
  pages_drop(at, pages * page, &none, &are_gone);
  for (size_t i : used) std::memset(at + i * page, 0xEE, page);
  pages_clear(at, pages * page);
  size_t count = hak_test::resident_pages(at, pages * page);
  EXPECT_EQ(pages_drop(at, pages * page, &none, &are_gone), count * page);
  EXPECT_EQ(pages_drop(at, pages * page, &none, &are_gone), 0u) << "nothing was resident any more";
  for (size_t i : used) std::memset(at + i * page, 0xEE, page);
  pages_clear(at, pages * page);
  EXPECT_TRUE(is_zero(at, pages * page));
  hak_test::write_words(run, units, 0);
  arena_give(run, units);
  return count;
}

}  // namespace

TEST(Pages, ClearingMakesNothingResident) {
  EXPECT_EQ(ResidentAfterClearing({}), 0u);
  EXPECT_EQ(ResidentAfterClearing({0, 199}), 2u);
  EXPECT_EQ(ResidentAfterClearing({5, 7, 199}), 3u + 6u) << "and the short gaps";
}

TEST(Pages, ClearingDropsWhatIsScattered) {
  for (int i = 0; i < 20; i++) EXPECT_EQ(ResidentAfterClearing({50, 130}), 0u) << "very few";
  std::vector<size_t> much;
  for (size_t i = 0; i < 200; i++)
    if (i % 40 < 20) much.push_back(i);
  EXPECT_EQ(ResidentAfterClearing(much), 100u) << "it would be used again";
}

/* A program that uses a page here and there of each block would fault them in each time. */
TEST(Pages, ClearingDropsWhatIsScatteredAndNotVeryFewNowAndThen) {
  int dropped = 0;
  for (int i = 0; i < 32; i++) {
    const size_t resident = ResidentAfterClearing({0, 1, 17, 50, 51, 199});
    EXPECT_TRUE(resident == 0 || resident == 6) << resident;
    dropped += resident == 0;
  }
  EXPECT_GE(dropped, 1);
  EXPECT_LE(dropped, 4) << "each round clears twice, and one clearing of 16 drops";
}

namespace {
constexpr size_t kPiece = 512; /* pages: long enough to be taken for what those before were */

/* Clears so many pieces of which so many pages are used, one after the other; how many times the system was
 * asked what is resident, and how many pages are resident afterwards, of the last one. */
struct Cleared {
  uint64_t asked;
  size_t resident;
};
Cleared ClearPieces(size_t pieces, size_t used_pages) {
  const size_t page = os_page_bytes(), bytes = kPiece * page;
  unit_t run = arena_take(ZONE_SMALL, bytes >> UNIT_SHIFT, 1, nullptr);
  const size_t units = record(run).run_units;
  hak_test::write_words(run, units, hak_test::kInUse);
  char *at = map_address(run);
  uint64_t asked = 0;
  for (size_t i = 0; i < pieces; i++) {
    std::memset(at, 0xEE, used_pages * page);
    const uint64_t before = atomic64_load_relaxed(&os_calls.mincore);
    pages_clear(at, bytes);
    asked += atomic64_load_relaxed(&os_calls.mincore) - before;
    EXPECT_TRUE(is_zero(at, used_pages * page));
  }
  pages_clear(at, bytes);
  const size_t resident = hak_test::resident_pages(at, bytes);
  pages_drop(at, bytes, &none, &are_gone);
  hak_test::write_words(run, units, 0);
  arena_give(run, units);
  return {asked, resident};
}
}  // namespace

/* To ask takes longer than all else, and what is hardly used is so the next time. */
TEST(Pages, WhatWasHardlyUsedIsAskedAboutNowAndThen) {
  ClearPieces(20, 1);
  const Cleared cleared = ClearPieces(64, 1);
  EXPECT_GE(cleared.asked, 8u) << "else nobody would see that it is used now";
  EXPECT_LE(cleared.asked, 24u);
}

/* Of so few it takes longer to fault them in again than to ask. */
TEST(Pages, WhatIsUsedALittleIsAskedAboutEachTime) {
  ClearPieces(200, 1);
  EXPECT_GE(ClearPieces(64, 8).asked, 40u) << "soon enough";
}

TEST(Pages, WhatIsUsedAllOfASuddenIsSeenSoon) {
  ClearPieces(20, 1);
  const Cleared cleared = ClearPieces(32, kPiece);
  EXPECT_GE(cleared.asked, 20u);
  EXPECT_EQ(cleared.resident, kPiece) << "written to: faulted in it would take longer";
}

/* As a program does that fills one block of some, in whatever order. */
TEST(Pages, SomeThatAreUsedAmongOthersAreSeen) {
  ClearPieces(1, kPiece);
  for (size_t others : {2, 3, 4, 7, 8, 16, 31}) {
    for (int i = 0; i < 8; i++) {
      ClearPieces(others, 1);
      EXPECT_EQ(ClearPieces(1, kPiece).asked, 1u) << "after " << others;
    }
  }
}

TEST(Pages, WhatIsToStayIsResidentAndThereFirst) {
  const size_t page = os_page_bytes(), pages = 48;
  unit_t run = arena_take(ZONE_SMALL, align_up(pages * page, UNIT_BYTES) >> UNIT_SHIFT, 1, nullptr);
  const size_t units = record(run).run_units;
  hak_test::write_words(run, units, hak_test::kInUse);
  char *at = map_address(run);
  for (size_t i = 0; i < pages; i += 2) std::memset(at + i * page, 0xEE, page);
  size_t keep = 5 * page + 1;
  EXPECT_EQ(pages_drop(at, pages * page, &keep, &are_gone), (pages / 2 - 5) * page);
  EXPECT_EQ(keep, 1u);
  EXPECT_FALSE(are_gone);
  EXPECT_EQ(hak_test::resident_pages(at, pages * page), 5u);
  EXPECT_EQ(at[8 * page], '\xEE') << "the fifth of them";
  keep = 100 * page;
  EXPECT_EQ(pages_drop(at, pages * page, &keep, &are_gone), 0u);
  EXPECT_EQ(keep, 95 * page);
  EXPECT_FALSE(are_gone);
  pages_drop(at, pages * page, &none, &are_gone);
  EXPECT_TRUE(are_gone);
  hak_test::write_words(run, units, 0);
  arena_give(run, units);
}
