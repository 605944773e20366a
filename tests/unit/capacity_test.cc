/* The sizes of magazines and batches, by table: capacity.h. SPDX-License-Identifier: MIT */
#include "layers.h"

extern "C" {
#include "front/capacity.h"
}

namespace {

struct OfClass {
  size_t block_bytes, first, least, when_empty_twice, overflow_flushes;
};

/* The second and third column: 15 blocks or 4 KiB, but one at least; the fourth: from 15
 * or the first on, twice as many once more; the last: of a magazine of 8191 blocks. */
constexpr OfClass kCapacities[] = {
    {16, 15, 15, 31, 4096},      {256, 15, 15, 31, 4096},  {512, 7, 7, 15, 4096},    {1024, 3, 3, 7, 2048},
    {1280, 3, 3, 7, 1024},       {4096, 1, 1, 3, 512},     {32768, 1, 1, 3, 64},     {65536, 1, 1, 1, 32},
    {HAK_KIB(128), 1, 0, 1, 16}, {HAK_MIB(1), 1, 0, 1, 2}, {HAK_MIB(4), 1, 0, 1, 1},
};

TEST(Capacity, OfEachClass) {
  for (const OfClass &row : kCapacities) {
    SCOPED_TRACE(row.block_bytes);
    const unsigned c = size_class_of(row.block_bytes);
    ASSERT_EQ(size_classes[c].block_bytes, row.block_bytes);
    EXPECT_EQ(capacity_first(c), row.first);
    EXPECT_EQ(capacity_least(c), row.least);
    const bool is_single = size_class_is_single(c);
    const size_t batch = capacity_batch_bytes(1, false);
    EXPECT_EQ(capacity_when_empty(c, 0, batch, false, false), is_single ? 0 : row.first) << "none has come back";
    EXPECT_EQ(capacity_when_empty(c, 0, batch, false, true), row.first);
    EXPECT_EQ(capacity_when_full(c, 0, false), is_single ? 0 : row.first) << "none was wanted again";
    EXPECT_EQ(capacity_when_empty(c, row.first, batch, false, true), row.first) << "once is no reason";
    EXPECT_EQ(capacity_when_empty(c, row.first, batch, true, true), row.when_empty_twice);
    EXPECT_EQ(capacity_when_full(c, row.first, false), row.first);
    EXPECT_EQ(capacity_when_full(c, row.first, true), 2 * row.first + 1) << "it oscillates";
    EXPECT_EQ(capacity_flush(c, 8191), row.overflow_flushes);
  }
}

/* How far a magazine grows that only runs empty. */
TEST(Capacity, ABatchIsFair) {
  struct {
    size_t block_bytes, one_way, both_ways;
  } const rows[] = {{16, 127, 127}, {512, 127, 63}, {1024, 127, 31}, {2048, 63, 15}, {4096, 31, 7},
                    {16384, 7, 7},  {20480, 7, 7},  {32768, 3, 3},   {65536, 1, 1},  {HAK_KIB(128), 1, 1}};
  for (const auto &row : rows) {
    const unsigned c = size_class_of(row.block_bytes);
    for (const bool is_one_way : {false, true}) {
      const size_t batch = capacity_batch_bytes(2, is_one_way);
      size_t now = 0, sent = 0;
      for (int i = 0; i < 20; i++) now = capacity_when_empty(c, now, batch, true, true);
      for (int i = 0; i < 20; i++) sent = capacity_when_sent(c, sent, batch);
      EXPECT_EQ(now, is_one_way ? row.one_way : row.both_ways) << "of blocks of " << row.block_bytes << " bytes";
      EXPECT_EQ(sent, now);
    }
  }
}

TEST(Capacity, AFairBatchIsLessWhereManyThreadsHaveSome) {
  struct {
    size_t threads, kib;
  } const rows[] = {{0, 64}, {1, 64}, {16, 64}, {32, 32}, {64, 16}, {100000, 16}};
  for (const auto &row : rows) {
    EXPECT_EQ(capacity_batch_bytes(row.threads, true), HAK_KIB(row.kib)) << row.threads;
    EXPECT_EQ(capacity_batch_bytes(row.threads, false), HAK_KIB(16)) << row.threads;
  }
}

TEST(Capacity, AllAreOneLessThanAPowerOfTwoWithinTheirBounds) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    for (size_t capacity = capacity_first(c);;) {
      ASSERT_TRUE(is_power_of_two(capacity + 1)) << c;
      ASSERT_LE(capacity, size_t{MAX_CAPACITY});
      ASSERT_LE(capacity_flush(c, capacity), capacity);
      ASSERT_LE(capacity_refill(capacity), capacity);
      ASSERT_GE(capacity_flush(c, capacity), 1u);
      ASSERT_LE(capacity_flush(c, capacity) * capacity_block_cost(c), size_t{FLUSH_COST});
      const size_t next = capacity_when_full(c, capacity, true);
      if (next == capacity) break;
      capacity = next;
    }
  }
}

TEST(Capacity, RunningEmptyEndsAtAFairBatch) {
  const unsigned c = size_class_of(16);
  size_t capacity = 0;
  for (int i = 0; i < 20; i++) capacity = capacity_when_empty(c, capacity, capacity_batch_bytes(1, false), true, false);
  EXPECT_EQ(capacity, size_t{BATCH_CAPACITY});
}

TEST(Capacity, TheBudgetIsShared) {
  struct {
    size_t threads, attended_x2, unattended_x2;
  } const rows[] = {{0, 256, 256}, {1, 256, 256}, {2, 256, 64}, {4, 128, 32},
                    {64, 8, 2},    {128, 4, 1},   {512, 1, 1},  {100000, 1, 1}};
  for (const auto &row : rows) {
    EXPECT_EQ(capacity_budget(row.threads, true), row.attended_x2 * HAK_KIB(512)) << row.threads;
    EXPECT_EQ(capacity_budget(row.threads, false), row.unattended_x2 * HAK_KIB(512)) << row.threads;
  }
}

}  // namespace
