/*
 * Regions: records, units, blocks and caches of the heaps that a program makes for itself.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/worker.h"
#include "unit/regions.h"

#include <front/reclaim.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <set>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using hak_test::Random;
using hak_test::Worker;

using hak_test::regions::figures;
using hak_test::regions::put;
using hak_test::regions::Region;
using hak_test::regions::resized;
using hak_test::regions::result_of;
using hak_test::regions::take;

namespace {

std::size_t runs_of(std::uint64_t handle) {
  std::size_t count = 0;
  region_t *region = registry_enter(handle);
  for (unit_t run = region->runs; run != 0; run = map_record(run)->region.run_next) count++;
  registry_leave(region);
  return count;
}

/* 0, or the line that failed. */
template <class Body> void expect_in_child(Body body) {
  pid_t child = fork();
  if (child == 0) {
    registry_after_fork();
    _exit(body());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}
#define CHILD_EXPECT(condition) \
  if (!(condition)) return __LINE__ % 255 + 1

}  // namespace

TEST(RegionWord, TellsRegionAndWhatLiesThere) {
  for (std::uint32_t number : {1u, 255u, 256u, static_cast<std::uint32_t>(REGIONS_MOST)}) {
    for (unsigned what : {0u, 64u, static_cast<unsigned>(MID_CLASS_END) - 1, static_cast<unsigned>(REGION_LONE),
                          static_cast<unsigned>(REGION_SPARE)}) {
      std::uint32_t word = region_word(number, what);
      EXPECT_TRUE(word_is_region(word));
      EXPECT_EQ(word_region(word), number);
      EXPECT_EQ(word_what(word), what);
      EXPECT_FALSE(word_is_shelved(word));
      EXPECT_GE(word_kind(word), static_cast<unsigned>(SIZE_CLASS_COUNT)) << "the fast path would take it";
    }
  }
}

TEST_F(Region, HasBlocksOfEverySizeThatDoNotOverlap) {
  std::vector<std::pair<void *, std::size_t>> blocks;
  for (std::size_t bytes : {0, 1, 16, 17, 1000, 1024, 1025, 9000, 65536, 65537, 200000, 1 << 20, 3 << 20, 9 << 20}) {
    for (int i = 0; i < 3; i++) {
      void *block = take(handle, bytes);
      ASSERT_NE(block, nullptr);
      EXPECT_TRUE(word_is_region(map_lookup(block)));
      std::size_t usable = region_usable_size(block, map_lookup(block));
      EXPECT_GE(usable, bytes);
      hak_test::stamp(block, usable, 1);
      blocks.push_back({block, usable});
    }
  }
  for (auto [block, usable] : blocks) {
    EXPECT_TRUE(hak_test::stamped(block, usable, 1));
    put(block);
  }
  cache_flush_all();
  EXPECT_EQ(figures(handle).live, 0u);
  EXPECT_EQ(figures(handle).cached, 0u);
}

TEST_F(Region, KeepsItsBooksThroughRandomWork) {
  Random random(7);
  std::vector<void *> blocks;
  std::vector<std::size_t> sizes;
  std::size_t live = 0;
  for (int i = 0; i < 20000; i++) {
    if (blocks.empty() || random.below(100) < 52) {
      std::size_t bytes = random.below(50) == 0 ? random.between(65537, 3 << 20) : random.size_between(1, 40000);
      blocks.push_back(take(handle, bytes));
      ASSERT_NE(blocks.back(), nullptr);
      sizes.push_back(region_usable_size(blocks.back(), map_lookup(blocks.back())));
      hak_test::stamp(blocks.back(), sizes.back(), 3);
      live += sizes.back();
    } else {
      std::size_t at = random.below(blocks.size());
      ASSERT_TRUE(hak_test::stamped(blocks[at], sizes[at], 3)) << "a block of " << sizes[at] << " was given out twice";
      live -= sizes[at];
      put(blocks[at]);
      blocks[at] = blocks.back(), sizes[at] = sizes.back();
      blocks.pop_back(), sizes.pop_back();
    }
    if (i % 2000 == 0) hak__check_all();
    if (i % 500 == 0) {
      ASSERT_EQ(figures(handle).live, live);
    }
  }
  for (void *block : blocks) put(block);
  cache_flush_all();
  EXPECT_EQ(figures(handle).live, 0u);
  EXPECT_LE(figures(handle).taken, std::size_t{MID_CLASS_END} * 8 * UNIT_BYTES)
      << "more than a slab of each class is kept";
}

TEST_F(Region, LargeOnesConsistOfFewRuns) {
  for (std::size_t at = 0; at < HAK_MIB(256); at += 1000) take(handle, 1000);
  /* What destroying takes: 122 or so of 2 MiB, and those that it began with. */
  EXPECT_LE(runs_of(handle), 220u);
}

TEST_F(Region, GivesBackWhatBecomesFree) {
  std::vector<void *> blocks;
  for (int i = 0; i < 40000; i++) blocks.push_back(take(handle, 512));
  std::size_t taken = figures(handle).taken;
  for (void *block : blocks) put(block);
  cache_flush_all();
  EXPECT_GE(taken, std::size_t{40000} * 512);
  EXPECT_LE(figures(handle).taken, HAK_MIB(2) + taken / 8);
  EXPECT_EQ(figures(handle).peak, taken);
}

