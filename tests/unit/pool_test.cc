/* Owners whose threads have ended, and what becomes of their slabs. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/process.h"

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using hak_test::AttachedOwner;
using hak_test::owner_of;
using hak_test::purge_dirty;
using hak_test::record;
using hak_test::slab_of;
using hak_test::tidy;

class Pool : public testing::Test {
 protected:
  void TearDown() override {
    tidy_sweep(nullptr);
    tidy_sweep(nullptr);
    arena_check();
    EXPECT_EQ(hak_test::used_bytes(), 0u);
    EXPECT_EQ(pool_pooled_count(), pool_owner_count()) << "an owner is neither a thread's nor in the pool";
  }
};

}  // namespace

TEST_F(Pool, AnEndedThreadsOwnerServesTheNextThread) {
  uint32_t made;
  {
    AttachedOwner first, second;
    made = pool_owner_count();
    EXPECT_NE(first->id, second->id);
    EXPECT_EQ(pool_pooled_count(), 0u);
    uint32_t id = second->id;
    second.detach();
    EXPECT_EQ(pool_pooled_count(), 1u);
    AttachedOwner third;
    EXPECT_EQ(third->id, id) << "pooled last, in the cache still";
    EXPECT_EQ(pool_owner_count(), made);
  }
  for (int i = 0; i < 1000; i++) AttachedOwner again;
  EXPECT_EQ(pool_owner_count(), made) << "each thread leaves a heap behind";
}

TEST_F(Pool, AnEndedThreadKeepsSlabsWithLiveBlocksAndSoonNoOthers) {
  AttachedOwner owner;
  auto blocks = owner.refill(20, 10);
  for (unsigned c : {1u, 64u, 70u, 100u}) owner.flush(c, owner.refill(c, 5));
  owner_t *id = owner;
  owner.detach();
  tidy(); /* a second later; before, the next thread would find all in place */
  EXPECT_EQ(hak_test::used_bytes(), size_t{UNIT_BYTES}) << "only the slab with blocks in use";
  EXPECT_EQ(owner_of(blocks[0]), id->id);
  AttachedOwner again;
  ASSERT_EQ(static_cast<owner_t *>(again), id);
  again.flush(20, blocks);
}

TEST_F(Pool, FewOwnersArePooledWithTheirEmptySlabs) {
  std::vector<std::unique_ptr<AttachedOwner>> owners;
  for (int i = 0; i < 40; i++) {
    owners.push_back(std::make_unique<AttachedOwner>());
    owners.back()->flush(20, owners.back()->refill(20, 5));
  }
  owners.clear();
  EXPECT_LE(hak_test::used_bytes(), 8u * UNIT_BYTES) << "each thread that ever lived keeps a slab";
}

TEST_F(Pool, WhatIsFreedForEndedThreadsGoesBackWhileOthersWork) {
  constexpr unsigned kOwners = 700, kClass = 40;
  const std::size_t blocks_each = 3u * size_classes[kClass].capacity;
  std::vector<void *> blocks;
  AttachedOwner alive;
  {
    std::vector<std::unique_ptr<AttachedOwner>> owners;
    for (unsigned i = 0; i < kOwners; i++) {
      owners.push_back(std::make_unique<AttachedOwner>());
      auto more = owners.back()->refill(kClass, blocks_each);
      blocks.insert(blocks.end(), more.begin(), more.end());
    }
  }
  for (void *block : blocks) remote_free(alive, block, map_lookup(block));
  remote_flush(alive);
  EXPECT_GE(hak_test::used_bytes(), kOwners * std::size_t{UNIT_BYTES}) << "the test is void";
  for (unsigned i = 0; i < kOwners / 64; i++) tidy();
  EXPECT_EQ(hak_test::used_bytes(), 0u);
}

/* A thread that has ended without a word, as some do in their last destructors. */
TEST_F(Pool, AThreadThatEndsWithoutAWordIsNoticed) {
  owner_t *forgotten = nullptr, *inside = nullptr;
  void *block = nullptr;
  std::thread([&] {
    forgotten = pool_attach();
    batch_refill(forgotten, 20, &block, 1, nullptr);
    inside = pool_attach();
    atomic32_store_relaxed(&inside->busy, 1);
  }).join();
  /* A join waits for the thread's last word to the process; for the system it ends a little later. */
  for (int i = 0; i < 1000 && os_thread_exists(forgotten->thread_id); i++) usleep(10000);
  {
    std::vector<std::unique_ptr<AttachedOwner>> owners;
    bool found = false;
    for (int i = 0; i < 10; i++) {
      owners.push_back(std::make_unique<AttachedOwner>());
      found |= *owners.back() == forgotten;
      ASSERT_NE(static_cast<owner_t *>(*owners.back()), inside) << "its thread ended in the middle of a change";
      for (int j = 0; j < i; j++) ASSERT_NE(static_cast<owner_t *>(*owners[static_cast<size_t>(j)]), *owners.back());
    }
    EXPECT_TRUE(found) << "its slabs are lost for good";
    remote_free(*owners[0], block, map_lookup(block));
  }
  atomic32_store_relaxed(&inside->busy, 0);
  pool_detach(inside);
}

