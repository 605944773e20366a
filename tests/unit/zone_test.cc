/*
 * How far a zone is mapped where it grows by little: zone.h. Each case is a child, which leaves nothing to the
 * next one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layers.h"
#include "support/child.h"

extern "C" {
#include "arena/dense.h"
}

#include <cstdio>
#include <sys/mman.h>
#include <sys/resource.h>

namespace {

using hak_test::expect_zero;
using hak_test::kMiB;

constexpr zone_id_t kZone = ZONE_SMALL;
constexpr size_t kStep = 4 * SUPERSLAB_UNITS,
                 kHeap = 40 * kStep; /* of a witness; and an eighth of it is five of those */

size_t end_of_last() {
  const zone_t *zone = zone_look(kZone);
  return zone->extents[zone->extent_count - 1].end;
}
size_t ahead() { return zone_look(kZone)->mapped_to - end_of_last(); }
uint64_t times_mapped() { return atomic64_load_relaxed(&os_calls.mmap); }

unit_t take(size_t units) {
  unit_t run = arena_take(kZone, units, 1, nullptr);
  if (run != 0) hak_test::write_words(run, units, hak_test::kInUse);
  return run;
}

/* Of blocks of several pages, that are not used: so each step of growth is a short one. Then one of them, which
 * is mapped with others behind it. */
bool begin() {
  if (!arena_ready() || take(kHeap) == 0) return false;
  dense_note_wide(kHeap);
  return take(kStep) != 0;
}

}  // namespace

/* Many free runs are long enough, and none of them is aligned; then one that is longer serves wherever it lies. */
TEST(Zone, AlignedRunsAreFoundBehindManyThatAreNot) {
  expect_zero(hak_test::in_child([] {
    constexpr size_t kOthers = 30;
    REQUIRE(arena_ready());
    unit_t run = arena_take(kZone, 1024, SUPERSLAB_UNITS, nullptr);
    REQUIRE(run != 0);
    size_t committed = arena_usage().committed;
    arena_give(run + 1, 3);
    for (size_t i = 0; i < kOthers; i++) arena_give(static_cast<unit_t>(run + 9 + 4 * i), 2);
    REQUIRE(arena_take(kZone, 2, 2, nullptr) == run + 2);
    REQUIRE(arena_usage().committed == committed);
    return 0;
  }));
}

TEST(Zone, ThatGrowsByLittleIsMappedByMore) {
  expect_zero(hak_test::in_child([] {
    REQUIRE(begin());
    size_t was_ahead = ahead(), end = end_of_last();
    REQUIRE(was_ahead >= 3 * kStep);
    uint64_t before = times_mapped();
    size_t committed = arena_usage().committed;
    for (size_t i = 1; i <= was_ahead / kStep; i++) {
      REQUIRE(take(kStep) != 0);
      REQUIRE(end_of_last() == end + i * kStep); /* and no farther: the next one may get huge pages */
    }
    REQUIRE(times_mapped() == before);
    REQUIRE(arena_usage().committed == committed);
    REQUIRE(take(kStep) != 0);
    REQUIRE(times_mapped() > before);
    REQUIRE(arena_usage().committed > committed);
    hak__check_all();
    return 0;
  }));
}

/* What whoever looks at the heap from one end to the other meets there is clean, and nobody's. */
TEST(Zone, WhatIsMappedAheadCountsAsFree) {
  expect_zero(hak_test::in_child([] {
    REQUIRE(begin());
    unit_t first = 0, end = 0;
    REQUIRE(arena_next_extent(kZone, &first, &end));
    REQUIRE(end == zone_look(kZone)->mapped_to && end > end_of_last());
    hak_stats_t stats;
    hak_stats(&stats, sizeof stats);
    REQUIRE(stats.clean_free >= ahead() << UNIT_SHIFT);
    hak_account_t before, after;
    hak_account(&before, sizeof before);
    std::memset(map_address(static_cast<unit_t>(end - 1)), 1, UNIT_BYTES); /* as under mlockall(MCL_FUTURE) */
    hak_account(&after, sizeof after);
    REQUIRE(after.mapped == stats.committed + stats.metadata);
    REQUIRE(after.resident - before.resident >= UNIT_BYTES);
    REQUIRE(after.resident_huge_page_slack - before.resident_huge_page_slack >= UNIT_BYTES);
    return 0;
  }));
}

/* The program's own mapping right behind it: what is mapped serves small requests, and a larger one lies behind
 * the obstacle. */
