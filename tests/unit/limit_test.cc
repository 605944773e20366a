/*
 * Limits: what is charged, when the heap is near one, and what becomes of what is kept
 * then. Each case has a process of its own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layers.h"
#include "support/process.h"
#include "support/worker.h"

#include <atomic>
#include <list>
#include <map>
#include <thread>

namespace {

using hak_test::kMiB;
using hak_test::purge_dirty;

size_t dirty_bytes() { return arena_usage().dirty; }

/* A run that counts from now on: of the huge zone, where nothing else comes. */
unit_t take(size_t bytes) {
  unit_t run = arena_take(ZONE_HUGE, bytes >> UNIT_SHIFT, 1, nullptr);
  if (run != 0) hak_test::write_words(run, bytes >> UNIT_SHIFT, hak_test::kInUse);
  return run;
}
void give(unit_t run, size_t bytes) {
  hak_test::write_words(run, bytes >> UNIT_SHIFT, 0);
  arena_give(run, bytes >> UNIT_SHIFT);
}

}  // namespace

/* ---- The account ---------------------------------------------------------------------*/

TEST(Limit, WhatIsTakenIsChargedUntilItHasGoneBack) {
  unit_t first = take(8 * kMiB);
  ASSERT_NE(first, 0u);
  const size_t before = limit_charged();
  EXPECT_GE(before, 8 * kMiB);
  unit_t run = take(16 * kMiB);
  ASSERT_NE(run, 0u);
  const size_t with = limit_charged();
  EXPECT_GE(with, before + 16 * kMiB);
  EXPECT_LE(with, before + 17 * kMiB) << "the tables are a fiftieth";
  give(run, 16 * kMiB);
  EXPECT_EQ(limit_charged(), with) << "it is resident still";
  arena_check();
  EXPECT_EQ(purge_dirty(), 16 * kMiB);
  EXPECT_EQ(limit_charged(), with - 16 * kMiB);
  unit_t again = take(16 * kMiB);
  EXPECT_EQ(again, run) << "the same place: nothing more of the tables is used";
  EXPECT_EQ(limit_charged(), with);
  arena_check();
}

TEST(Limit, WhatIsTakenWhileDirtyIsNotChargedTwice) {
  unit_t run = take(16 * kMiB);
  const size_t with = limit_charged();
  give(run, 16 * kMiB);
  unit_t half = take(8 * kMiB);
  EXPECT_NE(half, 0u);
  EXPECT_EQ(limit_charged(), with);
  arena_check();
  give(half, 8 * kMiB);
  ASSERT_EQ(take(24 * kMiB), run) << "two thirds of it are dirty";
  EXPECT_GE(limit_charged(), with + 8 * kMiB);
  EXPECT_LE(limit_charged(), with + 9 * kMiB) << "the tables are a fiftieth";
  arena_check();
}

namespace {
/* Blocks of 1000 bytes in slabs of one unit: in each but the last there is one left. */
struct Scattered {
  std::vector<char *> left, blocks;
  size_t slabs = 0;
  explicit Scattered(size_t bytes) {
    blocks.reserve(bytes / 1000);
    left.reserve(bytes / 60000);
    for (size_t i = 0; i < bytes / 1000; i++) {
      char *block = static_cast<char *>(hak_malloc(1000));
      std::memset(block, 0xAB, 1000);
      blocks.push_back(block);
    }
    std::vector<bool> seen(1 << 20);
    for (char *&block : blocks) {
      const size_t unit = map_unit_of(block);
      if (seen[unit]) hak_free(block);
      else left.push_back(block);
      seen[unit] = true;
    }
    slabs = left.size();
  }
  ~Scattered() {
    for (char *block : left) {
      EXPECT_EQ(static_cast<unsigned char>(block[0] & block[999]), 0xAB);
      hak_free(block);
    }
  }
};
}  // namespace

