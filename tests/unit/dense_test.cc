/* Which growth of the small zone gets huge pages: dense.h. SPDX-License-Identifier: MIT */
#include "layers.h"

extern "C" {
#include "arena/dense.h"
#include "arena/dirty.h"
}

namespace {

class Dense : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(arena_ready()); }

  /* The zone grows with so much in use in all, so much of it free in slabs, and in slabs that were never full. */
  bool Grows(double used_mib, double free_mib, double unfilled_mib) {
    const auto free_bytes = static_cast<int64_t>(free_mib * (1 << 20));
    dense_note_free_in_slabs(free_bytes - free_before_);
    free_before_ = free_bytes;
    const auto unfilled_units = static_cast<int64_t>(unfilled_mib * (1 << 20) / UNIT_BYTES);
    dense_note_unfilled(unfilled_units - unfilled_before_);
    unfilled_before_ = unfilled_units;
    return dense_wants_huge_pages(the_map.zone_first[ZONE_SMALL], SUPERSLAB_UNITS,
                                  static_cast<size_t>(used_mib * (1 << 20)) / UNIT_BYTES);
  }
  /* All that is free was never used. */
  bool Grows(double used_mib, double free_mib) { return Grows(used_mib, free_mib, used_mib); }

 private:
  int64_t free_before_ = 0, unfilled_before_ = 0;
};

TEST_F(Dense, ASmallHeapGetsNone) {
  EXPECT_FALSE(Grows(2, 0));
  EXPECT_FALSE(Grows(63.9, 0));
  EXPECT_TRUE(Grows(64, 0));
}

TEST_F(Dense, FullSlabsGetThem) {
  EXPECT_TRUE(Grows(80, 19.9));
  EXPECT_TRUE(Grows(160, 39.9)) << "a quarter of all is free, and as much of what is new";
  EXPECT_FALSE(Grows(240, 62));
}

/* What a program of many sizes looks like: a first slab for each class, then full ones. */
TEST_F(Dense, SoDoThoseThatBecameFullOfLate) {
  EXPECT_FALSE(Grows(64, 40));
  EXPECT_TRUE(Grows(80, 43.2));
  EXPECT_TRUE(Grows(96, 46.4));
  EXPECT_FALSE(Grows(112, 52)) << "a third of what is new is free";
}

TEST_F(Dense, MostlyFreeSlabsGetNone) {
  EXPECT_FALSE(Grows(80, 62));
  EXPECT_FALSE(Grows(84, 63.2)) << "what is new is in use, but a quarter of all only";
}

/* As in a heap that stays as large while the sizes of its blocks change: what is free was used, so it is resident anyhow. */
TEST_F(Dense, SoDoFreeSlabsThatWereFullOnce) {
  EXPECT_FALSE(Grows(80, 62, 62));
  EXPECT_TRUE(Grows(80, 62, 19.9));
  EXPECT_FALSE(Grows(88, 70, 22.1)) << "a quarter of all was never full, and more of what is new";
  EXPECT_TRUE(Grows(88, 21.9, 80)) << "most was never full, but little is free";
}

TEST_F(Dense, AHeapThatShrankAndGrowsAgainIsSeenAsItIs) {
  EXPECT_TRUE(Grows(80, 2));
  EXPECT_FALSE(Grows(76, 40));
  EXPECT_TRUE(Grows(80, 40.4));
}

/* SuperSlabs that went back as a whole are as good as new ones; of others the system would make
 * huge pages only by filling gaps. */
TEST_F(Dense, WhatWentBackAsAWholeGetsThemAgain) {
  ASSERT_NE(arena_take(ZONE_HUGE, 40 * SUPERSLAB_UNITS, 1, nullptr), 0u) << "a heap that is not small";
  const auto take = [](size_t units) { return arena_take(ZONE_SMALL, units, 1, nullptr); };
  const unit_t run = take(2 * SUPERSLAB_UNITS);
  const size_t superslab = run / SUPERSLAB_UNITS;
  const auto wants = [&] { return map_wants_huge_page(superslab) && map_wants_huge_page(superslab + 1); };
  EXPECT_TRUE(wants());
  const auto again = [&](size_t units, bool purged) {
    dense_thins_out(run, 1);
    arena_give(static_cast<unit_t>(run + 2 * SUPERSLAB_UNITS - units), units);
    if (purged) arena_purge(0);
    ASSERT_EQ(take(units), run + 2 * SUPERSLAB_UNITS - units) << "it lies elsewhere: the test is void";
  };
  again(2 * SUPERSLAB_UNITS, false);
  EXPECT_FALSE(map_wants_huge_page(superslab)) << "it is resident in small pages";
  again(SUPERSLAB_UNITS + 1, true);
  EXPECT_FALSE(map_wants_huge_page(superslab)) << "a part of it is in use";
  again(2 * SUPERSLAB_UNITS, true);
  EXPECT_TRUE(wants());
}

