/* What lies free in slabs in use, and goes back. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "nothing_by_itself.h"
#include "support/payload.h"

#include <arena/kept.h>
#include <slab/purged.h>

#include <algorithm>
#include <random>
#include <set>

namespace {

using hak_test::purge_dirty;
using hak_test::record;
using hak_test::slab_of;
using hak_test::used_bytes;

using Purge = hak_test::WithAnOwner;

/* Slabs half of whose blocks are free, or any other part, at times that the test says. */
class PurgeIdle : public Purge {
 protected:
  static constexpr unsigned kClass = 32; /* 512 bytes */
  static constexpr size_t kBytes = 512;

  void TearDown() override {
    owner.flush(kClass, kept);
    Purge::TearDown();
  }
  /* That many slabs, of whose blocks the first of each `of` stays in use. */
  void Make(size_t slabs, size_t of) {
    auto blocks = owner.refill(kClass, slabs * size_classes[kClass].capacity), back = std::vector<void *>();
    std::sort(blocks.begin(), blocks.end());
    for (size_t i = 0; i < blocks.size(); i++) {
      hak_test::stamp(blocks[i], kBytes, 7);
      (i % of == 0 ? kept : back).push_back(blocks[i]);
    }
    owner.flush(kClass, back);
  }
  size_t Rounds(int count) {
    size_t purges = 0;
    for (int i = 0; i < count; i++) purges += purge_idle(owner, now_ms += 1000, SIZE_MAX);
    return purges;
  }
  size_t ResidentPages() const {
    std::set<unit_t> slabs;
    for (void *block : kept) slabs.insert(slab_of(block));
    size_t pages = 0;
    for (unit_t slab : slabs) pages += hak_test::resident_pages(map_address(slab), UNIT_BYTES);
    return pages;
  }
  std::vector<void *> kept;
  uint64_t now_ms = 5000;
};

}  // namespace

TEST_F(Purge, PagesOfFreeBlocksGoBackAndOthersStay) {
  const size_t page = os_page_bytes();
  for (unsigned c : {1u, 20u, 79u, 104u}) {
    const size_t bytes = size_classes[c].block_bytes;
    auto blocks = owner.refill(c, size_classes[c].capacity);
    for (void *block : blocks) hak_test::stamp(block, bytes, c);
    /* Every hundredth stays, and one at either end of the slab. */
    std::sort(blocks.begin(), blocks.end());
    std::vector<void *> kept, back;
    for (size_t i = 0; i < blocks.size(); i++)
      (i % 100 == 50 || i == 0 || i + 1 == blocks.size() ? kept : back).push_back(blocks[i]);
    owner.flush(c, back);
    size_t keep = 0, purged = purge_pages(owner, &keep);
    size_t slab_bytes = size_t{size_classes[c].slab_units} * UNIT_BYTES;
    EXPECT_GE(purged + (kept.size() + 1) * (2 * page + bytes), slab_bytes)
        << "pages without a live block stay; class " << c;
    for (void *block : kept) EXPECT_TRUE(hak_test::stamped(block, bytes, c)) << "a live block lost its contents";
    EXPECT_EQ(purge_pages(owner, &keep), 0u);
    auto again = owner.refill(c, back.size());
    for (void *block : again) hak_test::stamp(block, bytes, c);
    for (void *block : kept) EXPECT_TRUE(hak_test::stamped(block, bytes, c));
    owner.flush(c, again);
    owner.flush(c, kept);
    slab_release_empty(owner);
  }
}

/* Whoever is refused at a hard limit comes by each time. */
TEST_F(Purge, WhatHasGoneIsPassedByUntilABlockMoves) {
  const unsigned c = size_class_of(1024);
  auto blocks = owner.refill(c, size_classes[c].capacity);
  for (void *block : blocks) hak_test::stamp(block, 1024, 1);
  const unit_t slab = slab_of(blocks[0]);
  std::sort(blocks.begin(), blocks.end());
  auto put = [&](size_t from, size_t to) {
    owner.flush(c,
                std::vector<void *>(blocks.begin() + static_cast<long>(from), blocks.begin() + static_cast<long>(to)));
  };
  put(8, 16);
  size_t keep = SIZE_MAX; /* nothing goes */
  EXPECT_EQ(purge_pages(owner, &keep), 0u);
  EXPECT_EQ(record(slab).slab.idle_looks & SLAB_PURGED, 0);
  keep = 0;
  EXPECT_GE(purge_pages(owner, &keep), 4096u);
  EXPECT_NE(record(slab).slab.idle_looks & SLAB_PURGED, 0) << "each call looks at it again";
  put(24, 32);
  EXPECT_GE(purge_pages(owner, &keep), 4096u) << "what has come since stays";
  std::vector<void *> taken = owner.refill(c, 1);
  EXPECT_EQ(record(slab).slab.idle_looks & SLAB_PURGED, 0);
  owner.flush(c, taken);
  std::memset(taken[0], 1, 1024); /* somebody may have looked at it before */
  EXPECT_GE(purge_pages(owner, &keep), 4096u);
  blocks.erase(blocks.begin() + 24, blocks.begin() + 32);
  blocks.erase(blocks.begin() + 8, blocks.begin() + 16);
  owner.flush(c, blocks);
}

