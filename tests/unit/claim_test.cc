/* Work on owners whose threads are elsewhere. SPDX-License-Identifier: MIT */
#include "filter.h"
#include "layers.h"
#include "support/payload.h"
#include "support/process.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include <unistd.h>

namespace {

using hak_test::AttachedOwner;
using hak_test::begin_under_a_filter;
using hak_test::kNoFilters;
using hak_test::tidy;
using hak_test::used_bytes;

constexpr unsigned kClass = 40;

/* Claims, as the pool does. */
bool claim(owner_t *owner) {
  gate_enter(&pool_gate);
  if (claim_begin(owner) == CLAIMED) return true;
  gate_leave(&pool_gate);
  return false;
}
void let_go(owner_t *owner) {
  claim_end(owner);
  gate_leave(&pool_gate);
}

/* A thread that is there and does nothing. */
class Sleeper {
 public:
  Sleeper() {
    while (id_ == 0) std::this_thread::yield();
  }
  ~Sleeper() {
    end_ = true;
    thread_.join();
  }
  std::uint32_t id() const { return id_; }

 private:
  std::atomic<std::uint32_t> id_{0};
  std::atomic<bool> end_{false};
  std::thread thread_{[this] {
    id_ = os_thread_id();
    while (!end_) usleep(1000);
  }};
};

class Claim : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(arena_ready());
    if (!os_fence_all_threads()) GTEST_SKIP() << "no membarrier here";
  }
  /* As if another thread had it. */
  void give_to_another_thread(owner_t *owner) const { owner->thread_id = sleeper.id(); }
  Sleeper sleeper;
  void TearDown() override {
    tidy_sweep(nullptr);
    arena_check();
    EXPECT_EQ(used_bytes(), 0u);
  }
  /* Frees as another thread does. */
  static void free_from_elsewhere(const std::vector<void *> &blocks) {
    AttachedOwner freer;
    for (void *block : blocks) remote_free(freer, block, map_lookup(block));
    remote_flush(freer);
  }
};

}  // namespace

TEST_F(Claim, WhatIsFreedForASleepingThreadGoesBack) {
  AttachedOwner owner;
  std::vector<void *> blocks = owner.refill(kClass, 30u * size_classes[kClass].capacity);
  give_to_another_thread(owner);
  free_from_elsewhere(blocks);
  EXPECT_GE(used_bytes(), 30 * std::size_t{UNIT_BYTES}) << "the test is void";
  tidy();
  EXPECT_EQ(used_bytes(), 0u);
  slab_check(owner);
}

TEST_F(Claim, ATrimReachesSleepingThreads) {
  AttachedOwner owner;
  std::vector<void *> blocks = owner.refill(kClass, 300u * size_classes[kClass].capacity);
  give_to_another_thread(owner);
  free_from_elsewhere(blocks);
  trim(0);
  EXPECT_EQ(used_bytes(), 0u);
  EXPECT_EQ(arena_usage().dirty, 0u);
}

TEST_F(Claim, PagesOfPartlyUsedSlabsOfASleepingThreadGoBack) {
  AttachedOwner owner;
  const std::size_t count = size_classes[kClass].capacity;
  std::vector<void *> blocks = owner.refill(kClass, count);
  for (void *block : blocks) std::memset(block, 1, size_classes[kClass].block_bytes);
  char *slab = map_address(hak_test::slab_of(blocks[0]));
  give_to_another_thread(owner);
  free_from_elsewhere({blocks.begin() + 1, blocks.end()});
  EXPECT_GE(hak_test::resident_pages(slab, UNIT_BYTES), 15u) << "the test is void";
  tidy();
  EXPECT_LE(hak_test::resident_pages(slab, UNIT_BYTES), 2u);
  free_from_elsewhere({blocks[0]});
  tidy();
}

