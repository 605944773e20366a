/* Runs of units: taken, given, joined, purged. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"
#include "support/process.h"

#include <arena/dirty.h>
#include <arena/kept.h>
#include <arena/purging.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <thread>

#include <sys/resource.h>

namespace {

using hak_test::is_zero;
using hak_test::purge_dirty;
using hak_test::Random;
using hak_test::record;

/* The arena's caller: keeps what it holds, and marks it. */
class Arena : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(arena_ready()); }
  void TearDown() override {
    while (!held.empty()) give(held.begin()->first);
    arena_check();
    EXPECT_EQ(arena_usage().used, 0u) << "everything was given back";
  }

  struct Run {
    zone_id_t zone;
    size_t units;
    uint64_t key;
  };

  unit_t take(zone_id_t zone, size_t units, size_t align_units = 1, bool *zero = nullptr) {
    bool reads_as_zero = false;
    unit_t first = arena_take(zone, units, align_units, &reads_as_zero);
    if (zero != nullptr) *zero = reads_as_zero;
    if (first == 0) return 0;
    const zone_id_t where = zone_of(first);
    EXPECT_TRUE(where == zone || zone == ZONE_HUGE) << "a slab between huge blocks";
    EXPECT_GE(first, the_map.zone_first[where]);
    EXPECT_LE(first + units, hak_test::zone_end(where));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(map_address(first)) % (align_units * UNIT_BYTES), 0u) << "not aligned";
    for (size_t i = 0; reads_as_zero && i < units; i++)
      EXPECT_TRUE(is_zero(map_address(first + i), UNIT_BYTES)) << "unit " << i << " was promised to be zero";
    auto after = held.upper_bound(first);
    EXPECT_TRUE(after == held.end() || first + units <= after->first) << "it reaches into the next run";
    EXPECT_TRUE(after == held.begin() || std::prev(after)->first + std::prev(after)->second.units <= first)
        << "it lies in another run";
    hak_test::write_words(first, units, hak_test::kInUse);
    Run run{zone, units, ++keys << 32};
    stamp(first, run);
    held[first] = run;
    return first;
  }
  /* The arena hands out units and purges pages: it is enough to mark each page. */
  static constexpr size_t kPageBytes = 4096, kMarkBytes = 64;
  static void stamp_unit(unit_t unit, uint64_t key) {
    for (size_t at = 0; at < UNIT_BYTES; at += kPageBytes)
      hak_test::stamp_as(map_address(unit) + at, kMarkBytes, key + at);
  }
  static bool stamped_unit(unit_t unit, uint64_t key) {
    for (size_t at = 0; at < UNIT_BYTES; at += kPageBytes)
      if (!hak_test::stamped_as(map_address(unit) + at, kMarkBytes, key + at, kMarkBytes)) return false;
    return true;
  }
  static void stamp(unit_t first, const Run &run) {
    for (size_t i = 0; i < run.units; i++) stamp_unit(first + i, run.key + i * UNIT_BYTES);
  }
  static void expect_stamp(unit_t first, const Run &run) {
    for (size_t i = 0; i < run.units; i++)
      ASSERT_TRUE(stamped_unit(first + i, run.key + i * UNIT_BYTES))
          << "unit " << i << " of a run of " << run.units << " has lost its contents";
  }
  void give(unit_t first) {
    Run run = held.at(first);
    expect_stamp(first, run);
    hak_test::write_words(first, run.units, 0);
    arena_give(first, run.units);
    held.erase(first);
  }
  bool extend(unit_t first, size_t units, bool is_large = false) {
    Run &run = held.at(first);
    if (!(is_large ? arena_extend_large : arena_extend)(first, run.units, units)) return false;
    hak_test::write_words(first, units, hak_test::kInUse);
    for (size_t i = run.units; i < units; i++) stamp_unit(first + i, run.key + i * UNIT_BYTES);
    run.units = units;
    return true;
  }
  size_t resident_units(unit_t first, size_t units) {
    return hak_test::resident_pages(map_address(first), units * UNIT_BYTES) / (UNIT_BYTES / os_page_bytes());
  }

  std::map<unit_t, Run> held;
  uint64_t keys = 0;
};

}  // namespace

TEST_F(Arena, RandomRunsNeverOverlapAndKeepTheirContents) {
  Random random(1);
  uint64_t clock_ms = os_now_ms();
  for (int i = 0; i < 6000; i++) {
    zone_id_t zone = random.below(4) == 0 ? ZONE_HUGE : ZONE_SMALL;
    size_t dice = random.below(100);
    if (dice < 48) {
      size_t align = size_t{1} << (random.below(4) == 0 ? random.below(8) : random.below(2));
      ASSERT_NE(take(zone, random.size_between(1, zone == ZONE_HUGE ? 60 : 20), align), 0u);
    } else if (dice < 93) {
      if (held.empty()) continue;
      give(std::next(held.begin(), static_cast<long>(random.below(held.size())))->first);
    } else if (dice < 97) {
      if (held.empty()) continue;
      auto it = std::next(held.begin(), static_cast<long>(random.below(held.size())));
      extend(it->first, it->second.units + random.between(1, 10));
      expect_stamp(it->first, it->second);
    } else if (dice < 99) {
      arena_tick(clock_ms += random.below(700));
    } else {
      purge_dirty(random.below(3) * HAK_MIB(2));
    }
    if (i % 25 == 0) arena_check();
    while (held.size() > 120) give(held.begin()->first);
  }
}