/* The last page of a slab lies in the last blocks and in the tail behind them. */
TEST_F(Purge, ThePageBeforeTheTailGoesBack) {
  const size_t page = os_page_bytes();
  for (unsigned c : {5u, 30u, 45u}) {
    const size_t bytes = size_classes[c].block_bytes, capacity = size_classes[c].capacity;
    ASSERT_NE(UNIT_BYTES % bytes, 0u) << "class " << c << " has no tail";
    ASSERT_LE(bytes, page);
    auto blocks = owner.refill(c, capacity);
    std::sort(blocks.begin(), blocks.end());
    ASSERT_EQ(slab_of(blocks[0]), slab_of(blocks.back()));
    for (void *block : blocks) hak_test::stamp(block, bytes, c);
    owner.flush(c, {blocks.begin() + 1, blocks.end()});
    size_t keep = 0;
    purge_pages(owner, &keep);
    EXPECT_EQ(hak_test::resident_pages(map_address(slab_of(blocks[0])), UNIT_BYTES), 1u) << "class " << c;
    EXPECT_TRUE(hak_test::stamped(blocks[0], bytes, c));
    slab_check(owner);
    owner.flush(c, {blocks[0]});
    slab_release_empty(owner);
  }
}

TEST_F(PurgeIdle, PagesOfIdleSlabsGoBack) {
  Make(4, 32);
  size_t before = ResidentPages();
  EXPECT_EQ(Rounds(1), 0u) << "nobody knows yet whether they are idle";
  EXPECT_EQ(ResidentPages(), before);
  const std::uint64_t purged = atomic64_load_relaxed(&tallies[TALLY_IDLE]);
  EXPECT_EQ(Rounds(1), 4u);
  EXPECT_EQ(atomic64_load_relaxed(&tallies[TALLY_IDLE]) - purged, (before - ResidentPages()) * os_page_bytes());
  EXPECT_LE(ResidentPages(), kept.size() * (kBytes / os_page_bytes() + 1));
  EXPECT_LT(ResidentPages(), before);
  for (void *block : kept) EXPECT_TRUE(hak_test::stamped(block, kBytes, 7)) << "a live block lost its contents";
  EXPECT_EQ(Rounds(3), 0u) << "once is enough";
}

TEST_F(PurgeIdle, ASlabInUseIsLeftAlone) {
  Make(1, 16);
  for (int i = 0; i < 5; i++) {
    EXPECT_EQ(Rounds(1), 0u);
    owner.flush(kClass, owner.refill(kClass, 1));
  }
  EXPECT_EQ(Rounds(1), 0u);
  EXPECT_EQ(Rounds(1), 1u) << "idle at last";
}

TEST_F(PurgeIdle, WhatIsLookedAtForPiecesIsNotTakenForIdle) {
  Make(1, 16);
  unit_record_t &slab = record(slab_of(kept[0]));
  for (uint8_t rounds : {SLAB_ROUND, SLAB_ROUNDS}) {
    owner.flush(kClass, owner.refill(kClass, 1));
    slab.slab.idle_looks = rounds;
    EXPECT_EQ(Rounds(1), 0u) << +rounds;
    EXPECT_EQ(Rounds(1), 1u) << +rounds;
    EXPECT_EQ(Rounds(5), 0u) << +rounds;
  }
}