TEST_F(Region, AHandleIsNeverAnothers) {
  std::set<std::uint64_t> handles;
  for (int i = 0; i < 100; i++) {
    std::uint64_t other = region_new(0);
    EXPECT_TRUE(handles.insert(other).second);
    EXPECT_EQ(region_number(other), region_number(*handles.begin())) << "numbers are used again";
    EXPECT_EQ(result_of(other, 100), REGION_OK);
    EXPECT_EQ(region_destroy(other), REGION_OK);
    for (std::uint64_t old : handles) {
      EXPECT_EQ(result_of(old, 100), REGION_GONE);
      EXPECT_EQ(region_destroy(old), REGION_GONE);
      EXPECT_FALSE(region_owns(old, &handles));
    }
  }
  for (std::uint64_t none :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{65535}, UINT64_MAX, UINT64_MAX << 16, handle + (1 << 16)}) {
    EXPECT_EQ(region_alloc_fast(none, 100), nullptr);
    EXPECT_EQ(result_of(none, 100), REGION_GONE);
  }
}

TEST_F(Region, NoHandleIsThatOfACacheThatIsBoundToNothing) {
  std::vector<std::uint64_t> regions;
  for (int i = 0; i < CACHE_TABLE; i++) regions.push_back(region_new(0));
  for (std::uint64_t each : regions) put(take(each, 100));
  for (std::uint64_t each : regions) EXPECT_EQ(region_destroy(each), REGION_OK); /* blocks are left in the caches */
  for (std::uint32_t place = 0; place < CACHE_TABLE; place++) {
    std::uint64_t unbound = atomic64_load_relaxed(&cache_at(place)->handle);
    if (region_number(handle) % CACHE_TABLE == place) continue;
    EXPECT_EQ(unbound, cache_unbound(place));
    EXPECT_EQ(region_alloc_fast(unbound, 100), nullptr);
  }
}

TEST_F(Region, HoldsToItsLimit) {
  EXPECT_EQ(region_set_limit(handle, HAK_MIB(1)), REGION_OK);
  std::vector<void *> blocks;
  void *block;
  while (region_alloc(handle, 5000, 1, false, &block) == REGION_OK) blocks.push_back(block);
  EXPECT_GE(blocks.size(), HAK_MIB(1) / 5120 * 9 / 10);
  EXPECT_LE(figures(handle).taken, HAK_MIB(1));
  EXPECT_EQ(figures(handle).refused, 1u);
  EXPECT_EQ(result_of(handle, 100000), REGION_AT_LIMIT);
  EXPECT_EQ(result_of(handle, HAK_MIB(8)), REGION_AT_LIMIT);
  EXPECT_EQ(figures(handle).refused, 3u);
  /* What was one class's serves another when it has become free, though it lies in the cache and in empty slabs. */
  for (void *each : blocks) put(each);
  for (std::size_t bytes = 16; bytes <= 160; bytes += 16) EXPECT_EQ(result_of(handle, bytes), REGION_OK) << bytes;
  EXPECT_EQ(result_of(handle, 120000), REGION_OK);
  EXPECT_EQ(region_set_limit(handle, 0), REGION_OK);
  EXPECT_EQ(result_of(handle, HAK_MIB(8)), REGION_OK);
}

/* Slabs of blocks above 8 KiB have several units. Where only one is left, there is room for the block. */
TEST_F(Region, ABlockFitsWhereItsSlabDoesNot) {
  for (std::size_t bytes : {9000, 13000, 25000, 40000, 60000, 65536}) {
    put(take(handle, 64)); /* the first slab of small ones is there */
    EXPECT_EQ(region_set_limit(handle, figures(handle).taken + UNIT_BYTES), REGION_OK);
    std::uint64_t refused = figures(handle).refused;
    void *block = nullptr;
    ASSERT_EQ(region_alloc(handle, bytes, 1, true, &block), REGION_OK) << bytes;
    EXPECT_TRUE(hak_test::is_zero(block, bytes));
    EXPECT_EQ(figures(handle).refused, refused) << "it was not";
    EXPECT_TRUE(region_may_have_size(block, map_lookup(block), bytes, 1, false));
    std::memset(block, 1, bytes);
    put(block);
    EXPECT_EQ(region_set_limit(handle, 0), REGION_OK);
  }
}

TEST_F(Region, WhatNeverCameIsInNoPeak) {
  void *block = take(handle, 100);
  std::size_t peak = figures(handle).peak;
  EXPECT_EQ(peak, figures(handle).taken);
  EXPECT_EQ(result_of(handle, std::size_t{1} << 46), REGION_NO_MEMORY);
  EXPECT_EQ(figures(handle).peak, peak);
  put(take(handle, 5 << 20));
  EXPECT_EQ(figures(handle).peak, peak + (5 << 20));
  put(block);
}

namespace {
/* What another thread is fetching, as between units_fetch's two visits: `come` says that it did not come. */
class Coming {
 public:
  Coming(std::uint64_t handle, std::size_t units) : handle_(handle), units_(units) { count(units_); }
  void come() { count(-units_); }

 private:
  void count(std::size_t units) {
    region_t *region = registry_enter(handle_);
    region->taken_units += units, region->coming_units += units;
    registry_leave(region);
  }
  std::uint64_t handle_;
  std::size_t units_;
};
}  // namespace

/* It may leave room for both, or be none: the arena had no memory, and the other thread asks for less. */
TEST_F(Region, WhatOthersAreFetchingIsWaitedForBeforeABlockIsRefused) {
  for (std::size_t bytes : {std::size_t{1000}, std::size_t{100000}, std::size_t{3} << 20}) {
    EXPECT_EQ(region_set_limit(handle, figures(handle).taken + (std::size_t{4} << 20)), REGION_OK);
    Coming coming(handle, 64);
    std::atomic<bool> asks{false};
    std::thread other([&] {
      while (!asks) {}
      os_sleep(3);
      coming.come();
    });
    asks = true;
    void *block = take(handle, bytes);
    other.join();
    EXPECT_NE(block, nullptr) << bytes;
    EXPECT_EQ(figures(handle).refused, 0u);
  }
}

