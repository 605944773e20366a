/*
 * Heaps of the program's own, as hakmem.h declares them, and malloc's functions with their blocks.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/surface.h"
#include "support/payload.h"
#include "support/worker.h"

#include <hakmem.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <set>
#include <thread>
#include <vector>

namespace {

using hak_test::Worker;

constexpr std::size_t kBlockSizes[] = {0, 1, 16, 100, 1000, 1024, 1025, 5000, 65536, 65537, 300000, 3 << 20, 10 << 20};

hak_heap_stats_t stats_of(const hak_heap_t *heap) {
  hak_heap_stats_t now;
  hak_heap_stats(heap, &now, sizeof now);
  EXPECT_EQ(now.live + now.cached + now.free, now.taken);
  return now;
}
hak_stats_t checked_stats() {
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  EXPECT_EQ(now.live + now.cached + now.outboxes + now.free_in_slabs,
            now.slab_bytes + now.large_bytes + now.huge_bytes);
  EXPECT_EQ(now.slab_bytes + now.slab_tails + now.large_bytes + now.huge_bytes + now.dirty_free + now.clean_free,
            now.committed);
  return now;
}

class Heaps : public BothSurfaces {
 protected:
  void SetUp() override { ASSERT_NE(heap, nullptr); }
  void TearDown() override { hak_heap_destroy(heap); }
  hak_heap_t *heap = hak_heap_new(0);
};
FOR_BOTH_SURFACES(Heaps);

}  // namespace

TEST_P(Heaps, AnyFreeTakesABlockOfAHeap) {
  for (std::size_t bytes : kBlockSizes) {
    auto make = [&] {
      void *block = hak_heap_malloc(heap, bytes);
      EXPECT_NE(block, nullptr);
      EXPECT_GE(s.usable(block), bytes);
      hak_test::stamp(block, s.usable(block), 1);
      return block;
    };
    std::size_t live = stats_of(heap).live;
    errno = 77;
    s.free(make());
    hak_heap_free(heap, make());
    s.free_sized(make(), bytes);
    operator delete(make());
    void *aligned = hak_heap_aligned_alloc(heap, 64, bytes);
    EXPECT_TRUE(aligned_to(aligned, 64));
    s.free_aligned_sized(aligned, 64, bytes);
    EXPECT_EQ(errno, 77);
    EXPECT_EQ(stats_of(heap).live, live) << bytes << " bytes: a block was not given back, or twice";
  }
  s.free(nullptr);
  hak_heap_free(heap, nullptr);
  hak_heap_free(nullptr, nullptr);
}

/* There are 65 534 at once. */
TEST_P(Heaps, AnyFreeFindsTheHeapAmongVeryMany) {
  std::vector<hak_heap_t *> heaps;
  for (int i = 0; i < 33000; i++) heaps.push_back(hak_heap_new(0));
  for (hak_heap_t *each : heaps) ASSERT_NE(each, nullptr);
  std::vector<void *> blocks;
  for (hak_heap_t *each : heaps) blocks.push_back(hak_heap_malloc(each, 100));
  for (std::size_t i = heaps.size() - 200; i < heaps.size(); i++) {
    s.free(blocks[i]);
    EXPECT_EQ(stats_of(heaps[i]).live, 0u) << i;
    EXPECT_EQ(hak_heap_malloc(heaps[i], 100), blocks[i]) << i;
  }
  for (std::size_t i = 0; i < heaps.size(); i++) ASSERT_TRUE(hak_heap_owns(heaps[i], blocks[i])) << i;
  Worker other;
  other.run([&] {
    for (void *block : blocks) s.free(block);
  });
  for (hak_heap_t *each : heaps) hak_heap_destroy(each);
}