TEST(Limit, PagesOfSlabsThatHaveGoneDoNotCount) {
  Scattered scattered(32 * kMiB);
  const size_t before = limit_charged();
  hak_trim(0);
  EXPECT_LT(limit_charged(), before - 28 * kMiB) << "one page of sixteen is in use";
  hak__check_all();
  const size_t gone = limit_charged();
  std::vector<void *> again(20000);
  for (void *&block : again) block = hak_malloc(1000);
  EXPECT_GT(limit_charged(), gone + 18 * kMiB);
  hak__check_all();
  for (void *block : again) hak_free(block);
}

/* The sum of what threads do to it, with gates of two kinds held. */
TEST(Limit, ManyThreadsLeaveTheAccountInOrder) {
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; t++)
    threads.emplace_back([t] {
      for (int round = 0; round < 200; round++) {
        std::vector<void *> blocks;
        for (size_t i = 0; i < 30; i++) blocks.push_back(hak_malloc((i * 7919 + t * 104729) % 300000));
        for (void *block : blocks) hak_free(block);
        if (round % 50 == 0) hak_trim(0);
      }
    });
  for (std::thread &thread : threads) thread.join();
  hak__check_all();
}

/* ---- The hard limit --------------------------------------------------------------------*/

TEST(HardLimit, IsNeverExceededAndMemoryComesBack) {
  limit_set_hard(64 * kMiB);
  for (size_t bytes : {size_t{40}, size_t{1000}, size_t{20000}, size_t{300000}, 6 * kMiB}) {
    SCOPED_TRACE(bytes);
    for (int round = 0; round < 2; round++) {
      std::vector<void *> held;
      held.reserve(64 * kMiB / bytes);
      errno = 0;
      while (void *block = hak_malloc(bytes)) {
        held.push_back(block);
        ASSERT_LE(limit_charged(), 64 * kMiB);
      }
      EXPECT_EQ(errno, ENOMEM);
      EXPECT_GE(held.size() * bytes, 44 * kMiB) << "memory ended long before its limit";
      hak__check_all();
      for (void *block : held) hak_free(block);
    }
  }
}

TEST(HardLimit, EveryKindOfRequestSaysThatThereIsNoMemory) {
  void *small = hak_malloc(100), *large = hak_malloc(300000), *huge = hak_malloc(6 * kMiB);
  ASSERT_NE(huge, nullptr);
  limit_set_hard(limit_charged()); /* not a byte more */
  std::vector<void *> rest;
  while (void *block = hak_malloc(100)) rest.push_back(block);
  const auto is_refused = [](void *block) { return block == nullptr && errno == ENOMEM; };
  errno = 0;
  EXPECT_TRUE(is_refused(hak_calloc(1, 300000)));
  errno = 0;
  EXPECT_TRUE(is_refused(hak_calloc(1, 8 * kMiB)));
  errno = 0;
  EXPECT_TRUE(is_refused(hak_realloc(small, 300000)));
  errno = 0;
  EXPECT_TRUE(is_refused(hak_realloc(large, 6 * kMiB)));
  errno = 0;
  EXPECT_TRUE(is_refused(hak_realloc(huge, 60 * kMiB)));
  errno = 0;
  EXPECT_TRUE(is_refused(hak_aligned_alloc(4096, 300000)));
  errno = 0;
  EXPECT_TRUE(is_refused(hak_aligned_alloc(4 * kMiB, 4 * kMiB)));
  errno = 0;
  EXPECT_TRUE(is_refused(hak_malloc(PTRDIFF_MAX)));
  void *out = nullptr;
  errno = 1234;
  EXPECT_EQ(hak_posix_memalign(&out, 4096, 300000), ENOMEM);
  EXPECT_EQ(errno, 1234);
  hak_free(huge);
  EXPECT_NE(huge = hak_malloc(5 * kMiB), nullptr) << "what is freed makes room";
  for (void *block : rest) hak_free(block);
  for (void *block : {small, large, huge}) hak_free(block);
  hak__check_all();
}

