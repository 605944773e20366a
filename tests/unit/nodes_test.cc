/*
 * Machines with several nodes of memory: whose slabs a thread gets. A program of its own, in which
 * the system layer says what machine this is.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layers.h"
#include "support/process.h"

#include <front/flush.h>

#include <memory>
#include <thread>

namespace {

/* The machine, and where the calling thread runs. */
std::uint32_t nodes = 1;
thread_local std::uint32_t here = 0;
thread_local unsigned counts_asked = 0, places_asked = 0;

}  // namespace

/* Instead of src/os/nodes.c, which is not linked. */
extern "C" std::uint32_t os_node_count(void) {
  counts_asked++;
  return nodes;
}
extern "C" std::uint32_t os_node_here(void) {
  places_asked++;
  return here;
}

namespace {

using hak_test::AttachedOwner;
using hak_test::kMiB;
using hak_test::owner_of;
using hak_test::purge_dirty;
using hak_test::slab_of;
using hak_test::tidy;
using hak_test::used_bytes;

/* 64 blocks of 1 KiB in 64 KiB. */
constexpr unsigned kClass = 64;
const std::size_t kCapacity = size_classes[kClass].capacity;

class Nodes : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(arena_ready());
    { AttachedOwner first; } /* the first thread of a process is not asked where it runs */
    nodes = GetParam();
    other = nodes - 1;
  }
  void TearDown() override {
    hak__check_all();
    tidy_sweep(flush_step); /* threads leave each other some blocks */
    tidy_sweep(nullptr);
    hak__check_all();
    EXPECT_EQ(used_bytes(), 0u);
    EXPECT_EQ(pool_pooled_count(), pool_owner_count());
  }
  /* What threads leave that end on nodes from that one to that one: slabs, each with a block in use. */
  static std::vector<void *> leave(std::uint32_t from, std::uint32_t to, std::size_t slabs_each,
                                   unsigned size_class = kClass) {
    const std::size_t capacity = size_classes[size_class].capacity;
    std::vector<std::unique_ptr<AttachedOwner>> owners;
    std::vector<std::vector<void *>> blocks;
    for (here = from; here <= to; here++) {
      owners.push_back(std::make_unique<AttachedOwner>());
      blocks.push_back(owners.back()->refill(size_class, slabs_each * capacity));
    }
    std::vector<void *> kept;
    for (std::size_t i = 0; i < owners.size(); i++) {
      std::vector<void *> rest;
      for (std::size_t b = 0; b < blocks[i].size(); b++) (b % capacity == 0 ? kept : rest).push_back(blocks[i][b]);
      owners[i]->flush(size_class, rest);
    }
    return kept;
  }
  static std::vector<void *> leave(std::uint32_t node, std::size_t slabs) { return leave(node, node, slabs); }
  static void release(const std::vector<void *> &blocks) {
    AttachedOwner owner;
    for (void *block : blocks) remote_free(owner, block, map_lookup(block));
    remote_flush(owner);
  }
  std::uint32_t other; /* than the first */
};
INSTANTIATE_TEST_SUITE_P(Of, Nodes, testing::Values(2u, 4u), testing::PrintToStringParamName());

}  // namespace

TEST(OneNode, NobodyIsAskedWhereAThreadRuns) {
  ASSERT_EQ(pool_owner_count(), 0u) << "the test is void";
  {
    AttachedOwner only;
    only.flush(kClass, only.refill(kClass, 10 * kCapacity));
    EXPECT_EQ(counts_asked, 0u) << "a process with one thread asks what machine this is";
    AttachedOwner second;
    second.flush(kClass, second.refill(kClass, 10 * kCapacity));
    EXPECT_GT(counts_asked, 0u);
  }
  EXPECT_EQ(places_asked, 0u) << "where there is one node, threads run there";
}

TEST_P(Nodes, AThreadIsAskedWhereItRunsWhenItNeedsASlabAndNotElse) {
  here = other;
  AttachedOwner owner, second;
  auto blocks = owner.refill(kClass, 1);
  const unsigned before = places_asked;
  for (int i = 0; i < 1000; i++) owner.flush(kClass, owner.refill(kClass, 20));
  EXPECT_EQ(places_asked, before) << "for blocks of slabs that it has";
  auto more = owner.refill(kClass, 10 * kCapacity);
  EXPECT_GT(places_asked, before) << "the test is void";
  EXPECT_LE(places_asked, before + 10);
  owner.flush(kClass, more);
  owner.flush(kClass, blocks);
}

TEST_P(Nodes, AThreadThatStartsTakesAnOwnerOfItsNode) {
  here = 0;
  auto near = std::make_unique<AttachedOwner>();
  here = other;
  auto far = std::make_unique<AttachedOwner>();
  const owner_t *near_owner = *near, *far_owner = *far;
  ASSERT_NE(near_owner, far_owner);
  near.reset();
  far.reset(); /* pooled last */
  here = 0;
  AttachedOwner first;
  EXPECT_EQ(static_cast<owner_t *>(first), near_owner) << "the one that was pooled last, on another node";
  here = other;
  AttachedOwner second;
  EXPECT_EQ(static_cast<owner_t *>(second), far_owner);
}

