/* What a thread's magazines of large blocks may hold: room.h. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/process.h"

extern "C" {
#include "front/capacity.h"
#include "front/magazine.h"
#include "front/room.h"
#include "front/strip.h"
#include "slab/tidy.h"
}

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace {

class Room : public testing::Test {
 protected:
  /* Three blocks at a time, of any size; of each some bytes are written to. Returns what lies in magazines in
   * the end. */
  size_t HeldAfter(bool whole) {
    std::mt19937 random(1);
    std::uniform_int_distribution<size_t> size(UNIT_BYTES + 1, LARGE_MAX_BYTES);
    for (int round = 0; round < 400; round++) {
      std::vector<void *> blocks;
      for (int i = 0; i < 3; i++) {
        const size_t bytes = size(random);
        blocks.push_back(hak_malloc(bytes));
        std::memset(blocks.back(), 1, whole ? bytes : 100);
      }
      for (void *block : blocks) hak_free(block);
    }
    hak__check_all();
    size_t held = 0;
    for (unsigned c = MID_CLASS_END; c < SIZE_CLASS_COUNT; c++)
      held += magazine_count(the_heap, c) * size_classes[c].block_bytes;
    return held;
  }
};

TEST_F(Room, BlocksThatAreFilledAreKeptAFewTimesOver) { EXPECT_LE(HeldAfter(true), HAK_MIB(20)); }

TEST_F(Room, SmallBlocksAreNotWhatIsOutOfLargeOnes) {
  std::vector<void *> small(HAK_MIB(100) / 1024);
  for (void *&block : small) block = std::memset(hak_malloc(1024), 1, 1024);
  EXPECT_LE(HeldAfter(true), HAK_MIB(20));
  for (void *block : small) hak_free(block);
}

/* The arena would give out other places, which were never written to. */
TEST_F(Room, BlocksThatAreHardlyUsedAreAllKept) { EXPECT_GE(HeldAfter(false), HAK_MIB(32)); }

/* A look at a block of 1 MiB that was written to whole, or not at all. */
class RoomSeen : public testing::Test {
 protected:
  static constexpr size_t kBytes = HAK_MIB(1);
  static constexpr unsigned kParts = kBytes / UNIT_BYTES * ROOM_UNIT_PARTS;
  /* Parts that were looked at, that are resident, and that count as used. */
  struct Seen {
    unsigned looked_at, resident, used;
    bool operator==(const Seen &other) const {
      return looked_at == other.looked_at && resident == other.resident && used == other.used;
    }
  };
  static Seen Look(void *block) {
    heap_t *heap = thread_enter();
    heap->parts_looked_at = heap->parts_resident = heap->parts_used = 0;
    room_look_now(heap, size_class_of(kBytes), block);
    const Seen seen = {static_cast<unsigned>(heap->parts_looked_at), static_cast<unsigned>(heap->parts_resident),
                       static_cast<unsigned>(heap->parts_used)};
    thread_leave(heap);
    return seen;
  }
  /* Cut out of what another one has left that was filled. */
  static void *BlockWhereOneWas() {
    void *before = hak_malloc(2 * kBytes); /* little enough to stay */
    std::memset(before, 1, 2 * kBytes);
    hak_free(before);
    void *block = hak_malloc(kBytes);
    EXPECT_EQ(block, before) << "the test is void";
    return block;
  }
};

TEST_F(RoomSeen, WhatNobodyHasUsedBeforeTells) {
  void *block = hak_malloc(kBytes);
  EXPECT_EQ(Look(block), (Seen{kParts, 0, 0}));
  std::memset(block, 1, kBytes);
  EXPECT_EQ(Look(block), (Seen{kParts, kParts, kParts}));
  hak_free(block);
}

TEST_F(RoomSeen, WhatWasUsedBeforeTellsLittle) {
  void *block = BlockWhereOneWas();
  EXPECT_EQ(Look(block), (Seen{kParts, kParts, kParts / ROOM_UNIT_PARTS}));
  hak_free(block);
}