/* Magazines that hold some MiB, of this thread and of some that have ended. */
size_t fill_caches() {
  const auto work = [] {
    std::vector<void *> blocks(8000);
    for (int round = 0; round < 20; round++) { /* the magazine grows with each */
      for (void *&block : blocks) block = hak_malloc(1000);
      for (void *block : blocks) hak_free(block);
    }
  };
  std::thread(work).join();
  work();
  purge_dirty();
  return hak_test::cached_bytes();
}

/* What is free makes no request fail, wherever it is. */
TEST(HardLimit, CachesMakeRoomForAHugeBlock) {
  ASSERT_GT(fill_caches(), 7 * kMiB);
  limit_set_hard(limit_charged());
  void *block = hak_malloc(6 * kMiB);
  ASSERT_NE(block, nullptr);
  void *grown = hak_realloc(block, 6 * kMiB + 200000);
  EXPECT_NE(grown, nullptr);
  hak_free(grown);
}
TEST(HardLimit, CachesMakeRoomForSmallBlocks) {
  ASSERT_GT(fill_caches(), 7 * kMiB);
  limit_set_hard(limit_charged());
  std::vector<void *> blocks(2000);
  for (void *&block : blocks) ASSERT_NE(block = hak_malloc(3000), nullptr);
  for (void *block : blocks) hak_free(block);
}
namespace {
/* Takes blocks until there is no memory. Returns the bytes. */
size_t take_the_rest(size_t bytes) {
  size_t taken = 0;
  while (hak_malloc(bytes) != nullptr) taken += bytes;
  return taken;
}
/* Blocks of another thread's, which frees most of them when it is told to, and sleeps. */
class Sleeper {
 public:
  explicit Sleeper(size_t count) : blocks_(count) {
    worker_.run([this] {
      for (void *&block : blocks_) block = hak_malloc(1000);
    });
  }
  void frees() {
    worker_.run([this] {
      for (size_t i = 0; i < blocks_.size(); i++)
        if (i % 40 != 39) hak_free(blocks_[i]);
    });
  }

 private:
  std::vector<void *> blocks_;
  hak_test::Worker worker_;
};
}  // namespace

/* Each look takes a membarrier. That none does so in a tenth of a second is not asked for, as the machine may be slow;
 * but of many calls one is within it. */
TEST(HardLimit, ThreadsThatHaveDoneNothingSinceArePassedOver) {
  std::list<Sleeper> sleepers;
  for (int i = 0; i < 20; i++) sleepers.emplace_back(10).frees();
  limit_set_hard(limit_charged());
  take_the_rest(1000);
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 50; i++) {
    const uint64_t before = atomic64_load_relaxed(&os_calls.membarrier);
    EXPECT_EQ(hak_malloc(1000), nullptr);
    least = std::min(least, atomic64_load_relaxed(&os_calls.membarrier) - before);
  }
  EXPECT_EQ(least, 0u) << "each call looks at all threads";
}

TEST(HardLimit, WhatAThreadFreesMakesRoomAtOnceThoughOthersArePassedOver) {
  Sleeper sleeper(4000);
  limit_set_hard(limit_charged());
  for (size_t bytes : {100000, 3000, 100}) take_the_rest(bytes);
  for (int i = 0; i < 3; i++) EXPECT_EQ(hak_malloc(3000), nullptr);
  sleeper.frees();
  EXPECT_NE(hak_malloc(2 * kMiB), nullptr) << "pages between blocks of a thread that sleeps again";
  hak__check_all();
}

TEST(HardLimit, DirtyMemoryInTheWrongPlaceMakesRoom) {
  limit_set_hard(64 * kMiB);
  unit_t gap = take(20 * kMiB), between = take(kMiB);
  ASSERT_NE(between, 0u);
  give(gap, 20 * kMiB);
  EXPECT_EQ(dirty_bytes(), 20 * kMiB);
  EXPECT_NE(take(48 * kMiB), 0u) << "the gap is too small, but it can go back";
  arena_check();
}