/* Who fetches may be a thread that a signal has stopped. */
TEST_F(Region, WhatDoesNotComeIsNotWaitedForForEver) {
  EXPECT_EQ(region_set_limit(handle, 4 << 20), REGION_OK);
  Coming coming(handle, 64);
  for (std::size_t bytes : {std::size_t{1000}, std::size_t{100000}, std::size_t{3} << 20})
    EXPECT_EQ(result_of(handle, bytes), REGION_AT_LIMIT);
  coming.come();
  EXPECT_EQ(figures(handle).refused, 3u);
}

TEST_F(Region, BlocksThatAThreadHasCachedAreNotHandedOutAfterTheEnd) {
  Worker worker;
  std::uint64_t doomed = region_new(0);
  worker.run([&] {
    std::vector<void *> blocks;
    for (int i = 0; i < 20; i++) blocks.push_back(take(doomed, 64));
    for (void *block : blocks) put(block);
  });
  EXPECT_GT(figures(doomed).cached, 0u);
  EXPECT_EQ(region_destroy(doomed), REGION_OK);
  std::uint64_t next = region_new(0);
  ASSERT_EQ(region_number(next), region_number(doomed)) << "the worker's cache has to be told from one of its region";
  worker.run([&] {
    EXPECT_EQ(result_of(doomed, 64), REGION_GONE);
    EXPECT_EQ(figures(next).taken, 0u);
    void *block = take(next, 64);
    EXPECT_TRUE(region_owns(next, block));
    put(block);
    cache_flush_all();
    EXPECT_EQ(figures(next).live, 0u);
  });
  EXPECT_EQ(region_destroy(next), REGION_OK);
}

TEST_F(Region, ACacheServesRegionsThatShareItsPlace) {
  std::vector<std::uint64_t> regions;
  for (int i = 0; i < 2 * CACHE_TABLE + 1; i++) regions.push_back(region_new(0));
  for (int round = 0; round < 3; round++)
    for (std::uint64_t each : regions) {
      void *block = take(each, 100), *other = take(each, 100);
      EXPECT_TRUE(region_owns(each, block));
      EXPECT_NE(block, other);
      put(block);
      put(other);
    }
  hak__check_all();
  for (std::uint64_t each : regions) {
    EXPECT_EQ(figures(each).live, 0u);
    EXPECT_EQ(region_destroy(each), REGION_OK);
  }
}

TEST_F(Region, AThreadThatEndsSendsItsCachesHome) {
  std::vector<void *> blocks;
  {
    Worker worker;
    worker.run([&] {
      thread_watch();
      for (int i = 0; i < 30; i++) blocks.push_back(take(handle, 200));
      for (int i = 0; i < 10; i++) put(blocks.back()), blocks.pop_back();
    });
    EXPECT_GT(figures(handle).cached, 0u);
  }
  EXPECT_EQ(figures(handle).cached, 0u);
  EXPECT_EQ(figures(handle).live, 20 * std::size_t{208});
  for (void *block : blocks) put(block);
}

/* As those do that use a region for the first time in the last round of their destructors: nobody sees them end. */
TEST_F(Region, WhatThreadsLeaveThatEndUnseenIsFound) {
  auto use_unseen = [&](int threads) {
    for (int i = 0; i < threads; i++) std::thread([&] { put(take(handle, 100)); }).join();
  };
  use_unseen(50);
  std::size_t committed = metadata_committed_bytes(), taken = figures(handle).taken;
  use_unseen(500);
  EXPECT_LE(metadata_committed_bytes() - committed, 50 * std::size_t{CACHE_BYTES}) << "500 caches stay";
  EXPECT_LE(figures(handle).taken, 2 * taken) << "what lies in them stays";
}

TEST_F(Region, WhatThreadsLeaveOfManyRegionsIsFoundPieceByPiece) {
  std::vector<std::uint64_t> regions;
  for (int i = 0; i < CACHE_TABLE; i++) regions.push_back(region_new(0));
  for (std::uint64_t each : regions) put(take(each, 100)); /* this thread needs no cache below */
  auto use_unseen = [&](int threads) {
    for (int i = 0; i < threads; i++)
      std::thread([&] {
        for (std::uint64_t each : regions) put(take(each, 100));
      }).join();
  };
  use_unseen(5);
  std::size_t committed = metadata_committed_bytes();
  use_unseen(50);
  EXPECT_LE(metadata_committed_bytes() - committed, 3 * CACHE_TABLE * std::size_t{CACHE_BYTES});
  EXPECT_LE(figures(regions[0]).cached, 5 * 9 * std::size_t{112});
  for (std::uint64_t each : regions) EXPECT_EQ(region_destroy(each), REGION_OK);
}

/* With many such threads a look each at all of them would be long. */
TEST_F(Region, OneCacheThatIsMadeEmptiesFewOthers) {
  std::vector<std::uint64_t> regions;
  for (int i = 0; i < CACHE_TABLE; i++) regions.push_back(region_new(0));
  std::thread([&] {
    for (std::uint64_t each : regions) put(take(each, 100));
  }).join();
  auto empty = [&] {
    unsigned count = 0;
    for (std::uint64_t each : regions) count += figures(each).cached == 0;
    return count;
  };
  cache_drop_all();
  for (unsigned before = empty(), calls = 0; before < CACHE_TABLE; calls++) {
    ASSERT_LT(calls, 1000u);
    errno = 1234;
    EXPECT_NE(cache_bind(handle), nullptr);
    EXPECT_EQ(errno, 1234) << "free keeps it";
    EXPECT_LE(empty(), before + CACHE_REAPS);
    before = empty();
    cache_drop_all();
  }
  for (std::uint64_t each : regions) EXPECT_EQ(region_destroy(each), REGION_OK);
}