/* It is at a batch boundary a few times a second, and so is never idle; what it can do there would take it a minute. */
TEST_F(Claim, AThreadThatComesSeldomIsHelped) {
  constexpr std::size_t kSlabs = 300;
  AttachedOwner owner;
  const std::size_t capacity = size_classes[kClass].capacity;
  std::vector<void *> blocks = owner.refill(kClass, kSlabs * capacity), kept, back;
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t i = 0; i < blocks.size(); i++) {
    std::memset(blocks[i], 1, size_classes[kClass].block_bytes);
    (i % capacity == 0 ? kept : back).push_back(blocks[i]);
  }
  owner.flush(kClass, back);
  std::uint64_t now_ms = os_now_ms();
  for (int i = 0; i < 2; i++) purge_idle(owner, now_ms += 1000, PURGE_STEP_CALLS);
  const int64_t before = owner->purged_bytes;
  ASSERT_TRUE(purge_wants_help(owner));
  give_to_another_thread(owner);
  owner->seen_activity = owner_activity(owner) - 1;
  while (tidy_some(now_ms, nullptr, nullptr) != TIDY_NOTHING) continue;
  EXPECT_FALSE(purge_wants_help(owner));
  EXPECT_GE(owner->purged_bytes - before, static_cast<int64_t>(kSlabs * UNIT_BYTES * 3 / 4));
  slab_check(owner);
  give_to_another_thread(owner);
  free_from_elsewhere(kept);
  tidy();
}

TEST_F(Claim, AThreadThatWorksIsLeftAlone) {
  AttachedOwner worker;
  std::vector<void *> blocks = worker.refill(kClass, 2u * size_classes[kClass].capacity);
  give_to_another_thread(worker);
  owner_enter(worker);
  EXPECT_FALSE(claim(worker));
  free_from_elsewhere(blocks);
  tidy();
  trim(0);
  EXPECT_GE(used_bytes(), 2 * std::size_t{UNIT_BYTES});
  owner_leave(worker);
  trim(0);
}

/* Whether somebody who looks after an owner for ten seconds, while blocks come back to it, is to come again. */
static bool is_to_come_again(owner_t *owner, std::uint64_t now_ms) {
  for (int i = 0; i < 100; i++) {
    now_ms += 100;
    while (tidy_some(now_ms, nullptr, nullptr) != TIDY_NOTHING) continue;
  }
  HAK_CHECK(remote_has_pending(owner));
  return tidy_is_to_come(now_ms);
}

/* As where a signal handler has jumped away. */
TEST_F(Claim, AThreadThatStaysInTheAllocatorKeepsNobodyAwake) {
  AttachedOwner worker;
  std::vector<void *> blocks = worker.refill(kClass, 2u * size_classes[kClass].capacity);
  give_to_another_thread(worker);
  owner_enter(worker);
  free_from_elsewhere(blocks);
  EXPECT_FALSE(is_to_come_again(worker, os_now_ms()));
  owner_leave(worker);
  trim(0);
}

