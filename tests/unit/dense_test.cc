/* Which growth of the small zone gets huge pages: dense.h. SPDX-License-Identifier: MIT */
#include "layers.h"

extern "C" {
#include "arena/dense.h"
#include "arena/dirty.h"
#include "arena/huge.h"
}

namespace {

using hak_test::purge_dirty;

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

/* As in a heap that stays as large while the sizes of its blocks change: what is free was used, so it is
 * resident anyhow. */
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
  ASSERT_NE(arena_take(ZONE_SMALL, 40 * SUPERSLAB_UNITS, 1, nullptr), 0u) << "a heap that is not small";
  const auto take = [](size_t units) { return arena_take(ZONE_SMALL, units, 1, nullptr); };
  const unit_t run = take(2 * SUPERSLAB_UNITS);
  const size_t superslab = run / SUPERSLAB_UNITS;
  const auto wants = [&] { return map_wants_huge_page(superslab) && map_wants_huge_page(superslab + 1); };
  EXPECT_TRUE(wants());
  const auto again = [&](size_t units, bool purged) {
    dense_thins_out(run, 1);
    arena_give(static_cast<unit_t>(run + 2 * SUPERSLAB_UNITS - units), units);
    if (purged) purge_dirty();
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
  ASSERT_NE(arena_take(ZONE_SMALL, 40 * SUPERSLAB_UNITS, 1, nullptr), 0u) << "a heap that is not small";
  const unit_t run = arena_take(ZONE_SMALL, 2 * SUPERSLAB_UNITS, 1, nullptr);
  const size_t superslab = run / SUPERSLAB_UNITS;
  ASSERT_EQ(run % SUPERSLAB_UNITS, 0u) << "the test is void";
  dense_thins_out(run, 2 * SUPERSLAB_UNITS);
  arena_give(run + 1, 2 * SUPERSLAB_UNITS - 1);
  purge_dirty();
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
    purge_dirty();
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
  purge_dirty();
  map_want_huge_pages(superslab, superslab + 1);
  ASSERT_TRUE(arena_extend(run, 2, 3));
  const size_t before = dirty_units(), purged = arena_relieve_now(0) / UNIT_BYTES;
  EXPECT_EQ(purged + dirty_units() - before, SUPERSLAB_UNITS - 3u);
  const size_t again = dirty_units(), purged_again = arena_relieve_now(0) / UNIT_BYTES;
  EXPECT_EQ(purged_again + dirty_units(), again) << "once is enough";
  purge_dirty();
}

/* It is a witness, or was refused for good reasons. */
TEST_F(Dense, ANewStepStaysAsItBegan) {
  const unit_t step = arena_take(ZONE_SMALL, 2 * SUPERSLAB_UNITS, SUPERSLAB_UNITS, nullptr);
  ASSERT_NE(step, 0u);
  ASSERT_FALSE(map_wants_huge_page(step / SUPERSLAB_UNITS)) << "the heap is small";
  const unit_t much = arena_take(ZONE_SMALL, 100 * SUPERSLAB_UNITS, SUPERSLAB_UNITS, nullptr);
  ASSERT_NE(much, 0u);
  arena_give_clean(step, 2 * SUPERSLAB_UNITS, 0); /* as if it had never been used */
  ASSERT_EQ(map_superslab(step / SUPERSLAB_UNITS)->used, 0u) << "the test is void";
  size_t superslab;
  EXPECT_FALSE(dense_is_growth(step, 1, &superslab));
  const unit_t again = arena_take(ZONE_SMALL, 1, SUPERSLAB_UNITS, nullptr);
  ASSERT_EQ(again, step) << "the test is void";
  EXPECT_FALSE(map_wants_huge_page(step / SUPERSLAB_UNITS));
  arena_give(again, 1);
}

/* They lie elsewhere, and may be hardly used. */
TEST_F(Dense, HugeBlocksMakeNoLargeHeap) {
  const size_t before = zone_used_units(ZONE_SMALL);
  const unit_t huge = arena_take(ZONE_HUGE, 200 * SUPERSLAB_UNITS, 1, nullptr);
  const unit_t run = arena_take(ZONE_SMALL, 3 * SUPERSLAB_UNITS, SUPERSLAB_UNITS, nullptr);
  ASSERT_NE(huge, 0u);
  ASSERT_NE(run, 0u);
  EXPECT_EQ(zone_used_units(ZONE_SMALL), before + 3 * SUPERSLAB_UNITS);
  for (unit_t unit = run; unit < run + 3 * SUPERSLAB_UNITS; unit += SUPERSLAB_UNITS)
    EXPECT_FALSE(map_wants_huge_page(unit / SUPERSLAB_UNITS));
  arena_give(run, 3 * SUPERSLAB_UNITS);
  EXPECT_EQ(zone_used_units(ZONE_SMALL), before);
  arena_give(huge, 200 * SUPERSLAB_UNITS);
  purge_dirty();
  EXPECT_EQ(zone_used_units(ZONE_SMALL), before) << "the purge took it out and gave it back";
}

/* Blocks of several pages do not say how much of them is used, so a step of growth is a witness: the next one
 * gets huge pages if it is used. */
class WideBlocks : public Dense {
 protected:
  static constexpr size_t kUnits = 4 * SUPERSLAB_UNITS, kUsed = 20 * kUnits;