TEST_F(PurgeIdle, ASlabMostlyInUseKeepsItsHugePageAsLongAsThereIsOne) {
  Make(2, 1);
  const std::size_t superslab = slab_of(kept[0]) / SUPERSLAB_UNITS;
  auto third = std::vector<void *>(kept.begin(), kept.begin() + size_classes[kClass].capacity / 3);
  kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(third.size()));
  owner.flush(kClass, third);
  const std::size_t before = ResidentPages();
  map_note_huge_page(superslab, true);
  EXPECT_EQ(Rounds(5), 0u);
  EXPECT_EQ(ResidentPages(), before);
  map_note_huge_page(superslab, false);
  EXPECT_EQ(Rounds(1), 1u);
  EXPECT_LE(ResidentPages(), before - third.size() * kBytes / os_page_bytes() + 1);
  EXPECT_EQ(Rounds(3), 0u) << "once is enough";
}

TEST_F(PurgeIdle, OfASlabWithoutAFreePageNothingIsAsked) {
  Make(2, 1);
  std::vector<void *> few;
  for (std::size_t i = 0; i + 1 < os_page_bytes() / kBytes; i++) few.push_back(kept[3 * i]); /* less than a page */
  for (void *block : few) kept.erase(std::find(kept.begin(), kept.end(), block));
  owner.flush(kClass, few);
  EXPECT_EQ(Rounds(5), 0u);
}

TEST_F(PurgeIdle, TheEmptySlabThatWasKeptGoesWhole) {
  owner.flush(kClass, owner.refill(kClass, 10));
  EXPECT_EQ(used_bytes(), UNIT_BYTES);
  EXPECT_EQ(Rounds(2), 1u);
  EXPECT_EQ(used_bytes(), 0u);
}

TEST_F(PurgeIdle, NoCallTakesLong) {
  Make(200, 16);
  Rounds(1);
  const size_t calls = UNIT_BYTES / (16 * kBytes); /* for a slab: a row of free pages between two blocks in use */
  size_t first = purge_idle(owner, now_ms += 1000, 50 * calls);
  EXPECT_GE(first, 25u);
  EXPECT_LE(first, 50u) << "more than was asked for";
  EXPECT_EQ(purge_idle(owner, now_ms += 5, 50 * calls), 0u) << "too soon";
  size_t second = purge_idle(owner, now_ms += 15, SIZE_MAX);
  EXPECT_GE(second, 1u);
  EXPECT_LE(second, 20u * 8 / calls + 1) << "eight calls a millisecond";
  EXPECT_EQ(Rounds(3), 200 - first - second) << "it went on where it was";
}

TEST_F(PurgeIdle, WhoComesSeldomIsToBeHelped) {
  Make(200, 16);
  Rounds(1);
  EXPECT_FALSE(purge_wants_help(owner)) << "it has come through";
  purge_idle(owner, now_ms += 1000, 64);
  EXPECT_TRUE(purge_wants_help(owner));
  purge_idle(owner, now_ms += 10, 64);
  EXPECT_FALSE(purge_wants_help(owner)) << "it comes often";
  purge_idle(owner, now_ms += 1000, 64);
  EXPECT_TRUE(purge_wants_help(owner));
  Rounds(1);
  EXPECT_FALSE(purge_wants_help(owner));
}

/* The slab where it goes on leaves the list meanwhile: it gets full, or empty. */
TEST_F(PurgeIdle, GoesOnWhereASlabWas) {
  Make(12, 16);
  Rounds(1);
  EXPECT_EQ(purge_idle(owner, now_ms += 1000, 17), 2u);
  slab_check(owner);
  for (int i = 0; i < 11; i++) {
    ASSERT_NE(owner->next_look, 0u);
    auto full = owner.refill(kClass, record(owner->slabs[kClass]).slab.free_count);
    kept.insert(kept.end(), full.begin(), full.end());
    slab_check(owner);
  }
  Rounds(3);
  slab_check(owner);
}

/* What a free gives back at once, where there is no background thread. */
class Surplus : public PurgeIdle {
 protected:
  static constexpr size_t kSlabs = 64; /* 4 MiB */
  /* Frees as at a batch boundary: all but the first of each `of` blocks, some at a time. */
  void MakeInSteps(size_t of) {
    auto blocks = owner.refill(kClass, kSlabs * size_classes[kClass].capacity);
    std::sort(blocks.begin(), blocks.end());
    std::vector<void *> some;
    for (size_t i = 0; i < blocks.size(); i++) {
      hak_test::stamp(blocks[i], kBytes, 7);
      (i % of == 0 ? kept : some).push_back(blocks[i]);
      if (some.size() < 100 && i + 1 < blocks.size()) continue;
      surplus_begin(owner);
      owner.flush(kClass, some);
      surplus_end(owner);
      some.clear();
    }
  }
  size_t ResidentBytes() const { return ResidentPages() * os_page_bytes(); }
};

