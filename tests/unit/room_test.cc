/* What a thread's magazines of large blocks may hold: room.h. SPDX-License-Identifier: MIT */
#include "layers.h"

extern "C" {
#include "front/capacity.h"
#include "front/magazine.h"
#include "front/room.h"
}

#include <cstring>
#include <random>
#include <vector>

namespace {

class Room : public testing::Test {
 protected:
  /* Three blocks at a time, of any size; of each some bytes are written to. Returns what lies in magazines in the end. */
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

/* The arena would give out other places, which were never written to. */
TEST_F(Room, BlocksThatAreHardlyUsedAreAllKept) { EXPECT_GE(HeldAfter(false), HAK_MIB(32)); }

/* What others hold counts, too. */
TEST(RoomForLarge, IsFourTimesWhatIsOutAndAtLeastTheFloor) {
  EXPECT_EQ(capacity_large(HAK_MIB(100), 0, 0, 0), HAK_MIB(80));
  EXPECT_EQ(capacity_large(HAK_MIB(100), HAK_MIB(30), 8, 8), HAK_MIB(50));
  EXPECT_EQ(capacity_large(HAK_MIB(100), HAK_MIB(90), 8, 8), HAK_MIB(4));
  EXPECT_EQ(capacity_large(0, 0, 8, 8), HAK_MIB(4));
  EXPECT_EQ(capacity_large(0, 0, 8, 2), HAK_MIB(16)) << "of which a quarter is resident";
  EXPECT_EQ(capacity_large(0, 0, 8, 0), SIZE_MAX) << "nothing is";
}

}  // namespace