TEST_F(Pool, AFreshSlabIsAdoptedRatherThanMade) {
  AttachedOwner leaving, staying;
  auto blocks = leaving.refill(20, 10);
  unit_t slab = slab_of(blocks[0]);
  owner_t *left = leaving;
  int64_t free_bytes = leaving->free_bytes, slab_bytes = leaving->slab_bytes;
  leaving.detach();
  size_t used = hak_test::used_bytes();
  auto more = staying.refill(20, 10);
  EXPECT_EQ(slab_of(more[0]), slab) << "fresh memory, with a slab of an ended thread at hand";
  EXPECT_EQ(hak_test::used_bytes(), used);
  EXPECT_EQ(owner_of(blocks[0]), staying->id) << "every unit's word says who owns it now";
  EXPECT_EQ(staying->free_bytes, free_bytes - 10 * int64_t{size_classes[20].block_bytes});
  EXPECT_EQ(staying->slab_bytes, slab_bytes);
  EXPECT_EQ(left->slab_bytes, 0);
  EXPECT_EQ(atomic64_load_relaxed(&staying->adoptions), 1u);
  slab_check(staying);
  for (void *block : blocks) more.push_back(block);
  staying.flush(20, more);
}

TEST_F(Pool, ASlabOfSeveralUnitsChangesHandsWhole) {
  const unsigned c = size_class_of(20000);
  ASSERT_GT(size_classes[c].slab_units, 1);
  AttachedOwner leaving, staying;
  auto blocks = leaving.refill(c, 3);
  leaving.detach();
  ASSERT_TRUE(adopt(staying, c));
  for (unsigned i = 0; i < size_classes[c].slab_units; i++)
    EXPECT_EQ(map_lookup(map_address(slab_of(blocks[0]) + i)), word_make(staying->id, c)) << "unit " << i;
  slab_check(staying);
  staying.flush(c, blocks);
}

TEST_F(Pool, ASlabWithoutABlockInUseChangesHands) {
  AttachedOwner leaving, staying;
  leaving.flush(20, leaving.refill(20, 3));
  leaving.detach();
  ASSERT_TRUE(adopt(staying, 20));
  slab_check(staying);
  staying.flush(20, staying.refill(20, 3));
  slab_check(staying);
}

TEST_F(Pool, AdoptionCollectsWhatWasFreedToThePooledOwner) {
  const unsigned c = size_class_of(2048);
  AttachedOwner leaving, staying;
  auto blocks = leaving.refill(c, size_classes[c].capacity);
  leaving.detach();
  EXPECT_FALSE(adopt(staying, c)) << "no free block in any pooled slab";
  remote_free(staying, blocks[0], map_lookup(blocks[0]));
  remote_flush(staying);
  EXPECT_TRUE(adopt(staying, c)) << "the block that came back is not seen";
  blocks.erase(blocks.begin());
  staying.flush(c, blocks);
}

TEST_F(Pool, NothingIsAdoptedThatIsNotThere) {
  AttachedOwner leaving, staying;
  auto other = leaving.refill(30, 1);
  auto lone = leaving.refill(size_class_of(HAK_MIB(1)), 1);
  EXPECT_FALSE(adopt(staying, 30)) << "its owner is at work";
  leaving.detach();
  EXPECT_FALSE(adopt(staying, 31));
  EXPECT_FALSE(adopt(staying, size_class_of(HAK_MIB(1))));
  EXPECT_TRUE(adopt(staying, 30));
  staying.flush(30, other);
  ASSERT_TRUE(slab_take_over_single(staying, slab_of(lone[0]), map_lookup(lone[0])));
  staying.flush(size_class_of(HAK_MIB(1)), lone);
}

/* One visit looks at a few pooled owners only; further visits look at the others. */
TEST_F(Pool, EveryPooledOwnerHasItsTurn) {
  constexpr int kOwners = 30;
  AttachedOwner staying;
  std::vector<void *> kept;
  {
    std::vector<std::unique_ptr<AttachedOwner>> owners;
    for (int i = 0; i < kOwners; i++) {
      owners.push_back(std::make_unique<AttachedOwner>());
      kept.push_back(owners.back()->refill(i == 0 || i == kOwners / 2 || i == kOwners - 1 ? 25 : 26, 1)[0]);
    }
  }
  int adopted = 0;
  for (int visit = 0; visit < 3 * kOwners; visit++) adopted += adopt(staying, 25);
  EXPECT_EQ(adopted, 3) << "an ended thread's slab is never reached";
  while (adopt(staying, 26)) adopted++;
  for (int visit = 0; visit < 3 * kOwners; visit++) adopted += adopt(staying, 26);
  EXPECT_EQ(adopted, kOwners);
  for (void *block : kept) staying.flush(word_kind(map_lookup(block)), {block});
}