namespace {
/* Of all units of both zones. */
size_t resident() {
  size_t pages = 0;
  for (zone_id_t zone : {ZONE_SMALL, ZONE_HUGE}) {
    unit_t first = 0, end = 0;
    while (arena_next_extent(zone, &first, &end))
      for (unit_t unit = first; unit < end; unit++) pages += hak_test::resident_pages(map_address(unit), UNIT_BYTES);
  }
  return pages * os_page_bytes();
}
}  // namespace

TEST(HardLimit, PagesOfSlabsAreForEverybodyAndNotMoreThanThereAre) {
  limit_set_hard(64 * kMiB);
  Scattered scattered(56 * kMiB);
  void *large = hak_malloc(32 * kMiB);
  ASSERT_NE(large, nullptr) << "fifteen of sixteen pages are free";
  std::memset(large, 1, 32 * kMiB);
  std::vector<char *> small;
  small.reserve(64 * kMiB / 1000);
  while (char *block = static_cast<char *>(hak_malloc(1000))) {
    std::memset(block, 0xCD, 1000);
    small.push_back(block);
    ASSERT_LE(limit_charged(), 64 * kMiB);
  }
  EXPECT_GE(small.size() * 1000, 16 * kMiB) << "memory ended long before its limit";
  EXPECT_LE(resident(), 64 * kMiB);
  hak__check_all();
  hak_free(large);
  ASSERT_NE(hak_malloc(1000), nullptr);
  for (char *block : small) {
    EXPECT_EQ(static_cast<unsigned char>(block[0] & block[999]), 0xCD);
    hak_free(block);
  }
  hak__check_all();
}

TEST(HardLimit, PagesOfSlabsGoForWhoeverNeedsThem) {
  limit_set_hard(64 * kMiB);
  void *large = hak_malloc(52 * kMiB);
  Scattered scattered(7 * kMiB);
  EXPECT_GT(limit_charged(), 59 * kMiB) << "they are no surplus, and stay";
  void *block = hak_malloc(6 * kMiB);
  EXPECT_NE(block, nullptr);
  hak_free(block);
  hak_free(large);
}

/* Of a thread that has ended, with pages that would have to come back: not all of them change hands in vain. */
TEST(HardLimit, ACallTakesOverSomeSlabsAtTheMost) {
  hak_free(hak_malloc(1)); /* or the heap of the other thread would be ours */
  std::thread([] {
    new Scattered(40 * kMiB);
    hak_trim(0);
  }).join();
  limit_set_hard(limit_charged());
  std::vector<void *> own; /* what the thread's caches and slabs have left */
  hak_stats_t before, after;
  for (void *block = &own; block != nullptr; own.push_back(block)) {
    hak_stats(&before, sizeof before);
    block = hak_malloc(1000);
  }
  hak_stats(&after, sizeof after);
  EXPECT_GT(after.adoptions, before.adoptions + 1) << "of the class itself, and not of the one that stands in";
  EXPECT_LE(after.adoptions, before.adoptions + 2 * 64 + 4) << "a try, and another when all was emptied";
}

/* Of those whose pages may not come back; who looks for empty ones begins at the end. */
TEST(HardLimit, EmptySlabsStayTheLast) {
  heap_t *heap = thread_enter();
  owner_t *owner = &heap->owner;
  const unsigned c = size_class_of(1000);
  ASSERT_TRUE(slab_add(owner, c) && slab_add(owner, c));
  purge_slab(owner, owner->slabs[c], TALLY_IDLE, nullptr);
  ASSERT_GT(map_record(owner->slabs[c])->slab.purged_pages, 0);
  purge_dirty();
  limit_set_hard(limit_charged());
  void *blocks[4];
  ASSERT_EQ(batch_refill(owner, c, blocks, 4, nullptr), 4u) << "of the second one";
  slab_check(owner);
  slab_release_empty(owner);
  EXPECT_EQ(owner->empty_units, 0u);
  slab_check(owner);
  thread_leave(heap);
}