TEST(Zone, IsUsedUpToWhatLiesInItsWay) {
  expect_zero(hak_test::in_child([] {
    REQUIRE(begin());
    size_t was_ahead = ahead();
    REQUIRE(was_ahead > kStep);
    unit_t obstacle = zone_look(kZone)->mapped_to;
    char *at = map_address(obstacle);
    if (the_map.is_held) return 0; /* the program can put nothing there */
    REQUIRE(mmap(at, UNIT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);
    unit_t beyond = take(was_ahead + SUPERSLAB_UNITS);
    REQUIRE(beyond > obstacle);
    REQUIRE(zone_look(kZone)->extent_count == 2);
    REQUIRE(zone_look(kZone)->extents[0].end == obstacle);
    uint64_t before = times_mapped();
    unit_t below = take(was_ahead);
    REQUIRE(below + was_ahead == obstacle);
    REQUIRE(times_mapped() == before);
    hak__check_all();
    return 0;
  }));
}

/* Each mapping is a moment at which many may come to wait. */
TEST(Zone, OfManyThreadsIsMappedByMore) {
  expect_zero(hak_test::in_child([] {
    arena_note_threads(40);
    REQUIRE(begin());
    REQUIRE(ahead() == 80 * SUPERSLAB_UNITS - kStep);
    arena_note_threads(4000);
    size_t mapped_to = zone_look(kZone)->mapped_to, there = mapped_to - the_map.zone_first[kZone];
    while (zone_look(kZone)->mapped_to == mapped_to) REQUIRE(take(SUPERSLAB_UNITS) != 0);
    REQUIRE(zone_look(kZone)->mapped_to == mapped_to + there); /* and no more than that */
    hak__check_all();
    return 0;
  }));
}

/* And asks nothing. */
TEST(Zone, OfFewThreadsIsMappedByAsMuchAsEver) {
  expect_zero(hak_test::in_child([] {
    arena_note_threads(4);
    REQUIRE(arena_ready() && take(8 * SUPERSLAB_UNITS) != 0);
    uint64_t before = atomic64_load_relaxed(&os_calls.mincore);
    REQUIRE(take(SUPERSLAB_UNITS) != 0);
    REQUIRE(ahead() == 0);
    REQUIRE(atomic64_load_relaxed(&os_calls.mincore) == before);
    return 0;
  }));
}

/* It has one thread, whatever its parent had. */
TEST(Zone, OfAForkedChildIsMappedByAsMuchAsOfOneThread) {
  expect_zero(hak_test::in_child([] {
    arena_note_threads(4000);
    arena_after_fork(); /* as in the child of a child */
    REQUIRE(arena_ready() && take(8 * SUPERSLAB_UNITS) != 0);
    REQUIRE(take(SUPERSLAB_UNITS) != 0);
    REQUIRE(ahead() == 0);
    return 0;
  }));
}

#if !defined(HAK_TEST_NO_LIMITS) /* with sanitizers mlockall does nothing, and says that it has done it */
/* By how much more is mapped the next time, as the heap grows by 2 MiB again and again. */
static size_t next_mapping() {
  const size_t before = zone_look(kZone)->mapped_to;
  while (zone_look(kZone)->mapped_to == before)
    if (take(SUPERSLAB_UNITS) == 0) return 0;
  return zone_look(kZone)->mapped_to - before;
}

/* It would be faulted in. The first time is one too many: nobody else says so. */
TEST(Zone, OfWhoLocksWhatItMapsIsMappedAsFarAsIsNeeded) {
  for (uint32_t threads : {1, 4000})
    expect_zero(hak_test::in_child([threads] {
      arena_note_threads(threads);
      REQUIRE(arena_ready() && take(32 * SUPERSLAB_UNITS) != 0);
      if (mlockall(MCL_FUTURE) != 0) return 0;
      REQUIRE(next_mapping() > SUPERSLAB_UNITS);
      for (int i = 0; i < 20; i++) REQUIRE(next_mapping() == SUPERSLAB_UNITS);
      REQUIRE(munlockall() == 0);
      REQUIRE(next_mapping() == SUPERSLAB_UNITS); /* which shows it */
      REQUIRE(next_mapping() > SUPERSLAB_UNITS);
      return 0;
    }));
}

TEST(Zone, WithinALimitIsMappedByAsMuchAsEver) {
  for (int which : {RLIMIT_AS, RLIMIT_DATA})
    expect_zero(hak_test::in_child([which] {
      const rlimit limit = {HAK_GIB(1000), HAK_GIB(1000)};
      arena_note_threads(4000);
      REQUIRE(setrlimit(which, &limit) == 0);
      REQUIRE(begin());
      REQUIRE(ahead() <= kHeap / 8);
      return 0;
    }));
}

TEST(Zone, IsMappedAsFarAsIsNeededWhereMoreIsRefused) {
  expect_zero(hak_test::in_child([] {
    REQUIRE(begin());
    while (ahead() > 0) REQUIRE(take(kStep) != 0);
    rlimit limit;
    limit.rlim_cur = limit.rlim_max = hak_test::status_kib("VmSize:") * 1024 + (kStep << UNIT_SHIFT) * 3 / 2;
    setrlimit(RLIMIT_AS, &limit);
    REQUIRE(take(kStep) != 0);
    REQUIRE(ahead() == 0);
    REQUIRE(take(kStep) == 0);
    hak__check_all();
    return 0;
  }));
}
#endif