TEST_P(Nodes, SlabsOfItsNodeAreTakenAndOthersAreNot) {
  auto far = leave(other, 1), near = leave(0, 1);
  here = 0;
  AttachedOwner owner;
  auto blocks = owner.refill(kClass, kCapacity - 1);
  for (void *block : blocks) EXPECT_EQ(slab_of(block), slab_of(near[0]));
  const std::size_t used = used_bytes();
  auto more = owner.refill(kClass, 1);
  EXPECT_NE(slab_of(more[0]), slab_of(far[0])) << "far memory, though there was no need";
  EXPECT_EQ(used_bytes(), used + UNIT_BYTES);
  here = other;
  AttachedOwner neighbour;
  auto its = neighbour.refill(kClass, 1);
  EXPECT_EQ(slab_of(its[0]), slab_of(far[0])) << "its slab waits for it";
  owner.flush(kClass, blocks);
  owner.flush(kClass, more);
  neighbour.flush(kClass, its);
  release(far);
  release(near);
}

/* Memory must not be as many times what is needed as there are nodes. */
TEST_P(Nodes, WhatLiesFreeElsewhereIsBounded) {
  constexpr std::size_t kSlabs = 32 * kMiB / UNIT_BYTES;
  auto kept = leave(1, other, kSlabs / (nodes - 1));
  const std::size_t used = used_bytes();
  ASSERT_GE(used, 31 * kMiB);
  here = 0;
  AttachedOwner owner;
  auto blocks = owner.refill(kClass, 31 * kMiB / size_classes[kClass].block_bytes);
  hak__check_all();
  EXPECT_LE(used_bytes(), used + used / 8 + 3 * kMiB) << "each node has all of it once more";
  EXPECT_GE(used_bytes(), used + 2 * kMiB) << "some is left alone";
  owner.flush(kClass, blocks);
  release(kept);
}

/* Whoever wants slabs of several classes in turn finds each of them, wherever they wait. */
TEST_P(Nodes, SoItIsWhereClassesLieApartAndAreWantedInTurn) {
  constexpr unsigned kClasses[] = {kClass - 4, kClass};
  constexpr std::size_t kSlabs = 16 * kMiB / UNIT_BYTES;
  std::vector<void *> kept[2] = {leave(1, 1, kSlabs, kClasses[1]), leave(other, other, kSlabs, kClasses[0])}, blocks[2];
  here = 0;
  AttachedOwner owner;
  const std::size_t used = used_bytes();
  for (std::size_t i = 0; i < kSlabs; i++)
    for (unsigned c = 0; c < 2; c++)
      for (void *block : owner.refill(kClasses[c], size_classes[kClasses[c]].capacity - 1)) blocks[c].push_back(block);
  EXPECT_LE(used_bytes(), used + used / 8 + 3 * kMiB);
  for (unsigned c = 0; c < 2; c++) owner.flush(kClasses[c], blocks[c]);
  release(kept[0]);
  release(kept[1]);
}

TEST_P(Nodes, SoAreOwners) {
  const auto threads = [](std::uint32_t node, std::size_t count) {
    here = node;
    std::vector<std::unique_ptr<AttachedOwner>> owners;
    for (std::size_t i = 0; i < count; i++) owners.push_back(std::make_unique<AttachedOwner>());
  };
  const std::uint32_t before = pool_owner_count();
  threads(0, 1);
  EXPECT_EQ(pool_owner_count(), before);
  threads(other, 4);
  EXPECT_EQ(pool_owner_count(), before + 4) << "a few are worth it";
  for (int round = 0; round < 3; round++)
    for (std::uint32_t node = 0; node < nodes; node++) threads(node, 100);
  EXPECT_LE(pool_owner_count(), before + 100 + 100 / 8 + 8) << "each node has as many as ever ran there";
}

TEST_P(Nodes, AThreadThatMovesTakesWhatWaitsThere) {
  auto far = leave(other, 1), near = leave(0, 1);
  here = 0;
  owner_t *its;
  {
    AttachedOwner owner;
    its = owner;
    EXPECT_EQ(atomic32_load_relaxed(&owner->node), 0u);
    here = other;
    auto blocks = owner.refill(kClass - 1, 1); /* nothing of it waits anywhere */
    EXPECT_EQ(atomic32_load_relaxed(&owner->node), other);
    owner.flush(kClass - 1, blocks);
    auto more = owner.refill(kClass, kCapacity);
    EXPECT_EQ(slab_of(more[0]), slab_of(near[0])) << "the slab that it has";
    EXPECT_EQ(slab_of(more.back()), slab_of(far[0])) << "it asks where it has been";
    owner.flush(kClass, more);
    hak__check_all();
  }
  hak__check_all();
  AttachedOwner next;
  EXPECT_EQ(static_cast<owner_t *>(next), its) << "it waits where it ended";
  release(far);
  release(near);
}