namespace {

/* So many slabs of which a block is out and pages have gone, and behind them one with all its pages: returns that. */
unit_t behind_refused_slabs(owner_t *owner, unsigned c, size_t refused) {
  std::vector<void *> all((refused + 1) * size_classes[c].capacity);
  for (void *&block : all) EXPECT_EQ(batch_refill(owner, c, &block, 1, nullptr), 1u);
  std::map<unit_t, std::vector<void *>> of;
  for (void *block : all) of[slab_first_unit(static_cast<unit_t>(map_unit_of(block)), c)].push_back(block);
  EXPECT_EQ(of.size(), refused + 1);
  const unit_t unmarked = of.begin()->first;
  for (auto &[slab, blocks] : of) /* each next one is listed before those that were */
    batch_flush(owner, c, blocks.data(), slab == unmarked ? 2 : blocks.size() - 1);
  for (auto &[slab, blocks] : of)
    if (slab != unmarked) purge_slab(owner, slab, TALLY_IDLE, nullptr);
  EXPECT_NE(owner->slabs[c], unmarked) << "the test is void";
  return unmarked;
}

}  // namespace

/* Each refill would look at all of them anew. An empty one is the last all the same. */
TEST(HardLimit, SlabsThatAreRefusedComeAfterTheOneThatIsNot) {
  for (bool with_empty : {false, true}) {
    heap_t *heap = thread_enter();
    owner_t *owner = &heap->owner;
    const unsigned c = size_class_of(with_empty ? 1300 : 1000);
    const unit_t unmarked = behind_refused_slabs(owner, c, 3), empty = with_empty ? slab_add(owner, c) : 0;
    const unit_t refused = owner->slabs[c];
    limit_set_hard(limit_charged());
    void *block;
    EXPECT_EQ(batch_refill(owner, c, &block, 1, nullptr), 1u);
    limit_set_hard(SIZE_MAX);
    EXPECT_EQ(owner->slabs[c], unmarked);
    EXPECT_EQ(map_record(unmarked)->slab.next, refused);
    EXPECT_EQ(map_record(unmarked)->slab.previous == empty, with_empty) << "it is not the last";
    slab_check(owner);
    thread_leave(heap);
  }
}

/* Of so many that nobody looks at all of them while others wait for the pool's gate. */
TEST(HardLimit, WhoHoldsAGateLooksAtSomeOfTheSlabsThatAreRefused) {
  heap_t *heap = thread_enter();
  owner_t *owner = &heap->owner;
  const unsigned c = size_class_of(1000);
  const unit_t unmarked = behind_refused_slabs(owner, c, 100), refused = owner->slabs[c];
  limit_set_hard(limit_charged());
  EXPECT_EQ(slab_to_take(owner, c, false), 0u);
  EXPECT_NE(owner->slabs[c], refused) << "the same ones are looked at again the next time";
  EXPECT_EQ(slab_to_take(owner, c, false), unmarked);
  slab_check(owner);
  thread_leave(heap);
}

TEST(HardLimit, ASlabThatGoesLeavesNoMoreThanWasCharged) {
  auto *scattered = new Scattered(32 * kMiB);
  hak_trim(0);
  void *large = hak_malloc(8 * kMiB);
  std::memset(large, 1, 8 * kMiB);
  limit_set_hard(limit_charged()); /* not a byte more */
  delete scattered;
  hak_trim(SIZE_MAX); /* the slabs go, and are dirty, or clean */
  EXPECT_LE(limit_charged(), limits_now().hard);
  EXPECT_LT(dirty_bytes(), 4 * kMiB);
  hak__check_all();
  std::vector<void *> blocks;
  while (void *block = hak_malloc(200000)) {
    std::memset(block, 1, 200000);
    blocks.push_back(block);
  }
  EXPECT_LE(resident(), limits_now().hard);
  for (void *block : blocks) hak_free(block);
  hak_free(large);
}

