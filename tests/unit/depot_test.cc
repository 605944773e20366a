/* The depot: blocks that pass from thread to thread. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "nothing_by_itself.h"
#include "support/payload.h"

#include <front/bell.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <thread>

namespace {

const unsigned kOf1024 = size_class_of(1024);

std::vector<void *> numbers(std::size_t count) {
  std::vector<void *> some(count);
  for (std::size_t i = 0; i < count; i++) some[i] = reinterpret_cast<void *>(i + 1);
  return some;
}

size_t slab_count() {
  hak_stats_t stats;
  hak_stats(&stats, sizeof stats);
  return stats.slab_count;
}

/* What other tests have left there goes home. */
void with_memory_and_nothing_there() {
  hak_free(hak_malloc(1));
  hak_thread_flush();
}

class Depot : public hak_test::WithAnOwner {
 protected:
  void TearDown() override {
    depot_send_home();
    error_settle();
    WithAnOwner::TearDown();
  }
  /* What is there, all of it. */
  std::vector<void *> take(unsigned size_class, std::size_t most = SIZE_MAX) {
    std::vector<void *> blocks(std::min<std::size_t>(most, DEPOT_CRATES * CRATE_BLOCKS));
    blocks.resize(depot_take(size_class, blocks.data(), blocks.size()));
    return blocks;
  }
  size_t put(unsigned size_class, const std::vector<void *> &blocks) {
    return depot_put(size_class, blocks.data(), blocks.size());
  }
};

}  // namespace

TEST_F(Depot, ServesBlocksOfSlabsOfSeveral) {
  EXPECT_TRUE(depot_serves(0));
  EXPECT_TRUE(depot_serves(size_class_of(HAK_KIB(64))));
  EXPECT_FALSE(depot_serves(size_class_of(HAK_KIB(64) + 1)));
}

TEST_F(Depot, GivesWhatWasPutThere) {
  std::vector<void *> blocks = numbers(70), back;
  EXPECT_FALSE(depot_may_have(kOf1024));
  EXPECT_EQ(put(kOf1024, blocks), 70u);
  EXPECT_TRUE(depot_may_have(kOf1024));
  EXPECT_EQ(depot_count(kOf1024), 70u);
  EXPECT_EQ(depot_count(kOf1024 + 1), 0u);
  EXPECT_TRUE(take(kOf1024 + 1).empty());
  for (std::size_t most : {1u, 40u, 100u}) /* a part of a crate; more than one; all that is left */
    for (void *block : take(kOf1024, most)) back.push_back(block);
  std::sort(back.begin(), back.end());
  EXPECT_EQ(back, blocks);
  EXPECT_EQ(depot_count(kOf1024), 0u);
  EXPECT_FALSE(depot_may_have(kOf1024)) << "somebody will look for some in vain";
}

/* Whatever the class, so many bytes at the most. */
TEST_F(Depot, HasRoomForSoMuch) {
  for (std::size_t bytes : {2048u, 16384u, 65536u}) {
    const unsigned c = size_class_of(bytes);
    EXPECT_EQ(put(c, numbers(5000)),
              std::min(DEPOT_CRATES * CRATE_BYTES / bytes, DEPOT_CRATES * std::size_t{CRATE_BLOCKS}));
    take(c);
  }
}

TEST_F(Depot, HasRoomForSoMany) {
  const std::size_t most = DEPOT_CRATES * CRATE_BLOCKS;
  EXPECT_EQ(put(kOf1024, numbers(most + 5)), most);
  EXPECT_EQ(put(kOf1024, numbers(1)), 0u);
  EXPECT_EQ(take(kOf1024, 3).size(), 3u);
  EXPECT_EQ(put(kOf1024, numbers(5)), 3u) << "beside the rest of a crate";
  EXPECT_EQ(take(kOf1024).size(), most);
}

/* A few crates for each class that has ever had blocks there, not all that there may be. */
TEST_F(Depot, TakesMemoryAsItIsFilled) {
  const std::size_t before = metadata_committed_bytes();
  for (int round = 0; round < 3; round++) {
    for (unsigned c = 0; c < MID_CLASS_END; c++) {
      ASSERT_EQ(put(c, numbers(1)), 1u);
      ASSERT_EQ(take(c).size(), 1u);
    }
  }
  EXPECT_LE(metadata_committed_bytes() - before, HAK_KIB(128));
}

