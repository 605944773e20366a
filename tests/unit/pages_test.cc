/* Pages of memory in use that are cleared or dropped. SPDX-License-Identifier: MIT */
#include "layers.h"

namespace {

using hak_test::is_zero;
using hak_test::record;

/* Clears pages of which some are in use, and says how many are resident then. */
size_t ResidentAfterClearing(const std::vector<size_t> &used) {
  const size_t page = os_page_bytes(), pages = 200;
  unit_t run = arena_take(ZONE_SMALL, align_up(pages * page, UNIT_BYTES) >> UNIT_SHIFT, 1, nullptr);
  size_t units = record(run).run_units;
  hak_test::write_words(run, units, hak_test::kInUse);
  char *at = map_address(run);
  pages_drop(at, pages * page);
  for (size_t i : used) std::memset(at + i * page, 0xEE, page);
  pages_clear(at, pages * page);
  size_t count = hak_test::resident_pages(at, pages * page);
  EXPECT_EQ(pages_drop(at, pages * page), count * page);
  EXPECT_EQ(pages_drop(at, pages * page), 0u) << "nothing was resident any more";
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
  EXPECT_EQ(ResidentAfterClearing({17, 50, 51, 130}), 0u);
  EXPECT_EQ(ResidentAfterClearing({0, 1, 17, 50, 51, 199}), 0u);
  std::vector<size_t> much;
  for (size_t i = 0; i < 200; i++)
    if (i % 40 < 20) much.push_back(i);
  EXPECT_EQ(ResidentAfterClearing(much), 100u) << "it would be used again";
}