TEST_F(Arena, TakesTheShortestGapThatFitsAndTheLowestOfThose) {
  unit_t eight = take(ZONE_SMALL, 8), wall1 = take(ZONE_SMALL, 1);
  unit_t five = take(ZONE_SMALL, 5), wall2 = take(ZONE_SMALL, 1);
  unit_t other_five = take(ZONE_SMALL, 5), wall3 = take(ZONE_SMALL, 1);
  give(other_five);
  give(five);
  give(eight);
  EXPECT_EQ(take(ZONE_SMALL, 4), five);
  EXPECT_EQ(take(ZONE_SMALL, 5), other_five);
  EXPECT_EQ(take(ZONE_SMALL, 5), eight);
  EXPECT_EQ(take(ZONE_SMALL, 1), five + 4) << "what was left of the cut run";
  (void)wall1, (void)wall2, (void)wall3;
}

TEST_F(Arena, NeighboursBecomeOneRunInWhateverOrderTheyComeBack) {
  int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (auto &order : orders) {
    unit_t runs[3], first_wall = take(ZONE_SMALL, 1);
    for (unit_t &run : runs) run = take(ZONE_SMALL, 4);
    unit_t wall = take(ZONE_SMALL, 1);
    ASSERT_EQ(runs[2], runs[0] + 8) << "the runs are not neighbours: the test needs another start";
    for (int i : order) give(runs[i]);
    arena_check();
    unit_t whole = take(ZONE_SMALL, 12);
    EXPECT_EQ(whole, runs[0]);
    give(whole);
    give(wall);
    give(first_wall);
  }
}

TEST_F(Arena, AlignedRunsOfEveryAlignment) {
  take(ZONE_SMALL, 3);
  take(ZONE_HUGE, 3);
  for (size_t align = 1; align <= 2048; align *= 2)
    for (size_t units : {1, 7, 33}) {
      ASSERT_NE(take(ZONE_SMALL, units, align), 0u) << units << " units at multiples of " << align;
      ASSERT_NE(take(ZONE_HUGE, units, align), 0u) << units << " units at multiples of " << align;
      arena_check();
    }
}

/* Many gaps are long enough and all start in the wrong place: memory is there all
 * the same, if need be fresh memory. */
TEST_F(Arena, AlignedRunsAmongManyGapsThatAreMisplaced) {
  std::vector<unit_t> gaps;
  for (int i = 0; i < 40; i++) {
    gaps.push_back(take(ZONE_HUGE, 70));
    take(ZONE_HUGE, 58);
  }
  for (unit_t gap : gaps) give(gap);
  for (size_t align = 32; align <= 4096; align *= 2) {
    size_t end = hak_test::zone_end(ZONE_HUGE);
    ASSERT_NE(take(ZONE_HUGE, 65, align), 0u)
        << "no memory for 65 units at a multiple of " << align << ", with 16 TiB of address space";
    EXPECT_LE(hak_test::zone_end(ZONE_HUGE) - end, 2 * align + 1024 + 65) << "the zone grew more than it had to";
  }
}

TEST_F(Arena, ARunGrowsOnlyIntoFreeUnitsBehindIt) {
  unit_t run = take(ZONE_SMALL, 4), next = take(ZONE_SMALL, 4), wall = take(ZONE_SMALL, 1);
  ASSERT_EQ(next, run + 4);
  EXPECT_FALSE(extend(run, 5)) << "into a run in use";
  give(next);
  EXPECT_FALSE(extend(run, 9)) << "beyond the gap, into the run behind";
  EXPECT_TRUE(extend(run, 6));
  EXPECT_TRUE(extend(run, 8));
  EXPECT_FALSE(extend(run, 9));
  expect_stamp(run, held.at(run));
  (void)wall;
}

TEST_F(Arena, ARunAtTheZonesEndGrowsAsLongAsThereIsMemory) {
  unit_t run = take(ZONE_HUGE, 100);
  for (size_t units = 100; units < 4000; units += units / 3) EXPECT_TRUE(extend(run, units + 1)) << "to " << units + 1;
  expect_stamp(run, held.at(run));
}

/* ---- Dirty and clean memory ----------------------------------------------------*/

TEST_F(Arena, FreshMemoryReadsAsZeroAndUsedMemoryIsNotPromisedTo) {
  bool zero = false;
  unit_t run = take(ZONE_SMALL, 16, 1, &zero);
  EXPECT_TRUE(zero) << "memory of the system would be cleared again";
  give(run);
  EXPECT_EQ(arena_usage().dirty, HAK_MIB(1));
  EXPECT_EQ(take(ZONE_SMALL, 8, 1, &zero), run);
  EXPECT_FALSE(zero) << "stamped a moment ago";
  EXPECT_EQ(arena_usage().dirty, HAK_KIB(512)) << "what is taken is no longer free";
}

