/* HAKMEM_PROFILE and HAKMEM_INT=off: what they change, by counts. SPDX-License-Identifier: MIT */
#include "layers.h"

#include <arena/dense.h>
#include <arena/huge.h>
#include <front/bell.h>
#include "support/child.h"

#include <cstdio>
#include <functional>
#include <string>

namespace {

/* Settings last, and are read once: each case is a child's. */
void with(const char *setting, const std::function<int()> &body) {
  hak_test::Outcome outcome = hak_test::in_child([&] {
    const char *environment[] = {setting, nullptr};
    config_read(const_cast<char *const *>(environment));
    REQUIRE(arena_ready());
    return body();
  });
  EXPECT_TRUE(outcome.exited_with(0)) << setting << ": " << outcome.describe();
}

/* Each profile, and how many quarters of what `balanced` does it waits and keeps. */
void with_each(const std::function<int(std::size_t wait, std::size_t keep)> &body) {
  with("HAKMEM_PROFILE=memory", [&] { return body(1, 1); });
  with("HAKMEM_PROFILE=balanced", [&] { return body(4, 4); });
  with("HAKMEM_PROFILE=speed", [&] { return body(16, 256); });
  with("HAKMEM_STATS=0", [&] { return body(4, 4); });
}

unit_t take(std::size_t units) {
  unit_t run = arena_take(ZONE_SMALL, units, 1, nullptr);
  hak_test::write_words(run, units, hak_test::kInUse);
  return run;
}
void give(unit_t run, std::size_t units) {
  hak_test::write_words(run, units, 0);
  arena_give(run, units);
}

}  // namespace

TEST(Profile, ScalesTheDirtyMemoryThatIsKept) {
  with_each([](std::size_t, std::size_t keep) {
    std::vector<unit_t> runs;
    for (int i = 0; i < 100; i++) runs.push_back(take(32));
    for (unit_t run : runs) give(run, 32), arena_relieve(32);
    arena_relieve(3200);
    /* Nothing is in use: the floor is 1 MiB, and as much again before it begins. All is 200 MiB. */
    REQUIRE(arena_usage().dirty >= min_size(HAK_MIB(1) / 4 * keep, HAK_MIB(200)));
    REQUIRE(arena_usage().dirty <= HAK_MIB(2) / 4 * keep);
    return 0;
  });
}

TEST(Profile, ScalesHowLongWhatWasReusedIsRemembered) {
  with_each([](std::size_t wait, std::size_t keep) {
    give(take(3200), 3200);
    give(take(3200), 3200);
    /* A tick ends within the first, and another one after each of three more: an eighth is left, or a 16th. */
    arena_tick(os_now_ms() + 250 / 4 * wait * 3 + 250 / 4 * wait / 2);
    arena_relieve_now(3200);
    REQUIRE(arena_usage().dirty >= min_size(HAK_MIB(1) / 4 * keep + HAK_MIB(200) / 16, HAK_MIB(200)) - UNIT_BYTES);
    REQUIRE(keep > 4 || arena_usage().dirty <= HAK_MIB(1) / 4 * keep + HAK_MIB(200) / 8 + UNIT_BYTES);
    return 0;
  });
}

TEST(Profile, SpeedTrustsHeapsThatAreNotLargeYet) {
  with_each([](std::size_t, std::size_t keep) {
    const bool trusts = keep > 4;
    const auto gets_them = [](std::size_t used_bytes) {
      return dense_wants_huge_pages(the_map.zone_first[ZONE_SMALL], SUPERSLAB_UNITS, used_bytes >> UNIT_SHIFT);
    };
    dense_note_free_in_slabs(HAK_MIB(60)), dense_note_unfilled(HAK_MIB(60) >> UNIT_SHIFT);
    REQUIRE(!gets_them(HAK_MIB(1) - UNIT_BYTES));
    REQUIRE(gets_them(HAK_MIB(1)) == trusts);
    REQUIRE(gets_them(HAK_MIB(64) - UNIT_BYTES) == trusts);
    REQUIRE(!gets_them(HAK_MIB(64)));
    return 0;
  });
}

/* Of wide blocks nobody is asked to be a witness there. */
TEST(Profile, SpeedAsksNoWitnessOfThem) {
  with_each([](std::size_t, std::size_t keep) {
    constexpr std::size_t kUsed = HAK_MIB(32) >> UNIT_SHIFT, kStep = 8 * SUPERSLAB_UNITS;
    dense_note_wide(kUsed);
    REQUIRE(dense_step_units(kStep, kUsed) == (keep > 4 ? kStep : 4 * SUPERSLAB_UNITS));
    REQUIRE(dense_wants_huge_pages(the_map.zone_first[ZONE_SMALL], kStep, kUsed) == (keep > 4));
    return 0;
  });
}