TEST_F(Region, AThreadThatIsIdleHasNoCaches) {
  std::vector<std::uint64_t> regions;
  for (int i = 0; i < CACHE_TABLE; i++) regions.push_back(region_new(0));
  auto use = [&] {
    for (std::uint64_t each : regions) put(take(each, 100));
  };
  Worker first, second;
  first.run([&] {
    use();
    EXPECT_TRUE(cache_thread_has_any());
    EXPECT_GE(hak_thread_idle(), CACHE_TABLE * std::size_t{112});
    EXPECT_FALSE(cache_thread_has_any());
  });
  for (std::uint64_t each : regions) EXPECT_EQ(figures(each).cached, 0u);
  std::size_t committed = metadata_committed_bytes();
  second.run(use);
  EXPECT_EQ(metadata_committed_bytes(), committed) << "the first one's caches serve the second";
  first.run([&] { EXPECT_EQ(hak_thread_idle(), 0u); });
  first.run(use);
  EXPECT_GT(figures(regions[0]).cached, 0u);
  for (std::uint64_t each : regions) EXPECT_EQ(region_destroy(each), REGION_OK);
}

TEST_F(Region, ATrimGivesBackThePagesOfCachesThatNobodyHas) {
  std::vector<std::uint64_t> regions;
  for (int i = 0; i < CACHE_TABLE; i++) regions.push_back(region_new(0));
  for (int i = 0; i < 10; i++)
    std::thread([&] {
      for (std::uint64_t each : regions)
        for (std::size_t bytes = 16; bytes < 3000; bytes += bytes / 2) put(take(each, bytes));
      cache_drop_all();
    }).join();
  for (std::uint64_t each : regions) EXPECT_EQ(region_destroy(each), REGION_OK);
  EXPECT_TRUE(hak_trim(0));
  EXPECT_EQ(metadata_purge(), 0u);
}

