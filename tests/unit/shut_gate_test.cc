/* Calls that find a gate shut, whose holder does not go on: what can be done without it is, and the
 * caller does not sleep. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/process.h"

#include <arena/dense.h>
#include <arena/dirty.h>
#include <arena/purging.h>
#include <arena/returns.h>
#include <arena/shelf.h>
#include <arena/unshelve.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include <sys/resource.h>

namespace {

using hak_test::purge_dirty;

/* Does it while another thread is behind the gate and stays there. Should the work wait for that
 * thread, it leaves after a while, and the test has failed. */
void behind_a_shut_gate(hak_gate_t &gate, const std::function<void()> &work) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_shut = false, is_done = false, was_awaited = false;
  std::thread holder([&] {
    gate_enter(&gate);
    std::unique_lock lock(mutex);
    is_shut = true;
    changed.notify_all();
    was_awaited = !changed.wait_for(lock, std::chrono::seconds(20), [&] { return is_done; });
    gate_leave(&gate);
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_shut; });
  }
  work();
  {
    std::unique_lock lock(mutex);
    is_done = true;
    changed.notify_all();
  }
  holder.join();
  EXPECT_FALSE(was_awaited) << "somebody slept at the gate";
}

constexpr uint64_t kAnHourMs = 3600 * 1000; /* later than whatever other tests have seen */
const unsigned kOneMiB = size_class_of(HAK_MIB(1)), kLongest = SIZE_CLASS_COUNT - 1;

class ShutGate : public hak_test::WithAnOwner {
 protected:
  hak_test::AttachedOwner others[SHELF_FEW_THREADS]; /* few threads put nothing on the shelf */
  void SetUp() override {
    WithAnOwner::SetUp();
    purge_dirty();
    ASSERT_EQ(shelf_units(), 0u);
  }
  void TearDown() override {
    purge_dirty();
    EXPECT_EQ(shelf_units(), 0u);
    WithAnOwner::TearDown();
  }
  /* A run of as many units as a block of that class has lies on the shelf, as a block of it. */
  unit_t shelve(unsigned size_class) {
    void *block = owner.refill(size_class, 1)[0];
    behind_a_shut_gate(arena_gate, [&] { owner.flush(size_class, {block}); });
    EXPECT_TRUE(word_is_shelved(map_lookup(block))) << "it is not on the shelf";
    return static_cast<unit_t>(map_unit_of(block));
  }
};

}  // namespace

TEST_F(ShutGate, WhatIsGivenBackIsTheArenasWhenItOpens) {
  const size_t used = arena_usage().used, dirty = arena_usage().dirty;
  std::vector<unit_t> runs;
  for (size_t units : {1, 2, 40, 3}) {
    runs.push_back(arena_take(ZONE_SMALL, units, 1, nullptr));
    ASSERT_NE(runs.back(), 0u);
  }
  behind_a_shut_gate(arena_gate, [&] {
    for (unit_t run : runs) arena_give(run, hak_test::record(run).run_units);
  });
  EXPECT_EQ(arena_usage().used, used);
  EXPECT_EQ(arena_usage().dirty - dirty, 46u * UNIT_BYTES);
  hak__check_all();
}

TEST_F(ShutGate, ARunThatReadsAsZeroDoesSoAfterwards) {
  bool is_zero = false;
  unit_t run = arena_take(ZONE_HUGE, 3, 1, &is_zero);
  std::memset(map_address(run), 1, 3 * UNIT_BYTES);
  ASSERT_TRUE(map_commit_again(map_address(run), 3 * UNIT_BYTES));
  const size_t dirty = arena_usage().dirty;
  behind_a_shut_gate(arena_gate, [&] { arena_give_clean(run, 3, 0); });
  EXPECT_EQ(arena_usage().dirty, dirty) << "it counts as dirty";
  hak__check_all();
}

/* As many as are never taken in at once. */
TEST_F(ShutGate, VeryManyAreTakenInByWhoeverLooks) {
  const size_t used = arena_usage().used;
  std::vector<unit_t> runs;
  for (int i = 0; i < 1000; i++) runs.push_back(arena_take(ZONE_SMALL, 1 + i % 3, 1, nullptr));
  behind_a_shut_gate(arena_gate, [&] {
    for (unit_t run : runs) arena_give(run, hak_test::record(run).run_units);
  });
  EXPECT_EQ(arena_usage().used, used);
  hak__check_all();
}