/* Threads put a few at a time. */
TEST_F(Depot, HasRoomForAsManyHoweverFewAreBrought) {
  std::vector<void *> blocks = numbers(DEPOT_CRATES * CRATE_BLOCKS);
  for (void *&block : blocks) ASSERT_EQ(depot_put(kOf1024, &block, 1), 1u);
  EXPECT_EQ(put(kOf1024, numbers(1)), 0u);
  std::vector<void *> back = take(kOf1024);
  std::sort(back.begin(), back.end());
  EXPECT_EQ(back, blocks);
}

/* What others have freed in its slabs would stay there, resident, for as long as others' blocks serve it. */
TEST_F(Depot, WhoIsServedCollectsWhatOthersHaveFreed) {
  std::vector<void *> blocks = owner.refill(kOf1024, 20);
  ASSERT_EQ(put(kOf1024, std::vector<void *>(blocks.begin(), blocks.begin() + 10)), 10u);
  std::thread([&] {
    for (auto block = blocks.begin() + 10; block != blocks.end(); ++block)
      remote_free_directly(*block, word_make(owner->id, kOf1024));
  }).join();
  ASSERT_TRUE(remote_has_pending(owner));
  const int64_t before = owner->free_bytes;
  void *taken[10];
  ASSERT_EQ(batch_fetch(owner, kOf1024, taken, 10), 10u);
  EXPECT_EQ(owner->free_bytes - before, 10 * 1024);
  owner.flush(kOf1024, std::vector<void *>(taken, taken + 10));
}

TEST_F(Depot, SendsAllHome) {
  std::vector<void *> blocks = owner.refill(kOf1024, 50);
  ASSERT_EQ(put(kOf1024, blocks), 50u);
  depot_check();
  const int64_t before = owner->free_bytes;
  depot_send_home();
  EXPECT_EQ(depot_count(kOf1024), 0u);
  remote_collect(owner, SIZE_MAX);
  EXPECT_EQ(owner->free_bytes - before, 50 * 1024);
}

/* What was put there a quarter of a second ago goes, what has come since stays. */
TEST_F(Depot, SendsHomeWhatNobodyTakes) {
  std::vector<void *> blocks = owner.refill(kOf1024, 10);
  const uint64_t now_ms = os_now_ms();
  ASSERT_EQ(put(kOf1024, blocks), 10u);
  EXPECT_FALSE(depot_tick(now_ms + 100));
  EXPECT_FALSE(depot_tick(now_ms + 240));
  EXPECT_EQ(depot_count(kOf1024), 10u);
  EXPECT_TRUE(depot_tick(now_ms + 1000));
  EXPECT_EQ(depot_count(kOf1024), 0u);
  remote_collect(owner, SIZE_MAX);
}

/* The first crate has room again when all others are full: what is put there is not all that is found. */
TEST_F(Depot, GoesRound) {
  const std::size_t most = DEPOT_CRATES * CRATE_BLOCKS;
  std::vector<void *> blocks = owner.refill(kOf1024, CRATE_BLOCKS);
  ASSERT_EQ(put(kOf1024, blocks), blocks.size());
  const uint64_t first_ms = os_now_ms();
  os_sleep(100);
  const uint64_t next_ms = os_now_ms();
  ASSERT_EQ(put(kOf1024, numbers(most)), most - CRATE_BLOCKS);
  ASSERT_LT(first_ms + 50, next_ms) << "the test is void";
  ASSERT_TRUE(depot_tick(next_ms + 249));
  ASSERT_EQ(depot_count(kOf1024), most - CRATE_BLOCKS);
  EXPECT_EQ(put(kOf1024, numbers(5)), 5u);
  EXPECT_EQ(take(kOf1024).size(), most - CRATE_BLOCKS + 5);
  remote_collect(owner, SIZE_MAX);
}