TEST_F(Region, BlocksGrowInPlaceOrMoveAndStayInTheRegion) {
  void *block = take(handle, 10);
  std::memset(block, 1, 10);
  for (std::size_t bytes : {20, 100, 5000, 100000, 70000, 3 << 20, 12 << 20, 2 << 20, 40, 8}) {
    block = resized(block, bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(region_owns(handle, block));
    EXPECT_EQ(std::memcmp(block, "\1\1\1\1\1\1\1\1", 8), 0);
    EXPECT_GE(region_usable_size(block, map_lookup(block)), bytes);
    EXPECT_TRUE(region_may_have_size(block, map_lookup(block), bytes, 1, true));
    hak__check_all();
  }
  put(block);
}

/* Nothing is copied, and what is cut off is the arena's again. */
TEST_F(Region, ABlockOfItsOwnRunIsCutWhereItIs) {
  const std::size_t used = arena_usage().used;
  void *block = take(handle, 100 << 20);
  std::memset(block, 1, 100);
  for (std::size_t bytes : {std::size_t{40} << 20, std::size_t{3} << 20, std::size_t{300} << 10}) {
    ASSERT_EQ(resized(block, bytes), block) << bytes;
    EXPECT_EQ(region_usable_size(block, map_lookup(block)), align_up(bytes, UNIT_BYTES));
    EXPECT_TRUE(region_may_have_size(block, map_lookup(block), bytes, 1, false));
    EXPECT_EQ(figures(handle).live, align_up(bytes, UNIT_BYTES));
    EXPECT_EQ(figures(handle).taken, figures(handle).live);
    EXPECT_EQ(arena_usage().used, used + align_up(bytes, UNIT_BYTES));
    hak__check_all();
  }
  EXPECT_EQ(resized(block, 20 << 20), block) << "what was cut off lies behind it still";
  void *little = resized(block, 100000);
  EXPECT_NE(little, block) << "to copy that takes no time";
  EXPECT_EQ(std::memcmp(little, "\1\1\1\1\1\1\1\1", 8), 0);
  put(little);
}

namespace {
/* A block that is copied because it grows, and what another thread did by mistake just then, if it came in time. */
struct GrownMeanwhile {
  void *wall, *moved = nullptr;
  bool has_met = false;
  region_result_t result;
};
template <class Mistake> GrownMeanwhile grown_meanwhile(std::uint64_t handle, std::size_t bytes, Mistake mistake) {
  void *block = take(handle, bytes), *wall = take(handle, bytes);
  if (wall < block) std::swap(block, wall);
  GrownMeanwhile growth = {.wall = wall, .result = REGION_OTHER};
  std::memset(block, 7, bytes);
  const std::uint32_t word = map_lookup(block), copied = region_word(region_number(handle), REGION_COPIED);
  std::atomic<bool> is_done{false};
  std::thread other([&] {
    while (map_lookup(block) != copied && !is_done) {}
    if (!is_done) growth.has_met = mistake(block, word, copied);
  });
  growth.result = region_realloc(block, word, bytes * 2, &growth.moved);
  is_done = true;
  other.join();
  return growth;
}

/* `has_met`: it was just being copied then, and afterwards, too. */
struct Meeting {
  bool has_met = false, has_stayed = false;
  region_result_t result = REGION_OTHER;
};
Meeting free_while_copied(std::uint64_t handle, std::size_t bytes) {
  const GrownMeanwhile growth = grown_meanwhile(handle, bytes,
                                                [](void *block, std::uint32_t word, std::uint32_t copied) {
                                                  region_free(block, word); /* as it was when the thread has looked */
                                                  region_free(block, copied);
                                                  return map_lookup(block) == copied;
                                                });
  const bool has_stayed = growth.result == REGION_OK && static_cast<char *>(growth.moved)[bytes - 1] == 7;
  if (growth.result == REGION_OK) put(growth.moved);
  put(growth.wall);
  return {.has_met = growth.has_met, .has_stayed = has_stayed, .result = growth.result};
}
}  // namespace

/* If it were not, its run would be the arena's meanwhile, and another block that gets it may have its pages moved. */
TEST_F(Region, ABlockThatIsBeingCopiedIsNobodys) {
  auto *settings = const_cast<config_t *>(config());
  settings->abort_on_error = false;
  const std::uint64_t errors = error_count();
  Meeting meeting;
  for (int tries = 0; tries < 50 && !meeting.has_met; tries++) {
    meeting = free_while_copied(handle, std::size_t{32} << 20);
    EXPECT_EQ(meeting.result, REGION_OK);
    EXPECT_TRUE(meeting.has_stayed);
  }
  EXPECT_TRUE(meeting.has_met);
  EXPECT_EQ(figures(handle).live, 0u);
  EXPECT_GE(error_count(), errors + 2);
  errors_before_ = error_count();
  settings->abort_on_error = true;
}

/* Another thread destroys the region by mistake meanwhile, and the next one gets its number. */
TEST_F(Region, ABlockThatIsBeingCopiedWhileItsRegionGoesIsNoBlockOfTheNext) {
  std::uint64_t next = 0;
  for (int tries = 0; tries < 50 && next == 0; tries++) {
    const std::uint64_t old = region_new(0);
    grown_meanwhile(old, std::size_t{32} << 20, [&](void *, std::uint32_t, std::uint32_t) {
      region_destroy(old);
      next = region_new(0);
      return true;
    });
    if (next == 0) region_destroy(old);
  }
  ASSERT_NE(next, 0u);
  EXPECT_EQ(figures(next).taken, 0u);
  EXPECT_EQ(figures(next).live, 0u);
  hak__check_all();
  region_destroy(next);
}

/* What growing blocks have cost. */
struct Copies {
  int count = 0;
  std::size_t bytes = 0;
};

/* Two blocks grow in turn, each in the other's way, by a unit at a time. */
Copies grow_two(std::uint64_t handle, std::size_t from, std::size_t to) {
  Copies copies;
  void *blocks[] = {take(handle, from), take(handle, from)};
  for (std::size_t bytes = from + UNIT_BYTES; bytes <= to; bytes += UNIT_BYTES)
    for (void *&block : blocks) {
      std::memset(block, bytes >> UNIT_SHIFT & 0xff, 8);
      void *grown = resized(block, bytes);
      EXPECT_NE(grown, nullptr) << bytes;
      if (grown == nullptr) return copies;
      copies.count += grown != block;
      copies.bytes += grown != block ? bytes - UNIT_BYTES : 0;
      block = grown;
      EXPECT_EQ(*static_cast<unsigned char *>(block), bytes >> UNIT_SHIFT & 0xff);
      EXPECT_TRUE(region_may_have_size(block, map_lookup(block), bytes, 1, true));
      EXPECT_TRUE(region_may_have_size(block, map_lookup(block), bytes, 1, false));
      EXPECT_FALSE(region_may_have_size(block, map_lookup(block), bytes - UNIT_BYTES, 1, true));
      EXPECT_FALSE(region_may_have_size(block, map_lookup(block), bytes + UNIT_BYTES, 1, true));
    }
  hak__check_all();
  for (void *block : blocks) put(block);
  return copies;
}

/* Each copy makes room for an eighth more, rounded down to units: from 8 units to 32 there are 9 of a block at
 * the most, and else up to 24. All copies of a block are a sum of powers of 8/9. */
TEST_F(Region, BlocksThatGrowInTurnAreCopiedRarely) {
  Copies copies = grow_two(handle, 8 * UNIT_BYTES, 32 * UNIT_BYTES);
  EXPECT_GT(copies.count, 0) << "they were not in each other's way";
  EXPECT_LE(copies.count, 2 * 9);
  EXPECT_LE(copies.bytes, 2 * 9 * 32 * UNIT_BYTES);
  EXPECT_LE(grow_two(handle, 8 * UNIT_BYTES, 256 * UNIT_BYTES).bytes, 2 * 9 * 256 * UNIT_BYTES);
}

/* A block that had to be copied to grow to so many units, as the other one lay behind it; 0 units: it never had to. */
struct Copied {
  void *block, *other;
  std::size_t units;
};

/* `room`: what the region's limit leaves beyond the copy; 0: there is no limit. */
Copied copied_to_grow(std::uint64_t handle, std::size_t room) {
  void *block = take(handle, 96 * UNIT_BYTES), *other = take(handle, 96 * UNIT_BYTES);
  if (other < block) std::swap(block, other);
  for (std::size_t units = 128; units < 8192; units += 32) {
    std::size_t limit = room == 0 ? 0 : figures(handle).taken + (units + room) * UNIT_BYTES;
    EXPECT_EQ(region_set_limit(handle, limit), REGION_OK);
    void *before = block;
    block = resized(block, units * UNIT_BYTES);
    if (block != before) return {block, other, units};
  }
  return {block, other, 0};
}

TEST_F(Region, SpareRoomIsTakenAndLive) {
  auto [block, other, units] = copied_to_grow(handle, 0);
  ASSERT_NE(block, nullptr);
  ASSERT_NE(units, 0u) << "nothing was in its way";
  EXPECT_EQ(region_usable_size(block, map_lookup(block)), (units + units / 8) * UNIT_BYTES);
  EXPECT_EQ(figures(handle).live, (96 + units + units / 8) * UNIT_BYTES);
  EXPECT_EQ(figures(handle).taken, figures(handle).live);
  put(block);
  EXPECT_EQ(figures(handle).live, 96 * UNIT_BYTES);
  put(other);
}

TEST_F(Region, ALimitThatHasNoRoomToSpareHasRoomToGrow) {
  auto [block, other, units] = copied_to_grow(handle, 3);
  ASSERT_NE(block, nullptr);
  ASSERT_NE(units, 0u) << "nothing was in its way";
  EXPECT_EQ(region_usable_size(block, map_lookup(block)), units * UNIT_BYTES);
  EXPECT_EQ(figures(handle).refused, 0u) << "nothing that the program has asked for was refused";
  void *none;
  EXPECT_EQ(region_realloc(block, map_lookup(block), 20000 * UNIT_BYTES, &none), REGION_AT_LIMIT);
  EXPECT_EQ(figures(handle).refused, 1u);
  put(block);
  put(other);
}

/* What the thread's cache and empty slabs held back is what it wants. */
TEST_F(Region, AtItsLimitABlockGrowsIntoWhatIsGivenUp) {
  EXPECT_EQ(region_set_limit(handle, 40 << 20), REGION_OK);
  void *block = take(handle, 30 << 20);
  std::vector<void *> others;
  for (std::size_t bytes = 2000; bytes <= 60000; bytes += bytes / 9) others.push_back(take(handle, bytes));
  for (void *each : others) put(each);
  ASSERT_GT(figures(handle).taken, std::size_t{31} << 20) << "nothing was held back";
  EXPECT_EQ(resized(block, 39 << 20), block);
  EXPECT_EQ(figures(handle).refused, 0u);
  EXPECT_EQ(figures(handle).taken, std::size_t{39} << 20);
}

TEST_F(Region, AtItsLimitABlockIsCutInARunThatItShares) {
  EXPECT_EQ(region_set_limit(handle, 16 << 20), REGION_OK);
  std::vector<void *> blocks;
  void *block;
  while (region_alloc(handle, 1000000, 1, false, &block) == REGION_OK) blocks.push_back(block);
  for (std::size_t bytes : {65537, 1000})
    while (result_of(handle, bytes) == REGION_OK) {}
  for (std::size_t bytes : {300000, 70000, 1000}) {
    block = blocks.back();
    blocks.pop_back();
    std::memset(block, 1, 100);
    const region_figures_t before = figures(handle);
    EXPECT_EQ(resized(block, bytes), block);
    const std::size_t gone = 16 * UNIT_BYTES - align_up(bytes, UNIT_BYTES);
    EXPECT_EQ(region_usable_size(block, map_lookup(block)), align_up(bytes, UNIT_BYTES));
    EXPECT_TRUE(region_may_have_size(block, map_lookup(block), bytes, 1, true));
    EXPECT_EQ(figures(handle).live, before.live - gone);
    EXPECT_EQ(figures(handle).free, before.free + gone);
    hak__check_all();
    while (result_of(handle, 100000) == REGION_OK) {}
    EXPECT_LE(figures(handle).free, before.free + UNIT_BYTES) << "what was cut off serves others";
    EXPECT_EQ(std::memcmp(block, "\1\1\1\1\1\1\1\1", 8), 0);
    while (result_of(handle, 1000) == REGION_OK) {}
  }
}

/* And not what another thread has in its cache. */
TEST_F(Region, WhoReclaimsGivesBackWhatIsFreeOfAll) {
  std::uint64_t other = region_new(0);
  put(take(other, 2000));
  Worker worker;
  worker.run([&] { put(take(handle, 100)); });
  put(take(handle, 5000));
  put(take(handle, 300000));
  EXPECT_GT(figures(handle).taken, 5 * UNIT_BYTES);
  reclaim();
  EXPECT_EQ(figures(other).taken, 0u);
  EXPECT_GT(figures(handle).cached, 0u);
  worker.run([] { cache_flush_all(); });
  reclaim();
  EXPECT_EQ(figures(handle).taken, 0u);
  EXPECT_EQ(region_destroy(other), REGION_OK);
}

/* The regions of these that somebody enters who reclaims: each, as if a fork had been meanwhile, is put in order. */
std::set<std::uint64_t> entered_to_reclaim(const std::vector<std::uint64_t> &regions) {
  for (std::uint64_t each : regions) registry_record(region_number(each))->forks--;
  region_release_empty();
  std::set<std::uint64_t> entered;
  for (std::uint64_t each : regions) {
    region_t *region = registry_record(region_number(each));
    if (region->forks == registry_forks) entered.insert(each);
    region->forks = registry_forks;
  }
  return entered;
}

/* With thousands of them each request that is refused took as many gates. */
TEST_F(Region, WhoReclaimsEntersThoseAloneThatMayHaveSomethingToGive) {
  std::vector<std::uint64_t> regions(300);
  for (std::uint64_t &each : regions) each = region_new(0);
  EXPECT_TRUE(entered_to_reclaim(regions).empty()) << "none has a unit";
  std::vector<void *> blocks;
  for (std::size_t i : {0, 1, 63, 64, 65, 200, 299}) blocks.push_back(take(regions[i], 100000));
  EXPECT_EQ(entered_to_reclaim(regions).size(), blocks.size());
  EXPECT_TRUE(entered_to_reclaim(regions).empty()) << "nobody was inside since";
  put(blocks[3]);
  EXPECT_GT(figures(regions[64]).taken, 0u) << "the spare run is kept";
  EXPECT_EQ(entered_to_reclaim(regions), std::set<std::uint64_t>{regions[64]});
  EXPECT_EQ(figures(regions[64]).taken, 0u);
  EXPECT_TRUE(entered_to_reclaim(regions).empty());
  for (std::uint64_t each : regions) EXPECT_EQ(region_destroy(each), REGION_OK);
}

TEST_F(Region, WhoReclaimsInAChildGetsWhatItsParentsThreadsHaveCached) {
  Worker worker;
  worker.run([&] { put(take(handle, 100)); });
  region_release_empty();
  EXPECT_GT(figures(handle).taken, 0u);
  region_release_empty(); /* after which nobody was inside */
  expect_in_child([&] {
    region_release_empty();
    CHILD_EXPECT(registry_record(region_number(handle))->taken_units == 0);
    return 0;
  });
}

TEST_F(Region, AlignmentIsKept) {
  for (std::size_t alignment = 1; alignment <= HAK_MIB(4); alignment *= 2)
    for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, alignment, alignment + 1, std::size_t{70000}}) {
      void *block = take(handle, bytes, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u) << alignment << ", " << bytes;
      EXPECT_TRUE(region_may_have_size(block, map_lookup(block), bytes, alignment, false)) << alignment << " " << bytes;
      put(block);
    }
}

