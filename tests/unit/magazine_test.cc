/* Magazines: batches, and a capacity that adapts. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace {

using hak_test::own_heap;

uint64_t transfers(heap_t *heap) {
  return atomic64_load_relaxed(&heap->owner.refills) + atomic64_load_relaxed(&heap->owner.flushes);
}

void cycle(std::vector<void *> &blocks, size_t bytes, bool lifo) {
  for (void *&block : blocks) block = hak_malloc(bytes);
  if (lifo) std::reverse(blocks.begin(), blocks.end());
  for (void *block : blocks) hak_free(block);
}

}  // namespace

class MagazineBatch : public testing::TestWithParam<std::tuple<size_t, size_t, bool>> {};

/* A fixed capacity oscillates: each cycle of a batch that does not fit carries
 * half of it to the slabs and back. After some cycles nothing may travel. */
TEST_P(MagazineBatch, OscillationEnds) {
  auto [batch, bytes, lifo] = GetParam();
  std::vector<void *> blocks(batch);
  heap_t *heap = own_heap();
  for (int i = 0; i < 30; i++) cycle(blocks, bytes, lifo);
  uint64_t before = transfers(heap);
  for (int i = 0; i < 100; i++) cycle(blocks, bytes, lifo);
  EXPECT_EQ(transfers(heap) - before, 0u) << "batches of " << batch << " blocks of " << bytes
                                          << " bytes still travel between magazine and slabs in 100 cycles";
  hak__check_all();
}
INSTANTIATE_TEST_SUITE_P(Of, MagazineBatch,
                         testing::Combine(testing::Values(25, 200, 2000), testing::Values(16, 100, 256, 1024),
                                          testing::Bool()),
                         [](const auto &info) {
                           return std::to_string(std::get<0>(info.param)) + "Of" +
                                  std::to_string(std::get<1>(info.param)) + (std::get<2>(info.param) ? "Lifo" : "Fifo");
                         });