TEST_F(Arena, PurgedMemoryIsGoneAndReadsAsZero) {
  unit_t run = take(ZONE_SMALL, 64), wall = take(ZONE_SMALL, 1);
  give(run);
  EXPECT_EQ(resident_units(run, 64), 64u) << "kept for whoever comes next";
  EXPECT_GE(purge_dirty(HAK_MIB(1)), HAK_MIB(3)) << "all but what was to be kept";
  EXPECT_LE(arena_usage().dirty, HAK_MIB(1));
  purge_dirty();
  EXPECT_EQ(arena_usage().dirty, 0u);
  EXPECT_EQ(resident_units(run, 64), 0u) << "still resident";
  bool zero = false;
  EXPECT_EQ(take(ZONE_SMALL, 64, 1, &zero), run);
  EXPECT_TRUE(zero);
  EXPECT_EQ(purge_dirty(), 0u) << "a second purge found something";
  (void)wall;
}

TEST_F(Arena, PagesGoASecondAfterTheyWereFreed) {
  unit_t run = take(ZONE_SMALL, 16);
  give(run);
  uint64_t now = os_now_ms();
  EXPECT_EQ(arena_tick(now), 0u) << "at once";
  EXPECT_EQ(arena_usage().dirty, HAK_MIB(1));
  EXPECT_EQ(arena_tick(now + 2000), HAK_MIB(1));
  EXPECT_EQ(arena_usage().dirty, 0u);
  arena_check();
}

/* mallopt(M_TRIM_THRESHOLD). */
TEST_F(Arena, WhatTheProgramWantsToStayStaysHoweverOld) {
  uint64_t later = os_now_ms();
  for (const size_t keep : {HAK_MIB(20), SIZE_MAX, size_t{0}}) {
    arena_keep(keep);
    std::vector<unit_t> runs;
    for (int i = 0; i < 30; i++) runs.push_back(take(ZONE_SMALL, 32));
    for (unit_t run : runs) {
      give(run);
      arena_relieve(32);
    }
    const size_t stays = keep < HAK_MIB(60) ? keep : HAK_MIB(60);
    EXPECT_GE(arena_usage().dirty, stays) << "of " << keep;
    EXPECT_LE(arena_usage().dirty, stays + HAK_MIB(4 + 1)) << "of " << keep;
    later += 5000;
    for (int i = 0; i < 100; i++) arena_tick(later);
    EXPECT_EQ(arena_usage().dirty, stays) << "of " << keep;
    purge_dirty();
    EXPECT_EQ(arena_usage().dirty, 0u);
    later += 5000;
    arena_tick(later); /* what was taken again soon is forgotten */
  }
}

TEST_F(Arena, DirtyMemoryIsBoundedEvenWithoutAClock) {
  std::vector<unit_t> runs;
  for (int i = 0; i < 100; i++) runs.push_back(take(ZONE_SMALL, 32));
  for (unit_t run : runs) {
    give(run);
    arena_relieve(32);
    /* A floor, as much again before it begins, and an eighth of what is in use; nothing was reused. */
    ASSERT_LE(arena_usage().dirty, HAK_MIB(4 + 4) + arena_usage().used / 8) << "hoards what nobody uses";
  }
  EXPECT_LE(arena_usage().dirty, HAK_MIB(1 + 1)) << "a heap that is empty has no use for a large heap's floor";
  arena_check();
}

/* Of a row that lies in several SuperSlabs, in which nothing else is. */
static size_t purge_at_most(size_t most, size_t calls, size_t keep, bool is_exact) {
  const purging_order_t order = {PURGING_ALL, most, calls, keep, nullptr, true, is_exact, false};
  return purging_do(&order, nullptr) >> UNIT_SHIFT;
}

/* Else each purge after one that ends inside of a SuperSlab would begin and end inside of one. */
TEST_F(Arena, APurgeEndsWithItsSuperSlab) {
  purge_dirty();
  const unit_t run = take(ZONE_HUGE, 4 * SUPERSLAB_UNITS, SUPERSLAB_UNITS);
  give(run);
  EXPECT_EQ(purge_at_most(5, SIZE_MAX, 0, true), 5u);
  EXPECT_EQ(purge_at_most(PURGE_UNITS, 1, 0, true), SUPERSLAB_UNITS - 5u);
  EXPECT_EQ(resident_units(run, SUPERSLAB_UNITS), 0u);
  EXPECT_EQ(purge_at_most(2 * PURGE_UNITS, 2, 0, true), 2u * SUPERSLAB_UNITS);
  EXPECT_EQ(resident_units(run + 3 * SUPERSLAB_UNITS, SUPERSLAB_UNITS), SUPERSLAB_UNITS) << "a call for each";
}

TEST_F(Arena, WhatHasAHugePageGoesAsAWhole) {
  constexpr size_t kUnits = 4 * SUPERSLAB_UNITS;
  purge_dirty();
  const unit_t run = take(ZONE_HUGE, kUnits, SUPERSLAB_UNITS);
  const size_t first = run / SUPERSLAB_UNITS;
  map_want_huge_pages(first, first + 3);
  give(run);
  ASSERT_EQ(dirty_units(), kUnits);
  EXPECT_EQ(purge_at_most(5, SIZE_MAX, 0, false), SUPERSLAB_UNITS);
  EXPECT_EQ(purge_at_most(SIZE_MAX, SIZE_MAX, dirty_units() - 5, false), SUPERSLAB_UNITS) << "instead of a part";
  ASSERT_EQ(resident_units(run, 2 * SUPERSLAB_UNITS), 0u);
  /* Of the least share, or where somebody has said how much is to stay, not one goes. */
  EXPECT_EQ(purge_at_most(SIZE_MAX, SIZE_MAX, dirty_units() - 5, true), 5u);
  EXPECT_EQ(purge_at_most(SIZE_MAX, 1, 0, true), SUPERSLAB_UNITS - 5u);
  map_want_huge_pages(first + 3, first + 4);
  ASSERT_EQ(dirty_units(), SUPERSLAB_UNITS);
  ASSERT_GT(kept_least_units(), 0u);
  EXPECT_EQ(purge_at_most(SIZE_MAX, SIZE_MAX, SUPERSLAB_UNITS - 5, false), 5u);
  map_refuse_huge_pages(first, first + 4);
}