TEST_P(Heaps, ReallocLeavesABlockInItsHeap) {
  void *block = hak_heap_malloc(heap, 8);
  std::memcpy(block, "contents", 8);
  for (std::size_t bytes : {20, 3000, 100000, 60000, 5 << 20, 30 << 20, 1 << 20, 100, 8}) {
    block = bytes % 3 == 0 ? hak_heap_realloc(heap, block, bytes) : s.realloc(block, bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(hak_heap_owns(heap, block));
    EXPECT_TRUE(hak_owns(block));
    EXPECT_EQ(std::memcmp(block, "contents", 8), 0);
    EXPECT_GE(s.usable(block), bytes);
  }
  EXPECT_EQ(s.realloc(block, 0), nullptr);
  block = hak_heap_realloc(heap, nullptr, 50);
  EXPECT_TRUE(hak_heap_owns(heap, block));
  EXPECT_EQ(hak_heap_realloc(heap, block, 0), nullptr);
  EXPECT_EQ(stats_of(heap).live, 0u);
}

/* What has been freed of them, whoever trims; not what lies beside a live block. */
TEST_P(Heaps, ATrimGivesBackWhatIsFree) {
  hak_heap_t *other = hak_heap_new(0);
  void *live = hak_heap_malloc(other, 100);
  for (hak_heap_t *of : {heap, other}) {
    std::vector<void *> blocks;
    for (std::size_t bytes : kBlockSizes)
      for (int i = 0; i < 50; i++) blocks.push_back(hak_heap_malloc(of, bytes));
    for (void *block : blocks) s.free(block);
  }
  hak_thread_flush();
  EXPECT_GT(stats_of(heap).taken, 0u) << "there is nothing to trim";
  std::thread([] { hak_trim(0); }).join();
  EXPECT_EQ(stats_of(heap).taken, 0u);
  EXPECT_LE(stats_of(other).taken, 32 * 65536u) << "one run, in which the live block lies";
  EXPECT_GE(stats_of(other).live, 100u);
  void *again = hak_heap_malloc(heap, 100);
  EXPECT_TRUE(hak_heap_owns(heap, again));
  s.free(again);
  s.free(live);
  hak_heap_destroy(other);
}

TEST_P(Heaps, CallocIsZeroWhateverLayThere) {
  for (int round = 0; round < 3; round++)
    for (std::size_t bytes : kBlockSizes) {
      auto *block = static_cast<unsigned char *>(hak_heap_calloc(heap, 1, bytes));
      ASSERT_NE(block, nullptr);
      for (std::size_t i = 0; i < bytes; i += i < 5000 ? 1 : 61) ASSERT_EQ(block[i], 0) << i << " of " << bytes;
      std::memset(block, 0xa5, s.usable(block));
      s.free(block);
    }
}

TEST_P(Heaps, WhatCannotBeHadIsRefused) {
  errno = 0;
  EXPECT_EQ(hak_heap_malloc(heap, hak_test::opaque(reinterpret_cast<char *>(SIZE_MAX)) - static_cast<char *>(nullptr)),
            nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(hak_heap_calloc(heap, SIZE_MAX / 2, 4), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(hak_heap_aligned_alloc(heap, 48, 100), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(hak_heap_aligned_alloc(heap, SIZE_MAX / 2 + 1, 100), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  void *block = hak_heap_malloc(heap, 100);
  errno = 0;
  EXPECT_EQ(s.realloc(block, PTRDIFF_MAX - 1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  s.free(block);
}

TEST_P(Heaps, HoldToTheirLimits) {
  hak_heap_t *small = hak_heap_new(300 << 10); /* four units */
  std::vector<void *> blocks;
  errno = 0;
  while (void *block = hak_heap_malloc(small, 1000)) blocks.push_back(block);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(stats_of(small).limit, std::size_t{300 << 10});
  EXPECT_EQ(stats_of(small).taken, std::size_t{256 << 10});
  EXPECT_EQ(stats_of(small).peak_taken, std::size_t{256 << 10});
  EXPECT_EQ(stats_of(small).refused, 1u);
  EXPECT_EQ(blocks.size(), 4u * ((64 << 10) / 1008));
  errno = 0;
  EXPECT_EQ(s.realloc(blocks[0], 5000), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(s.realloc(blocks[0], 100), blocks[0]) << "shrinking never fails";
  EXPECT_EQ(stats_of(small).refused, 2u) << "nor is it counted as refused";
  s.free_sized(blocks[0], 100);
  hak_heap_set_limit(small, 0);
  EXPECT_NE(hak_heap_malloc(small, 1 << 20), nullptr);
  hak_heap_destroy(small);
  hak_heap_t *none = hak_heap_new(1000);
  EXPECT_EQ(hak_heap_malloc(none, 1), nullptr);
  hak_heap_destroy(none);
}

TEST_P(Heaps, DestroyingFreesWhatEverybodyHolds) {
  std::size_t live = checked_stats().live;
  {
    Worker first, second;
    hak_heap_t *doomed = hak_heap_new(0);
    std::vector<void *> blocks;
    for (Worker *worker : {&first, &second}) {
      worker->run([&] {
        for (std::size_t bytes : kBlockSizes)
          for (int i = 0; i < 5; i++) blocks.push_back(hak_heap_malloc(doomed, bytes));
        for (int i = 0; i < 20; i++) s.free(blocks[blocks.size() - 40 + i]);
      });
    }
    for (int i = 0; i < 10; i++) s.free(blocks[i]);
    hak_stats_t before = checked_stats();
    EXPECT_GE(before.live, live + 2 * (10 << 20));
    hak_heap_destroy(doomed);
    /* Nobody gets a block of it from a cache, whatever has the heap's number or its memory now. */
    hak_heap_t *next = hak_heap_new(0);
    std::set<void *> seen;
    for (Worker *worker : {&first, &second}) {
      worker->run([&] {
        for (int i = 0; i < 300; i++) {
          void *block = hak_heap_malloc(next, 100);
          EXPECT_TRUE(hak_heap_owns(next, block));
          EXPECT_TRUE(seen.insert(block).second);
        }
      });
    }
    hak_heap_destroy(next);
  }
  EXPECT_LT(checked_stats().live, live + (64 << 10)) << "threads' own things";
}

TEST_P(Heaps, AreInTheHeapsFigures) {
  hak_stats_t before = checked_stats();
  void *tiny = hak_heap_malloc(heap, 48), *lone = hak_heap_malloc(heap, 200000), *huge = hak_heap_malloc(heap, 9 << 20);
  hak_stats_t now = checked_stats();
  EXPECT_EQ(now.live - before.live, 48 + (256 << 10) + (std::size_t{9} << 20));
  EXPECT_EQ(stats_of(heap).live, 48 + (256 << 10) + (std::size_t{9} << 20));
  EXPECT_GT(now.free_in_slabs + now.cached, before.free_in_slabs + before.cached);
  std::memset(huge, 1, 9 << 20);
  hak_account_t account;
  hak_account(&account, sizeof account);
  EXPECT_GE(account.resident_live, std::size_t{9} << 20);
  EXPECT_EQ(account.mapped, account.resident + account.returned);
  for (void *block : {tiny, lone, huge}) s.free(block);
  EXPECT_EQ(checked_stats().live, before.live);
}

TEST_P(Heaps, OwnWhatTheyGaveOut) {
  hak_heap_t *other = hak_heap_new(0);
  for (std::size_t bytes : kBlockSizes) {
    auto *block = static_cast<char *>(hak_heap_malloc(heap, bytes));
    char *last = block + (bytes > 0 ? bytes - 1 : 0);
    EXPECT_TRUE(hak_heap_owns(heap, block) && hak_heap_owns(heap, last));
    EXPECT_FALSE(hak_heap_owns(other, block) || hak_heap_owns(other, last));
    s.free(block);
  }
  void *common = s.malloc(100);
  EXPECT_FALSE(hak_heap_owns(heap, common));
  EXPECT_FALSE(hak_heap_owns(heap, nullptr));
  EXPECT_FALSE(hak_heap_owns(nullptr, common));
  s.free(common);
  hak_heap_destroy(other);
  EXPECT_FALSE(hak_heap_owns(other, common));
}

TEST_P(Heaps, ThreadsCachesGoHomeWhenTheyAreFlushed) {
  std::vector<void *> blocks;
  for (int i = 0; i < 30; i++) blocks.push_back(hak_heap_malloc(heap, 100));
  for (void *block : blocks) s.free(block);
  EXPECT_GT(stats_of(heap).cached, 0u);
  hak_thread_flush();
  EXPECT_EQ(stats_of(heap).cached, 0u);
  hak_heap_free(heap, hak_heap_malloc(heap, 100));
  EXPECT_GT(stats_of(heap).cached, 0u);
  hak_thread_idle();
  EXPECT_EQ(stats_of(heap).cached, 0u);
}

TEST_P(Heaps, NullIsNoHeapToDestroy) { hak_heap_destroy(nullptr); }
