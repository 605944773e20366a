/*
 * What tests of regions share: their blocks and figures, and a region that goes with its test.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_UNIT_REGIONS_H
#define HAK_TESTS_UNIT_REGIONS_H

#include "support/payload.h"
#include "unit/layers.h"

#include <region/blocks.h>
#include <region/region.h>
#include <region/units.h>

namespace hak_test::regions {

inline void *take(std::uint64_t handle, std::size_t bytes, std::size_t alignment = 1) {
  void *block = nullptr;
  EXPECT_EQ(region_alloc(handle, bytes, alignment, false, &block), REGION_OK) << bytes << " bytes";
  return block;
}
inline region_result_t result_of(std::uint64_t handle, std::size_t bytes) {
  void *block = nullptr;
  region_result_t result = region_alloc(handle, bytes, 1, false, &block);
  EXPECT_EQ(block != nullptr, result == REGION_OK);
  return result;
}
inline void put(void *block) { region_free(block, map_lookup(block)); }

inline void *resized(void *block, std::size_t bytes) {
  void *moved = nullptr;
  return region_realloc(block, map_lookup(block), bytes, &moved) == REGION_OK ? moved : nullptr;
}

inline region_figures_t figures(std::uint64_t handle) {
  region_figures_t now = {};
  EXPECT_EQ(region_figures(handle, &now), REGION_OK);
  EXPECT_EQ(now.live + now.cached + now.free, now.taken);
  return now;
}

/* A region that is destroyed with the test, after which all is as it was. */
class Region : public testing::Test {
 protected:
  void SetUp() override {
    cache_flush_all();
    used_before_ = used_bytes();
    errors_before_ = error_count();
    handle = region_new(0);
    ASSERT_NE(handle, 0u);
  }
  void TearDown() override {
    hak__check_all();
    EXPECT_EQ(region_destroy(handle), REGION_OK);
    hak__check_all();
    EXPECT_EQ(used_bytes(), used_before_) << "units of a destroyed region are still in use";
    EXPECT_EQ(error_count(), errors_before_);
  }
  std::uint64_t handle = 0;
  std::uint64_t errors_before_ = 0; /* and at the end, but where a test makes some */

 private:
  std::size_t used_before_ = 0;
};

}  // namespace hak_test::regions
#endif