/* Put by several threads at once, and taken by whoever holds the gate. */
TEST_F(ShutGate, EachRunIsTakenOnce) {
  constexpr unsigned kThreads = 4, kRuns = 20000;
  const unit_t first = arena_take(ZONE_SMALL, kThreads * kRuns, 1, nullptr);
  ASSERT_NE(first, 0u);
  std::vector<unsigned char> seen(kThreads * kRuns);
  unsigned twice = 0;
  const auto take_all = [&] {
    gate_enter(&arena_gate);
    for (unit_t run; (run = returns_take()) != 0;) twice += seen[run - first]++ != 0;
    gate_leave(&arena_gate);
  };
  std::atomic<unsigned> busy{kThreads};
  std::vector<std::thread> threads;
  for (unsigned me = 0; me < kThreads; me++)
    threads.emplace_back([&, me] {
      for (unsigned i = 0; i < kRuns; i++) returns_put(first + i * kThreads + me, 1, false, 0);
      busy--;
    });
  while (busy > 0) take_all();
  for (auto &thread : threads) thread.join();
  take_all();
  EXPECT_EQ(twice, 0u);
  EXPECT_EQ(size_t(std::count(seen.begin(), seen.end(), 1)), seen.size()) << "some are lost";
  hak_test::record(first).run_units = kThreads * kRuns;
  arena_give(first, kThreads * kRuns);
}

/* Threads give runs back while others are behind the gate, again and again. */
TEST_F(ShutGate, NothingIsLostBetweenThreads) {
  constexpr int kThreads = 6, kSteps = 20000;
  const size_t used = arena_usage().used;
  std::atomic<unsigned> refused{0};
  std::vector<std::thread> threads;
  for (int me = 0; me < kThreads; me++)
    threads.emplace_back([&, me] {
      std::vector<unit_t> mine;
      for (int step = 0; step < kSteps; step++) {
        if (mine.size() < 8 && (step + me) % 3 != 0) {
          unit_t run = arena_take(ZONE_SMALL, 1 + unsigned(step) % 5, 1, nullptr);
          if (run == 0) refused++;
          else mine.push_back(run);
        } else if (!mine.empty()) {
          arena_give(mine.back(), hak_test::record(mine.back()).run_units);
          mine.pop_back();
        }
        if (step % 64 == me) { /* and sleeps there */
          gate_enter(&arena_gate);
          std::this_thread::yield();
          gate_leave(&arena_gate);
        }
      }
      for (unit_t run : mine) arena_give(run, hak_test::record(run).run_units);
    });
  for (auto &thread : threads) thread.join();
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(arena_usage().used, used);
  hak__check_all();
}

TEST_F(ShutGate, ALargeBlockIsFreedForWhoeverWantsOneNext) {
  const unit_t run = shelve(kOneMiB);
  const size_t takes = arena_usage().takes;
  behind_a_shut_gate(arena_gate, [&] {
    void *block = owner.refill(kOneMiB, 1)[0];
    EXPECT_EQ(map_unit_of(block), run);
    owner.flush(kOneMiB, {block});
  });
  EXPECT_EQ(arena_usage().takes, takes);
  hak__check_all();
}

TEST_F(ShutGate, AShorterOneIsCutFromALongerOne) {
  const unsigned shorter = size_class_of(HAK_KIB(192));
  const size_t wide = dense_wide_units();
  const unit_t run = shelve(kOneMiB);
  std::memset(map_address(run), 1, HAK_MIB(1));
  const size_t used = arena_usage().used;
  bool is_zero = true;
  void *block = nullptr;
  behind_a_shut_gate(arena_gate, [&] { block = slab_make_single(owner, shorter, &is_zero); });
  EXPECT_EQ(map_unit_of(block), run);
  EXPECT_FALSE(is_zero) << "the last one has written to it";
  EXPECT_EQ(map_lookup(block), word_make(owner->id, shorter));
  EXPECT_EQ(arena_usage().used - used, size_classes[shorter].block_bytes) << "the rest is in use";
  EXPECT_EQ(dense_wide_units() - wide, size_classes[shorter].slab_units);
  hak__check_all();
  owner.flush(shorter, {block});
  EXPECT_EQ(arena_usage().used, used);
  hak__check_all();
}

TEST_F(ShutGate, ASlabIsCutWhereItMayLie) {
  const unsigned of_8_units = size_class_of(UNIT_BYTES);
  ASSERT_EQ(size_classes[of_8_units].slab_units, 8u);
  for (int i = 0; i < 3; i++) { /* at different places in their SuperSlabs */
    const size_t wide = dense_wide_units();
    const unit_t spacer = arena_take(ZONE_SMALL, 3, 1, nullptr), run = shelve(kLongest);
    hak_test::write_words(spacer, 3, hak_test::kInUse);
    std::vector<void *> blocks(4);
    behind_a_shut_gate(arena_gate, [&] { blocks = owner.refill(of_8_units, blocks.size()); });
    const size_t slab = map_unit_of(blocks[0]) & ~size_t{7};
    EXPECT_GE(slab, run);
    EXPECT_LT(slab + 8, run + size_classes[kLongest].slab_units);
    EXPECT_EQ(dense_wide_units() - wide, size_classes[of_8_units].slab_units)
        << "the rest counts as a large block still";
    hak__check_all();
    owner.flush(of_8_units, blocks);
    slab_release_empty(owner);
    hak_test::write_words(spacer, 3, 0);
    arena_give(spacer, 3);
    purge_dirty();
  }
}

