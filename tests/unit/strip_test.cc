/* Magazines of threads that sleep, or are served by them alone. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"

#include <atomic>
#include <thread>

namespace {

class Strip : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(arena_ready());
    if (HAK_THREAD_SANITIZER || !os_fence_all_threads()) GTEST_SKIP() << "magazines are not stripped here";
  }
  void TearDown() override {
    trim(0);
    hak__check_all();
    EXPECT_EQ(error_count(), 0u);
    EXPECT_EQ(hak_test::used_bytes(), 0u) << "a block is lost";
  }
  static std::size_t cached(heap_t *heap) { return hak_test::cached_bytes(heap); }
};

/* A thread that does as it is told, a step at a time. */
class Steps {
 public:
  void next() { step_++; }
  void wait_for(int step) const {
    while (step_ < step) std::this_thread::yield();
  }

 private:
  std::atomic<int> step_{0};
};

}  // namespace

TEST_F(Strip, WhatASleepingThreadHasCachedGoesHomeButForATinyBlockOfEach) {
  constexpr std::size_t kBlocks = 100, kSizes[] = {48, 512, 1024, 5000, 100000};
  std::atomic<heap_t *> heap{nullptr};
  Steps to_thread, to_us;
  std::thread thread([&] {
    for (std::size_t bytes : kSizes) {
      std::vector<void *> blocks;
      for (std::size_t i = 0; i < kBlocks; i++) blocks.push_back(hak_malloc(bytes));
      for (void *block : blocks) hak_free(block);
    }
    heap = the_heap;
    to_us.next();
    to_thread.wait_for(1);
    for (std::size_t bytes : kSizes) {
      std::vector<void *> blocks;
      for (std::size_t i = 0; i < 2 * kBlocks; i++) {
        blocks.push_back(hak_malloc(bytes));
        hak_test::stamp_as(blocks.back(), bytes, i);
      }
      for (std::size_t i = 0; i < blocks.size(); i++)
        EXPECT_TRUE(hak_test::stamped_as(blocks[i], bytes, i, bytes)) << "handed out twice: " << bytes << " bytes";
      for (void *block : blocks) hak_free(block);
    }
  });
  to_us.wait_for(1);
  ASSERT_GT(cached(heap), 30000u) << "the test is void";
  const std::size_t used = hak_test::used_bytes(), were_cached = cached(heap);
  const std::uint64_t stripped = atomic64_load_relaxed(&tallies[TALLY_STRIPPED]);
  trim(0);
  EXPECT_EQ(atomic64_load_relaxed(&tallies[TALLY_STRIPPED]) - stripped, were_cached - cached(heap));
  std::size_t most = 0;
  for (unsigned c = 0; c < TINY_CLASS_COUNT; c++)
    if (heap.load()->magazines[c].capacity > 0) most += size_classes[c].block_bytes;
  EXPECT_LE(cached(heap), most);
  EXPECT_LT(hak_test::used_bytes(), used);
  hak__check_all();
  EXPECT_TRUE(heap.load()->owner.stripped);
  to_thread.next();
  thread.join();
}

/* It never comes to a batch boundary, so nobody else would send them home. */
TEST_F(Strip, LargeBlocksGoHomeThatAThreadAtWorkWithSmallOnesDoesNotUse) {
  constexpr std::size_t kBytes = 300000, kLarge = 8;
  std::atomic<heap_t *> heap{nullptr};
  std::atomic<bool> end{false};
  std::thread thread([&] {
    for (int i = 0; i < 8; i++) {
      std::vector<void *> blocks;
      for (std::size_t k = 0; k < kLarge; k++) blocks.push_back(hak_malloc(kBytes));
      for (void *block : blocks) hak_free(block);
    }
    hak_free(hak_malloc(100));
    heap = the_heap;
    while (!end) hak_free(hak_malloc(100));
    for (std::size_t k = 0; k < kLarge; k++) hak_free(hak_malloc(kBytes));
  });
  while (heap == nullptr) std::this_thread::yield();
  ASSERT_GE(cached(heap), kLarge / 2 * kBytes) << "the test is void";
  const unsigned c = size_class_of(100);
  for (int i = 0; i < 100000 && cached(heap) >= kBytes; i++) {
    heap.load()->tops_seen[1] = 0; /* it was at work on the small ones */
    tidy_sweep_attached(strip_if_unused);
    std::this_thread::yield();
  }
  EXPECT_LT(cached(heap), kBytes) << "large blocks stay where they are of no use";
  EXPECT_EQ(heap.load()->stripped[c / 64] >> c % 64 & 1, 0u) << "small ones that are used go";
  end = true;
  thread.join();
}

namespace {
/* A thread at work is stripped so many times, at whatever moment of its fast path. */
void StripAtWork(const std::vector<std::size_t> &sizes, int times) {
  constexpr std::size_t kSlots = 40;
  std::atomic<bool> end{false};
  std::thread thread([&] {
    hak_test::Random random(1);
    struct {
      void *block = nullptr;
      std::size_t bytes = 0;
      std::uint64_t key = 0;
    } slots[kSlots];
    for (std::uint64_t key = 1; !end; key++) {
      auto &slot = slots[random.below(kSlots)];
      if (slot.block != nullptr) {
        if (!hak_test::stamped_as(slot.block, slot.bytes, slot.key, slot.bytes)) {
          ADD_FAILURE() << "a block of " << slot.bytes << " bytes was handed out twice";
          break;
        }
        hak_free(slot.block);
        slot.block = nullptr;
      } else {
        slot.bytes = sizes[random.below(sizes.size())];
        slot.key = key;
        slot.block = hak_malloc(slot.bytes);
        hak_test::stamp_as(slot.block, slot.bytes, slot.key);
      }
      if (key % 1024 == 0) std::this_thread::yield();
    }
    for (auto &slot : slots) hak_free(slot.block);
    hak_thread_flush();
  });
  /* As often as the thread has mended its magazines in between. */
  for (int stripped = 0, before = 0; stripped < times;) {
    tidy_sweep_attached(strip_now);
    int now = 0;
    FOR_EACH_HEAP(heap) now += heap->owner.stripped;
    stripped += now > before;
    before = now;
    if (now > 0) std::this_thread::yield();
  }
  end = true;
  thread.join();
}
}  // namespace

TEST_F(Strip, AThreadAtWorkLosesNothingAndGetsNothingTwice) { StripAtWork({16, 48, 200, 640, 1024, 3000, 70000}, 60); }
TEST_F(Strip, AThreadAtWorkWithMidBlocksLosesNothingAndGetsNothingTwice) { StripAtWork({1100, 2000, 5000, 20000}, 60); }
TEST_F(Strip, AThreadAtWorkWithLargeBlocksLosesNothingAndGetsNothingTwice) { StripAtWork({66000, 70000, 90000}, 400); }