/* Memory that ended threads have left is used up before the heap grows. */
TEST_F(Pool, WhateverLiesFreeInManyEndedThreadsSlabsIsFoundAtOnce) {
  constexpr unsigned kOwners = 40, kClasses = 35;
  AttachedOwner staying;
  std::vector<std::vector<void *>> kept(kClasses);
  {
    std::vector<std::unique_ptr<AttachedOwner>> owners;
    for (unsigned i = 0; i < kOwners; i++) {
      owners.push_back(std::make_unique<AttachedOwner>());
      for (unsigned c = 0; c < kClasses; c++)
        if ((i + c) % 4 != 0) kept[c].push_back(owners.back()->refill(20 + c, 1)[0]);
    }
  }
  for (unsigned c = 0, left = kClasses * kOwners * 3 / 4; left > 0; c = (c + 1) % kClasses) {
    ASSERT_EQ(adopt(staying, 20 + c), true) << left << " slabs are left, and none of class " << 20 + c << " is found";
    pool_enter();
    pool_check();
    pool_leave();
    left--;
  }
  for (unsigned c = 0; c < kClasses; c++) {
    EXPECT_FALSE(adopt(staying, 20 + c));
    staying.flush(20 + c, kept[c]);
  }
}

/* One that was looked at before threads took what lies above it, and others came. */
TEST_F(Pool, ASearchGoesOnWhenThreadsHaveComeAndGone) {
  AttachedOwner staying;
  std::vector<void *> kept;
  std::vector<std::unique_ptr<AttachedOwner>> owners;
  for (unsigned i = 0; i < 10; i++) {
    owners.push_back(std::make_unique<AttachedOwner>());
    kept.push_back(owners.back()->refill(25, 1)[0]);
  }
  for (auto &ended : owners) ended.reset(); /* in this order: a vector may clear itself in another */
  owners.clear();
  for (int i = 0; i < 3; i++) ASSERT_TRUE(adopt(staying, 25));
  for (int i = 0; i < 6; i++) owners.push_back(std::make_unique<AttachedOwner>());
  pool_enter();
  pool_check();
  pool_leave();
  for (int i = 0; i < 2; i++) owners.pop_back();
  std::vector<bool> is_threads;
  for (void *block : kept) is_threads.push_back(owner_by_id(owner_of(block))->state == OWNER_ATTACHED);
  int adopted = 3;
  while (adopt(staying, 25)) adopted++;
  for (std::size_t i = 0; i < kept.size(); i++)
    EXPECT_EQ(owner_of(kept[i]) == staying->id, !is_threads[i] || i >= kept.size() - 3)
        << (is_threads[i] ? "a slab was taken from an owner that a thread uses"
                          : "an ended thread's slab is not found");
  owners.clear();
  while (adopt(staying, 25)) adopted++;
  EXPECT_EQ(adopted, 10);
  staying.flush(25, kept);
}

/* An owner that is attached again is no longer visited. */
TEST_F(Pool, AnOwnerThatWasVisitedLastIsTakenOutOfTheVisits) {
  const unsigned c = size_class_of(2048);
  AttachedOwner staying;
  auto other = std::make_unique<AttachedOwner>(), leaving = std::make_unique<AttachedOwner>();
  other.reset(); /* so somebody waits all the time */
  auto blocks = leaving->refill(c, size_classes[c].capacity), more = leaving->refill(c, size_classes[c].capacity);
  leaving.reset();
  auto free_one = [&](std::vector<void *> &of) {
    remote_free(staying, of.back(), map_lookup(of.back()));
    of.pop_back();
    remote_flush(staying);
  };
  free_one(blocks);
  ASSERT_TRUE(adopt(staying, c)); /* the next visit starts at the same owner */
  AttachedOwner back;             /* whose owner it is */
  ASSERT_EQ(owner_of(more[0]), back->id);
  free_one(more);
  EXPECT_FALSE(adopt(staying, c)) << "a slab was taken from an owner that a thread uses";
  EXPECT_EQ(owner_of(more[0]), back->id);
  remote_collect(back, SIZE_MAX);
  back.flush(c, more);
  staying.flush(c, blocks);
}

TEST_F(Pool, ASweepGivesBackWhatWasFreedToEndedThreads) {
  AttachedOwner freer;
  std::vector<void *> blocks;
  for (int i = 0; i < 5; i++) {
    AttachedOwner leaving;
    for (void *block : leaving.refill(size_class_of(1500), 100)) blocks.push_back(block);
  }
  for (void *block : blocks) remote_free(freer, block, map_lookup(block));
  remote_flush(freer);
  EXPECT_GT(hak_test::used_bytes(), 0u);
  tidy_sweep(nullptr);
  EXPECT_EQ(hak_test::used_bytes(), 0u);
}