TEST_F(Region, IsZeroWhereThatIsAskedFor) {
  for (int round = 0; round < 2; round++)
    for (std::size_t bytes : {100, 3000, 100000, 700000, 5 << 20}) {
      void *block = nullptr;
      ASSERT_EQ(region_alloc(handle, bytes, 1, true, &block), REGION_OK);
      EXPECT_TRUE(hak_test::is_zero(block, bytes)) << bytes << " bytes, round " << round;
      std::memset(block, 0xff, bytes);
      put(block);
    }
}

/* ---- Forks -----------------------------------------------------------------------*/

namespace {
/* Another thread, which is not here, was inside the region. */
void pretend_inside(const region_t *region) {
  atomic64_store_relaxed(&region_inside[region->number % REGION_GATES],
                         region_inside_word(region->number, thread_number() + 1000));
}
/* Pages that were copied, or touched for the first time. */
long page_faults() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}
}  // namespace

TEST_F(Region, AChildEmptiesTheCachesOfThreadsThatItHasNot) {
  Worker worker;
  worker.run([&] {
    void *block = take(handle, 64);
    put(block);
  });
  void *mine = take(handle, 64);
  put(mine);
  std::size_t slab_bytes = figures(handle).cached + figures(handle).free;
  expect_in_child([&] {
    CHILD_EXPECT(take(handle, 64) == mine); /* its own cache is as it was */
    region_t *region = registry_enter(handle);
    CHILD_EXPECT(region_has_forked(region) && region->caches != nullptr);
    registry_leave(region);
    region_figures_t now;
    CHILD_EXPECT(region_figures(handle, &now) == REGION_OK);
    CHILD_EXPECT(region->caches->thread == thread_number() && region->caches->next == nullptr);
    CHILD_EXPECT(now.live == 64 && now.live + now.cached + now.free == slab_bytes);
    hak__check_all();
    CHILD_EXPECT(region_destroy(handle) == REGION_OK);
    return 0;
  });
}