/* Threads that begin, move, and end while others look after what they leave; the walker compares pools and
 * records. */
TEST_P(Nodes, BooksAgreeWhateverMoves) {
  const auto live = [](std::uint64_t random) {
    const auto move = [&] {
      here = static_cast<std::uint32_t>((random = random * 6364136223846793005u + 1442695040888963407u) >> 33) % nodes;
    };
    std::vector<void *> blocks;
    for (int i = 0; i < 40; i++) {
      move();
      for (int j = 0; j < 60; j++) blocks.push_back(hak_malloc(static_cast<std::size_t>(i) * 97 + 1));
      if (i % 2 == 0) continue;
      for (; blocks.size() > 20; blocks.pop_back()) hak_free(blocks.back());
    }
    for (void *block : blocks) hak_free(block);
    pool_enter();
    pool_check();
    pool_leave();
  };
  const auto work = [&](std::uint64_t seed) {
    for (std::uint64_t life = 0; life < 100; life++) std::thread(live, seed * 1000 + life).join();
  };
  std::thread one(work, 1), two(work, 2);
  for (std::uint64_t now_ms = os_now_ms(), i = 0; i < 300; i++) {
    while (tidy_some(now_ms += 10, nullptr, nullptr) >= TIDY_MORE) {}
    std::this_thread::yield();
  }
  one.join();
  two.join();
  hak__check_all();
}

TEST_P(Nodes, SlabsOfAThreadThatSleepsWaitOnItsNode) {
  if (!os_fence_all_threads()) GTEST_SKIP() << "no membarrier here";
  here = other;
  AttachedOwner sleeping, witness;
  auto few = sleeping.refill(32, 3);
  pool_enter();
  pool_make_orphanage(sleeping);
  ASSERT_EQ(claim_begin(sleeping), CLAIMED);
  while (orphanage_disown(sleeping)) {}
  claim_end(sleeping);
  pool_leave();
  hak__check_all();
  ASSERT_NE(owner_of(few[0]), sleeping->id);
  here = 0;
  AttachedOwner far;
  auto blocks = far.refill(32, 1);
  EXPECT_NE(slab_of(blocks[0]), slab_of(few[0])) << "far memory, though there was no need";
  far.flush(32, blocks);
  here = other;
  AttachedOwner near;
  blocks = near.refill(32, 1);
  EXPECT_EQ(slab_of(blocks[0]), slab_of(few[0]));
  near.flush(32, blocks);
  near.flush(32, few);
}

TEST_P(Nodes, AllOfThemServeWhenMemoryIsShort) {
  auto far = leave(other, 4);
  here = 0;
  AttachedOwner owner;
  auto mine = owner.refill(kClass, 1);
  hak_test::Outcome outcome = hak_test::in_child([&] {
    purge_dirty();
    limit_set_hard(limit_charged());
    std::size_t got = 0;
    for (void *block; batch_refill(owner, kClass, &block, 1, nullptr) == 1;) got++;
    return got == kCapacity - 1 + 4 * (kCapacity - 1) ? 0 : 1;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe() << "no memory, and a node has it";
  owner.flush(kClass, mine);
  release(far);
}

TEST_P(Nodes, AForkedChildPoolsEachOwnerWhereItsThreadWas) {
  here = 0;
  AttachedOwner self;
  here = other;
  AttachedOwner idle;
  auto its = idle.refill(40, 1), far = leave(other, 1);
  here = 0;
  hak_test::Outcome outcome = hak_test::in_child([&] {
    idle->thread_id = 1; /* another thread's, which the child does not have */
    pool_before_fork();
    pool_after_fork(self);
    hak__check_all();
    if (idle->state != OWNER_POOLED) return 1;
    if (adopt(self, 40) || adopt(self, kClass)) return 2;
    here = other;
    if (!adopt(self, 40) || owner_of(its[0]) != self->id) return 3;
    if ((!adopt(self, kClass) && !adopt(self, kClass)) || owner_of(far[0]) != self->id) return 4;
    hak__check_all();
    return 0;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  idle.flush(40, its);
  release(far);
}

/* What has gone back to the system is on no node: it does not count as waiting elsewhere. */
TEST_P(Nodes, PagesThatHaveGoneDoNotCount) {
  constexpr std::size_t kSlabs = 16 * kMiB / UNIT_BYTES;
  auto far = leave(other, kSlabs);
  const std::uint64_t before = atomic64_load_relaxed(&tallies[TALLY_IDLE]);
  tidy();
  ASSERT_GT(atomic64_load_relaxed(&tallies[TALLY_IDLE]), before + 12 * kMiB) << "the test is void";
  hak__check_all();
  here = 0;
  AttachedOwner owner;
  auto blocks = owner.refill(kClass, kCapacity);
  for (void *block : blocks)
    for (void *theirs : far) ASSERT_NE(slab_of(block), slab_of(theirs)) << "less than 1 MiB waits there";
  owner.flush(kClass, blocks);
  release(far);
}