/* What a thread that sleeps has no use for. */
class Disowned : public Pool {
 protected:
  static constexpr unsigned kClass = 32; /* 512 bytes, whole cache lines */
  void SetUp() override {
    ASSERT_TRUE(arena_ready());
    if (!os_fence_all_threads()) GTEST_SKIP() << "no membarrier here";
  }
  /* As tidy_some does with the owner of a thread that sleeps. */
  static bool disown(owner_t *owner) {
    pool_enter();
    pool_make_orphanage(owner);
    const bool claimed = claim_begin(owner) == CLAIMED;
    EXPECT_TRUE(claimed);
    bool more = claimed;
    for (int i = 0; i < 1000 && more; i++) more = orphanage_disown(owner);
    if (claimed) claim_end(owner);
    pool_leave();
    return more;
  }
  const std::size_t capacity = size_classes[kClass].capacity;
};

TEST_F(Disowned, SlabsServeOtherThreadsIfFewOfTheirBlocksAreInUse) {
  AttachedOwner sleeping, other;
  auto full = sleeping.refill(kClass, capacity), few = sleeping.refill(kClass, capacity / 4);
  auto many = sleeping.refill(kClass + 4, size_classes[kClass + 4].capacity / 2);
  auto short_ones = sleeping.refill(3, 5);
  EXPECT_FALSE(disown(sleeping)) << "it would be looked at for ever";
  EXPECT_EQ(owner_of(short_ones[0]), sleeping->id) << "48 bytes: others would write to the same lines";
  slab_check(sleeping);
  EXPECT_EQ(owner_of(full[0]), sleeping->id);
  EXPECT_EQ(owner_of(many[0]), sleeping->id) << "most of its frees would be another's";
  EXPECT_NE(owner_of(few[0]), sleeping->id);
  auto blocks = other.refill(kClass, 1);
  EXPECT_EQ(slab_of(blocks[0]), slab_of(few[0])) << "others ask for fresh memory";
  EXPECT_EQ(owner_of(few[0]), other->id);
  /* It wakes up. Its own blocks are another's now. */
  for (void *block : few) remote_free(sleeping, block, map_lookup(block));
  remote_flush(sleeping);
  other.flush(kClass, blocks);
  remote_collect(other, SIZE_MAX);
  sleeping.flush(3, short_ones);
  sleeping.flush(kClass, full);
  sleeping.flush(kClass + 4, many);
  slab_check(sleeping);
  slab_check(other);
}

TEST_F(Disowned, SlabsComeBackToTheirThreadIfNobodyElseHasNeededThem) {
  AttachedOwner sleeping;
  auto few = sleeping.refill(kClass, 3);
  /* A free on its way, to a slab that changes hands. */
  AttachedOwner freer;
  remote_free(freer, few[2], map_lookup(few[2]));
  disown(sleeping);
  remote_flush(freer);
  auto more = sleeping.refill(kClass, capacity - 2);
  for (void *block : more) EXPECT_EQ(slab_of(block), slab_of(few[0])) << "the block that came back is missing";
  EXPECT_EQ(owner_of(few[0]), sleeping->id);
  sleeping.flush(kClass, {few[0], few[1]});
  sleeping.flush(kClass, more);
}

TEST_F(Disowned, WhatIsFreedThereIsTidiedUp) {
  AttachedOwner sleeping;
  auto few = sleeping.refill(kClass, 3);
  disown(sleeping);
  for (void *block : few) remote_free(sleeping, block, map_lookup(block));
  remote_flush(sleeping);
  EXPECT_EQ(hak_test::used_bytes(), size_t{UNIT_BYTES});
  tidy();
  EXPECT_EQ(hak_test::used_bytes(), 0u);
}

/* What a thread at work has not used for a while. */
class Spill : public Pool {
 protected:
  static constexpr unsigned kClass = 32, kOther = 40; /* 512 bytes, whole cache lines; 640 */
  static constexpr std::size_t kSlabs = 40;
  void SetUp() override { ASSERT_TRUE(arena_ready()); }
  void TearDown() override {
    working.detach();
    other.detach();
    more.clear();
    Pool::TearDown();
  }
  /* As a thread that frees at batch boundaries, for more than two rounds over all classes; `work` at each of them. */
  template <typename Work> static void go_on(owner_t *owner, Work work) {
    for (int i = 0; i < 300; i++) {
      work();
      owner_enter(owner);
      spill_some(owner);
      owner_leave(owner);
    }
  }
  /* So many slabs of a class, in each of which so many blocks are left in use. */
  static std::vector<void *> spread(AttachedOwner &owner, unsigned size_class, std::size_t left) {
    const std::size_t capacity = size_classes[size_class].capacity;
    auto blocks = owner.refill(size_class, capacity * kSlabs);
    std::map<unit_t, std::size_t> in_use;
    std::vector<void *> kept, freed;
    for (void *block : blocks) (in_use[slab_of(block)]++ < left ? kept : freed).push_back(block);
    owner.flush(size_class, freed);
    return kept;
  }
  static std::size_t slabs_of(owner_t *owner, const std::vector<void *> &blocks) {
    std::set<unit_t> slabs;
    for (void *block : blocks)
      if (owner_of(block) == owner->id) slabs.insert(slab_of(block));
    return slabs.size();
  }
  /* Some are another's by now. */
  static void free_all(AttachedOwner &owner, const std::vector<void *> &blocks) {
    for (void *block : blocks) remote_free_directly(block, map_lookup(block));
    remote_collect(owner, SIZE_MAX);
  }
  AttachedOwner working, other;
  std::list<AttachedOwner> more{SPILL_FEW_THREADS - 1}; /* so that they are not few */
};