TEST_F(Arena, WhatHasNoHugePageGoesInPart) {
  purge_dirty();
  const unit_t run = take(ZONE_HUGE, 2 * SUPERSLAB_UNITS, SUPERSLAB_UNITS);
  map_refuse_huge_pages(run / SUPERSLAB_UNITS, run / SUPERSLAB_UNITS + 2);
  give(run);
  EXPECT_EQ(purge_at_most(5, SIZE_MAX, 0, false), 5u);
  EXPECT_EQ(resident_units(run, SUPERSLAB_UNITS), SUPERSLAB_UNITS - 5u);
}

/* A table whose nodes were freed in no order, and then the table itself. */
TEST_F(Arena, ALargeRunIsNotKeptBecauseOlderOnesLieApart) {
  constexpr size_t kApart = 400, kLarge = 2048;
  std::vector<unit_t> runs;
  for (size_t i = 0; i < 2 * kApart; i++) runs.push_back(take(ZONE_SMALL, 1));
  const unit_t large = take(ZONE_HUGE, kLarge);
  for (size_t i = 0; i < runs.size(); i += 2) give(runs[i]);
  give(large);
  arena_relieve(kLarge);
  EXPECT_LE(arena_usage().dirty, HAK_MIB(4 + 4) + arena_usage().used / 8);
  for (size_t i = 1; i < runs.size(); i += 2) give(runs[i]);
}

/* What comes and goes is a dip, and stays. When all is freed, much more than that, nobody will want it. */
TEST_F(Arena, WhatFallsDeeperThanAnyDipDoesNotStay) {
  constexpr std::size_t kRuns = 80, kDip = 20, kDeep = 50, kRound = 10;
  arena_tick(os_now_ms() + 60000); /* nothing fades until then */
  std::vector<unit_t> runs;
  for (std::size_t i = 0; i < kRuns; i++) runs.push_back(take(ZONE_SMALL, 32));
  for (std::size_t round = 0; round < kRound; round++) {
    for (std::size_t i = 0; i < kDip; i++) give(runs[i]), arena_relieve(32);
    if (round > 0) {
      EXPECT_GE(arena_usage().dirty, kDip * 32 * UNIT_BYTES) << "it comes and goes";
    }
    for (std::size_t i = 0; i < kDip; i++) runs[i] = take(ZONE_SMALL, 32);
  }
  for (std::size_t i = 0; i < kDeep; i++) give(runs[i]), arena_relieve(32);
  /* As much as is in use, and twice a dip, but for what is beyond a dip. */
  const std::size_t used = arena_usage().used, stays = used + (3 * kDip - kDeep) * 32 * UNIT_BYTES;
  EXPECT_GE(arena_usage().dirty, stays) << "it may be a deeper dip";
  EXPECT_LE(arena_usage().dirty, stays + HAK_MIB(4 + 4) + used / 8) << "or not";
  for (std::size_t i = kDeep; i < kRuns; i++) give(runs[i]), arena_relieve(32);
  EXPECT_LE(arena_usage().dirty, HAK_MIB(8)) << "a fifth of a dip";
  arena_check();
}

/* Replacing blocks one by one, whatever is freed and taken in all, is no fall. */
TEST_F(Arena, WhoTakesAsMuchAsItFreesKeepsItsDip) {
  constexpr std::size_t kRuns = 40, kDip = 5, kLeft = 5;
  arena_tick(os_now_ms() + 60000); /* nothing fades until then */
  std::vector<unit_t> runs;
  for (std::size_t i = 0; i < kRuns; i++) runs.push_back(take(ZONE_SMALL, 32));
  for (int round = 0; round < 5; round++) {
    for (std::size_t i = 0; i < kDip; i++) give(runs[i]), arena_relieve(32);
    for (std::size_t i = 0; i < kDip; i++) runs[i] = take(ZONE_SMALL, 32);
  }
  /* It becomes smaller all the same, two steps down and one up. */
  while (runs.size() > kLeft) {
    for (int i = 0; i < 2; i++) {
      give(runs.back()), arena_relieve(32);
      runs.pop_back();
    }
    runs.push_back(take(ZONE_SMALL, 32));
  }
  EXPECT_GE(arena_usage().dirty, arena_usage().used + (2 * kDip - 1) * 32 * UNIT_BYTES);
  arena_check();
}

/* Stops the first purge of a zone, with the gate open, until it is let go. */
class HeldPurge {
 public:
  explicit HeldPurge(zone_id_t zone)
      : zone_(const_cast<zone_t *>(zone_look(zone))), kind_(*zone_->kind), own_(zone_->kind) {
    current = this;
    kind_.purge = [](void *at, size_t bytes) { return current->purge(at, bytes); };
    zone_->kind = &kind_;
  }
  ~HeldPurge() { zone_->kind = own_; }
  /* false: none comes. */
  bool await() { return begun_.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready; }
  void let_go() { go_on_.set_value(); }