TEST_F(RoomSeen, WhatIsNotResidentTellsInAnyCase) {
  void *block = BlockWhereOneWas();
  ASSERT_TRUE(os_purge(block, kBytes));
  EXPECT_EQ(Look(block), (Seen{kParts, 0, 0}));
  hak_free(block);
}

TEST_F(RoomSeen, WhatIsInNoMemoryTakesNothingFromABudget) {
  hak_free(hak_malloc(100));
  const unsigned c = size_class_of(kBytes);
  heap_t *heap = thread_enter();
  heap->parts_looked_at = heap->parts_resident = heap->parts_used = 0;
  const size_t budget = room_in_all(heap, c, HAK_MIB(80));
  heap->parts_looked_at = ROOM_UNITS_KNOWN * ROOM_UNIT_PARTS;
  EXPECT_NEAR(static_cast<double>(room_in_all(heap, c, HAK_MIB(80)) - budget),
              7. / 8 * static_cast<double>(HAK_MIB(80) + heap->large_capacity_bytes), 1024);
  heap->parts_resident = heap->parts_looked_at / 4;
  EXPECT_NEAR(static_cast<double>(room_in_all(heap, c, HAK_MIB(80)) - budget),
              .75 * static_cast<double>(HAK_MIB(80) + heap->large_capacity_bytes), 1024);
  heap->parts_resident = heap->parts_looked_at;
  EXPECT_EQ(room_in_all(heap, c, HAK_MIB(80)), budget);
  heap->parts_resident = 0;
  limit_set_hard(HAK_MIB(4096));
  EXPECT_EQ(room_in_all(heap, c, HAK_MIB(80)), budget) << "a limit counts them";
  limit_set_hard(0);
  thread_leave(heap);
}

TEST_F(RoomSeen, MagazinesHaveRoomByHowBlocksAreUsed) {
  hak_free(hak_malloc(100));
  heap_t *heap = thread_enter();
  heap->parts_looked_at = 800;
  heap->parts_resident = 600;
  heap->parts_used = 0;
  EXPECT_EQ(room_for_large(heap), SIZE_MAX) << "whatever others have left there";
  heap->parts_used = 200;
  EXPECT_EQ(room_for_large(heap), LARGE_FLOOR_BYTES / 200 * 400);
  heap->parts_used = 600;
  EXPECT_EQ(room_for_large(heap), LARGE_FLOOR_BYTES / 600 * 800);
  heap->parts_looked_at = heap->parts_resident = heap->parts_used = 0;
  thread_leave(heap);
}

/* Tiny and mid blocks. Batches of one size each, which drifts; what magazines may hold in the end. */
class RoomForSmall : public testing::Test {
 protected:
  static constexpr size_t kBeside = HAK_MIB(1); /* first capacities are not held to it */
  static void Batch(size_t bytes, size_t total) {
    std::vector<void *> blocks(total / bytes);
    for (void *&block : blocks) block = hak_malloc(bytes);
    for (void *block : blocks) hak_free(block);
  }
  static size_t CapacityAfter(size_t batch_bytes) {
    for (int round = 0; round < 6; round++)
      for (unsigned c = 0; c < MID_CLASS_END; c++) Batch(size_classes[c].block_bytes, batch_bytes);
    return the_heap->capacity_bytes - the_heap->large_capacity_bytes;
  }
  /* Of the blocks of the thread's slabs, those that are not free: as the books have it, and by the page map. */
  static int64_t TakenBytes() { return the_heap->owner.slab_bytes - the_heap->owner.free_bytes; }
  static int64_t TakenByTheMap() {
    int64_t bytes = 0;
    for (size_t unit = 0; unit < the_map.units; unit++) {
      uint32_t word = atomic32_load_relaxed(map_word(unit));
      if (word_owner(word) != the_heap->owner.id || !slab_starts_shared(static_cast<unit_t>(unit), word)) continue;
      const unit_record_t *r = map_record(static_cast<unit_t>(unit));
      bytes += static_cast<int64_t>(r->slab.capacity - r->slab.free_count) * size_classes[word_kind(word)].block_bytes;
    }
    return bytes;
  }
};