TEST_F(Spill, WhatIsNotUsedServesAnotherThread) {
  auto kept = spread(working, kClass, 2);
  std::int64_t free_before = working->free_bytes;
  ASSERT_GT(free_before, 2 * std::int64_t{SPILL_LEAST_BYTES}) << "too little for this test";
  go_on(working, [&] { working.flush(kOther, working.refill(kOther, 5)); });
  slab_check(working);
  pool_enter();
  pool_check();
  pool_leave();
  EXPECT_LT(working->free_bytes, 2 * std::int64_t{SPILL_LEAST_BYTES}) << "all of it stays with the thread";
  EXPECT_GE(slabs_of(working, kept), 1u) << "the last one, too";
  const std::size_t used = hak_test::used_bytes();
  auto blocks = other.refill(kClass, size_classes[kClass].capacity * 10);
  EXPECT_EQ(hak_test::used_bytes(), used) << "fresh memory was taken";
  slab_check(other);
  other.flush(kClass, blocks);
  free_all(working, kept);
}

TEST_F(Spill, WhatIsUsedNowAndThenStays) {
  auto kept = spread(working, kClass, 2);
  go_on(working, [&] {
    working.flush(kClass, working.refill(kClass, 5));
    working.flush(kOther, working.refill(kOther, 5));
  });
  EXPECT_EQ(slabs_of(working, kept), kSlabs);
  free_all(working, kept);
}

TEST_F(Spill, ALittleStays) {
  auto kept = spread(working, kClass, 2);
  std::vector<void *> out; /* of which an eighth may lie free */
  while (working->free_bytes > std::int64_t{SPILL_LEAST_BYTES} + (working->slab_bytes - working->free_bytes) / 8) {
    auto more = working.refill(kOther, 1000);
    out.insert(out.end(), more.begin(), more.end());
  }
  go_on(working, [] {});
  EXPECT_EQ(slabs_of(working, kept), kSlabs);
  working.flush(kOther, out);
  free_all(working, kept);
}

TEST_F(Spill, SlabsThatAreMostlyUsedStay) {
  const std::size_t capacity = size_classes[kClass].capacity;
  auto most = spread(working, kClass, capacity * 3 / 5), few = spread(working, kOther, 20);
  go_on(working, [] {});
  EXPECT_EQ(slabs_of(working, most), kSlabs) << "most of its frees would be another's";
  EXPECT_LT(slabs_of(working, few), kSlabs);
  for (const auto *blocks : {&most, &few}) free_all(working, *blocks);
}

TEST_F(Spill, NotAmongAFewThreads) {
  auto kept = spread(working, kClass, 2);
  other.detach();
  go_on(working, [] {});
  EXPECT_EQ(slabs_of(working, kept), kSlabs);
  free_all(working, kept);
}

/* Slabs of the orphanage's, from which threads are served that have few blocks each. */
class Lent : public Pool {
 protected:
  static constexpr unsigned kClass = 32; /* 512 bytes */
  static std::vector<void *> lend(owner_t *owner, std::size_t count) {
    std::vector<void *> blocks(count);
    blocks.resize(orphanage_lend(owner, kClass, blocks.data(), count));
    std::reverse(blocks.begin(), blocks.end()); /* the lowest first */
    return blocks;
  }
  static void give_back(owner_t *owner, const std::vector<void *> &blocks) {
    batch_flush(owner, kClass, blocks.data(), blocks.size());
    error_settle();
  }
  const std::size_t capacity = size_classes[kClass].capacity;
};