/* It would stay for as long as others come and go on top of it. */
TEST_F(Depot, WhatIsPutBesideItMakesItNoYounger) {
  std::vector<void *> blocks = owner.refill(kOf1024, 10);
  const uint64_t first_ms = os_now_ms();
  ASSERT_EQ(depot_put(kOf1024, blocks.data(), 9), 9u);
  os_sleep(100);
  ASSERT_EQ(depot_put(kOf1024, &blocks[9], 1), 1u);
  EXPECT_TRUE(depot_tick(std::max<uint64_t>(first_ms + 290, os_now_ms() + 190)));
  EXPECT_EQ(depot_count(kOf1024), 0u);
  remote_collect(owner, SIZE_MAX);
}

/* Not all in one call. */
TEST_F(Depot, ATickIsBounded) {
  std::vector<std::vector<void *>> all;
  std::size_t calls = 0;
  for (unsigned c = kOf1024; c < kOf1024 + 6; c++) {
    all.push_back(owner.refill(c, DEPOT_CRATES * CRATE_BLOCKS));
    ASSERT_EQ(put(c, all.back()), DEPOT_CRATES * CRATE_BLOCKS);
  }
  const uint64_t now_ms = os_now_ms();
  while (depot_tick(now_ms + 10000)) calls++;
  EXPECT_GT(calls, 1u);
  for (unsigned c = kOf1024; c < kOf1024 + 6; c++) EXPECT_EQ(depot_count(c), 0u);
  remote_collect(owner, SIZE_MAX);
}

/* The background thread's rounds, and others' batch boundaries, see to that. */
TEST_F(Depot, TidyingSendsHomeWhatNobodyTakes) {
  std::vector<void *> blocks = owner.refill(kOf1024, 10);
  ASSERT_EQ(put(kOf1024, blocks), 10u);
  tidy_some(os_now_ms() + 30000, nullptr, nullptr); /* later than other tests say it is */
  EXPECT_EQ(depot_count(kOf1024), 0u);
  remote_collect(owner, SIZE_MAX);
}

TEST_F(Depot, AFlushSendsItHome) {
  std::vector<void *> blocks = owner.refill(kOf1024, 10);
  ASSERT_EQ(put(kOf1024, blocks), 10u);
  hak_thread_flush();
  EXPECT_EQ(depot_count(kOf1024), 0u);
  remote_collect(owner, SIZE_MAX);
}

/* Twice there; and free in its slab as well, which has gone meanwhile. */
TEST_F(Depot, WhatWasFreedTwiceIsNoted) {
  hak_test::with_nothing_by_itself([] {
    const_cast<config_t *>(config())->abort_on_error = false;
    hak_test::AttachedOwner owner;
    std::vector<void *> blocks = owner.refill(kOf1024, 2), twice = {blocks[0], blocks[0]};
    depot_put(kOf1024, twice.data(), 2);
    depot_send_home();
    error_settle();
    EXPECT_EQ(error_count(), 1u);
    owner.flush(kOf1024, {blocks[1]});
    remote_collect(owner, SIZE_MAX);
    slab_release_empty(owner);
    ASSERT_EQ(map_lookup(blocks[0]), 0u) << "the test is void";
    depot_put(kOf1024, &blocks[0], 1);
    depot_send_home();
    error_settle();
    EXPECT_EQ(error_count(), 2u);
  });
}

/* Its slab has gone, so nobody may be handed it: it is no block. */
TEST_F(Depot, WhatWasFreedTwiceIsNotHandedOut) {
  hak_test::with_nothing_by_itself([] {
    const_cast<config_t *>(config())->abort_on_error = false;
    hak_test::AttachedOwner owner;
    std::vector<void *> others = owner.refill(kOf1024 + 1, 1), blocks = owner.refill(kOf1024, 3);
    owner.flush(kOf1024, blocks);
    slab_release_empty(owner);
    ASSERT_EQ(map_lookup(blocks[0]), 0u) << "the test is void";
    const unsigned c = kOf1024 + 1; /* of which `others` are, and are sound */
    ASSERT_EQ(depot_put(c, blocks.data(), 3), 3u);
    ASSERT_EQ(depot_put(c, others.data(), 1), 1u);
    void *taken[4] = {};
    EXPECT_EQ(batch_fetch(owner, c, taken, 4), 1u);
    EXPECT_EQ(taken[0], others[0]);
    error_settle();
    EXPECT_EQ(error_count(), 3u);
    owner.flush(c, others);
  });
}