TEST(Profile, MagazinesOfLargeBlocksHaveRoomForWhatIsTrusted) {
  with_each([](std::size_t, std::size_t keep) {
    REQUIRE(capacity_large_floor(1, 0) == (keep > 4 ? HAK_MIB(64) : LARGE_FLOOR_BYTES));
    REQUIRE(capacity_large_floor(4, HAK_MIB(60)) == (keep > 4 ? HAK_MIB(16) : HAK_MIB(1)));
    return 0;
  });
}

TEST(Profile, SpeedTrustsTheFirstHugeBlocks) {
  const auto gets_them = [](std::size_t bytes) {
    return map_wants_huge_page(map_unit_of(huge_alloc(bytes, OS_HUGE_PAGE_BYTES, false)) / SUPERSLAB_UNITS);
  };
  with("HAKMEM_PROFILE=balanced", [&] { return gets_them(HAK_MIB(64)) ? 1 : 0; });
  with("HAKMEM_PROFILE=speed", [&] { return gets_them(HAK_MIB(64)) ? 0 : 1; });
  with("HAKMEM_PROFILE=speed", [&] { return gets_them(HAK_MIB(66)) ? 1 : 0; });
}

TEST(Profile, ScalesHowLongItWaits) {
  with_each([](std::size_t wait, std::size_t) {
    const std::uint64_t age_ms = 250 * wait, before_ms = os_now_ms();
    give(take(8), 8);
    REQUIRE(arena_tick(before_ms + age_ms - 1) == 0);
    REQUIRE(arena_tick(os_now_ms() + age_ms + 20) == 8 * UNIT_BYTES); /* so long nobody looks again */
    return 0;
  });
}

TEST(Profile, ScalesWhenASlabIsIdle) {
  with_each([](std::size_t wait, std::size_t) {
    constexpr unsigned kClass = 64;
    const std::uint64_t round_ms = 125 * wait, now_ms = os_now_ms() + 100000;
    hak_test::AttachedOwner owner;
    owner.flush(kClass, owner.refill(kClass, 10));
    REQUIRE(purge_idle_step(owner, now_ms, 64) == 0);
    REQUIRE(purge_idle_step(owner, now_ms + round_ms - 1, 64) == 0);
    REQUIRE(hak_test::used_bytes() == UNIT_BYTES);
    REQUIRE(purge_idle_step(owner, now_ms + round_ms, 64) == 1);
    REQUIRE(hak_test::used_bytes() == 0);
    return 0;
  });
}

TEST(Profile, ScalesWhatMayLieFreeInSlabs) {
  with_each([](std::size_t, std::size_t keep) {
    hak_test::AttachedOwner owner;
    auto blocks = owner.refill(64, 4096);
    owner.flush(64, {blocks.begin() + 2048, blocks.end()});
    surplus_begin_now(owner);
    const std::size_t share = (SURPLUS_LEAST_BYTES + arena_needed_bytes() / 8) * keep / 4;
    REQUIRE(owner->surplus_from == static_cast<std::int64_t>(share));
    owner.flush(64, {blocks.begin(), blocks.begin() + 2048});
    return 0;
  });
}

TEST(Profile, ScalesWhatAThreadsSlabsKeepFromOthers) {
  with_each([](std::size_t, std::size_t keep) {
    owner_t owner = {};
    owner.free_bytes = static_cast<std::int64_t>((SPILL_LEAST_BYTES + HAK_MIB(8) / 8) * keep / 4);
    owner.slab_bytes = owner.free_bytes + static_cast<std::int64_t>(HAK_MIB(8));
    spill_some(&owner);
    REQUIRE(owner.spill_turn == 0);
    owner.free_bytes++, owner.slab_bytes++;
    spill_some(&owner);
    REQUIRE(owner.spill_turn == 1);
    return 0;
  });
}

/* What is a second old, and what was cached and not used, stays or goes at the next batch boundaries. */
int decides_at_boundaries(bool cached_goes, bool dirty_goes) {
  std::vector<void *> blocks;
  for (int i = 0; i < 200; i++) blocks.push_back(hak_malloc(100));
  for (void *block : blocks) hak_free(block);
  heap_t *heap = the_heap;
  give(take(8), 8);
  for (unit_t unit = the_map.zone_first[ZONE_SMALL]; unit < hak_test::zone_end(ZONE_SMALL); unit += SUPERSLAB_UNITS)
    map_superslab(unit / SUPERSLAB_UNITS)->dirtied_ms = 1;
  const std::size_t cached = hak_test::cached_bytes(heap), dirty = arena_usage().dirty;
  REQUIRE(cached > 0 && dirty > 0);
  for (int i = 0; i < 12; i++) {
    heap->looked_ms = heap->decayed_ms = 0; /* as if time had passed */
    thread_enter();
    decay_now(heap, true);
    thread_leave(heap);
  }
  REQUIRE((hak_test::cached_bytes(heap) < cached) == cached_goes);
  REQUIRE((arena_usage().dirty < dirty) == dirty_goes);
  return 0;
}

