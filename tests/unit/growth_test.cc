/* Magazines that go home while slabs of other sizes grow. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "nothing_by_itself.h"

#include <front/growth.h>

#include <vector>

namespace {

const unsigned kIdle = size_class_of(200), kGrowing = size_class_of(1000);

class Growth : public testing::Test {
 protected:
  /* Blocks of the one size lie in its magazine. */
  void SetUp() override {
    std::vector<void *> blocks(2000);
    for (void *&block : blocks) block = hak_malloc(200);
    for (void *block : blocks) hak_free(block);
    ASSERT_GT(Held(kIdle), 50u) << "the test is void";
  }
  void TearDown() override {
    for (void *block : grown_) hak_free(block);
  }
  static size_t Held(unsigned size_class) { return magazine_count(the_heap, size_class); }
  void GrowBy(size_t bytes) {
    for (size_t i = 0; i < bytes / 1000; i++) grown_.push_back(hak_malloc(1000));
  }

 private:
  std::vector<void *> grown_;
};

}  // namespace

TEST_F(Growth, BlocksOfOtherSizesGoHome) {
  const size_t held = Held(kIdle);
  const uint64_t before = atomic64_load_relaxed(&tallies[TALLY_UNUSED]);
  GrowBy(GROWTH_BYTES / 2);
  EXPECT_EQ(Held(kIdle), held) << "for a little";
  GrowBy(GROWTH_BYTES);
  EXPECT_EQ(Held(kIdle), 0u);
  EXPECT_EQ(the_heap->owner.growth_classes, 0u);
  EXPECT_GE(atomic64_load_relaxed(&tallies[TALLY_UNUSED]) - before, held * 200);
  hak__check_all();
}

/* Each is part of slabs that would be empty, many of them in no order. */
TEST_F(Growth, SoSlabsThatTheyKeptAreEmpty) {
  constexpr size_t kBlocks = 300000, kStride = 7919;
  std::vector<void *> blocks(kBlocks);
  for (void *&block : blocks) block = hak_malloc(200);
  for (size_t i = 0, at = 0; i < kBlocks; i++, at = (at + kStride) % kBlocks) hak_free(blocks[at]);
  auto in_slabs = [] {
    hak_stats_t stats;
    hak_stats(&stats, sizeof stats);
    return stats.slab_bytes;
  };
  const size_t before = in_slabs();
  GrowBy(HAK_MIB(40));
  EXPECT_LE(in_slabs(), before + HAK_MIB(44)) << "beside " << before;
  EXPECT_EQ(Held(kIdle), 0u);
}

/* There may be more of them than one call has time for. */
TEST_F(Growth, NoCallTakesLong) {
  for (unsigned c = 4; c < 64; c++) {
    std::vector<void *> blocks(1000);
    for (int round = 0; round < 3; round++) { /* the magazine grows */
      for (void *&block : blocks) block = hak_malloc(size_classes[c].block_bytes);
      for (void *block : blocks) hak_free(block);
    }
  }
  size_t held = 0;
  for (unsigned c = 0; c < MID_CLASS_END; c++) held += Held(c);
  ASSERT_GT(held, 9000u) << "the test is void";
  heap_t *heap = thread_enter();
  unsigned calls = 0;
  for (heap->owner.growth_classes = MID_CLASS_END; heap->owner.growth_classes > 0; calls++) growth_look(heap, kGrowing);
  EXPECT_GE(calls, 8u);
  EXPECT_EQ(Held(kIdle), 0u);
  thread_leave(heap);
  hak__check_all();
}

TEST(GrowthOff, LeavesThemWhereNothingIsDecidedOverTime) {
  hak_test::with_nothing_by_itself([] {
    std::vector<void *> blocks(2000), grown(2 * GROWTH_BYTES / 1000);
    for (void *&block : blocks) block = hak_malloc(200);
    for (void *block : blocks) hak_free(block);
    const size_t held = magazine_count(the_heap, kIdle);
    for (void *&block : grown) block = hak_malloc(1000);
    EXPECT_EQ(magazine_count(the_heap, kIdle), held);
    for (void *block : grown) hak_free(block);
  });
}