  void SetUp() override {
    Dense::SetUp();
    dense_note_wide(kUsed);
    run_ = arena_take(ZONE_SMALL, kUnits, 1, nullptr);
    ASSERT_NE(run_, 0u);
  }
  void TearDown() override {
    /* The rest of the credit, and what is a witness now. */
    while (dense_wants_huge_pages(the_map.zone_first[ZONE_SMALL], kUnits, kUsed)) {}
    arena_give(run_, kUnits);
    purge_dirty();
    dense_note_wide(-static_cast<int64_t>(kUsed));
  }
  /* The witness holds blocks of so many bytes, and a part of each is used. */
  void Uses(size_t block_bytes, size_t used_bytes) {
    for (size_t at = 0; at + block_bytes <= kUnits * UNIT_BYTES; at += block_bytes)
      std::memset(map_address(run_) + at, 1, used_bytes);
  }
  /* What whoever takes a run does before the zone grows. Returns whether there was anything to ask. */
  static bool Ask(size_t used = kUsed) {
    dense_question_t question;
    if (!dense_asks(&question, kUnits, used)) return false;
    dense_hear(dense_is_resident(&question), used);
    return true;
  }
  bool GrowthGetsThem(size_t used = kUsed) {
    Ask(used);
    return dense_wants_huge_pages(run_ + kUnits, kUnits, used);
  }

  unit_t run_ = 0;
};

TEST_F(WideBlocks, EarnThem) {
  Uses(UNIT_BYTES, UNIT_BYTES);
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, kUsed)) << "nobody knows yet";
  EXPECT_TRUE(GrowthGetsThem());
}

/* Else a few that are used now and then would keep all of the others resident. */
TEST_F(WideBlocks, EarnMoreTheMoreOftenTheyWereUsed) {
  const auto steps = [&] { /* that the witness has earned; then the run is the next one */
                           Ask();
                           size_t count = 0;
                           while (dense_wants_huge_pages(run_, kUnits, kUsed)) count++;
                           return count;
  };
  Uses(UNIT_BYTES, UNIT_BYTES);
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, kUsed));
  for (size_t earned : {4, 8, 16, 20, 20}) EXPECT_EQ(steps(), earned) << "20 are as much as is in use";
  ASSERT_TRUE(os_purge(map_address(run_), kUnits * UNIT_BYTES));
  EXPECT_EQ(steps(), 0u);
  Uses(UNIT_BYTES, UNIT_BYTES);
  EXPECT_EQ(steps(), 4u);
}

TEST_F(WideBlocks, HalfUsedEarnNone) {
  Uses(2 * UNIT_BYTES, UNIT_BYTES); /* as blocks of 65 KiB are */
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, kUsed));
  EXPECT_FALSE(GrowthGetsThem());
}

TEST_F(WideBlocks, UsedAtTheirBeginningEarnNoneWhereverThatIs) {
  Uses(UNIT_BYTES / 2, 100);
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, kUsed));
  EXPECT_FALSE(GrowthGetsThem());
}

TEST_F(WideBlocks, TheHeapThatWasTooSmallIsTheFirstWitness) {
  Uses(UNIT_BYTES, UNIT_BYTES);
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, HAK_MIB(15) / UNIT_BYTES));
  EXPECT_TRUE(GrowthGetsThem());
}

/* A program of arrays alone has little that is free in slabs. Where half of a small heap is such, that is what
 * would become resident. */
TEST_F(WideBlocks, EarnThemInASmallHeapThatIsMostlyTheirs) {
  constexpr size_t kSmall = HAK_MIB(40) / UNIT_BYTES;
  Uses(UNIT_BYTES, UNIT_BYTES);
  const auto growth_gets_them = [&](size_t wide) {
    dense_note_wide(static_cast<int64_t>(wide) - static_cast<int64_t>(kUsed));
    EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, HAK_MIB(15) / UNIT_BYTES));
    const bool gets = GrowthGetsThem(kSmall);
    dense_note_wide(static_cast<int64_t>(kUsed) - static_cast<int64_t>(wide));
    return gets;
  };
  EXPECT_FALSE(growth_gets_them(kSmall / 2 - 1));
  EXPECT_TRUE(growth_gets_them(kSmall / 2));
}