/* What was freed wrongly lies there as well, and is reported when it comes home. */
TEST_F(Depot, IsInOrderWhereMistakesDoNotEndTheProgram) {
  hak_test::with_nothing_by_itself([] {
    const_cast<config_t *>(config())->abort_on_error = false;
    hak_test::AttachedOwner owner;
    void *block = owner.refill(kOf1024, 1)[0], *inside = static_cast<char *>(block) + 16;
    ASSERT_EQ(depot_put(kOf1024, &inside, 1), 1u);
    depot_check();
    depot_send_home();
    error_settle();
    EXPECT_EQ(error_count(), 1u);
    owner.flush(kOf1024, {block});
  });
}

/* A thread whose slabs have no free block of a size takes what others have freed before it makes another slab. */
TEST(Travelling, WhoAllocatesGetsWhatOthersHaveFreed) {
  std::vector<void *> blocks(64 * 4);
  for (void *&block : blocks) block = hak_malloc(1024);
  while (magazine_count(the_heap, kOf1024) > 0 || the_heap->owner.slabs[kOf1024] != 0)
    blocks.push_back(hak_malloc(1024));
  const std::size_t slabs = slab_count();
  std::thread([&] {
    for (void *block : blocks) hak_free(block);
  }).join();
  ASSERT_GT(depot_count(kOf1024), 50u) << "the test is void";
  for (std::size_t i = depot_count(kOf1024); i > 0; i--) blocks[i - 1] = hak_malloc(1024);
  EXPECT_EQ(slab_count(), slabs);
  EXPECT_LT(depot_count(kOf1024), 8u);
}

/* A thread that sleeps then leaves nothing there, if nobody comes by who would see that it grows old. */
TEST(Travelling, WhoIsIdleSendsAllHomeWhereNobodyElseWould) {
  std::vector<void *> blocks(64);
  for (void *&block : blocks) block = hak_malloc(1024);
  travel_begin(the_heap, kOf1024);
  ASSERT_EQ(depot_put(kOf1024, blocks.data(), blocks.size()), blocks.size());
  ASSERT_FALSE(bell_has_listener()) << "the test is void";
  hak_thread_idle();
  EXPECT_EQ(depot_count(kOf1024), 0u);
}

TEST(Travelling, BlocksThatShareLinesAreSmall) {
  EXPECT_TRUE(travel_shares_lines(0));
  EXPECT_TRUE(travel_shares_lines(size_class_of(112)));
  EXPECT_FALSE(travel_shares_lines(size_class_of(113)));
}

class SmallBlocks : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64;
  static constexpr unsigned kOwners = 8;
  const unsigned kClass = size_class_of(kBytes);

  void SetUp() override {
    for (unsigned i = 0; i < kOwners; i++) {
      while (others[i].size() < 4000)
        for (void *block : owners[i].refill(kClass, 500)) others[i].push_back(block);
    }
    hak_free(hak_malloc(kBytes));
    the_heap->magazines[kClass].missed = true;
  }
  void TearDown() override {
    for (std::vector<void *> &own : others)
      for (void *block : own) hak_free(block);
    hak_thread_flush();
    for (owner_t *owner : owners) remote_collect(owner, SIZE_MAX);
    hak__check_all();
  }
  /* Of each one's blocks some, in no order, so that each is another entry of the outbox. */
  void FreeInNoOrder(std::size_t count) {
    hak_test::Random random(1);
    for (std::size_t i = 0; i < count; i++) {
      std::vector<void *> &own = others[random.below(kOwners)];
      std::swap(own[random.below(own.size())], own.back());
      hak_free(own.back());
      own.pop_back();
    }
  }
  bool Travels() { return the_heap->magazines[kClass].travels > 0; }
  hak_test::AttachedOwner owners[kOwners];
  std::vector<void *> others[kOwners];
};