TEST_F(Surplus, GoesAtTheFreesThatMakeIt) {
  MakeInSteps(64);
  /* A page of each slab has to stay, and a share of all: twice the least. */
  EXPECT_LE(ResidentBytes(), kSlabs * 2 * os_page_bytes() + 3 * size_t{SURPLUS_LEAST_BYTES});
  slab_check(owner);
}

TEST_F(Surplus, IsNoneWhereMostIsInUse) {
  MakeInSteps(2);
  EXPECT_EQ(owner->purged_bytes, 0);
}

/* To give it back again and again would cost a fault for each page. */
TEST_F(Surplus, StaysForAWhileIfItWasWantedAgain) {
  MakeInSteps(64);
  EXPECT_GT(owner->purged_bytes, 0);
  auto blocks = owner.refill(kClass, kSlabs * size_classes[kClass].capacity - kept.size());
  EXPECT_EQ(owner->purged_bytes, 0);
  EXPECT_GT(owner->regret_bytes, 0);
  slab_check(owner);
  surplus_begin(owner);
  owner.flush(kClass, blocks);
  surplus_end(owner);
  EXPECT_EQ(owner->purged_bytes, 0);
}

/* Pages here and there of slabs whose blocks come back in no order would soon go as a whole. */
TEST_F(Surplus, OfPiecesNoMoreGoThanMay) {
  const size_t page = os_page_bytes();
  if (2 * page >= PURGE_PIECE_BYTES) GTEST_SKIP() << "a page is no piece";
  Make(1, 2 * page / kBytes); /* every other page is free */
  const unit_t slab = slab_of(kept.front());
  const int64_t pages = UNIT_BYTES / 2 / static_cast<int64_t>(page);
  uint16_t pieces = 3;
  purge_slab(owner, slab, TALLY_STRAINED, &pieces);
  EXPECT_EQ(pieces, 0);
  EXPECT_EQ(owner->purged_bytes, 3 * static_cast<int64_t>(page));
  EXPECT_TRUE(record(slab).slab.has_pieces) << "who comes by later sees that some stayed";
  purge_slab(owner, slab, TALLY_STRAINED, nullptr);
  EXPECT_FALSE(record(slab).slab.has_pieces);
  EXPECT_EQ(owner->purged_bytes, pages * static_cast<int64_t>(page));
  slab_check(owner);
}

TEST_F(Surplus, LongRowsAreNoPieces) {
  Make(1, UNIT_BYTES / kBytes);
  uint16_t pieces = 0;
  purge_slab(owner, slab_of(kept.front()), TALLY_STRAINED, &pieces);
  EXPECT_EQ(owner->purged_bytes, static_cast<int64_t>(UNIT_BYTES - os_page_bytes()));
}

TEST_F(Surplus, PiecesMayGoAsTimePasses) {
  Make(kSlabs, 64); /* so that there is enough to be looked at */
  auto allowed_after = [&](uint32_t ms) {
    owner->pieces = 0;
    owner->pieces_ms = static_cast<uint32_t>(os_now_ms()) - ms;
    surplus_begin_now(owner);
    return owner->pieces;
  };
  EXPECT_GE(allowed_after(1), 128);
  EXPECT_EQ(allowed_after(100), 1024) << "and no more, however long it was";
  EXPECT_EQ(allowed_after(1u << 31), 1024);
}

TEST_F(Surplus, PiecesThatStayedGoWithLaterFrees) {
  const size_t page = os_page_bytes();
  if (2 * page >= PURGE_PIECE_BYTES) GTEST_SKIP() << "a page is no piece";
  constexpr size_t kMany = 4 * kSlabs;
  Make(kMany, 2 * page / kBytes);
  const auto all = static_cast<int64_t>(kMany * UNIT_BYTES / 2);
  for (unit_t slab = owner->slabs[kClass]; slab != 0; slab = record(slab).slab.next) {
    uint16_t none = 0;
    purge_slab(owner, slab, TALLY_STRAINED, &none);
    record(slab).slab.look_at = static_cast<uint16_t>(size_classes[kClass].capacity - 1);
  }
  ASSERT_EQ(owner->purged_bytes, 0);
  owner_look_for_surplus(owner);
  for (int frees = 0; frees < 1000; frees++) {
    owner->pieces_ms--; /* a millisecond for each */
    surplus_begin_now(owner);
    if (!owner->has_surplus) break;
    surplus_end(owner);
  }
  EXPECT_FALSE(owner->has_surplus);
  EXPECT_GE(owner->purged_bytes, all - owner->surplus_from - int64_t{SURPLUS_LEAST_BYTES});
  slab_check(owner);
}