/* So many threads that they share slabs, each with some blocks, which wait together. */
class ManyThreads : public testing::Test {
 protected:
  static constexpr unsigned kThreads = FEW_THREADS + 16, kFrom = FEW_THREADS;
  void SetUp() override {
    for (unsigned i = 0; i < kThreads; i++) threads_.emplace_back([this] { Run(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ == kThreads; });
  }
  void TearDown() override {
    {
      std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread &thread : threads_) thread.join();
  }
  std::mutex mutex_;
  /* In which blocks of the later threads begin, and of which threads. */
  std::map<uintptr_t, std::set<std::thread::id>> pages_;
  size_t blocks_ = 0;
  size_t shared_pages() const {
    size_t count = 0;
    for (const auto &[page, threads] : pages_) count += threads.size() > 1;
    return count;
  }

 private:
  void Run() {
    std::vector<void *> blocks;
    for (size_t bytes = 16; bytes <= 1024; bytes += 48) blocks.push_back(hak_malloc(bytes));
    {
      std::unique_lock lock(mutex_);
      const bool shares = pool_attached_count() > kFrom;
      for (void *block : blocks) {
        if (!shares) break;
        pages_[reinterpret_cast<uintptr_t>(block) / os_page_bytes()].insert(std::this_thread::get_id());
        blocks_++;
      }
      waiting_++;
      changed_.notify_all();
      changed_.wait(lock, [this] { return is_over_; });
    }
    size_t bytes = 16;
    for (void *block : blocks) {
      hak_free_sized(block, bytes);
      bytes += 48;
    }
  }
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  unsigned waiting_ = 0;
  bool is_over_ = false;
};

TEST_F(ManyThreads, TheirBlocksLieTogether) {
  hak__check_all();
  ASSERT_GT(blocks_, 100u);
  EXPECT_GT(shared_pages(), 10u) << "each of " << pages_.size()
                                 << " pages is one thread's"; /* who finds the gate shut takes its own */
}

TEST_F(ManyThreads, WhoUsesASizeOftenGetsSlabsOfItsOwn) {
  std::thread([] {
    const unsigned c = size_class_of(1024);
    void *first = hak_malloc(1024);
    EXPECT_TRUE(orphanage_has_id(&the_heap->owner, word_owner(map_lookup(first))));
    EXPECT_EQ(the_heap->magazines[c].capacity, capacity_first(c));
    std::vector<void *> blocks(40);
    for (int i = 0; i < 100; i++) cycle(blocks, 1024, true);
    heap_t *heap = the_heap;
    EXPECT_GT(heap->magazines[c].capacity, capacity_first(c)) << "it does not grow";
    for (void *&block : blocks) block = hak_malloc(1024);
    size_t own = 0;
    for (void *block : blocks) own += word_owner(map_lookup(block)) == heap->owner.id;
    EXPECT_GT(own, 0u) << "it is lent blocks for ever"; /* those that it was lent go round until they are flushed */
    hak_free(first);
    for (void *block : blocks) hak_free(block);
  }).join();
  hak__check_all();
}

/* The metadata's gate is left alone by threads whose large blocks vary in size. */
TEST(Magazine, TheSmallestArraysStayWithTheHeap) {
  heap_t *heap = own_heap();
  const unsigned c = size_class_of(HAK_MIB(1));
  for (int i = 0; i < 3; i++) hak_free(hak_malloc(HAK_MIB(1)));
  ASSERT_EQ(heap->magazines[c].capacity, 1u);
  void **slots = magazine_slots(heap, c);
  const auto spare = [&] {
    size_t count = 0;
    for (void **array = heap->spare_arrays; array != nullptr; array = static_cast<void **>(array[0])) count++;
    return count;
  };
  const size_t before = spare();
  owner_enter(&heap->owner);
  array_shrink(heap, c);
  owner_leave(&heap->owner);
  ASSERT_EQ(heap->magazines[c].capacity, 0u);
  EXPECT_EQ(heap->spare_arrays, slots);
  EXPECT_EQ(spare(), before + 1) << "it went back";
  const unsigned other = size_class_of(HAK_MIB(2));
  for (int i = 0; i < 3; i++) hak_free(hak_malloc(HAK_MIB(2)));
  EXPECT_EQ(magazine_slots(heap, other), slots);
  EXPECT_EQ(spare(), before) << "used by two";
  hak__check_all();
}

TEST(Magazine, StartsSmall) {
  heap_t *heap = own_heap();
  for (unsigned c : {5u, 64u, 90u, 112u, 143u}) {
    void *block = hak_malloc(size_classes[c].block_bytes);
    EXPECT_LE(heap->magazines[c].capacity, 15) << "an idle thread pays for it";
    EXPECT_LE(heap->magazines[c].capacity * size_t{size_classes[c].block_bytes},
              max_size(4096, size_classes[c].block_bytes))
        << "class " << c;
    hak_free(block);
  }
}

/* A large block at hand stands in for one that is a little smaller, and a sized free
 * of it is no mistake; for a much smaller one it does not. */
TEST(Magazine, ALargeBlockStandsInForASmallerOne) {
  hak_thread_flush();
  hak_free(hak_malloc(640 << 10)); /* so that the next is one that is wanted again */
  void *large = hak_malloc(640 << 10);
  hak_free(large);
  void *other = hak_malloc(300 << 10);
  EXPECT_NE(other, large);
  void *standing_in = hak_malloc(576 << 10);
  EXPECT_EQ(standing_in, large);
  EXPECT_EQ(hak_usable_size(standing_in), size_t{640 << 10});
  hak_free_sized(standing_in, 576 << 10);
  standing_in = hak_aligned_alloc(4096, 512 << 10);
  EXPECT_EQ(standing_in, large);
  hak_free_aligned_sized(standing_in, 4096, 512 << 10);
  auto *cleared = static_cast<char *>(hak_malloc(640 << 10));
  ASSERT_EQ(cleared, large);
  std::memset(cleared, 1, 640 << 10);
  hak_free(cleared);
  cleared = static_cast<char *>(hak_calloc(1, 576 << 10));
  ASSERT_EQ(cleared, large);
  EXPECT_TRUE(std::all_of(cleared, cleared + (576 << 10), [](char byte) { return byte == 0; }));
  hak_free(cleared);
  hak_free(other);
  hak_thread_flush();
  hak__check_all();
}

/* The blocks of 64 classes on 12 classes' slabs, as long as few are in use at a time. */
TEST(Magazine, AThreadThatUsesManySizesAndFewBlocksHasFewSlabs) {
  std::thread([] {
    hak_thread_flush();
    hak_test::Random random(5);
    std::set<unsigned> kinds;
    for (int round = 0; round < 8; round++) {
      std::vector<void *> blocks(128);
      for (void *&block : blocks) {
        block = hak_malloc(1 + random.below(1024));
        kinds.insert(word_kind(map_lookup(block)));
      }
      for (void *block : blocks) hak_free(block);
    }
    EXPECT_LE(kinds.size(), 24u);
    for (int round = 0; round < 100; round++) hak_free(hak_malloc(1008));
    void *block = hak_malloc(1008);
    EXPECT_EQ(word_kind(map_lookup(block)), 63u) << "a size that is used often borrows for ever";
    hak_free(block);
    hak_thread_flush();
  }).join();
}

/* Each class's slabs would be a page for each thread. */
TEST(Magazine, AmongSomeThreadsASizeIsBorrowedForLonger) {
  hak_test::AttachedOwner others[24];
  std::thread([] {
    hak_thread_flush();
    const unsigned own = size_class_of(1008);
    for (int round = 0; round < 100; round++) hak_free(hak_malloc(1008));
    void *block = hak_malloc(1008);
    EXPECT_GT(word_kind(map_lookup(block)), own) << "as soon as among few";
    hak_free(block);
    for (int round = 0; round < 100; round++) hak_free(hak_malloc(1008));
    block = hak_malloc(1008);
    EXPECT_EQ(word_kind(map_lookup(block)), own) << "for ever";
    hak_free(block);
    hak_thread_flush();
  }).join();
}

/* What a program frees at the end of its work would stay otherwise. */
TEST(Magazine, ALargeBlockIsKeptOnlyWhereOneHasBeenWantedAgain) {
  std::thread([] {
    hak_thread_flush();
    std::vector<void *> blocks(20);
    for (void *&block : blocks) block = hak_malloc(HAK_MIB(1));
    for (void *block : blocks) hak_free(block);
    EXPECT_LT(hak_test::cached_bytes(own_heap()), HAK_KIB(64));
    hak_free(hak_malloc(HAK_MIB(1)));
    EXPECT_GE(hak_test::cached_bytes(own_heap()), HAK_MIB(1));
    hak_thread_flush();
  }).join();
}

/* Batches of random large sizes live from the blocks that are at hand. */
TEST(Magazine, BatchesOfLargeBlocksNeedFewRefills) {
  heap_t *heap = own_heap();
  hak_test::Random random(3);
  std::vector<void *> blocks(8);
  uint64_t before = 0;
  for (int i = 0; i < 1000; i++) {
    if (i == 100) before = transfers(heap);
    for (void *&block : blocks) block = hak_malloc((64 << 10) + random.below(1984 << 10));
    for (void *block : blocks) hak_free(block);
  }
  EXPECT_LT(transfers(heap) - before, 400u) << "of 7200 blocks";
  hak_thread_flush();
}

TEST(Magazine, NeverHandsABlockOutTwice) {
  hak_test::Random random(17);
  std::set<void *> out;
  for (int i = 0; i < 60000; i++) {
    if (random.below(2) == 0 || out.empty()) {
      ASSERT_TRUE(out.insert(hak_malloc(random.below(1 + i % 1200))).second) << "a block that is held came again";
    } else {
      auto it = out.lower_bound(
          reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(*out.begin()) + random.below(1 << 20)));
      if (it == out.end()) it = out.begin();
      hak_free(*it);
      out.erase(it);
    }
    if (i % 1000 == 0) hak__check_all();
    if (i % 7000 == 0) hak_thread_flush();
  }
  for (void *block : out) hak_free(block);
  hak__check_all();
}