/* Where it has to be seen asleep. */
TEST_F(Claim, AThreadThatRunsOnKeepsNobodyAwake) {
#if defined(HAK_TEST_NO_LIMITS)
  GTEST_SKIP() << "sanitizers and the emulator start no threads in a child";
#endif
  const auto outcome = hak_test::in_child([&] {
    AttachedOwner worker;
    std::vector<void *> blocks = worker.refill(kClass, 2u * size_classes[kClass].capacity);
    free_from_elsewhere(blocks);
    std::atomic<std::uint32_t> id{0};
    std::atomic<bool> end{false};
    std::thread spinner([&] {
      id = os_thread_id();
      while (!end) continue;
    });
    while (id == 0) std::this_thread::yield();
    worker->thread_id = id;
    const bool has_filter = begin_under_a_filter();
    const bool again = has_filter && is_to_come_again(worker, os_now_ms());
    end = true;
    spinner.join();
    return !has_filter ? (int)kNoFilters : again ? 1 : 0;
  });
  if (outcome.exited_with(kNoFilters)) GTEST_SKIP() << "no filter can be installed here";
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

/* The arena's gate may be held by the thread that waits for the end of the claim. */
TEST_F(Claim, SlabsThatBecomeEmptyWaitForItsEnd) {
  AttachedOwner owner;
  std::vector<void *> blocks = owner.refill(kClass, 5u * size_classes[kClass].capacity);
  give_to_another_thread(owner);
  free_from_elsewhere(blocks);
  const std::size_t before = used_bytes();
  ASSERT_TRUE(claim(owner));
  remote_collect(owner, SIZE_MAX);
  slab_release_empty(owner);
  EXPECT_EQ(used_bytes(), before);
  let_go(owner);
  EXPECT_EQ(used_bytes(), 0u);
}

/* Sections of many lengths. Returns how often another one was inside as well. */
static int contend(int claims, void (*between)(hak_test::Random &random)) {
  struct {
    std::atomic<bool> owner{false}, claimer{false};
  } inside;
  std::atomic<heap_t *> heap{nullptr};
  std::atomic<bool> end{false};
  std::atomic<int> both{0};
  std::thread thread([&] {
    hak_test::Random random(1);
    while (!end.load(std::memory_order_relaxed)) {
      heap_t *mine = thread_enter();
      heap.store(mine, std::memory_order_relaxed);
      inside.owner.store(true, std::memory_order_relaxed);
      for (std::size_t i = random.below(2) * random.below(500); i <= 500; i++)
        both += inside.claimer.load(std::memory_order_relaxed);
      inside.owner.store(false, std::memory_order_relaxed);
      thread_leave(mine);
      between(random);
    }
  });
  while (heap == nullptr) std::this_thread::yield();
  owner_t *owner = &heap.load()->owner;
  for (int had = 0; had < claims;) {
    if (!claim(owner)) {
      std::this_thread::yield(); /* the owner may be busy, and have no processor */
      continue;
    }
    had++;
    inside.claimer.store(true, std::memory_order_relaxed);
    for (int j = 0; j < 20; j++) both += inside.owner.load(std::memory_order_relaxed);
    inside.claimer.store(false, std::memory_order_relaxed);
    let_go(owner);
  }
  end = true;
  thread.join();
  return both;
}

/* As long as a membarrier takes, which is not the same on each machine at each moment. */
TEST_F(Claim, WhoHasClaimedIsAlone) {
  EXPECT_EQ(contend(2000,
                    [](hak_test::Random &random) {
                      for (volatile std::size_t i = random.below(500) << random.below(12); i > 0;) i = i - 1;
                    }),
            0);
}

/* The same where there is none, as under a container's filter: who waits is looked at. */
TEST_F(Claim, WhoHasClaimedAThreadThatWaitsIsAlone) {
#if defined(HAK_TEST_NO_LIMITS)
  GTEST_SKIP() << "sanitizers and the emulator start no threads in a child";
#endif
  if (!os_was_loaded()) GTEST_SKIP() << "a static program opens no files under a filter";
  const auto outcome = hak_test::in_child([] {
    if (!begin_under_a_filter()) return (int)kNoFilters;
    return contend(500,
                   [](hak_test::Random &random) {
                     if (random.below(2) == 0) usleep(static_cast<useconds_t>(random.below(60)));
                     for (volatile std::size_t i = random.below(500) << random.below(5); i > 0;) i = i - 1;
                   }) == 0
               ? 0
               : 1;
  });
  if (outcome.exited_with(kNoFilters)) GTEST_SKIP() << "no filter can be installed here";
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

/* One that does not run at all, unlike Sleeper. */
TEST_F(Claim, WhatASleepingThreadHasFreedOfOthersGoesHome) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  std::atomic<std::uint32_t> id{0};
  std::thread thread([&] {
    char byte;
    id = os_thread_id();
    EXPECT_EQ(read(pipe_ends[0], &byte, 1), 1);
  });
  while (id == 0) std::this_thread::yield();
  {
    AttachedOwner owner, freer;
    std::vector<void *> blocks = owner.refill(kClass, 4);
    for (void *block : blocks) remote_free(freer, block, map_lookup(block));
    ASSERT_EQ(freer->outbox_count, 1u) << "the test is void";
    freer->thread_id = id;
    for (int i = 0; i < 1000 && freer->outbox_count > 0; i++) tidy();
    EXPECT_EQ(freer->outbox_count, 0u);
    remote_collect(owner, SIZE_MAX);
    slab_release_empty(owner);
    EXPECT_EQ(used_bytes(), 0u);
  }
  EXPECT_EQ(write(pipe_ends[1], "", 1), 1);
  thread.join();
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

/* Frees of another's blocks that only add a bit to the outbox do not wait, and do not get in the way. */
TEST_F(Claim, ABitIsAddedToAnOutboxOnlyOutsideOfAClaim) {
  AttachedOwner owner, freer;
  std::vector<void *> blocks = owner.refill(1, 3);
  const std::uint32_t word = map_lookup(blocks[0]);
  remote_free(freer, blocks[0], word);
  ASSERT_TRUE(claim(freer));
  EXPECT_FALSE(remote_free_quickly(freer, blocks[1], word));
  gate_enter(&metadata_gate);
  remote_flush(freer); /* waits for no gate */
  gate_leave(&metadata_gate);
  EXPECT_EQ(freer->outbox_count, 0u);
  EXPECT_EQ(freer->parcel_count, 0u);
  let_go(freer);
  remote_free(freer, blocks[1], word);
  EXPECT_TRUE(remote_free_quickly(freer, blocks[2], word));
  EXPECT_EQ(atomic32_load_relaxed(&freer->busy), 0u) << "nobody could claim it any more";
  remote_flush(freer);
  remote_collect(owner, SIZE_MAX);
}

/* No bit is lost, and none sent twice. */
TEST_F(Claim, AnOutboxIsSentWhileItsThreadFrees) {
  constexpr int kRounds = 300, kBlocks = 60;
  AttachedOwner owner;
  std::atomic<heap_t *> heap{nullptr};
  std::atomic<std::vector<void *> *> given{nullptr};
  std::thread thread([&] {
    thread_leave(thread_enter());
    heap = the_heap;
    for (int round = 0; round < kRounds; round++) {
      std::vector<void *> *blocks;
      while ((blocks = given.exchange(nullptr)) == nullptr) std::this_thread::yield();
      for (void *block : *blocks) hak_free(block);
      delete blocks;
    }
    hak_thread_flush();
  });
  while (heap == nullptr) std::this_thread::yield();
  owner_t *freer = &heap.load()->owner;
  for (int round = 0; round < kRounds; round++) {
    given = new std::vector<void *>(owner.refill(1, kBlocks));
    while (given.load() != nullptr) {
      if (!claim(freer)) continue;
      remote_flush(freer);
      let_go(freer);
    }
    for (int i = 0; i < 20; i++) {
      if (!claim(freer)) continue;
      remote_flush(freer);
      let_go(freer);
    }
    remote_collect(owner, SIZE_MAX);
  }
  thread.join();
  remote_collect(owner, SIZE_MAX);
  slab_release_empty(owner);
  EXPECT_EQ(owner->free_bytes, 0) << "a slab is left, as a block is missing";
}

TEST_F(Claim, AThreadWaitsForTheEndOfAClaim) {
  std::atomic<heap_t *> heap{nullptr};
  std::atomic<int> stage{0};
  std::thread thread([&] {
    heap_t *mine = thread_enter();
    thread_leave(mine);
    heap = mine;
    while (stage != 1) std::this_thread::yield();
    thread_leave(thread_enter());
    stage = 2;
  });
  while (heap == nullptr) std::this_thread::yield();
  owner_t *owner = &heap.load()->owner;
  ASSERT_TRUE(claim(owner));
  EXPECT_FALSE(claim_is_awaited(owner));
  stage = 1;
  while (!claim_is_awaited(owner) && stage == 1) std::this_thread::yield();
  EXPECT_EQ(stage, 1) << "it did not wait";
  let_go(owner);
  thread.join();
  EXPECT_EQ(stage, 2);
}

/* A fork that did not wait for the gate copies a claim of a thread that the child does not have. */
TEST_F(Claim, AForkedChildLosesAnOwnerThatWasClaimed) {
  heap_t *heap = thread_enter();
  thread_leave(heap);
  hak_test::Outcome outcome = hak_test::in_child([&] {
    pool_before_fork(); /* there are no fork handlers in this program */
    lock_acquire(&heap->owner.claim);
    thread_after_fork();
    if (the_heap != heap) return 4; /* the claimer had not begun */
    lock_acquire(&heap->owner.claim);
    heap->owner.puts_aside = true;
    thread_after_fork();
    if (the_heap == heap || heap->owner.state != OWNER_LOST) return 1;
    heap_t *other = thread_enter();
    if (other == nullptr || other == heap) return 2;
    thread_leave(other);
    return heap->owner.state == OWNER_LOST ? 0 : 3;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}