TEST_F(RoomForSmall, IsAFewTimesWhatIsOut) {
  EXPECT_LE(CapacityAfter(HAK_MIB(1)), SMALL_FLOOR_BYTES + kBeside);
  hak__check_all();
}
TEST_F(RoomForSmall, FollowsTheLargestBatchOfLately) {
  for (int i = 0; i < 12; i++) Batch(4096, HAK_MIB(32));
  EXPECT_GE(CapacityAfter(HAK_MIB(1)), 2 * SMALL_FLOOR_BYTES);
  for (int i = 0; i < 8; i++) room_age(the_heap);
  EXPECT_LE(CapacityAfter(HAK_MIB(1)), SMALL_FLOOR_BYTES + HAK_MIB(8)) << "what was larger shrinks when its turn comes";
  hak__check_all();
}
/* At the end of a batch nothing is out. */
TEST_F(RoomForSmall, RemembersTheMostThatWasOut) {
  std::vector<void *> blocks(2048);
  for (void *&block : blocks) block = hak_malloc(4096);
  heap_t *heap = thread_enter();
  room_in_all(heap, size_class_of(4096), HAK_MIB(4096)); /* more than there is: so it looks what is out */
  const uint32_t most_kib = heap->out_lately_kib;
  thread_leave(heap);
  EXPECT_GE(most_kib, 8u * 1024);
  for (; blocks.size() > 1; blocks.pop_back()) hak_free(blocks.back());
  hak_thread_flush();
  heap = thread_enter();
  heap->looked_at_kib = 0; /* a second has passed */
  room_in_all(heap, size_class_of(4096), HAK_MIB(4096));
  EXPECT_GE(heap->out_lately_kib, most_kib);
  room_age(heap);
  EXPECT_LT(heap->out_lately_kib, most_kib);
  thread_leave(heap);
  hak_free(blocks[0]);
}
TEST_F(RoomForSmall, IsByTheThreadsOwnSlabs) {
  std::vector<void *> others(HAK_MIB(64) / 256);
  for (void *&block : others) block = hak_malloc(256);
  std::thread([] { EXPECT_LE(CapacityAfter(HAK_MIB(1)), SMALL_FLOOR_BYTES + kBeside); }).join();
  for (void *block : others) hak_free(block);
}
TEST_F(RoomForSmall, WhatAnotherThreadFreesIsNotOut) {
  hak_free(hak_malloc(100));
  const int64_t before = TakenBytes();
  std::vector<void *> blocks(HAK_MIB(8) / 256); /* fewer than growth.h looks at */
  for (void *&block : blocks) block = hak_malloc(256);
  EXPECT_GE(TakenBytes(), before + HAK_MIB(8));
  std::thread([&] {
    for (void *block : blocks) hak_free(block);
  }).join();
  hak_thread_flush();
  EXPECT_LE(TakenBytes(), before);
  EXPECT_EQ(TakenBytes(), TakenByTheMap());
}

/* What others hold counts, too. */
TEST(RoomForLarge, IsFourTimesWhatIsOutAndAtLeastTheFloor) {
  constexpr size_t kFloor = HAK_MIB(4);
  EXPECT_EQ(capacity_large(HAK_MIB(100), 0, kFloor, 0, 0), HAK_MIB(80));
  EXPECT_EQ(capacity_large(HAK_MIB(100), HAK_MIB(30), kFloor, 8, 8), HAK_MIB(20)) << "what is out, for all together";
  EXPECT_EQ(capacity_large(HAK_MIB(100), HAK_MIB(90), kFloor, 8, 8), HAK_MIB(4));
  EXPECT_EQ(capacity_large(0, 0, kFloor, 8, 8), HAK_MIB(4));
  EXPECT_EQ(capacity_large(0, 0, kFloor, 8, 2), HAK_MIB(16)) << "of which a quarter is resident";
  EXPECT_EQ(capacity_large(0, 0, kFloor, 8, 0), SIZE_MAX) << "nothing is";
}