TEST(Magazine, AllOfAThreadsCapacityIsBounded) {
  heap_t *heap = own_heap();
  const size_t most = capacity_budget(1, false);
  /* Large blocks are not written to here, and what is in no memory takes nothing from the budget. */
  auto absent = [heap] {
    return capacity_absent(heap->large_capacity_bytes, heap->parts_looked_at, heap->parts_resident);
  };
  std::vector<void *> blocks;
  for (unsigned c = 1; c < SIZE_CLASS_COUNT; c++) {
    /* Oscillating batches make each as large as it may be. */
    size_t bytes = size_classes[c].block_bytes;
    for (size_t batch = 4; batch * bytes <= most && batch < 6000; batch *= 2) {
      blocks.resize(batch);
      for (int i = 0; i < 3; i++) cycle(blocks, bytes, true);
    }
    ASSERT_LE(heap->capacity_bytes, most + absent() + HAK_MIB(4) * (SIZE_CLASS_COUNT - MID_CLASS_END)) << "class " << c;
  }
  size_t beyond_first = 0, not_large = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const size_t bytes = heap->magazines[c].capacity * size_t{size_classes[c].block_bytes};
    if (heap->magazines[c].capacity > 1) beyond_first += bytes;
    if (heap->magazines[c].capacity > 1 && !size_class_is_single(c)) not_large += bytes;
    ASSERT_LE(heap->magazines[c].capacity, 8191);
  }
  EXPECT_LE(not_large, most) << "what magazines may hold of one thread";
  constexpr size_t kShrunk = HAK_MIB(4) * 7; /* of large ones, since others grew beside what was in no memory of them */
  EXPECT_LE(beyond_first, most + absent() + kShrunk);
  hak__check_all();
}