/* Their neighbours are in the cache of the thread that has them. */
TEST_F(SmallBlocks, OneThatWasHandedOverGoesHome) {
  for (int i = 0; i < 100; i++) {
    void *handed = others[0].back();
    others[0].pop_back();
    hak_free(handed);
    void *next = hak_malloc(kBytes);
    EXPECT_NE(next, handed);
    hak_free(next);
  }
  EXPECT_FALSE(Travels());
}

TEST_F(SmallBlocks, OfWhoTakesNoneAllGoHome) {
  the_heap->magazines[kClass].missed = false;
  FreeInNoOrder(2000);
  EXPECT_FALSE(Travels());
}

TEST_F(SmallBlocks, WhereManyAreExchangedTheyTravel) {
  FreeInNoOrder(2000);
  EXPECT_TRUE(Travels());
  EXPECT_GT(depot_count(kClass), 0u);
  const std::uint64_t sent = atomic64_load_relaxed(&the_heap->owner.remote_frees);
  FreeInNoOrder(10);
  EXPECT_EQ(atomic64_load_relaxed(&the_heap->owner.remote_frees), sent);
}

/* So much in all, but not so much in a second. */
TEST_F(SmallBlocks, AFewNowAndThenGoHome) {
  for (int i = 0; i < 40; i++) {
    FreeInNoOrder(100);
    hak_thread_flush();
    the_heap->magazines[kClass].missed = true;
  }
  EXPECT_FALSE(Travels());
}

TEST(Travelling, EndsAfterAWhile) {
  const hak_test::OverTime over_time(OVER_TIME_OFF);
  heap_t *heap = hak_test::own_heap();
  owner_enter(&heap->owner);
  travel_begin(heap, kOf1024);
  owner_leave(&heap->owner);
  hak_test::a_second_passes(heap);
  EXPECT_GT(the_heap->magazines[kOf1024].travels, 0) << "two threads that exchange blocks by turns have to begin anew";
  hak_test::a_second_passes(heap);
  EXPECT_EQ(the_heap->magazines[kOf1024].travels, 0);
}

/* A thread that was handed a few blocks once, frees them, and goes on alone: in the end all that comes and goes
 * is its own, and its magazine holds it, as if nobody had handed it anything. */
TEST(Travelling, WhoWorksAloneHoldsWhatComesAndGoes) {
  std::vector<void *> handed(20), blocks(100);
  std::thread([&] {
    for (void *&block : handed) block = hak_malloc(4096);
  }).join();
  for (void *block : handed) hak_free(block);
  const unsigned c = size_class_of(4096);
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; i++) {
      for (void *&block : blocks) block = hak_malloc(4096);
      for (void *block : blocks) hak_free(block);
    }
  };
  rounds(1);
  travel_begin(the_heap, c); /* however the first blocks came and went */
  rounds(30);
  ASSERT_GT(the_heap->magazines[c].travels, 0) << "the test is void";
  const std::uint64_t before = atomic64_load_relaxed(&the_heap->owner.refills);
  rounds(30);
  EXPECT_EQ(atomic64_load_relaxed(&the_heap->owner.refills), before);
}

/* Each thread would come to have as much at hand of each size as it ever had at once. */
TEST(Travelling, BlocksOfSeveralPagesDoAmongManyThreads) {
  const auto works = [](std::size_t bytes) { /* how many lie in the depot afterwards */
                                             std::size_t there = 0;
                                             std::thread([&] {
                                               std::vector<void *> blocks(40);
                                               for (int round = 0; round < 10; round++) {
                                                 for (void *&block : blocks) block = hak_malloc(bytes);
                                                 for (void *block : blocks) hak_free(block);
                                               }
                                               there = depot_count(size_class_of(bytes));
                                               EXPECT_EQ(the_heap->magazines[size_class_of(bytes)].travels > 0,
                                                         there > 0);
                                               EXPECT_LE(the_heap->magazines[size_class_of(bytes)].capacity,
                                                         there > 0 ? 7 : MAX_CAPACITY);
                                               hak_thread_flush();
                                             }).join();
                                             return there;
  };
  std::vector<std::unique_ptr<hak_test::AttachedOwner>> others;
  while (pool_attached_count() < SOME_THREADS - 1) others.push_back(std::make_unique<hak_test::AttachedOwner>());
  EXPECT_EQ(works(16 << 10), 0u) << "among few they are at hand";
  for (int i = 0; i < 2; i++) others.push_back(std::make_unique<hak_test::AttachedOwner>());
  EXPECT_GT(works(16 << 10), 0u);
  EXPECT_EQ(works(8 << 10), 0u) << "little memory, for the time that it takes";
  EXPECT_EQ(works(100 << 10), 0u) << "no block of a slab of several";
}