namespace {
std::size_t caches_of(std::uint64_t handle) {
  std::size_t count = 0;
  const region_t *region = registry_record(region_number(handle));
  for (const region_cache_t *cache = region->caches; cache != nullptr; cache = cache->next) count++;
  return count;
}

/* Threads that sleep with blocks of the region in their caches, each of a slab of its own. */
class Sleepers {
 public:
  Sleepers(std::uint64_t handle, int threads) : workers_(threads) {
    for (Worker &each : workers_)
      each.run([&] {
        std::vector<void *> blocks;
        for (int i = 0; i < 60; i++) blocks.push_back(take(handle, 1000));
        for (void *block : blocks) put(block);
      });
  }

 private:
  std::vector<Worker> workers_;
};
}  // namespace

TEST_F(Region, InAChildOneCallEmptiesFewOfItsParentsCaches) {
  Sleepers sleepers(handle, 40);
  put(take(handle, 64));
  std::size_t cached = figures(handle).cached;
  expect_in_child([&] {
    CHILD_EXPECT(caches_of(handle) == 41);
    for (std::size_t left = 41, calls = 0; left > 1; calls++) {
      CHILD_EXPECT(calls < 100);
      CHILD_EXPECT(result_of(handle, 5000) == REGION_OK);
      std::size_t now = caches_of(handle);
      CHILD_EXPECT(now <= left && left - now <= 3 * CACHE_REAPS); /* it may have to fetch units and to come back */
      left = now;
    }
    CHILD_EXPECT(figures(handle).cached < cached / 2);
    hak__check_all();
    return 0;
  });
}

TEST_F(Region, AChildThatDestroysARegionWritesToNoneOfItsParentsCaches) {
#if defined(HAK_TEST_NO_LIMITS)
  GTEST_SKIP() << "sanitizers and emulators start no threads in a child of a process with several";
#endif
  Sleepers sleepers(handle, 40);
  put(take(handle, 64));
  expect_in_child([&] {
    region_cache_t *mine = cache_at(region_number(handle)), *other = registry_record(region_number(handle))->caches;
    if (other == mine) other = other->next;
    CHILD_EXPECT(region_destroy(handle) == REGION_OK);
    CHILD_EXPECT(!cache_is_of(mine, handle) && cache_is_of(other, handle) &&
                 cache_count(other, size_class_of(1000)) > 0);
    hak__check_all();
    /* The number serves another region, and its caches' memory other caches. */
    std::uint64_t next = region_new(0);
    CHILD_EXPECT(region_number(next) == region_number(handle));
    Sleepers others(next, 40);
    put(take(next, 64));
    hak__check_all();
    CHILD_EXPECT(region_destroy(next) == REGION_OK);
    return 0;
  });
}