/* The same at the free of a huge block, which needs no heap. */
int decides_at_huge_frees(bool dirty_goes) {
  void *block = hak_malloc(HAK_MIB(6));
  std::vector<unit_t> runs;
  for (int i = 0; i < 64; i++) runs.push_back(take(32));
  arena_keep(SIZE_MAX);
  for (const unit_t run : runs) give(run, 32); /* more than what the free takes down because it is too much */
  arena_keep(0);
  for (unit_t unit = the_map.zone_first[ZONE_SMALL]; unit < hak_test::zone_end(ZONE_SMALL); unit += SUPERSLAB_UNITS)
    map_superslab(unit / SUPERSLAB_UNITS)->dirtied_ms = 1;
  const std::uint64_t before = atomic64_load_relaxed(&tallies[TALLY_AGED]);
  hak_free(block);
  REQUIRE((atomic64_load_relaxed(&tallies[TALLY_AGED]) > before) == dirty_goes);
  return 0;
}

TEST(OverTime, NothingIsDecidedWhereItIsOff) {
  with("HAKMEM_INT=off", [] { return decides_at_huge_frees(false); });
  with("HAKMEM_INT=inline", [] { return decides_at_huge_frees(true); });
  with("HAKMEM_INT=on", [] { return decides_at_huge_frees(true); });
  with("HAKMEM_INT=on", [] { /* somebody else will look */
                             bell_listen();
                             return decides_at_huge_frees(false);
  });

  with("HAKMEM_INT=off", [] { return decides_at_boundaries(false, false); });
  with("HAKMEM_INT=inline", [] { return decides_at_boundaries(true, true); });
  with("HAKMEM_INT=on", [] { return decides_at_boundaries(true, true); });
}

namespace {

constexpr std::size_t kPart = SUPERSLAB_UNITS, kParts = 64;

/* 128 MiB that were freed long ago. */
void make_old_memory() {
  arena_keep(SIZE_MAX);
  std::vector<unit_t> runs;
  for (std::size_t i = 0; i < kParts; i++) runs.push_back(take(kPart));
  for (const unit_t run : runs) give(run, kPart);
  arena_keep(0);
  for (unit_t unit = the_map.zone_first[ZONE_SMALL]; unit < hak_test::zone_end(ZONE_SMALL); unit += SUPERSLAB_UNITS)
    map_superslab(unit / SUPERSLAB_UNITS)->dirtied_ms = 1;
}

/* A thread that has looked so long ago looks again. Returns how much it gave back. */
std::size_t given_after(std::uint32_t ms, bool may_purge) {
  const std::size_t before = arena_usage().dirty;
  heap_t *heap = thread_enter();
  heap->events = 0;
  heap->looked_ms = static_cast<std::uint32_t>(os_now_ms()) - ms;
  decay_now(heap, may_purge);
  thread_leave(heap);
  return before - arena_usage().dirty;
}

}  // namespace

/* It goes by 2 MiB at most boundaries, and not by as much at one of sixteen. */
TEST(OverTime, WhereThereIsMoreTheNextBoundaryLooksToo) {
  with("HAKMEM_INT=on", [] {
    hak_free(hak_malloc(100));
    make_old_memory();
    REQUIRE(arena_usage().dirty >= kParts * kPart * UNIT_BYTES);
    for (std::size_t i = 0; i < 2 * kParts; i++) {
      heap_t *heap = thread_enter();
      heap->looked_ms = static_cast<std::uint32_t>(os_now_ms()) - 10; /* as if the clock had moved on */
      decay_step(heap, true);
      thread_leave(heap);
    }
    REQUIRE(arena_usage().dirty <= kParts * kPart * UNIT_BYTES / 4);
    return 0;
  });
}

/* Where magazines fit what a thread does, it may come here once a second, to refill one. */
TEST(OverTime, WhereBoundariesAreRareEachDoesMore) {
  with("HAKMEM_INT=on", [] {
    hak_free(hak_malloc(100));
    make_old_memory();
    for (int i = 0; i < 6; i++) {
      REQUIRE(given_after(10, true) <= HAK_MIB(2));
      REQUIRE(given_after(10, false) == 0 && the_heap->events == 0);
      REQUIRE(given_after(60, false) == 0 && the_heap->events == DECAY_EVERY - 1);
      const std::size_t given = given_after(300, false);
      REQUIRE(given >= HAK_MIB(2) && given <= HAK_MIB(8));
    }
    return 0;
  });
}

/* By the thread that listens to the bell, as long as it comes round. */
TEST(OverTime, WhatIsNobodysIsLeftToTheListener) {
  with("HAKMEM_INT=on", [] {
    bell_listen();
    return decides_at_boundaries(true, false);
  });
  with("HAKMEM_INT=on", [] {
    bell_listen();
    usleep(1100000);
    return decides_at_boundaries(true, true);
  });
}