TEST(RoomForLarge, WhatIsInNoMemoryIsAbsent) {
  EXPECT_EQ(capacity_absent(HAK_MIB(80), 0, 0), 0u) << "nobody has looked";
  EXPECT_EQ(capacity_absent(HAK_MIB(80), 8, 8), 0u);
  EXPECT_EQ(capacity_absent(HAK_MIB(80), 8, 2), HAK_MIB(60));
  EXPECT_EQ(capacity_absent(HAK_MIB(80), 160, 0), HAK_MIB(70)) << "but for the ends";
  EXPECT_EQ(capacity_absent(HAK_MIB(80), 160, 20), HAK_MIB(70)) << "which are among them";
}

TEST(RoomForLarge, FloorIsSharedAmongThreads) {
  EXPECT_EQ(capacity_large_floor(1, 0), LARGE_FLOOR_BYTES);
  EXPECT_EQ(capacity_large_floor(8, HAK_MIB(1)), HAK_MIB(3));
  EXPECT_EQ(capacity_large_floor(2, HAK_MIB(3)), HAK_MIB(2));
  EXPECT_EQ(capacity_large_floor(32, HAK_MIB(300)), LARGE_FLOOR_LEAST_BYTES);
}

#if defined(HAK_TEST_EMULATED)
constexpr bool kIsEmulated = true;
#else
constexpr bool kIsEmulated = false;
#endif

/* Another thread with large blocks in its magazines. */
class RoomOfOthers : public testing::Test {
 protected:
  void SetUp() override {
    hak_free(hak_malloc(100));
    thread_ = std::thread([this] {
      UseLarge();
      Reach(1);
      Await(2);
      UseLarge();
      Reach(3); /* or the test has ended */
      Await(4);
    });
    Await(1);
    ASSERT_TRUE(room_is_shared(the_heap)) << "the test is void";
  }
  void TearDown() override {
    Reach(4);
    thread_.join();
    EXPECT_FALSE(room_is_shared(the_heap));
    hak__check_all();
  }
  static void UseLarge() {
    for (int i = 0; i < 8; i++) {
      std::vector<void *> blocks(8);
      for (void *&block : blocks) block = hak_malloc(100000);
      for (void *block : blocks) hak_free(block);
    }
  }
  void Reach(int step) { step_ = std::max<int>(step_, step); }
  void Await(int step) const {
    while (step_ < step) std::this_thread::yield();
  }

 private:
  std::atomic<int> step_{0};
  std::thread thread_;
};

TEST_F(RoomOfOthers, IsNoneWhereTheySleep) {
  if (HAK_THREAD_SANITIZER || !os_fence_all_threads()) GTEST_SKIP() << "magazines are not stripped here";
  for (int i = 0; i < 2; i++) tidy_sweep_attached(strip_if_unused);
  EXPECT_FALSE(room_is_shared(the_heap));
  Reach(2);
  Await(3);
  EXPECT_TRUE(room_is_shared(the_heap)) << "it is at work again";
}

TEST_F(RoomOfOthers, IsNoneInAForkedChild) {
  hak_test::Outcome outcome = hak_test::in_child([] {
    pool_before_fork(); /* there are no fork handlers in this program */
    thread_after_fork();
    if (room_is_shared(the_heap)) return 1;
    if (HAK_THREAD_SANITIZER || kIsEmulated) return 0; /* there, no thread starts in a child */
    std::thread([] { UseLarge(); }).join();            /* it or the next one gets the heap of the parent's */
    hak__check_all();
    if (room_is_shared(the_heap)) return 2;
    bool is_shared = false;
    std::thread([&, heap = the_heap] {
      UseLarge();
      is_shared = room_is_shared(heap);
    }).join();
    return is_shared ? 0 : 3;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

}  // namespace