/* As those of 112 KB, which leave an eighth of their units. */
TEST_F(WideBlocks, OfASmallHeapAreUsedToTheEndOrEarnNone) {
  Uses(2 * UNIT_BYTES, 2 * UNIT_BYTES / 8 * 7);
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, HAK_MIB(15) / UNIT_BYTES));
  EXPECT_FALSE(GrowthGetsThem(HAK_MIB(40) / UNIT_BYTES));
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, HAK_MIB(15) / UNIT_BYTES));
  EXPECT_TRUE(GrowthGetsThem(kUsed));
}

/* Of a program that has some blocks of 1 to 4 MiB beside many that are larger. */
TEST_F(WideBlocks, HugeOnesVouchForAFewBesideThem) {
  constexpr size_t kFew = HAK_MIB(8) / UNIT_BYTES;
  const auto gets_them = [&](size_t used) { return dense_wants_huge_pages(run_, SUPERSLAB_UNITS, used); };
  void *lives = huge_alloc(HAK_MIB(8), 1, false), *dense = huge_alloc(HAK_MIB(8), OS_HUGE_PAGE_BYTES, false);
  ASSERT_NE(lives, nullptr);
  ASSERT_NE(dense, nullptr);
  EXPECT_FALSE(gets_them(kFew)) << "nobody knows yet";
  std::memset(dense, 1, HAK_MIB(8));
  ASSERT_TRUE(huge_free(dense));
  EXPECT_FALSE(gets_them(kFew + 1)) << "there are more of these";
  size_t superslabs = 0;
  while (gets_them(kFew)) superslabs++;
  EXPECT_GE(superslabs, 8 * 3u);
  EXPECT_LE(superslabs, 8 * 4u) << "eight times what was seen in use";
  ASSERT_TRUE(huge_free(lives));
}

/* Of blocks of a page or two not much can be unused. */
TEST_F(WideBlocks, OtherBlocksAreNoWitness) {
  Uses(UNIT_BYTES, UNIT_BYTES);
  dense_note_wide(-static_cast<int64_t>(kUsed));
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, HAK_MIB(63) / UNIT_BYTES));
  dense_note_wide(kUsed);
  EXPECT_FALSE(GrowthGetsThem());
}

/* What is faulted in page by page, to see what is used, is a small part of a large heap. */
TEST_F(WideBlocks, AWitnessIsShort) {
  constexpr size_t kStep = 4 * kUnits;
  EXPECT_EQ(dense_step_units(kStep, 9 * kUsed), kStep) << "few blocks are wide";
  EXPECT_EQ(dense_step_units(kStep, kUsed), kUnits) << "nobody knows yet";
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, kUsed));
  EXPECT_TRUE(Ask());
  EXPECT_EQ(dense_step_units(kStep, kUsed), kUnits) << "it is not used";
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, kUsed));
  Uses(UNIT_BYTES, UNIT_BYTES);
  EXPECT_TRUE(Ask());
  EXPECT_EQ(dense_step_units(kStep, kUsed), kStep);
  EXPECT_EQ(dense_step_units(kUnits / 2, kUsed), kUnits / 2);
}

/* The system is asked with the gate open: each call is a moment at which its holder may lose the processor. */
TEST_F(WideBlocks, AreNotAskedForBehindTheGate) {
  Uses(UNIT_BYTES, UNIT_BYTES);
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, kUsed));
  dense_question_t question;
  const uint64_t before = atomic64_load_relaxed(&os_calls.mincore);
  ASSERT_TRUE(dense_asks(&question, kUnits, kUsed));
  EXPECT_FALSE(dense_asks(&question, kUnits, kUsed)) << "the witness is being heard";
  EXPECT_FALSE(dense_wants_huge_pages(run_, kUnits, kUsed)) << "others grow meanwhile";
  dense_hear(true, kUsed);
  EXPECT_TRUE(dense_wants_huge_pages(run_, kUnits, kUsed));
  EXPECT_EQ(atomic64_load_relaxed(&os_calls.mincore), before);
}

/* As a program has it: its heap grows, and then once more. */
TEST_F(WideBlocks, AreAskedForAsTheZoneGrows) {
  const unit_t much = arena_take(ZONE_SMALL, kUsed, 1, nullptr);
  ASSERT_NE(much, 0u);
  EXPECT_FALSE(dense_wants_huge_pages(much, kUnits, kUsed));
  const uint64_t before = atomic64_load_relaxed(&os_calls.mincore);
  const extent_t *extent = zone_extent(much);
  const size_t more = extent->end - extent->first;
  const unit_t run = arena_take(ZONE_SMALL, more, 1, nullptr);
  ASSERT_NE(run, 0u);
  EXPECT_GT(atomic64_load_relaxed(&os_calls.mincore), before + 1) << "once by the zone, which asks as it grows";
  arena_give(run, more);
  arena_give(much, kUsed);
}

}  // namespace