 private:
  purge_t purge(void *at, size_t bytes) {
    if (!was_held_.exchange(true)) {
      begun_.set_value();
      go_on_.get_future().wait();
    }
    return own_->purge(at, bytes);
  }
  static inline HeldPurge *current;
  zone_t *zone_;
  zone_kind_t kind_;
  const zone_kind_t *own_;
  std::atomic<bool> was_held_{false};
  std::promise<void> begun_, go_on_;
};

TEST_F(Arena, WhoFreesBesideAnothersPurgePurgesNoMoreThanItsOwnShare) {
  constexpr size_t kFreed = 16, kShare = kFreed + kFreed / 8, kMuch = size_t{3} * SUPERSLAB_UNITS;
  purge_dirty();
  std::vector<unit_t> runs;
  for (int i = 0; i < 40; i++) runs.push_back(take(ZONE_HUGE, SUPERSLAB_UNITS));
  arena_tick(os_now_ms() + 60000); /* what was taken again soon is forgotten */
  for (unit_t run : runs) give(run);
  HeldPurge held_purge(ZONE_HUGE);
  size_t others = 0;
  std::thread other([&] { others = arena_relieve_now(0); });
  EXPECT_TRUE(held_purge.await());
  EXPECT_EQ(arena_relieve_now(kFreed), kShare * UNIT_BYTES);
  EXPECT_EQ(arena_relieve_now(0), 0u) << "it has freed nothing";
  held_purge.let_go();
  other.join();
  EXPECT_EQ(others, kMuch * UNIT_BYTES);
  EXPECT_EQ(arena_relieve_now(kFreed), kMuch * UNIT_BYTES) << "nobody else is at it";
  EXPECT_EQ(arena_relieve_now(2 * SUPERSLAB_UNITS), (4 * SUPERSLAB_UNITS + SUPERSLAB_UNITS / 4) * UNIT_BYTES);
  purge_dirty();
}

/* The thread that attends goes on with the rest, and a call for a small block need not pay for others' large one. */
TEST_F(Arena, WhoFreesWhereAThreadAttendsGivesLessBack) {
  constexpr size_t kFreed = 16, kShare = kFreed + kFreed / 8;
  purge_dirty();
  std::vector<unit_t> runs;
  for (int i = 0; i < 40; i++) runs.push_back(take(ZONE_HUGE, SUPERSLAB_UNITS));
  for (unit_t run : runs) give(run);
  const uint64_t later_ms = os_now_ms() + 60000;
  for (int i = 0; i < 4; i++) arena_tick(later_ms + i * 1000); /* what was in use is not lately any more */
  arena_attend(true);
  EXPECT_EQ(arena_relieve_now(kFreed), (kShare + SUPERSLAB_UNITS) * UNIT_BYTES);
  arena_attend(false);
  EXPECT_EQ(arena_relieve_now(kFreed), 3 * SUPERSLAB_UNITS * UNIT_BYTES) << "nobody does";
  purge_dirty();
}

/* The system has unmapped what it was to map anew. Here it has not, so that the rest can be given back. */
TEST_F(Arena, WhatIsLostWhenItIsPurgedStaysOutOfUse) {
  purge_dirty();
  const unit_t run = take(ZONE_HUGE, 40);
  give(run);
  {
    auto *zone = const_cast<zone_t *>(zone_look(ZONE_HUGE));
    const zone_kind_t *own = zone->kind;
    zone_kind_t losing = *own;
    losing.purge = [](void *, size_t) { return PURGE_LOST; };
    zone->kind = &losing;
    EXPECT_EQ(purge_dirty(), 0u);
    zone->kind = own;
  }
  arena_check();
  EXPECT_EQ(arena_usage().used, 40 * UNIT_BYTES);
  EXPECT_EQ(arena_usage().dirty, 0u);
  EXPECT_NE(take(ZONE_HUGE, 40), run);
  for (unit_t unit = run, units; unit < run + 40; unit += units) {
    units = record(unit).run_units;
    hak_test::write_words(unit, units, 0);
    arena_give(unit, units);
  }
}

TEST_F(Arena, OnlyWhatWasUsedIsClearedForCalloc) {
  unit_t used = take(ZONE_SMALL, 4), fresh = take(ZONE_SMALL, 12);
  ASSERT_EQ(fresh, used + 4);
  give(fresh);
  purge_dirty();
  give(used);
  bool zero = true;
  unit_t first = arena_take(ZONE_SMALL, 16, 1, &zero);
  ASSERT_EQ(first, used);
  EXPECT_FALSE(zero);
  arena_clear_stale(first, 16);
  EXPECT_EQ(resident_units(first, 16), 4u) << "pages were touched that read as zero anyway";
  EXPECT_TRUE(is_zero(map_address(first), 16 * UNIT_BYTES));
  arena_give(first, 16);
}

TEST_F(Arena, WhatIsGivenCleanIsTakenAsZero) {
  unit_t run = take(ZONE_HUGE, 16);
  hak_test::write_words(run, 16, 0);
  ASSERT_TRUE(os_purge(map_address(run), 16 * UNIT_BYTES));
  arena_give_clean(run, 16, 0);
  held.erase(run);
  EXPECT_EQ(arena_usage().dirty, 0u);
  bool zero = false;
  EXPECT_EQ(take(ZONE_HUGE, 16, 1, &zero), run);
  EXPECT_TRUE(zero);
}