TEST(HardLimit, ARequestThatCanNeverBeGrantedLeavesEverythingAsItIs) {
  void *block = hak_malloc(8 * kMiB);
  hak_free(block);
  limit_set_hard(64 * kMiB);
  const size_t committed = arena_usage().committed, dirty = dirty_bytes();
  EXPECT_EQ(hak_malloc(size_t{1} << 40), nullptr);
  EXPECT_EQ(arena_usage().committed, committed) << "address space was mapped for nothing";
  EXPECT_EQ(dirty_bytes(), dirty);
}

TEST(HardLimit, IsReachedByManyThreadsAtOnce) {
  limit_set_hard(48 * kMiB);
  std::atomic<size_t> refused{0}, most{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 6; t++)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 6; round++) {
        std::vector<void *> held;
        held.reserve(100000);
        while (held.size() < 100000) {
          void *block = hak_malloc((held.size() * 7919 + t * 104729) % 60000 + 1);
          if (block == nullptr) break;
          held.push_back(block);
        }
        refused += held.size() < 100000;
        for (size_t seen = most, now = limit_charged(); now > seen && !most.compare_exchange_weak(seen, now);) continue;
        for (void *block : held) hak_free(block);
      }
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_GT(refused, 0u);
  EXPECT_LE(most, 48 * kMiB);
  hak__check_all();
  void *block = hak_malloc(30 * kMiB);
  EXPECT_NE(block, nullptr) << "all is free again";
  hak_free(block);
}