/* A class of its own costs a thread a page and more. */
TEST(Magazine, FewBlocksOfManySizesShareSlabs) {
  std::vector<void *> blocks;
  for (size_t bytes = 0; bytes <= TINY_MAX_BYTES; bytes += 16) blocks.push_back(hak_malloc(bytes));
  EXPECT_LE(hak_test::used_bytes(), 13 * UNIT_BYTES);
  for (int i = 0; i < 100; i++) blocks.push_back(hak_malloc(80));
  EXPECT_EQ(hak_usable_size(blocks.back()), 80u) << "a class in use has blocks of its own";
  for (void *block : blocks) hak_free(block);
  hak__check_all();
}

/* The same with kilobytes, of which fewer are borrowed. */
TEST(Magazine, FewMidBlocksOfManySizesShareSlabs) {
  std::vector<void *> blocks;
  size_t coarse_units = 0;
  for (unsigned c = TINY_CLASS_COUNT; c < MID_CLASS_END; c++) {
    if (size_class_coarse(c) == c) coarse_units += size_classes[c].slab_units;
    blocks.push_back(hak_malloc(size_classes[c].block_bytes));
  }
  EXPECT_LE(hak_test::used_bytes(), coarse_units * UNIT_BYTES);
  blocks.push_back(hak_malloc(5000));
  EXPECT_GT(hak_usable_size(blocks.back()), 5120u) << "few blocks have slabs of their own";
  for (int i = 0; i < 10; i++) blocks.push_back(hak_malloc(5000));
  EXPECT_EQ(hak_usable_size(blocks.back()), 5120u) << "a class in use has blocks of its own";
  /* One at a time is few, however often it is wanted, but each time is a visit of the slow path. */
  for (int i = 0; i < 30; i++) hak_free(hak_malloc(20000));
  blocks.push_back(hak_malloc(20000));
  EXPECT_EQ(hak_usable_size(blocks.back()), 20480u);
  for (void *block : blocks) hak_free(block);
  hak__check_all();
}

TEST(Magazine, WhatIsNotUsedShrinks) {
  const hak_test::OverTime over_time(OVER_TIME_OFF);
  heap_t *heap = own_heap();
  std::vector<void *> blocks(2000);
  for (int i = 0; i < 20; i++) cycle(blocks, 64, true);
  const unsigned c = size_class_of(64);
  unsigned grown = heap->magazines[c].capacity;
  ASSERT_GE(grown, 2000u);
  size_t cached = hak_test::cached_bytes();
  hak_test::a_second_passes(heap);
  EXPECT_EQ(heap->magazines[c].capacity, grown) << "it was used a moment ago";
  const std::uint64_t unused = atomic64_load_relaxed(&tallies[TALLY_UNUSED]);
  const std::size_t used_lately = hak_test::cached_bytes();
  for (int i = 0; i < 3; i++) hak_test::a_second_passes(heap);
  EXPECT_EQ(atomic64_load_relaxed(&tallies[TALLY_UNUSED]) - unused, used_lately - hak_test::cached_bytes());
  EXPECT_LE(heap->magazines[c].capacity, grown / 8) << "half a second";
  EXPECT_LT(hak_test::cached_bytes(), cached / 4);
  for (int i = 0; i < 20; i++) hak_test::a_second_passes(heap);
  EXPECT_LE(heap->magazines[c].capacity, 15u) << "a thread that is idle keeps more than one that starts";
  hak__check_all();
}