TEST_F(Surplus, TheSearchForPiecesEnds) {
  Make(kSlabs, 64);
  owner_look_for_surplus(owner);
  for (int frees = 0; frees < 1000; frees++) {
    owner->has_surplus = true;
    owner->pieces = 1;
    surplus_end_now(owner);
  }
  EXPECT_EQ(owner->surplus_rounds, 0);
}

TEST_F(Surplus, BooksFollowASlabToItsNextOwner) {
  MakeInSteps(64);
  const int64_t purged = owner->purged_bytes;
  pool_enter();
  pool_make_orphanage(owner);
  if (claim_begin(owner) != CLAIMED) {
    pool_leave();
    GTEST_SKIP() << "no membarrier here";
  }
  while (orphanage_disown(owner)) continue;
  claim_end(owner);
  pool_leave();
  EXPECT_EQ(owner->purged_bytes, 0);
  hak_test::AttachedOwner other;
  while (adopt(other, kClass)) continue;
  EXPECT_EQ(other->purged_bytes, purged);
  slab_check(other);
  other.flush(kClass, kept);
  kept.clear();
  slab_release_empty(other);
  EXPECT_EQ(other->purged_bytes, 0);
}

/* What went as whole slabs stays dirty as a share of what was needed then; when slabs in use lose pages, less is. */
TEST(SurplusAndDirty, WhatStaysFollowsWhatIsNeeded) {
  std::vector<void *> blocks(60000);
  for (void *&block : blocks) block = std::memset(hak_malloc(4096), 1, 4096);
  for (size_t i = blocks.size() / 2; i < blocks.size(); i++) hak_free(blocks[i]);
  for (size_t i = 0; i < blocks.size() / 2; i++)
    if (i % 16 != 0) hak_free(blocks[i]);
  EXPECT_LE(arena_usage().dirty, 2 * HAK_MIB(4) + arena_needed_bytes() / 8) << "and as much again before it is begun";
  for (size_t i = 0; i < blocks.size() / 2; i += 16) hak_free(blocks[i]);
}

/* Most pages, and nearly all slabs, become free with the last blocks. */
TEST(SurplusAndDirty, GoWhereSmallBlocksAreFreedInNoOrder) {
  if (!os_is_unfiltered()) GTEST_SKIP() << "the system does not say what is resident";
  constexpr size_t kBytes = 112, kBlocks = HAK_MIB(256) / kBytes;
  std::vector<void *> blocks(kBlocks);
  for (void *&block : blocks) block = std::memset(hak_malloc(kBytes), 1, kBytes);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(1));
  for (void *block : blocks) hak_free(block);
  hak_account_t account;
  hak_account(&account, sizeof account);
  EXPECT_LE(account.resident_free_in_slabs + account.resident_dirty, HAK_MIB(10));
}

/* Where a refill collects what others have freed, or has looked at what is idle, it makes slabs empty and purges
 * nothing; the frees after it do. */
TEST(SurplusAndDirty, WhatRefillsHaveMadeEmptyGoesByAndBy) {
  constexpr unsigned kClass = 40;
  constexpr uint32_t kUnits = 1000;
  const hak_test::OverTime over_time(OVER_TIME_OFF);
  heap_t *heap = hak_test::own_heap();
  hak_test::AttachedOwner other;
  std::vector<void *> blocks;
  while (used_bytes() < size_t{kUnits} * UNIT_BYTES)
    for (void *block : other.refill(kClass, 8))
      blocks.push_back(std::memset(block, 1, size_classes[kClass].block_bytes));
  other.flush(kClass, blocks);
  slab_release_empty(other);
  heap->owner.released_units = kUnits;
  size_t most = 0, frees = 0, before = arena_usage().dirty, at_first = before;
  std::vector<void *> own(100000);
  for (void *&block : own) block = hak_malloc(16);
  for (void *block : own) {
    hak_free(block);
    size_t dirty = arena_usage().dirty;
    most = std::max(most, before - std::min(before, dirty));
    frees += dirty < before;
    before = dirty;
  }
  EXPECT_GT(at_first, HAK_MIB(32)) << "or there was nothing to give back";
  EXPECT_LE(most, HAK_MIB(8)) << "by one free";
  EXPECT_LE(before, (kept_dirty_units() << UNIT_SHIFT) + HAK_MIB(6)) << "after " << frees;
}