TEST(Travelling, ABatchIsMoreWhereBlocksPassInOneDirection) {
  const std::size_t both_ways = capacity_batch_bytes(1, false), one_way = capacity_batch_bytes(2, true);
  ASSERT_LT(both_ways, one_way);
  std::thread([=] {
    hak_free(hak_malloc(16)); /* there is a heap */
    magazine_t *m = &the_heap->magazines[kOf1024];
    m->gave = true;
    EXPECT_EQ(travel_batch_bytes(the_heap, kOf1024), both_ways) << "it does not travel";
    travel_begin(the_heap, kOf1024);
    ASSERT_EQ(the_heap->owner.slabs[kOf1024], 0u);
    EXPECT_EQ(travel_batch_bytes(the_heap, kOf1024), one_way) << "it only frees";
    m->missed = true;
    EXPECT_EQ(travel_batch_bytes(the_heap, kOf1024), both_ways);
    m->missed = m->gave = false;
    EXPECT_EQ(travel_batch_bytes(the_heap, kOf1024), one_way) << "none has come back: it only allocates";
    m->gave = true;
    void *own[2]; /* a slab has more */
    for (void *&block : own) block = hak_malloc(1024);
    ASSERT_NE(the_heap->owner.slabs[kOf1024], 0u) << "the test is void";
    m->missed = false;
    EXPECT_EQ(travel_batch_bytes(the_heap, kOf1024), both_ways);
    for (void *block : own) hak_free(block);
  }).join();
}

/* One of another's among the newest is enough, or that it is what the magazine has no room for. */
TEST(Travelling, WhoExchangesBlocksHoldsAFairBatch) {
  constexpr std::size_t kNewest = 16; /* LOOKS */
  hak_test::AttachedOwner other;
  std::vector<void *> others = other.refill(kOf1024, 2), own(200);
  for (int round = 0; round < 10; round++) { /* by which the magazine grows */
    for (void *&block : own) block = hak_malloc(1024);
    for (void *block : own) hak_free(block);
  }
  magazine_t *m = &the_heap->magazines[kOf1024];
  void *block = hak_malloc(1024);
  m->missed = true;
  travel_begin(the_heap, kOf1024);
  const std::size_t fair = capacity_when_sent(kOf1024, m->capacity, travel_batch_bytes(the_heap, kOf1024)),
                    full = capacity_when_full(kOf1024, m->capacity, true);
  ASSERT_LT(fair, full) << "the test is void";
  EXPECT_EQ(travel_capacity_when_full(the_heap, kOf1024, block), full);
  EXPECT_EQ(travel_capacity_when_full(the_heap, kOf1024, others[0]), fair);
  for (std::size_t i = 0; i <= kNewest; i++) own[i] = hak_malloc(1024); /* so that there is room */
  hak_free(others[0]);
  for (std::size_t i = 0; i < kNewest; i++) {
    EXPECT_EQ(travel_capacity_when_full(the_heap, kOf1024, block), fair) << i << " are newer";
    hak_free(own[i]);
  }
  EXPECT_EQ(travel_capacity_when_full(the_heap, kOf1024, block), full);
  for (void *left : {own[kNewest], others[1], block}) hak_free(left);
}

/* Blocks of 256 B to 16 KiB go in a circle: what all threads have together follows what is live, not how long
 * it goes on or who has which blocks by chance. */