TEST_F(Region, AtItsLimitAChildGetsAllThatItsParentsThreadsHaveCached) {
  Sleepers sleepers(handle, 40);
  std::size_t taken = figures(handle).taken;
  EXPECT_EQ(region_set_limit(handle, taken), REGION_OK);
  expect_in_child([&] {
    CHILD_EXPECT(result_of(handle, taken / 2) == REGION_OK);
    hak__check_all();
    return 0;
  });
}

/* Nor does fork take longer in it the more there are. */
TEST_F(Region, AChildCopiesNoRecordsThatItDoesNotUse) {
  std::vector<std::uint64_t> regions(4000);
  for (std::uint64_t &each : regions) each = region_new(0);
  pid_t child = fork();
  if (child == 0) {
    long faults = page_faults();
    registry_after_fork();
    _exit(page_faults() - faults > 100);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "pages of 4000 records were copied";
  for (std::uint64_t each : regions) EXPECT_EQ(region_destroy(each), REGION_OK);
}

TEST_F(Region, AChildsThreadsDoNotTakeEachOthersCachesForTheParents) {
  put(take(handle, 64));
  expect_in_child([&] {
    Worker first, second;
    auto use = [&] { put(take(handle, 64)); };
    first.run([&] { cache_bind(handle); }); /* and does not take a block yet */
    second.run(use);
    region_t *region = registry_record(region_number(handle));
    std::set<std::uint32_t> threads;
    for (region_cache_t *cache = region->caches; cache != nullptr; cache = cache->next) threads.insert(cache->thread);
    CHILD_EXPECT(threads.size() == 3 && threads.count(thread_number()) == 1);
    first.run(use);
    use();
    hak__check_all();
    return 0;
  });
}

TEST_F(Region, InAChildNothingIsOnItsWayThatAnotherThreadWasFetching) {
  std::size_t taken = figures(handle).taken;
  region_t *region = registry_record(region_number(handle));
  region->taken_units += 5, region->coming_units += 5; /* as between units_fetch's two visits */
  hak__check_all();
  EXPECT_EQ(figures(handle).taken, taken) << "nor does it count before it has come: it would be more than the peak";
  expect_in_child([&] {
    region_figures_t now;
    CHILD_EXPECT(region_figures(handle, &now) == REGION_OK);
    CHILD_EXPECT(now.taken == taken && region->taken_units << UNIT_SHIFT == taken && region->coming_units == 0);
    hak__check_all();
    return 0;
  });
  region->taken_units -= 5, region->coming_units -= 5;
}

/* As a child finds it when another thread was just linking or unlinking a cache. */
TEST_F(Region, TheListOfCachesThatAForkHasTornIsWholeForwards) {
  put(take(handle, 64));
  expect_in_child([&] {
    alarm(20); /* instead of going round and round */
    region_t *region = registry_record(region_number(handle));
    pretend_inside(region);
    registry_after_fork();
    region_cache_t *mine = cache_at(region_number(handle));
    Worker first, second;
    first.run([&] { cache_bind(handle); });
    second.run([&] { cache_bind(handle); });
    region_cache_t *newest = region->caches;
    CHILD_EXPECT(newest->next->next == mine && cache_is_of(mine, handle));
    newest->next->previous = nullptr; /* not written yet when the newest had just been linked */
    first.run([] { cache_thread_ends(); });
    CHILD_EXPECT(region->caches == newest && newest->next == mine && mine->next == nullptr);
    newest->previous = newest; /* one is just being linked before it, and is not in the list */
    CHILD_EXPECT(region_destroy(handle) == REGION_OK);
    CHILD_EXPECT(region->caches == nullptr && !cache_is_of(mine, handle) && !cache_is_of(newest, handle));
    return 0;
  });
}

/* The calling thread's cache lies behind one of a thread that the child has not, and nobody has reaped that. */
TEST_F(Region, AChildDestroysWhatItsParentsThreadsHaveUsedLast) {
  put(take(handle, 64));
  Worker other;
  other.run([&] { put(take(handle, 64)); });
  expect_in_child([&] {
    alarm(20); /* instead of going round and round */
    region_t *region = registry_record(region_number(handle));
    region_cache_t *mine = cache_at(region_number(handle));
    CHILD_EXPECT(region->caches != mine && mine->previous != nullptr);
    CHILD_EXPECT(region_destroy(handle) == REGION_OK);
    CHILD_EXPECT(region->caches == nullptr && !cache_is_of(mine, handle));
    return 0;
  });
}

TEST_F(Region, ARegionThatAForkHasTornIsLeftAlone) {
  void *block = take(handle, 64);
  void *lone = take(handle, 100000);
  expect_in_child([&] {
    region_t *region = registry_record(region_number(handle));
    pretend_inside(region); /* by a thread that is not here */
    registry_after_fork();
    CHILD_EXPECT(region->is_lost);
    CHILD_EXPECT(result_of(handle, 200) == REGION_NO_MEMORY);
    CHILD_EXPECT(result_of(handle, 200000) == REGION_NO_MEMORY);
    CHILD_EXPECT(result_of(handle, 5 << 20) == REGION_NO_MEMORY);
    put(block);
    put(lone);
    CHILD_EXPECT(error_count() == errors_before_);
    CHILD_EXPECT(region_destroy(handle) == REGION_OK);
    CHILD_EXPECT(region_number(region_new(0)) != region_number(handle)); /* words of its number are left */
    return 0;
  });
}