/* Large runs lie at any place: one that begins in the end of a SuperSlab in use reaches the next one. */
TEST_F(Dense, WhatWentBackGetsThemAgainWhereverARunBegins) {
  ASSERT_NE(arena_take(ZONE_HUGE, 40 * SUPERSLAB_UNITS, 1, nullptr), 0u) << "a heap that is not small";
  const unit_t run = arena_take(ZONE_SMALL, 2 * SUPERSLAB_UNITS, 1, nullptr);
  const size_t superslab = run / SUPERSLAB_UNITS;
  ASSERT_EQ(run % SUPERSLAB_UNITS, 0u) << "the test is void";
  dense_thins_out(run, 2 * SUPERSLAB_UNITS);
  arena_give(run + 1, 2 * SUPERSLAB_UNITS - 1);
  arena_purge(0);
  ASSERT_FALSE(map_wants_huge_page(superslab + 1)) << "the test is void";
  ASSERT_EQ(arena_take(ZONE_SMALL, SUPERSLAB_UNITS - 2, 1, nullptr), run + 1);
  EXPECT_FALSE(map_wants_huge_page(superslab + 1)) << "it does not reach there";
  ASSERT_EQ(arena_take(ZONE_SMALL, SUPERSLAB_UNITS, 1, nullptr), run + SUPERSLAB_UNITS - 1);
  EXPECT_FALSE(map_wants_huge_page(superslab)) << "it is in use";
  EXPECT_TRUE(map_wants_huge_page(superslab + 1));
}

/* A huge page makes all of its SuperSlab resident. Where the system is to do without from now on, because
 * pages nearby go back, what was never used must not stay for ever. */
TEST_F(Dense, WhatAHugePageMadeResidentGoesBackThoughThereIsNoneNow) {
  const unit_t run = arena_take(ZONE_SMALL, SUPERSLAB_UNITS, SUPERSLAB_UNITS, nullptr);
  ASSERT_NE(run, 0u);
  const size_t superslab = run / SUPERSLAB_UNITS;
  const auto becomes_dirty = [&](unit_t first, size_t units) {
    const size_t before = dirty_units();
    arena_give(first, units);
    const size_t added = dirty_units() - before;
    arena_purge(0);
    return added;
  };
  map_refuse_huge_pages(superslab, superslab + 1);
  becomes_dirty(run + 2, SUPERSLAB_UNITS - 2);
  map_want_huge_pages(superslab, superslab + 1);
  ASSERT_TRUE(arena_extend(run, 2, 3));
  map_refuse_huge_pages(superslab, superslab + 1);
  EXPECT_EQ(becomes_dirty(run + 2, 1), SUPERSLAB_UNITS - 2u) << "all that is free";
  EXPECT_EQ(becomes_dirty(run + 1, 1), 1u) << "the rest has gone already";
  EXPECT_EQ(becomes_dirty(run, 1), 1u);
}

/* So must not what was never used of the SuperSlab in which a heap stopped to grow, though nothing there is
 * given back. */
TEST_F(Dense, WhatAHugePageMadeResidentGoesBackWhenTheHeapShrinks) {
  const unit_t run = arena_take(ZONE_SMALL, SUPERSLAB_UNITS, SUPERSLAB_UNITS, nullptr);
  ASSERT_NE(run, 0u);
  const size_t superslab = run / SUPERSLAB_UNITS;
  map_refuse_huge_pages(superslab, superslab + 1);
  arena_give(run + 2, SUPERSLAB_UNITS - 2);
  arena_purge(0);
  map_want_huge_pages(superslab, superslab + 1);
  ASSERT_TRUE(arena_extend(run, 2, 3));
  const size_t before = dirty_units(), purged = arena_relieve_now(0) / UNIT_BYTES;
  EXPECT_EQ(purged + dirty_units() - before, SUPERSLAB_UNITS - 3u);
  const size_t again = dirty_units(), purged_again = arena_relieve_now(0) / UNIT_BYTES;
  EXPECT_EQ(purged_again + dirty_units(), again) << "once is enough";
  arena_purge(0);
}

/* It is a witness, or was refused for good reasons. */
TEST_F(Dense, ANewStepStaysAsItBegan) {
  const unit_t ballast = arena_take(ZONE_SMALL, 8 * SUPERSLAB_UNITS, SUPERSLAB_UNITS, nullptr);
  ASSERT_NE(ballast, 0u);
  const unit_t behind = ballast + 8 * SUPERSLAB_UNITS;
  if (zone_free_units_behind(behind) < 2 * SUPERSLAB_UNITS) {
    ASSERT_TRUE(zone_grow_behind(behind, 2 * SUPERSLAB_UNITS, 8 * SUPERSLAB_UNITS));
  }
  ASSERT_FALSE(map_wants_huge_page(behind / SUPERSLAB_UNITS)) << "the heap is small";
  dense_grows_again(behind, 1, 100 * SUPERSLAB_UNITS);
  EXPECT_FALSE(map_wants_huge_page(behind / SUPERSLAB_UNITS));
}

/* Of large blocks a step of growth is a witness: the next one gets huge pages if it is used. */
TEST_F(Dense, LargeBlocksEarnThem) {
  constexpr size_t kUnits = 4 * SUPERSLAB_UNITS, kUsed = 20 * kUnits;
  dense_note_large(kUsed);
  for (unit_t every : {1u, 2u, 3u}) { /* blocks of 64, 65 and 129 KiB */
    const unit_t run = arena_take(ZONE_SMALL, kUnits, 1, nullptr);
    ASSERT_NE(run, 0u);
    for (unit_t i = 0; i < kUnits; i += every) std::memset(map_address(run + i), 1, UNIT_BYTES);
    EXPECT_FALSE(dense_wants_huge_pages(run, kUnits, kUsed)) << "nobody knows yet";
    EXPECT_EQ(dense_wants_huge_pages(run + kUnits, kUnits, kUsed), every == 1) << "one unit in " << every << " is used";
    /* The rest of the credit, and what is a witness now. */
    while (dense_wants_huge_pages(the_map.zone_first[ZONE_SMALL], kUnits, kUsed)) {}
    arena_give(run, kUnits);
    arena_purge(0);
  }
}

}  // namespace