/* The tables end where the zone does, on a page: nothing behind may be looked at. */
TEST_F(Arena, PurgesUpToTheVeryEndOfAZone) {
  for (zone_id_t zone : {ZONE_SMALL, ZONE_HUGE}) {
    const unit_t start = the_map.zone_first[zone];
    const size_t page_of_superslabs = os_page_bytes() / sizeof(superslab_t) * SUPERSLAB_UNITS;
    unit_t before = arena_take(zone, 80, 1, nullptr);
    ASSERT_EQ(before, start) << "the zone is not empty: the test needs its own process";
    hak_test::write_words(before, 80, hak_test::kInUse);
    size_t units = page_of_superslabs - 96;
    unit_t rest = arena_take(zone, units, 32, nullptr);
    ASSERT_NE(rest, 0u);
    EXPECT_EQ(hak_test::zone_end(zone) - start, page_of_superslabs)
        << "the zone ends elsewhere: the test misses its point";
    arena_give(rest, units);
    purge_dirty();
    EXPECT_EQ(arena_usage().dirty, 0u);
    hak_test::write_words(before, 80, 0);
    arena_give(before, 80);
    purge_dirty(); /* a huge run would be had from what is dirty */
  }
}

#if !defined(HAK_TEST_NO_LIMITS)
/* Just below what there is room for, there is room for the run and none for its tables. */
TEST_F(Arena, WhatWasMappedForARunThatIsRefusedIsGivenBack) {
  hak_test::Outcome outcome = hak_test::in_child([] {
    const size_t room = HAK_MIB(512), size = hak_test::status_kib("VmSize:") * 1024;
    const rlimit limit = {size + room, size + room};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    for (size_t missing = 0; missing < HAK_MIB(8); missing += HAK_MIB(1))
      if (arena_take(ZONE_HUGE, (room - missing) >> UNIT_SHIFT, 1, nullptr) != 0) return 2;
    if (hak_test::status_kib("VmSize:") * 1024 > size + HAK_MIB(16)) return 3;
    return arena_take(ZONE_HUGE, (room - HAK_MIB(48)) >> UNIT_SHIFT, 1, nullptr) != 0 ? 0 : 4;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << "2: no tables, 3: something stays mapped, 4: the room is gone; "
                                      << outcome.describe();
}
#endif

/* What is dirty would stay resident beside what is taken anew. */
TEST_F(Arena, WhatGrowsByMuchMovesWhereDirtyUnitsWait) {
  const unit_t dirty = take(ZONE_SMALL, 17), run = take(ZONE_SMALL, 8);
  purge_dirty();
  give(dirty);
  EXPECT_FALSE(extend(run, 16, true));
  EXPECT_FALSE(extend(run, 12, true));
  ASSERT_TRUE(extend(run, 10, true)) << "a copy takes longer";
  purge_dirty();
  ASSERT_TRUE(extend(run, 18, true)) << "nothing is dirty";
  map_split_run(run, 10, 8);
  hak_test::write_words(run + 10, 8, 0);
  arena_give(run + 10, 8);
  held[run].units = 10;
  give(take(ZONE_SMALL, 17));
  EXPECT_TRUE(extend(run, 18, true)) << "what it grows into is dirty";
}

/* A huge block would find its next place in the huge zone, and as much with an eighth to spare. */
TEST_F(Arena, AHugeRunBetweenSlabsGrowsWhereItIs) {
  const unit_t dirty = take(ZONE_SMALL, 17), run = take(ZONE_SMALL, 8);
  purge_dirty();
  give(dirty);
  EXPECT_TRUE(extend(run, 16));
}

/* As when all blocks of a program grow beyond the large sizes. */
TEST_F(Arena, HugeRunsTakeWhatLargeOnesHaveLeftDirty) {
  purge_dirty();
  const unit_t end = take(ZONE_SMALL, 1), large = take(ZONE_SMALL, 130);
  give(take(ZONE_HUGE, 96, 32));
  const unit_t behind = take(ZONE_SMALL, 1);
  give(large);
  EXPECT_EQ(zone_of(take(ZONE_HUGE, 96, 32)), ZONE_HUGE) << "there is a gap";
  EXPECT_EQ(zone_of(take(ZONE_HUGE, 1, 32)), ZONE_HUGE) << "it is huge by its alignment alone";
  EXPECT_EQ(zone_of(take(ZONE_HUGE, LARGE_MOST_UNITS, 32)), ZONE_HUGE);
  const unit_t huge = take(ZONE_HUGE, LARGE_MOST_UNITS + 1);
  EXPECT_EQ(zone_of(huge), ZONE_SMALL) << "what is dirty stays beside it";
  EXPECT_EQ(zone_of(take(ZONE_HUGE, 96, 32)), ZONE_HUGE) << "it is too short";
  give(huge);
  purge_dirty();
  EXPECT_EQ(zone_of(take(ZONE_HUGE, 100)), ZONE_HUGE) << "nothing is dirty there";
  (void)end, (void)behind;
}

/* Who frees a block reads the one, who takes the gate writes the other. */
TEST(ArenaGate, SharesNoLineWithTheMap) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(&the_map) % HAK_CACHE_LINE, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(&arena_gate) % HAK_CACHE_LINE, 0u);
}