TEST_F(Lent, ThreadsHaveNeighbouringBlocksAndNoSlabs) {
  AttachedOwner a, b;
  auto first = lend(a, 3), second = lend(b, 3);
  ASSERT_EQ(first.size() + second.size(), 6u);
  for (std::size_t i = 0; i < 6; i++)
    EXPECT_EQ(i < 3 ? first[i] : second[i - 3], static_cast<char *>(first[0]) + i * 512) << i;
  EXPECT_NE(owner_of(first[0]), a->id);
  EXPECT_TRUE(orphanage_has_id(b, owner_of(first[0])));
  EXPECT_FALSE(orphanage_has_id(b, a->id));
  EXPECT_FALSE(orphanage_has_id(b, 0)) << "what is nobody's";
  /* What one has given back serves the other, the lowest first. */
  give_back(a, {first[2], first[0]});
  auto third = lend(b, 3);
  ASSERT_EQ(third.size(), 3u);
  EXPECT_EQ(third[0], first[0]);
  EXPECT_EQ(third[1], first[2]);
  EXPECT_EQ(atomic64_load_relaxed(&the_map.remote_bits[slab_of(third[0])][0]), 0u) << "a table more in use";
  b.flush(kClass, third); /* as a magazine does */
  b.flush(kClass, second);
  give_back(a, {first[1]});
}

TEST_F(Lent, WhatEndedThreadsLeftComesFirstAndThenFreshSlabs) {
  AttachedOwner leaving, a;
  auto blocks = leaving.refill(kClass, 5);
  const unit_t slab = slab_of(blocks[0]);
  leaving.detach();
  auto lent = lend(a, capacity);
  EXPECT_EQ(lent.size(), capacity - 5);
  for (void *block : lent) EXPECT_EQ(slab_of(block), slab) << "fresh memory was taken";
  auto more = lend(a, 1);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_NE(slab_of(more[0]), slab);
  EXPECT_TRUE(orphanage_has_id(a, owner_of(more[0])));
  slab_check(a);
  give_back(a, lent);
  give_back(a, more);
  give_back(a, blocks);
}

/* How many blocks a thread gets that has no other memory. */
static std::size_t blocks_without_more_memory(owner_t *owner, unsigned size_class) {
  purge_dirty();
  limit_set_hard(limit_charged());
  std::size_t got = 0;
  for (void *block; batch_refill(owner, size_class, &block, 1, nullptr) == 1;) got++;
  return got;
}

/* Neither where the next visit would be, nor in a list of slabs with a free block until somebody looks. */
TEST_F(Pool, WhatWasFreedIntoEndedThreadsSlabsServesWhenMemoryIsShort) {
  constexpr unsigned kClass = 32;
  const std::size_t count = size_classes[kClass].capacity;
  AttachedOwner staying, first;
  auto blocks = first.refill(kClass, count);
  first.detach();
  std::vector<std::pair<std::unique_ptr<AttachedOwner>, std::vector<void *>>> others;
  for (int i = 0; i < 40; i++) {
    others.emplace_back(std::make_unique<AttachedOwner>(), std::vector<void *>());
    others.back().second = others.back().first->refill(20, 1);
  }
  for (auto &[owner, block] : others) owner->detach();
  std::vector<void *> freed(blocks.begin() + 1, blocks.end());
  staying.flush(kClass, freed);
  remote_flush(staying);
  auto outcome = hak_test::in_child([&] { return blocks_without_more_memory(staying, kClass) == count - 1 ? 0 : 1; });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe() << ": no memory, and an ended thread has it";
  staying.flush(kClass, {blocks[0]});
  for (auto &[owner, block] : others) staying.flush(20, block);
}

/* A signal handler that allocates though it may not, as programs do: where its thread was behind the pool's
 * gate it would wait for itself, and there is nothing worth that. */