TEST(Travelling, ThreadsThatExchangeBlocksNeedNoMoreAndMore) {
  constexpr unsigned kThreads = 4, kSlots = 256;
  std::vector<std::atomic<void *>> ring(kSlots);
  const auto go_round = [&](unsigned rounds) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; t++)
      threads.emplace_back([&, t] {
        hak_test::Random random(t + 1);
        for (unsigned i = 0; i < rounds; i++)
          hak_free(ring[random.below(kSlots)].exchange(hak_malloc(256u << random.below(7))));
      });
    for (std::thread &thread : threads) thread.join();
  };
  go_round(1000000);
  for (std::atomic<void *> &slot : ring) hak_free(slot.exchange(nullptr));
  /* Live are 256 * 5 KiB at the most; what four threads' magazines hold, and the depot, is as much again. */
  EXPECT_LE(arena_usage().peak, HAK_MIB(12));
  hak__check_all();
}

/* Four threads are the first of a class to put anything there, each class anew. */
TEST(Travelling, WhatManyPutFirstIsAllThere) {
  with_memory_and_nothing_there();
  constexpr unsigned kThreads = 4;
  constexpr std::size_t kBlocks = DEPOT_CRATES * CRATE_BLOCKS / kThreads / 2;
  std::atomic<unsigned> arrived{0};
  std::atomic<std::size_t> there[MID_CLASS_END] = {};
  auto work = [&] {
    std::vector<void *> blocks = numbers(kBlocks), taken(20);
    for (unsigned c = 0; c < MID_CLASS_END; c++) {
      arrived++;
      while (arrived.load() < kThreads * (c + 1)) std::this_thread::yield();
      for (std::size_t i = 0; i + 40 <= kBlocks; i += 40) {
        there[c] += depot_put(c, blocks.data() + i, 40);
        there[c] -= depot_take(c, taken.data(), taken.size()); /* any thread's */
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; t++) threads.emplace_back(work);
  for (std::thread &thread : threads) thread.join();
  ASSERT_GT(there[0].load(), 800u) << "the test is void";
  std::vector<void *> all(DEPOT_CRATES * CRATE_BLOCKS);
  for (unsigned c = 0; c < MID_CLASS_END; c++) EXPECT_EQ(depot_take(c, all.data(), all.size()), there[c].load());
}

/* Threads put and take at once, so that each comes into the middle of others' steps. */
TEST(Travelling, WhatIsPutIsTakenOnce) {
  with_memory_and_nothing_there();
  constexpr std::size_t kThreads = 4, kBlocks = 2000;
  std::atomic<std::size_t> turns{0};
  std::vector<std::thread> threads;
  std::vector<std::vector<void *>> had(kThreads);
  for (std::size_t t = 0; t < kThreads; t++) {
    had[t].resize(kBlocks);
    std::iota(reinterpret_cast<std::uintptr_t *>(had[t].data()),
              reinterpret_cast<std::uintptr_t *>(had[t].data() + kBlocks), t * kBlocks + 1);
    threads.emplace_back([&, t] {
      hak_test::Random random(t + 1);
      std::vector<void *> &mine = had[t];
      for (int i = 0; i < 20000; i++) {
        std::size_t some = std::min<std::size_t>(random.below(40), mine.size());
        mine.erase(mine.end() - static_cast<long>(some),
                   mine.end() - static_cast<long>(some) +
                       static_cast<long>(depot_put(kOf1024, mine.data() + mine.size() - some, some)));
        std::size_t at = mine.size();
        mine.resize(at + random.below(40));
        mine.resize(at + depot_take(kOf1024, mine.data() + at, mine.size() - at));
        turns++;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_GT(depot_count(kOf1024), 0u) << "the test is void";
  std::vector<void *> all(DEPOT_CRATES * CRATE_BLOCKS);
  all.resize(depot_take(kOf1024, all.data(), all.size()));
  for (const std::vector<void *> &mine : had) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), kThreads * kBlocks);
  EXPECT_EQ(std::set<void *>(all.begin(), all.end()).size(), kThreads * kBlocks) << "one is there twice";
}