TEST(HardLimit, HoldsInAForkedChild) {
  limit_set_hard(64 * kMiB);
  void *held = hak_malloc(20 * kMiB);
  hak_test::Outcome outcome = hak_test::in_child([&] {
    if (hak_malloc(50 * kMiB) != nullptr) return 1;
    void *more = hak_malloc(30 * kMiB);
    if (more == nullptr) return 2;
    hak_free(held);
    hak_free(more);
    return hak_malloc(50 * kMiB) != nullptr ? 0 : 3;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  hak_free(held);
}

/* ---- Near a limit ----------------------------------------------------------------------*/

TEST(SoftLimit, WhatIsDirtyFitsBelowNineTenths) {
  limit_set_soft(100 * kMiB);
  unit_t kept = take(70 * kMiB), other = take(16 * kMiB);
  give(other, 16 * kMiB);
  for (int i = 0; i < 100; i++) arena_relieve(SUPERSLAB_UNITS);
  EXPECT_FALSE(limit_is_near(0));
  EXPECT_GT(dirty_bytes(), 0u) << "there is room for some";
  unit_t more = take(24 * kMiB);
  ASSERT_NE(more, 0u) << "a soft limit refuses nothing";
  EXPECT_TRUE(limit_is_near(0));
  EXPECT_LT(dirty_bytes(), 2 * kMiB) << "of the six that are left, a fourth may stay";
  give(more, 24 * kMiB);
  for (int i = 0; i < 100; i++) arena_relieve(SUPERSLAB_UNITS);
  EXPECT_LE(limit_charged(), 90 * kMiB);
  give(kept, 70 * kMiB);
  arena_check();
}

/* So much of what is charged is slack: how much may stay. */
double slack_that_stays(size_t bytes) {
  limit_watch(bytes);
  return static_cast<double>(limit_slack());
}
TEST(SoftLimit, SlackShrinks) {
  limit_set_soft(100 * kMiB);
  take(60 * kMiB); /* and some for the tables */
  limit_charge_anyway(80 * kMiB - limit_charged());
  EXPECT_EQ(slack_that_stays(0), 10.0 * kMiB);
  limit_charge_anyway(6 * kMiB);
  EXPECT_NEAR(slack_that_stays(0), 4.0 * kMiB, 16);
  limit_charge_anyway(4 * kMiB);
  EXPECT_NEAR(slack_that_stays(0), 90.0 / 32 * kMiB, 16);
  EXPECT_NEAR(slack_that_stays(10 * kMiB), 10.0 * kMiB, 16) << "that is slack itself";
  limit_charge_anyway(310 * kMiB);
  EXPECT_NEAR(slack_that_stays(0), 400.0 / 32 * kMiB, 16) << "a limit that is far too small";
}

TEST(SoftLimit, NoneLeavesThingsAsTheyWere) {
  limit_set_soft(10 * kMiB);
  take(20 * kMiB);
  EXPECT_TRUE(limit_is_near(0));
  EXPECT_TRUE(limit_exists());
  limit_set_soft(0);
  EXPECT_FALSE(limit_is_near(SIZE_MAX));
  EXPECT_FALSE(limit_exists());
  EXPECT_EQ(limit_slack(), SIZE_MAX);
}

TEST(SoftLimit, MagazinesHoldLittleAndHugePagesAreNotAskedFor) {
  const size_t usual = capacity_budget(1, false);
  EXPECT_TRUE(limit_allows_huge_pages(2 * kMiB));
  limit_set_soft(40 * kMiB);
  take(20 * kMiB);
  EXPECT_EQ(capacity_budget(1, false), usual);
  EXPECT_TRUE(limit_allows_huge_pages(2 * kMiB));
  EXPECT_FALSE(limit_allows_huge_pages(20 * kMiB)) << "with so much more it is near";
  take(20 * kMiB);
  EXPECT_LE(capacity_budget(1, false), HAK_KIB(64));
  EXPECT_FALSE(limit_allows_huge_pages(0));
}

TEST(HardLimit, ThereAreNoHugePages) {
  limit_set_hard(1000 * kMiB);
  EXPECT_FALSE(limit_allows_huge_pages(0));
}

/* What the caches hold goes when the heap grows past the mark, and again as it grows on. */
TEST(SoftLimit, PassingItEmptiesTheCaches) {
  ASSERT_GT(fill_caches(), 7 * kMiB);
  limit_set_soft(100 * kMiB);
  std::vector<void *> held;
  while (limit_charged() < 89 * kMiB) held.push_back(hak_malloc(300000));
  EXPECT_GT(hak_test::cached_bytes(), 4 * kMiB) << "not near yet";
  for (int i = 0; i < 20; i++) held.push_back(hak_malloc(300000));
  EXPECT_LT(hak_test::cached_bytes(), kMiB);
  for (void *block : held) hak_free(block);
}

TEST(SoftLimit, WhatIsTooMuchGoesAtOnce) {
  std::vector<void *> blocks(50000);
  for (void *&block : blocks) block = hak_malloc(1000), std::memset(block, 1, 1000);
  for (void *block : blocks) hak_free(block);
  void *held = hak_malloc(6 * kMiB);
  hak_set_soft_limit(4 * kMiB);
  EXPECT_LT(limit_charged(), 9 * kMiB);
  EXPECT_EQ(dirty_bytes(), 0u);
  EXPECT_NE(hak_malloc(10 * kMiB), nullptr) << "allocation does not fail for it";
  hak_set_soft_limit(0);
  hak_free(held);
}

/* Without a run being taken or given. */
TEST(SoftLimit, PagesThatComeBackBringItNear) {
  Scattered scattered(64 * kMiB);
  hak_trim(0);
  ASSERT_LT(limit_charged(), 20 * kMiB);
  limit_set_soft(40 * kMiB);
  EXPECT_FALSE(limit_is_near(0));
  std::vector<void *> blocks;
  blocks.reserve(60 * kMiB / 1000);
  while (limit_charged() < 50 * kMiB) blocks.push_back(hak_malloc(1000));
  EXPECT_TRUE(limit_is_near(0));
  for (void *block : blocks) hak_free(block);
  hak_trim(0);
  EXPECT_FALSE(limit_is_near(0));
}

TEST(SoftLimit, StatisticsTellTheLimitsAndWhatTheyCost) {
  auto stats = [] {
    hak_stats_t stats;
    hak_stats(&stats, sizeof stats);
    return stats;
  };
  EXPECT_EQ(stats().hard_limit + stats().soft_limit + stats().container_limit, 0u);
  std::vector<void *> blocks(50000);
  for (void *&block : blocks) block = hak_malloc(1000), std::memset(block, 1, 1000);
  for (void *block : blocks) hak_free(block);
  void *held = hak_malloc(6 * kMiB);
  const hak_stats_t before = stats();
  limit_set_hard(1000 * kMiB);
  limit_set_container(700 * kMiB);
  hak_set_soft_limit(4 * kMiB);
  const hak_stats_t after = stats();
  EXPECT_EQ(after.hard_limit, 1000 * kMiB);
  EXPECT_EQ(after.soft_limit, 4 * kMiB);
  EXPECT_EQ(after.container_limit, 700 * kMiB);
  EXPECT_EQ(after.charged, limit_charged());
  EXPECT_LT(after.charged, before.charged);
  EXPECT_GE(after.purged_limited - before.purged_limited, before.charged - after.charged);
  EXPECT_EQ(after.purged_trimmed, before.purged_trimmed) << "nobody asked for it";
  hak_free(held);
}

/* ---- Marks -------------------------------------------------------------------------------*/

TEST(Marks, OneThreadAnswersAndTheyMoveOn) {
  limit_set_soft(50 * kMiB);
  take(40 * kMiB);
  limit_answer(); /* that for a first look at the container */
  EXPECT_FALSE(limit_is_passed());
  take(8 * kMiB);
  EXPECT_TRUE(limit_is_passed());
  limit_answer_t answer = limit_answer();
  EXPECT_TRUE(answer.squeeze);
  EXPECT_FALSE(limit_answer().squeeze) << "it has been answered";
  take(kMiB / 2);
  EXPECT_FALSE(limit_is_passed()) << "for so little it is not done again";
  take(4 * kMiB);
  EXPECT_TRUE(limit_answer().squeeze) << "it has grown by more than a 32nd";
}

TEST(Marks, AHeapThatHasFallenPassesThemAnew) {
  limit_set_soft(50 * kMiB);
  unit_t run = take(48 * kMiB);
  EXPECT_TRUE(limit_answer().squeeze);
  give(run, 48 * kMiB);
  purge_dirty();
  EXPECT_FALSE(limit_is_passed());
  take(46 * kMiB);
  EXPECT_TRUE(limit_answer().squeeze);
}

/* What is dirty in the wrong place is no need: it goes. */
TEST(Marks, BlocksThatComeAndGoDoNotPassThem) {
  limit_set_soft(50 * kMiB);
  take(39 * kMiB);
  unit_t gap = take(3 * kMiB);
  take(kMiB / 4);
  limit_answer(); /* that for the container */
  for (int i = 0; i < 10; i++) {
    give(gap, 3 * kMiB);
    unit_t larger = take(4 * kMiB);
    EXPECT_FALSE(limit_is_passed());
    give(larger, 4 * kMiB);
    gap = take(3 * kMiB);
  }
}

TEST(Marks, TheContainerIsLookedAtOfAHeapThatIsNotSmall) {
  take(8 * kMiB);
  EXPECT_FALSE(limit_is_passed());
  take(16 * kMiB);
  ASSERT_TRUE(limit_is_passed());
  EXPECT_TRUE(limit_answer().look);
  take(160 * kMiB);
  EXPECT_FALSE(limit_is_passed()) << "once is enough";
}

TEST(Container, ItsLimitIsALimit) {
  limit_set_container(40 * kMiB);
  take(30 * kMiB);
  EXPECT_FALSE(limit_is_near(0));
  take(8 * kMiB);
  EXPECT_TRUE(limit_is_near(0));
  limit_set_soft(30 * kMiB);
  limit_set_container(1000 * kMiB);
  EXPECT_TRUE(limit_is_near(0)) << "the tightest counts";
}