TEST_F(Pool, WhoHasInterruptedItselfThereGetsNothingWhenMemoryIsShort) {
  AttachedOwner owner;
  auto outcome = hak_test::in_child([&] {
    arena_purge_for(TALLY_TRIMMED, 0);
    limit_set_hard(limit_charged());
    pool_enter();
    void *block;
    const bool got = batch_refill(owner, 32, &block, 1, nullptr) == 1;
    pool_leave();
    return got ? 1 : 0;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

TEST_F(Lent, AThreadAdoptsWhateverIsFreeWhenMemoryIsShort) {
  AttachedOwner a, busy;
  auto lent = lend(a, capacity);
  ASSERT_EQ(lent.size(), capacity);
  give_back(a, {lent[3], lent[7]});
  auto outcome = hak_test::in_child([&] { return blocks_without_more_memory(busy, kClass) == 2 ? 0 : 1; });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe() << ": no memory, and what is lent from has it";
  for (std::size_t i = 0; i < capacity; i++)
    if (i != 3 && i != 7) give_back(a, {lent[i]});
}

TEST_F(Lent, AThreadAdoptsOnlyWhatIsHalfFree) {
  AttachedOwner a, busy;
  auto lent = lend(a, capacity / 2 + 1);
  auto own = busy.refill(kClass, 1);
  EXPECT_NE(slab_of(own[0]), slab_of(lent[0])) << "most frees in it would be another's";
  busy.flush(kClass, own);
  slab_release_empty(busy);
  give_back(a, {lent.begin() + 5, lent.end()});
  own = busy.refill(kClass, 1);
  EXPECT_EQ(slab_of(own[0]), slab_of(lent[0]));
  EXPECT_EQ(owner_of(lent[0]), busy->id);
  /* Blocks that were lent are that thread's now. */
  lent.resize(5);
  give_back(a, lent);
  remote_collect(busy, SIZE_MAX);
  busy.flush(kClass, own);
}

TEST_F(Lent, WhoClaimsAnOwnerGivesItsBlocksBackAtOnce) {
  if (!os_fence_all_threads()) GTEST_SKIP() << "no membarrier here";
  AttachedOwner sleeping;
  auto lent = lend(sleeping, 4);
  const unit_t slab = slab_of(lent[0]);
  pool_enter();
  ASSERT_EQ(claim_begin(sleeping), CLAIMED);
  batch_flush(sleeping, kClass, lent.data(), 3);
  EXPECT_EQ(record(slab).slab.free_count, capacity - 1) << "they wait for somebody to collect them";
  claim_end(sleeping);
  pool_leave();
  give_back(sleeping, {lent[3]});
}

TEST_F(Lent, WhoClaimsAnOwnerPutsEmptySlabsAside) {
  if (!os_fence_all_threads()) GTEST_SKIP() << "no membarrier here";
  AttachedOwner sleeping;
  std::vector<void *> lent;
  for (std::size_t slabs = 0; slabs < 40; slabs++)
    for (void *block : lend(sleeping, capacity)) lent.push_back(block);
  pool_enter();
  ASSERT_EQ(claim_begin(sleeping), CLAIMED);
  batch_flush(sleeping, kClass, lent.data(), lent.size());
  EXPECT_NE(sleeping->put_aside, 0u) << "a claimer waited for the arena";
  claim_end(sleeping);
  pool_check();
  pool_leave();
  EXPECT_EQ(sleeping->put_aside, 0u);
  hak_test::tidy();
  EXPECT_EQ(hak_test::used_bytes(), 0u);
}

TEST_F(Lent, AChildGoesOnWithoutSlabsThatWereInUseJustThen) {
  AttachedOwner a;
  auto lent = lend(a, 4);
  owner_t *lender = owner_by_id(owner_of(lent[0]));
  hak_test::Outcome outcome = hak_test::in_child([&] {
    pool_before_fork();
    owner_enter(lender); /* as whoever was at work there */
    pool_after_fork(a);
    give_back(a, {lent[0]}); /* stays out of use */
    auto more = lend(a, 1);
    if (more.size() != 1 || slab_of(more[0]) == slab_of(lent[0])) return 1;
    give_back(a, more);
    return orphanage_has_id(a, lender->id) ? 2 : 0;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  give_back(a, lent);
}

TEST_F(Lent, MistakesAreReported) {
  AttachedOwner a;
  auto lent = lend(a, 2);
  EXPECT_DEATH(give_back(a, {lent[0], lent[0]}), "double free of .*512 bytes");
  EXPECT_DEATH(give_back(a, {static_cast<char *>(lent[0]) + 16}), "interior pointer");
  give_back(a, lent);
}

TEST_F(Disowned, NoThreadEverGetsTheOwnerOfSuchSlabs) {
  AttachedOwner sleeping;
  auto few = sleeping.refill(kClass, 3);
  disown(sleeping);
  const std::uint32_t keeper = owner_of(few[0]);
  const auto attach_some = [&] {
    std::vector<std::unique_ptr<AttachedOwner>> owners;
    for (uint32_t i = 0, made = pool_owner_count(); i < made; i++) {
      owners.push_back(std::make_unique<AttachedOwner>());
      if ((*owners.back())->id == keeper) return false;
    }
    return true;
  };
  EXPECT_TRUE(attach_some());
  hak_test::Outcome outcome = hak_test::in_child([&] {
    pool_before_fork();
    pool_after_fork(sleeping);
    if (!attach_some()) return 1;
    if (!adopt(sleeping, kClass)) return 2;
    return owner_of(few[0]) == sleeping->id ? 0 : 3;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  for (void *block : few) remote_free(sleeping, block, map_lookup(block));
}

TEST_F(Pool, AForkedChildPoolsThoseWhoWereIdleAndLosesThoseWhoWereNot) {
  AttachedOwner self, idle, working, waiting, visited;
  auto idle_blocks = idle.refill(20, 1), working_blocks = working.refill(21, 1);
  auto waiting_blocks = waiting.refill(22, 1), visited_blocks = visited.refill(23, 1);
  hak_test::Outcome outcome = hak_test::in_child([&] {
    /* Other threads', which the child does not have. */
    idle->thread_id = working->thread_id = 1;
    atomic32_store_relaxed(&working->busy, 1);
    owner_t *was_waiting = waiting, *was_visited = visited;
    waiting.detach();
    visited.detach();
    atomic32_store_relaxed(&was_visited->busy, 1); /* by a thread that held the gate, in a fork that missed it */
    pool_before_fork();
    pool_after_fork(self);
    if (adopt(self, 24)) return 1;
    if (self->state != OWNER_ATTACHED) return 2;
    if (idle->state != OWNER_POOLED) return 3;
    if (working->state != OWNER_LOST) return 4;
    if (was_waiting->state != OWNER_POOLED) return 5;
    if (was_visited->state != OWNER_LOST) return 6;
    if (pool_pooled_count() != 2) return 7;
    if (!adopt(self, 20)) return 8;
    if (!adopt(self, 22) && !adopt(self, 22)) return 8; /* a visit ends where the stack does */
    if (adopt(self, 21) || adopt(self, 23)) return 9;
    AttachedOwner next;
    return next->id == idle->id || next->id == was_waiting->id ? 0 : 10;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  idle.flush(20, idle_blocks);
  working.flush(21, working_blocks);
  waiting.flush(22, waiting_blocks);
  visited.flush(23, visited_blocks);
}

/* What a thread does between entering and leaving is marked, and a child believes the mark. */
TEST_F(Pool, AForkedChildLosesTheOwnerOfAThreadThatIsInside) {
  std::atomic<owner_t *> inside{nullptr}, outside{nullptr};
  std::atomic<bool> end{false};
  std::thread busy([&] {
    heap_t *heap = thread_enter();
    inside = &heap->owner;
    while (!end) std::this_thread::yield();
    thread_leave(heap);
  });
  std::thread idle([&] {
    heap_t *heap = thread_enter();
    thread_leave(heap);
    outside = &heap->owner;
    while (!end) std::this_thread::yield();
  });
  while (inside == nullptr || outside == nullptr) std::this_thread::yield();
  hak_test::Outcome outcome = hak_test::in_child([&] {
    pool_before_fork(); /* there are no fork handlers in this program */
    pool_after_fork(nullptr);
    pool_settle();
    return inside.load()->state == OWNER_LOST && outside.load()->state == OWNER_POOLED ? 0 : 1;
  });
  end = true;
  busy.join();
  idle.join();
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

/* A signal handler forks while its thread is about to get its first heap: the handler
 * does not know the owner, but the thread goes on and uses it. */
TEST_F(Pool, AForkedChildKeepsTheOwnerThatItsThreadHasJustAttached) {
  AttachedOwner fresh;
  auto blocks = fresh.refill(20, 1);
  pool_before_fork();
  hak_test::Outcome outcome = hak_test::in_child([&] {
    pool_after_fork(nullptr);
    AttachedOwner next;
    if (next->id == fresh->id) return 1;
    return fresh->state == OWNER_ATTACHED ? 0 : 2;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  fresh.flush(20, blocks);
}

namespace {
/* What comes in between where a process is asked for its number: a signal handler, say. Once. */
void (*comes_between)();
}  // namespace
extern "C" pid_t getpid() noexcept(noexcept(::getpid())) { /* as the C library has it */
  if (auto *comes = comes_between; comes != nullptr) comes_between = nullptr, comes();
  return static_cast<pid_t>(syscall(SYS_getpid));
}

/* The owner has the child's numbers by then, or one of them. */
TEST_F(Pool, AForkedChildKeepsTheOwnerThatItsThreadWasJustAttaching) {
  hak_test::Outcome outcome = hak_test::in_child([] {
    comes_between = [] {
      pool_before_fork();
      const pid_t child = fork();
      int status = -1;
      if (child != 0) _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
      pool_after_fork(nullptr);
    };
    AttachedOwner fresh;
    if (comes_between != nullptr) return 2; /* it was not asked for */
    pool_before_fork();                     /* and another handler forks before the thread has what it attached */
    pool_after_fork(nullptr);
    pool_settle();
    if (fresh->state != OWNER_ATTACHED) return 3;
    AttachedOwner next;
    return next->id == fresh->id ? 4 : 0;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

/* Who wants the pool would wait for as long as a purge takes. */
TEST_F(Lent, NobodyWaitsForTheArenaBehindThePoolsGate) {
  AttachedOwner a;
  auto blocks = lend(a, capacity - 1), last = lend(a, 1);
  give_back(a, blocks);
  owner_t *orphanage = pool_orphanage(a);
  size_t keep = 0;
  pool_enter();
  owner_enter(orphanage);
  purge_pages(orphanage, &keep);
  owner_leave(orphanage);
  pool_leave();
  ASSERT_GT(orphanage->purged_bytes, 0);
  limit_set_hard(limit_charged());
  gate_enter(&arena_gate);
  std::vector<void *> got;
  std::thread taker([&] { got = lend(a, 1); });
  os_sleep(200);
  const bool is_open = pool_enter_soon();
  if (is_open) pool_leave();
  gate_leave(&arena_gate);
  taker.join();
  EXPECT_TRUE(is_open);
  limit_set_hard(0);
  give_back(a, got);
  give_back(a, last);
}