TEST_F(ShutGate, WhereNothingIsLongEnoughItIsAwaited) {
  const unit_t run = shelve(kOneMiB);
  std::atomic<bool> is_open{false};
  gate_enter(&arena_gate);
  std::thread taker([&] {
    void *block = owner.refill(kLongest, 1)[0];
    EXPECT_TRUE(is_open) << "it came from nowhere";
    owner.flush(kLongest, {block});
  });
  while ((atomic32_load_relaxed(&arena_gate.lock.state) & LOCK_CONTENDED) == 0) std::this_thread::yield();
  is_open = true;
  gate_leave(&arena_gate);
  taker.join();
  EXPECT_TRUE(word_is_shelved(atomic32_load_relaxed(map_word(run))));
}

#ifndef HAK_TEST_NO_LIMITS
/* A run of very many that were given back. */
TEST_F(ShutGate, WhereMemoryIsShortAllIsTakenIn) {
  constexpr size_t kRuns = 200;
  hak_test::Outcome outcome = hak_test::in_child([&] {
    const unit_t first = arena_take(ZONE_HUGE, kRuns, 1, nullptr);
    const size_t size = hak_test::status_kib("VmSize:") * 1024;
    const rlimit limit = {size, size};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    while (arena_take(ZONE_HUGE, 1, 1, nullptr) != 0) continue; /* all that there is, of both zones */
    for (unit_t run = first; run < first + kRuns; run++) returns_put(run, 1, false, 0);
    return arena_take(ZONE_HUGE, kRuns, 1, nullptr) == first ? 0 : 2;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << "2: it was not found; " << outcome.describe();
}
#endif

TEST_F(ShutGate, WhatCanBeDoneLaterIs) {
  unit_t run = arena_take(ZONE_SMALL, 320, 1, nullptr);
  arena_give(run, 320);
  behind_a_shut_gate(arena_gate, [&] {
    EXPECT_EQ(arena_tick(os_now_ms() + kAnHourMs), 0u);
    EXPECT_EQ(arena_relieve_now(100), 0u);
  });
  EXPECT_GT(arena_tick(os_now_ms() + kAnHourMs), 0u) << "there was nothing to do";
}

/* Each row of pages, and each run on the shelf, is a time through the gate. */
TEST_F(ShutGate, WhoPurgesAndUnshelvesLeavesTheRestToOthers) {
  const unit_t shelved = shelve(kOneMiB);
  arena_give(arena_take(ZONE_SMALL, 4, 1, nullptr), 4);
  ASSERT_GE(dirty_units(), 4u);
  const purging_order_t order = {PURGING_ALL, 100, 100, 0, nullptr, false, false, false};
  bool was_shut = false;
  behind_a_shut_gate(arena_gate, [&] {
    EXPECT_EQ(purging_do(&order, &was_shut), 0u);
    EXPECT_EQ(unshelve_some(SIZE_MAX, false), 0u);
  });
  EXPECT_TRUE(was_shut);
  EXPECT_TRUE(word_is_shelved(atomic32_load_relaxed(map_word(shelved))));
  EXPECT_GE(purging_do(&order, &was_shut), 4u << UNIT_SHIFT);
  EXPECT_FALSE(was_shut);
  EXPECT_GT(unshelve_some(SIZE_MAX, false), 0u);
}

TEST_F(ShutGate, BlocksAreLentAnotherTimeAndComeBackOutsideOfIt) {
  const unsigned c = 32;
  void *blocks[4];
  ASSERT_EQ(orphanage_lend(owner, c, blocks, 3), 3u);
  behind_a_shut_gate(pool_gate, [&] {
    EXPECT_EQ(orphanage_lend(owner, c, &blocks[3], 1), 0u);
    batch_flush(owner, c, blocks, 2);
  });
  void *again[2];
  ASSERT_EQ(orphanage_lend(owner, c, again, 2), 2u);
  EXPECT_EQ(again[0], blocks[0]) << "nobody has fetched them";
  EXPECT_EQ(again[1], blocks[1]);
  batch_flush(owner, c, again, 2);
  batch_flush(owner, c, &blocks[2], 1);
  hak_test::tidy();
}

/* Else each thread that comes by while the gate is shut takes as much anew. */
TEST_F(ShutGate, ItIsWorthWaitingWhereMuchLiesFree) {
  const unsigned c = 30;
  std::vector<void *> kept;
  {
    hak_test::AttachedOwner ended;
    auto blocks = ended.refill(c, HAK_MIB(24) / size_classes[c].block_bytes);
    std::vector<void *> freed;
    for (size_t i = 0; i < blocks.size(); i++) (i % size_classes[c].capacity == 0 ? kept : freed).push_back(blocks[i]);
    ended.flush(c, freed);
  }
  pool_enter();
  EXPECT_FALSE(adopt(owner, c)) << "by a signal handler in the middle of it";
  pool_leave();
  std::atomic<bool> is_shut{false};
  std::thread holder([&] {
    pool_enter();
    is_shut = true;
    usleep(10000); /* a tenth of what it waits for: this thread may wait for a processor, too */
    pool_leave();
  });
  while (!is_shut) usleep(1000);
  EXPECT_TRUE(adopt(owner, c)) << "it did not wait";
  holder.join();
  for (void *block : kept) remote_free_directly(block, map_lookup(block));
  remote_collect(owner, SIZE_MAX);
  hak_test::tidy();
}

/* A collector's, say, that has stopped all threads by a signal. */
TEST_F(ShutGate, NobodyWaitsForEverForWhatLiesFree) {
  const unsigned c = 30;
  std::vector<void *> kept, freed;
  {
    hak_test::AttachedOwner ended;
    auto blocks = ended.refill(c, HAK_MIB(48) / size_classes[c].block_bytes);
    for (size_t i = 0; i < blocks.size(); i++) (i % 2 == 0 ? kept : freed).push_back(blocks[i]);
    ended.flush(c, freed);
  }
  behind_a_shut_gate(pool_gate, [&] {
    for (int i = 0; i < 400; i++) EXPECT_FALSE(adopt(owner, c)); /* if each waited, more than 20 s */
  });
  EXPECT_TRUE(adopt(owner, c)) << "there was nothing to adopt";
  for (void *block : kept) remote_free_directly(block, map_lookup(block));
  remote_collect(owner, SIZE_MAX);
  hak_test::tidy();
}

/* Somebody sleeps at the gate from the moment on at which an owner is tidied. */
std::thread sleeper;
uint32_t its_id;
bool sleep_at_the_gate(owner_t *owner) {
  if (owner->id != its_id || sleeper.joinable()) return false;
  sleeper = std::thread([] {
    pool_enter();
    pool_leave();
  });
  while (!gate_is_awaited(&pool_gate)) usleep(100);
  return false;
}

TEST_F(ShutGate, WhoPurgesForOthersStopsWhereItIsAwaited) {
  const unsigned c = 30;
  const size_t slabs = 40, capacity = size_classes[c].capacity;
  std::vector<void *> kept;
  {
    hak_test::AttachedOwner ended;
    its_id = ended->id;
    auto blocks = ended.refill(c, slabs * capacity);
    std::vector<void *> freed;
    for (size_t i = 0; i < blocks.size(); i++) (i % capacity == 0 ? kept : freed).push_back(blocks[i]);
    ended.flush(c, freed);
  }
  uint64_t most = 0, all = 0;
  uint64_t now_ms = os_now_ms() + kAnHourMs;
  for (int call = 0; call < 200; call++) {
    const uint64_t before = atomic64_load_relaxed(&tallies[TALLY_IDLE]);
    tidy_some(now_ms += 100, sleep_at_the_gate, nullptr);
    if (sleeper.joinable()) sleeper.join();
    const uint64_t purged = atomic64_load_relaxed(&tallies[TALLY_IDLE]) - before;
    most = std::max(most, purged);
    all += purged;
  }
  EXPECT_GE(all, slabs * UNIT_BYTES / 2) << "there was nothing to do";
  EXPECT_LE(most, 8 * UNIT_BYTES) << "a call a slab, at least";
  while (adopt(owner, c)) continue;
  owner.flush(c, kept);
}

TEST_F(ShutGate, SlabsOfEndedThreadsAreLeftToOthers) {
  const unsigned c = 30;
  void *kept = nullptr;
  {
    hak_test::AttachedOwner ended;
    kept = ended.refill(c, 1)[0];
  }
  behind_a_shut_gate(pool_gate, [&] {
    EXPECT_FALSE(adopt(owner, c));
    EXPECT_EQ(tidy_some(os_now_ms() + 10000, nullptr, nullptr), TIDY_AWAITED);
  });
  EXPECT_TRUE(adopt(owner, c)) << "there was nothing to adopt";
  owner.flush(c, {kept});
}