TEST(Magazine, AFlushEmptiesAllOfThem) {
  std::vector<void *> blocks;
  for (size_t bytes = 1; bytes < HAK_MIB(2); bytes = bytes * 3 / 2 + 1)
    for (int i = 0; i < 10; i++) blocks.push_back(hak_malloc(bytes));
  for (void *block : blocks) hak_free(block);
  EXPECT_GT(hak_test::cached_bytes(), 0u);
  hak_thread_flush();
  EXPECT_EQ(hak_test::cached_bytes(), 0u);
  EXPECT_EQ(hak_test::used_bytes(), 0u) << "and slabs without blocks go back";
  hak__check_all();
}

TEST(Magazine, OrderAndContentsSurviveAChangeOfCapacity) {
  heap_t *heap = own_heap();
  const unsigned c = size_class_of(48);
  std::vector<void *> blocks(1000);
  for (void *&block : blocks) block = hak_malloc(48);
  unsigned before = heap->magazines[c].capacity;
  for (void *block : blocks) hak_free(block); /* overflows after misses: it doubles */
  ASSERT_GT(heap->magazines[c].capacity, before);
  /* The last in are the first out. */
  for (size_t i = blocks.size(); i-- > blocks.size() - before;) ASSERT_EQ(hak_malloc(48), blocks[i]);
  for (size_t i = blocks.size() - before; i < blocks.size(); i++) hak_free(blocks[i]);
  hak__check_all();
}

/* A thread that only frees has no use for blocks: they go on by the depot, several at a time, and the thread that
 * allocates gets them from there, not fresh ones. */
TEST(Magazine, AThreadThatOnlyFreesPassesBlocksOn) {
  const unsigned c = size_class_of(1500);
  std::vector<void *> blocks(400);
  for (void *&block : blocks) block = hak_malloc(1500);
  const std::set<void *> first(blocks.begin(), blocks.end());
  std::thread([&] {
    heap_t *heap = own_heap();
    uint64_t before = atomic64_load_relaxed(&heap->owner.flushes);
    for (void *block : blocks) hak_free(block);
    EXPECT_LE(atomic64_load_relaxed(&heap->owner.flushes) - before, 400u / 4);
    EXPECT_GT(depot_count(c), 300u) << "the test is void";
    EXPECT_LE(hak_test::cached_bytes(heap), 2 * capacity_batch_bytes(2, true));
    hak__check_all();
  }).join();
  EXPECT_TRUE(the_heap->magazines[c].capacity > 0);
  while (magazine_count(the_heap, c) > 0) blocks.push_back(hak_malloc(1500)); /* what is at hand */
  const size_t there = depot_count(c);
  owner_enter(&the_heap->owner);
  travel_begin(the_heap, c);
  owner_leave(&the_heap->owner);
  size_t known = 0;
  std::vector<void *> again(there);
  for (void *&block : again) known += first.count(block = hak_malloc(1500));
  EXPECT_EQ(known, there);
  EXPECT_LT(depot_count(c), 8u) << "it went to its slabs for them";
  for (void *block : again) hak_free(block);
  for (size_t i = 400; i < blocks.size(); i++) hak_free(blocks[i]);
  hak__check_all();
}

/* Where blocks are freed in no order, the last one of each slab frees it, and what a free has made free it gives back:
 * each slab is a call to the system. */
TEST(Magazine, AnOverflowFreesNoMoreThanACallPurges) {
  constexpr size_t kBytes = 256, kSlabs = 500;
  const hak_test::OverTime over_time(OVER_TIME_OFF);
  heap_t *heap = own_heap();
  std::vector<void *> last, blocks;
  std::set<unit_t> slabs;
  while (slabs.size() < kSlabs) {
    void *block = hak_malloc(kBytes);
    (slabs.insert(hak_test::slab_of(block)).second ? last : blocks).push_back(block);
  }
  for (void *block : blocks) hak_free(block);
  int64_t most = 0, all = 0;
  for (void *block : last) {
    int64_t before = heap->owner.slab_bytes;
    hak_free(block);
    most = std::max(most, before - heap->owner.slab_bytes);
    all += before - heap->owner.slab_bytes;
  }
  EXPECT_LE(most, int64_t{FLUSH_BYTES} + 16 * UNIT_BYTES) << "by one free";
  EXPECT_GT(all, int64_t{kSlabs / 4} * UNIT_BYTES) << "they are free, but for what lies in the magazine";
  hak__check_all();
}