/* How often units are reused says little of how many are needed: twice what was in use lately is enough. */
TEST_F(Arena, WhoReusesTheSamePlaceAllTheTimeKeepsNoMoreThanThat) {
  const unit_t run = take(ZONE_SMALL, 100);
  arena_enter();
  const size_t used = kept_used_units(), before = kept_units();
  for (int i = 0; i < 100000; i++) { /* as if one after the other was given back and taken again */
    kept_note_full();
    kept_note_given(10);
    kept_note_taken(ZONE_SMALL, 10, 10);
  }
  EXPECT_GE(kept_units(), before + used);
  EXPECT_LE(kept_units(), before + used + 2 * 10) << "and twice what comes and goes";
  kept_note_full();
  kept_note_given(used);
  EXPECT_LE(kept_units(), before + 2 * 10) << "all of it is free: it never fell by more than that";
  kept_note_taken(ZONE_SMALL, used, used);
  kept_note_given(used);
  EXPECT_GE(kept_units(), 2 * used - before) << "it has fallen and risen";
  kept_note_taken(ZONE_SMALL, used, used);
  arena_leave();
  give(run);
}

/* A vector that has doubled leaves half of itself where no slab will come. */
TEST_F(Arena, WhatIsReusedInOneZoneKeepsNothingInTheOther) {
  constexpr size_t kUnits = 1000;
  const unit_t rest = take(ZONE_SMALL, 3 * kUnits), huge = take(ZONE_HUGE, kUnits);
  arena_enter();
  kept_age(os_now_ms());
  for (int i = 0; i < 200; i++) {
    kept_note_given(20);
    kept_note_taken(ZONE_SMALL, 20, 20);
  }
  arena_leave();
  EXPECT_GE(kept_units(), kUnits) << "the test is void";
  give(huge);
  arena_enter();
  EXPECT_LT(kept_dirty_units(), kUnits / 2);
  kept_note_full(); /* as if it was taken again */
  kept_note_taken(ZONE_HUGE, kUnits, kUnits);
  kept_note_given(kUnits);
  EXPECT_GE(kept_dirty_units(), dirty_units_of(ZONE_HUGE)) << "it was wanted again";
  arena_leave();
  give(rest);
}

/* Nor less when time is counted in the middle of a fall. */
TEST_F(Arena, WhatFallsWhileTimePassesHasFallenByAll) {
  constexpr size_t kUnits = 1000;
  const unit_t run = take(ZONE_SMALL, kUnits);
  arena_enter();
  kept_age(os_now_ms());
  for (int i = 0; i < 1000; i++) { /* it has reused more than that */
    kept_note_given(10);
    kept_note_taken(ZONE_SMALL, 10, 10);
  }
  kept_note_given(kUnits / 2);
  usleep(260000);
  kept_age(os_now_ms());
  kept_note_given(kUnits / 2);
  kept_note_taken(ZONE_SMALL, kUnits, kUnits);
  kept_note_full();
  kept_note_given(kUnits);
  EXPECT_GE(kept_units(), 2 * kUnits) << "it has fallen by as much";
  kept_note_taken(ZONE_SMALL, kUnits, kUnits);
  arena_leave();
  give(run);
}

/* Of a program that works in rounds, which the first of them does not tell. What it does not want again goes by
 * and by. */
TEST_F(Arena, WhatWasInUseLatelyStaysForAMomentWhereSomebodyAttends) {
  constexpr size_t kUnits = 1000;
  uint64_t fell_ms = 0;
  auto dirty_after_fall = [&] {
    purge_dirty();
    const unit_t run = take(ZONE_SMALL, kUnits);
    usleep(600000); /* what was before has faded, and this time passes before the fall */
    fell_ms = os_now_ms();
    give(run);
    for (int i = 0; i < 100; i++) arena_relieve(kUnits);
    return arena_usage().dirty >> UNIT_SHIFT;
  };
  EXPECT_LT(dirty_after_fall(), kUnits / 4) << "nobody comes by";
  arena_attend(true);
  const size_t dirty = dirty_after_fall();
  EXPECT_TRUE(dirty >= kUnits - 64 || os_now_ms() - fell_ms > 200) << dirty;
  for (size_t halves = 1; halves <= 3; halves++) {
    usleep(260000);
    arena_tick(os_now_ms());
    for (int i = 0; i < 100; i++) arena_relieve(kUnits);
    EXPECT_LT(arena_usage().dirty >> UNIT_SHIFT, (kUnits >> halves) + 200);
  }
  arena_keep(HAK_MIB(1));
  EXPECT_LT(dirty_after_fall(), kUnits / 4) << "the program has said how much is to stay";
  arena_attend(false);
}

/* Nor does it when what comes next finds no place there. */
TEST_F(Arena, WhatWasInUseLatelyMakesNoNewPeakWhereSomebodyAttends) {
  constexpr size_t kUnits = 1600, kPart = 32;
  purge_dirty();
  arena_attend(true);
  std::vector<unit_t> runs;
  for (size_t i = 0; i < kUnits / kPart; i++) runs.push_back(take(ZONE_SMALL, kPart));
  for (unit_t run : runs) {
    give(run);
    arena_relieve(kPart);
  }
  runs.clear();
  for (size_t i = 0; i < kUnits / kPart; i++) {
    runs.push_back(take(ZONE_HUGE, kPart));
    const size_t held = (arena_usage().dirty >> UNIT_SHIFT) + runs.size() * kPart;
    EXPECT_LE(held, kUnits + kUnits / 4) << "of which in use: " << runs.size() * kPart;
  }
  for (unit_t run : runs) give(run);
  arena_attend(false);
}

