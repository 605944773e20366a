/*
 * Many more threads than processors: what one has freed another one gets. A program of its own, in which
 * src/os/processors.c is not linked.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layers.h"

#include <set>
#include <thread>
#include <vector>

namespace {
std::uint32_t processors = 1;
}

/* Instead of src/os/processors.c, which is not linked. */
uint32_t os_processor_count() { return processors; }

namespace {

constexpr std::size_t kMid = 32768, kTiny = 512; /* neither borrows another class's; both could travel */

/* Owners of threads that wait, so many that with the calling thread there are `threads`. */
class Crowd {
 public:
  explicit Crowd(std::size_t threads) : owners_(threads - 1) {}

 private:
  std::vector<hak_test::AttachedOwner> owners_;
};

std::vector<void *> take(std::size_t count, std::size_t bytes) {
  std::vector<void *> blocks(count);
  for (void *&block : blocks) block = hak_malloc(bytes);
  return blocks;
}
void free_all(const std::vector<void *> &blocks) {
  for (void *block : blocks) hak_free(block);
}

/* How many blocks that a thread has freed, all its own, it has left where others find them. */
std::size_t left_for_others(std::size_t threads, std::size_t bytes) {
  hak_free(hak_malloc(1));
  Crowd crowd(threads);
  free_all(take(64, bytes));
  hak__check_all();
  return depot_count(size_class_of(bytes));
}

/* As much of a class as a magazine grows to that travels. */
std::size_t fair_bytes(unsigned size_class) {
  std::size_t capacity = 0, next = 0;
  while ((next = capacity_when_sent(size_class, capacity)) != capacity) capacity = next;
  return capacity * size_classes[size_class].block_bytes;
}

/* What all magazines of mid blocks hold of a thread that uses all sizes in turn, 40 blocks at a time, again and again. */
std::size_t held_of_all_sizes(std::size_t threads) {
  hak_free(hak_malloc(1));
  Crowd crowd(threads);
  for (int round = 0; round < 6; round++)
    for (unsigned c = TINY_CLASS_COUNT; c < MID_CLASS_END; c++) free_all(take(40, size_classes[c].block_bytes));
  hak__check_all();
  return the_heap->mid_bytes;
}
std::size_t held_in_a_crowd_most() {
  std::size_t most = CROWD_MID_BYTES;
  for (unsigned c = TINY_CLASS_COUNT; c < MID_CLASS_END; c++) most += fair_bytes(c);
  return most;
}

}  // namespace

TEST(Crowd, WhatOneHasFreedAnotherGets) {
  hak_free(hak_malloc(1));
  Crowd crowd(CROWD_PER_PROCESSOR + 1);
  std::vector<void *> blocks = take(64, kMid);
  const std::set<void *> had(blocks.begin(), blocks.end());
  free_all(blocks);
  const std::size_t there = depot_count(size_class_of(kMid));
  ASSERT_GT(there, 20u);
  std::thread([&] {
    std::vector<void *> got = take(there, kMid);
    for (void *block : got) EXPECT_EQ(had.count(block), 1u);
    free_all(got);
  }).join();
  hak__check_all();
}

TEST(Crowd, IsMoreThanSomeForEachProcessor) {
  EXPECT_EQ(left_for_others(CROWD_PER_PROCESSOR, kMid), 0u);
  processors = 2;
  EXPECT_EQ(left_for_others(2 * CROWD_PER_PROCESSOR, kMid), 0u);
  EXPECT_GT(left_for_others(2 * CROWD_PER_PROCESSOR + 1, kMid), 0u);
}

/* Nobody may say how many processors there are. */
TEST(Crowd, IsNoneWhereNobodyKnowsTheProcessors) {
  processors = OS_MANY_PROCESSORS;
  EXPECT_EQ(left_for_others(100, kMid), 0u);
}

TEST(Crowd, TinyBlocksStayTheirThreads) { EXPECT_EQ(left_for_others(CROWD_PER_PROCESSOR + 1, kTiny), 0u); }

TEST(Crowd, WhoUsesManySizesElsewhereHoldsMore) {
  EXPECT_GT(held_of_all_sizes(CROWD_PER_PROCESSOR), held_in_a_crowd_most()) << "the next test is void";
}
TEST(Crowd, WhoUsesManySizesInACrowdHoldsLittleOfEach) {
  EXPECT_LE(held_of_all_sizes(CROWD_PER_PROCESSOR + 1), held_in_a_crowd_most());
}

/* 400 KiB are no more than a thread may hold: in the end no batch goes anywhere. */
TEST(Crowd, WhoUsesOneSizeHoldsIts) {
  hak_free(hak_malloc(1));
  Crowd crowd(CROWD_PER_PROCESSOR + 1);
  for (int round = 0; round < 30; round++) free_all(take(100, 4096));
  const std::uint64_t before = atomic64_load_relaxed(&the_heap->owner.refills);
  for (int round = 0; round < 30; round++) free_all(take(100, 4096));
  EXPECT_EQ(atomic64_load_relaxed(&the_heap->owner.refills), before);
}
