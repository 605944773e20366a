/*
 * Regions' spare units: which of them serve, whatever lies between.
 *
 * SPDX-License-Identifier: MIT
 */
#include "unit/regions.h"

#include <region/spare.h>

#include <map>

using hak_test::Random;
using hak_test::regions::figures;
using hak_test::regions::put;
using hak_test::regions::Region;
using hak_test::regions::result_of;
using hak_test::regions::take;

namespace {

/* A run in which each unit is a block. */
unit_t run_of_eight(std::uint64_t handle) {
  EXPECT_EQ(units_fetch(handle, 8), UNITS_FETCHED);
  region_t *region = registry_enter(handle);
  const unit_t first = units_cut(region, 8, 8, false);
  EXPECT_NE(first, 0u);
  for (unit_t i = 0; i < 8; i++) {
    map_record(first + i)->region.run = first;
    blocks_make_lone(region, first + i, 1);
  }
  EXPECT_EQ(map_record(first)->run_units, 8u);
  units_leave(region);
  return first;
}

/* By trying each row. */
unsigned longest_row(std::uint32_t spare) {
  unsigned longest = 0;
  for (unsigned list = 1; list < OPEN_LISTS; list++)
    for (unsigned at = 0; at < 32; at += 1u << list) {
      std::uint32_t row = bit_range32(at, 1u << list);
      if ((spare & row) == row) longest = list;
    }
  return longest;
}

/* As often a slab's block as a lone one. */
std::size_t mixed_size(Random &random) {
  return random.below(2) == 0 ? random.between(1000, 51000) : random.between(65537, 965537);
}

/* Replaces blocks at random places, of sizes that `size` says, as a program does whose heap has been there for long. */
template <class Size> void replace_many(std::uint64_t handle, std::size_t count, int steps, Size size) {
  Random random(5);
  std::vector<void *> blocks(count);
  for (int step = 0; step < steps; step++) {
    void *&block = blocks[random.below(count)];
    if (block != nullptr) put(block);
    block = take(handle, size(random));
  }
  hak__check_all();
}

}  // namespace

TEST(RegionSpare, ARunIsInTheListOfItsLongestRow) {
  for (std::uint32_t spare = 1; spare < 1 << 16; spare++) {
    ASSERT_EQ(spare_list_of(spare), longest_row(spare)) << spare;
    ASSERT_EQ(spare_list_of(~spare), longest_row(~spare)) << ~spare;
    ASSERT_EQ(spare_list_of(spare << 16), longest_row(spare << 16)) << spare;
  }
  EXPECT_EQ(spare_list_of(UINT32_MAX), OPEN_LISTS - 1u);
}

TEST_F(Region, ARowIsFoundHoweverManyRunsHaveNone) {
  void *old = take(handle, 8 * UNIT_BYTES);
  std::vector<void *> others;
  for (int i = 0; i < 1000; i++) others.push_back(take(handle, 2 * UNIT_BYTES));
  put(old);
  for (std::size_t i = 20; i < others.size(); i += 8) put(others[i]);
  const std::size_t taken = figures(handle).taken;
  EXPECT_EQ(take(handle, 8 * UNIT_BYTES), old);
  EXPECT_EQ(figures(handle).taken, taken);
}

/* Which is what is wanted least. */
TEST_F(Region, TheShortestRowServes) {
  std::vector<void *> blocks;
  for (int i = 0; i < 400; i++) blocks.push_back(take(handle, 2 * UNIT_BYTES));
  void *only = blocks[200];
  put(only);
  for (int i = 300; i < 308; i++) put(blocks[i]); /* a longer row, in a run that was opened later */
  EXPECT_EQ(take(handle, 2 * UNIT_BYTES), only);
}

/* A lone block need not be aligned: six units serve between two that are in use, the longest aligned row of
 * which has two. */
TEST_F(Region, ALoneBlockLiesBetweenOthers) {
  const unit_t first = run_of_eight(handle);
  for (unit_t i = 1; i < 7; i++) put(map_address(first + i));
  hak__check_all();
  EXPECT_EQ(take(handle, 6 * UNIT_BYTES), map_address(first + 1));
}

TEST_F(Region, TakesLittleMoreThanItNeeds) {
  replace_many(handle, 400, 60000, mixed_size);
  const region_figures_t now = figures(handle);
  EXPECT_LE(now.peak, now.live * 3 / 2) << "of " << (now.live >> 20) << " MiB";
}

TEST_F(Region, IsRefusedNothingFarBelowItsLimit) {
  EXPECT_EQ(region_set_limit(handle, 180 << 20), REGION_OK);
  replace_many(handle, 400, 60000, mixed_size);
  EXPECT_EQ(figures(handle).refused, 0u);
}

/* A large region asks for 2 MiB at a time; what the arena has may be less, or in pieces. */
TEST_F(Region, WhereThereIsNoLongRunAShortOneServes) {
  const std::size_t bytes = 1000; /* in slabs of a unit */
  while (figures(handle).taken < std::size_t{24} << 20) take(handle, bytes);
  limit_set_hard(limit_charged() + (std::size_t{1} << 20));
  const std::size_t taken = figures(handle).taken;
  while (result_of(handle, bytes) == REGION_OK) {}
  limit_set_hard(0);
  EXPECT_GT(figures(handle).taken, taken + (std::size_t{3} << 18)) << "the hard limit had room for a MiB";
}

/* Whose units lie between others that stay. */
TEST_F(Region, AtItsLimitWhatAThreadsCacheHeldServesALargerBlock) {
  EXPECT_EQ(region_set_limit(handle, 16 << 20), REGION_OK);
  std::map<std::size_t, std::vector<void *>> slabs;
  void *block;
  while (region_alloc(handle, 1000, 1, false, &block) == REGION_OK) slabs[map_unit_of(block)].push_back(block);
  const std::size_t unit = std::next(slabs.begin(), slabs.size() / 2)->first & ~std::size_t{7};
  for (std::size_t each : {unit, unit + 1})
    for (void *freed : slabs.at(each)) put(freed);
  EXPECT_GT(figures(handle).cached, 0u) << "the cache held nothing back";
  EXPECT_EQ(take(handle, 100000), map_address(static_cast<unit_t>(unit)));
}

/* In more runs than a request looks at that is not refused yet. */
TEST_F(Region, AtItsLimitEachRunIsLookedAt) {
  std::vector<unit_t> runs;
  for (int i = 0; i < 12; i++) runs.push_back(run_of_eight(handle));
  for (unit_t run : runs)
    for (unit_t i : {2, 3}) put(map_address(run + i));
  put(map_address(runs[0] + 1)); /* only there are three in a row */
  EXPECT_EQ(region_set_limit(handle, figures(handle).taken), REGION_OK);
  EXPECT_EQ(take(handle, 3 * UNIT_BYTES), map_address(runs[0] + 1));
}