/* Nor in gaps of the same zone, which it does not fit into. */
TEST_F(Arena, WhatWasInUseLatelyMakesNoNewPeakInGaps) {
  constexpr size_t kUnits = 3200, kPart = 32, kLonger = kPart + 8;
  purge_dirty();
  arena_attend(true);
  std::vector<unit_t> runs, longer;
  for (size_t i = 0; i < kUnits / kPart; i++) runs.push_back(take(ZONE_SMALL, kPart));
  for (size_t i = 0; i < runs.size(); i += 2) {
    give(runs[i]);
    arena_relieve(kPart);
  }
  size_t most = 0;
  for (size_t taken = 0; taken < kUnits / 2; taken += kLonger) {
    longer.push_back(take(ZONE_SMALL, kLonger));
    most = std::max(most, (arena_usage().dirty >> UNIT_SHIFT) + taken + kLonger);
  }
  EXPECT_LE(most, kUnits / 2 + kUnits / 5);
  for (size_t i = 1; i < runs.size(); i += 2) give(runs[i]);
  for (unit_t run : longer) give(run);
  arena_attend(false);
}

/* But not all of it before its malloc returns. */
TEST_F(Arena, WhatALargeBlockOwesIsPaidByAndBy) {
  constexpr size_t kUnits = 960, kPart = 32;
  purge_dirty();
  arena_attend(true);
  std::vector<unit_t> runs;
  for (size_t i = 0; i < 2 * kUnits / kPart; i++) runs.push_back(take(ZONE_SMALL, kPart));
  for (size_t i = 0; i < runs.size(); i += 2) { /* gaps, into which it does not fit */
    give(runs[i]);
    arena_relieve(kPart);
  }
  const unit_t block = arena_take(ZONE_HUGE, kUnits, 1, nullptr);
  EXPECT_GE(arena_usage().dirty >> UNIT_SHIFT, kUnits - 4 * kPart);
  for (size_t i = 0; i < kUnits / kPart; i++) arena_tick(os_now_ms());
  EXPECT_LT(arena_usage().dirty >> UNIT_SHIFT, kUnits / 3);
  arena_give(block, kUnits);
  for (size_t i = 1; i < runs.size(); i += 2) give(runs[i]);
  arena_attend(false);
}

/* Nor all of what goes for a block that has grown, whatever it stays for. */
TEST_F(Arena, WhatABlockThatGrowsOwesIsPaidByAndBy) {
  constexpr size_t kUnits = 960, kPart = 32;
  for (const bool attended : {true, false}) {
    SCOPED_TRACE(attended);
    purge_dirty();
    arena_attend(attended);
    std::vector<unit_t> runs;
    for (size_t i = 0; i < 2 * kUnits / kPart; i++) runs.push_back(take(ZONE_SMALL, kPart));
    for (int round = 0; round < 2; round++) {
      for (size_t i = 0; i < runs.size(); i += 2) give(runs[i]);
      for (size_t i = 0; round == 0 && i < runs.size(); i += 2) runs[i] = take(ZONE_SMALL, kPart);
    }
    const size_t dirty = arena_usage().dirty >> UNIT_SHIFT;
    ASSERT_GE(dirty, kUnits);
    const unit_t block = arena_take(ZONE_HUGE, kUnits, 1, nullptr); /* it does not fit into the gaps */
    const size_t left = arena_usage().dirty >> UNIT_SHIFT;
    ASSERT_GE(left, dirty - 4 * kPart);
    arena_relieve_growth(kUnits);
    const size_t then = arena_usage().dirty >> UNIT_SHIFT;
    EXPECT_LT(then, left);
    if (attended) {
      EXPECT_GE(then, left - 4 * kPart);
      for (size_t i = 0; i < kUnits / kPart; i++) arena_tick(os_now_ms());
    }
    EXPECT_LT(arena_usage().dirty >> UNIT_SHIFT, kUnits / 3);
    arena_give(block, kUnits);
    for (size_t i = 1; i < runs.size(); i += 2) give(runs[i]);
  }
  arena_attend(false);
}

/* Nobody has written there: the books of dirty memory do not know. */
TEST_F(Arena, WhatGrowsByMuchDoesNotMoveWhereNoPagesLie) {
  unit_t run = 0;
  for (int i = 0; i < 8; i++) { /* nor because of what was found in other places */
    purge_dirty();
    const unit_t dirty = arena_take(ZONE_SMALL, 17, 1, nullptr);
    run = take(ZONE_SMALL, 8);
    arena_give(dirty, 17);
    EXPECT_TRUE(extend(run, 16, true) || i < 7);
    give(run);
  }
}

TEST_F(Arena, WhatCannotBeIsRefused) {
  EXPECT_EQ(arena_take(ZONE_SMALL, size_t{1} << 40, 1, nullptr), 0u);
  EXPECT_EQ(arena_take(ZONE_HUGE, 1, size_t{1} << 33, nullptr), 0u);
  EXPECT_EQ(arena_take(ZONE_HUGE, the_map.units, 1, nullptr), 0u) << "more than the whole window";
  arena_check();
  EXPECT_NE(take(ZONE_HUGE, 10), 0u) << "after a refusal";
}