/* Free pages between live blocks count, as dirty memory does, and the latter stays first. */
/* A page of bitmaps is for four units. */
TEST(Tables, OfWhatGoesInPiecesGoBackAsWell) {
  if (!os_is_unfiltered()) GTEST_SKIP() << "the system does not say what is resident";
  const unit_t spacer = arena_take(ZONE_SMALL, SUPERSLAB_UNITS, SUPERSLAB_UNITS, nullptr);
  const unit_t first = arena_take(ZONE_SMALL, SUPERSLAB_UNITS, SUPERSLAB_UNITS, nullptr);
  arena_give(first, SUPERSLAB_UNITS);
  purge_dirty();
  std::vector<unit_t> runs(SUPERSLAB_UNITS / 2);
  for (unit_t &run : runs) {
    run = arena_take(ZONE_SMALL, 2, 1, nullptr);
    for (unit_t unit = run; unit < run + 2; unit++) {
      *reinterpret_cast<volatile char *>(the_map.free_bits[unit]) = 0;
      *reinterpret_cast<volatile char *>(the_map.remote_bits[unit]) = 0;
    }
  }
  const auto [lowest, highest] = std::minmax_element(runs.begin(), runs.end());
  const size_t bytes = (*highest + 2 - *lowest) * sizeof the_map.free_bits[0];
  auto resident = [&, at = *lowest] {
    auto page = [](void *address) {
      return reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(address) & -os_page_bytes());
    };
    return hak_test::resident_pages(page(the_map.free_bits[at]), bytes) +
           hak_test::resident_pages(page(the_map.remote_bits[at]), bytes);
  };
  const size_t before = resident();
  ASSERT_GE(before, 2 * bytes / os_page_bytes() - 1);
  const unit_t used = runs.back();
  runs.pop_back();
  volatile uint64_t &its_bits = the_map.free_bits[used][7];
  its_bits = 0x5555;
  for (unit_t run : runs) {
    arena_give(run, 2);
    purge_dirty();
  }
  EXPECT_EQ(its_bits, 0x5555u) << "bits of what is in use went as well";
  its_bits = 0;
  arena_give(used, 2);
  purge_dirty();
  EXPECT_LE(resident(), before / 4);
  arena_give(spacer, SUPERSLAB_UNITS);
  hak__check_all();
}

TEST(Trim, LeavesSoMuchOfBothTogether) {
  if (!os_is_unfiltered()) GTEST_SKIP() << "the system does not say what is resident";
  hak_test::with_nothing_by_itself([] {
    constexpr size_t kBlocks = 40000, kBytes = 256;
    std::vector<void *> blocks(kBlocks), live;
    for (void *&block : blocks) std::memset(block = hak_malloc(kBytes), 1, kBytes);
    void *huge = hak_malloc(HAK_MIB(5));
    for (size_t i = 0; i < kBlocks; i++) i % 200 == 0 ? live.push_back(blocks[i]) : hak_free(blocks[i]);
    EXPECT_EQ(trim(SIZE_MAX), 0u); /* nothing goes, but what is cached to its slabs */
    purge_dirty();
    hak_account_t account;
    const auto resident = [&] {
      hak_account(&account, sizeof account);
      return account.resident_free_in_slabs + account.resident_dirty;
    };
    const size_t all = resident(), beside = live.size() * os_page_bytes();
    ASSERT_GT(all, HAK_MIB(8)) << "the test is void";
    for (size_t keep : {HAK_MIB(6), HAK_MIB(4) + 1, HAK_MIB(2)}) {
      EXPECT_GT(trim(keep), 0u);
      EXPECT_GE(resident(), keep - os_page_bytes()) << "more went than was to go";
      EXPECT_LE(resident(), keep + beside);
      EXPECT_EQ(trim(keep), 0u);
    }
    hak_free(huge);
    const size_t dirty = arena_usage().dirty;
    ASSERT_GT(dirty, 0u);
    trim(dirty + HAK_MIB(1));
    EXPECT_EQ(arena_usage().dirty, dirty) << "what lies in slabs goes first";
    resident();
    EXPECT_GE(account.resident_free_in_slabs, HAK_MIB(1) - os_page_bytes());
    EXPECT_LE(account.resident_free_in_slabs, HAK_MIB(1) + beside);
    for (void *block : live) hak_free(block);
  });
}
