/* Size classes: which block serves a request. SPDX-License-Identifier: MIT */
#include "layers.h"

#include <iterator>
#include <set>

/* Found by looking at every class, as size_class_of does not. */
TEST(SizeClass, EverySizeGetsTheSmallestClassThatHoldsIt) {
  unsigned expected = 0;
  for (size_t bytes = 0; bytes <= LARGE_MAX_BYTES; bytes++) {
    /* Class 0 is malloc(0) alone. */
    if (bytes == 1) expected = 1;
    while (size_classes[expected].block_bytes < bytes) expected++;
    ASSERT_LT(expected, unsigned{SIZE_CLASS_COUNT}) << bytes << " bytes fit no class";
    ASSERT_EQ(size_class_of(bytes), expected) << "for " << bytes << " bytes";
  }
  EXPECT_EQ(expected, unsigned{SIZE_CLASS_COUNT - 1}) << "the last class is for nothing";
}

TEST(SizeClass, SizesRiseInMultiplesOfSixteen) {
  for (unsigned c = 1; c < SIZE_CLASS_COUNT; c++) {
    EXPECT_EQ(size_classes[c].block_bytes % 16, 0u) << "class " << c;
    EXPECT_TRUE(c == 1 || size_classes[c].block_bytes > size_classes[c - 1].block_bytes) << "class " << c;
  }
  EXPECT_EQ(size_classes[0].block_bytes, 16u);
}

TEST(SizeClass, NoSizeAboveTinyWastesMoreThanAnEighth) {
  for (unsigned c = TINY_CLASS_COUNT; c < SIZE_CLASS_COUNT; c++) {
    unsigned smallest = size_classes[c - 1].block_bytes + 1;
    unsigned wasted = size_classes[c].block_bytes - smallest;
    bool in_units = size_classes[c].block_bytes <= HAK_MIB(1) && c >= MID_CLASS_END;
    EXPECT_TRUE(in_units ? wasted < unsigned{UNIT_BYTES} : wasted * 8 <= size_classes[c].block_bytes) << "class " << c;
  }
}

TEST(SizeClass, SlabsHoldTheirBlocks) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const size_class_t &k = size_classes[c];
    size_t slab_bytes = size_t{k.slab_units} * UNIT_BYTES;
    if (size_class_is_single(c)) {
      EXPECT_EQ(k.capacity, 1) << "class " << c;
      EXPECT_EQ(k.block_bytes, slab_bytes) << "a lone block fills its run; class " << c;
      continue;
    }
    EXPECT_EQ(k.capacity, slab_bytes / k.block_bytes) << "class " << c;
    EXPECT_GE(k.capacity, 8) << "class " << c;
    EXPECT_LE(k.capacity, UNIT_BITMAP_WORDS * 64) << "more blocks than bits; class " << c;
    EXPECT_TRUE(is_power_of_two(k.slab_units)) << "slab_first_unit masks; class " << c;
    EXPECT_LE(slab_bytes, size_t{1} << 19) << "the reciprocal is exact below; class " << c;
  }
}

TEST(SizeClass, ReciprocalDividesEveryOffsetExactly) {
  for (unsigned c = 0; c < MID_CLASS_END; c++) {
    const size_class_t &k = size_classes[c];
    unsigned block = 0;
    size_t next = k.block_bytes;
    for (size_t offset = 0; offset < size_t{k.slab_units} * UNIT_BYTES; offset++) {
      if (offset == next) block++, next += k.block_bytes;
      ASSERT_EQ(size_class_block_at(&k, offset), block) << "class " << c << ", offset " << offset;
    }
  }
}

TEST(SizeClass, PowersOfTwoAreClassesSoTheirBlocksAreAlignedToTheirSize) {
  for (size_t bytes = 16; bytes <= LARGE_MAX_BYTES; bytes *= 2)
    EXPECT_EQ(size_classes[size_class_of(bytes)].block_bytes, bytes);
}

TEST(SizeClass, AKiBWithALittleBesideItLosesNothing) {
  for (size_t bytes : {1025, 1032, 1040}) {
    EXPECT_EQ(size_classes[size_class_of(bytes)].block_bytes, 1040u) << bytes;
    EXPECT_EQ(size_class_of(bytes), size_class_tiny(bytes)) << "on the fast path";
  }
  EXPECT_EQ(size_classes[size_class_of(1041)].block_bytes, 1152u);
}

TEST(SizeClass, APowerOfTwoWithALittleBesideItLosesLittle) {
  for (size_t power : {HAK_KIB(1), HAK_KIB(2), HAK_KIB(4), HAK_KIB(8), HAK_KIB(16), HAK_KIB(32)}) {
    for (size_t more : {size_t{1}, size_t{16}, power / 64}) {
      const size_class_t &k = size_classes[size_class_of(power + more)];
      EXPECT_LE(k.block_bytes, power + power / 15) << power << " and " << more;
      EXPECT_LE(size_t{k.slab_units} * UNIT_BYTES - size_t{k.capacity} * k.block_bytes, k.block_bytes / 4)
          << "it loses as much at the end of its slab";
    }
  }
}

/* The first of all classes that will do, whatever is asked for. */
TEST(SizeClass, AnAlignedRequestGetsTheSmallestClassThatServes) {
  const auto serves = [](unsigned c, std::size_t alignment, std::size_t bytes) {
    return size_classes[c].block_bytes >= bytes && size_classes[c].block_bytes % alignment == 0;
  };
  for (std::size_t alignment = 1; alignment <= UNIT_BYTES; alignment *= 2) {
    unsigned expected = 0;
    for (std::size_t bytes = 1; bytes <= LARGE_MAX_BYTES; bytes += bytes < 100000 ? 1 : 997) {
      while (expected < SIZE_CLASS_COUNT && (expected == 0 || !serves(expected, alignment, bytes))) expected++;
      ASSERT_EQ(size_class_aligned(alignment, bytes), expected) << bytes << " bytes aligned to " << alignment;
    }
    EXPECT_EQ(size_class_aligned(alignment, LARGE_MAX_BYTES + 1), unsigned{SIZE_CLASS_COUNT});
  }
  EXPECT_EQ(size_class_aligned(2 * UNIT_BYTES, 1), unsigned{SIZE_CLASS_COUNT});
  EXPECT_EQ(size_class_aligned(16, 0), 0u);
}

TEST(SizeClass, CoarseClassesHoldMoreAndAreAlignedAsWell) {
  std::set<unsigned> coarse;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const unsigned k = size_class_coarse(c);
    const size_t bytes = size_classes[c].block_bytes, held = size_classes[k].block_bytes;
    coarse.insert(k);
    EXPECT_EQ(size_class_coarse(k), k);
    EXPECT_GE(held, bytes);
    EXPECT_LE(held, bytes + bytes / 2);
    EXPECT_EQ(held % (bytes & -bytes), 0u) << "class " << c << " is aligned, what it borrows is not";
    if (size_class_is_single(c)) {
      EXPECT_EQ(k, c);
    }
  }
  EXPECT_EQ(std::distance(coarse.begin(), coarse.lower_bound(TINY_CLASS_COUNT)), 12) << "two steps a doubling";
  EXPECT_EQ(std::distance(coarse.begin(), coarse.lower_bound(MID_CLASS_END)), 12 + 13) << "the same, and 1152";
}

TEST(SizeClass, SharedClassesHoldMoreAreAlignedAsWellAndOfWholeLines) {
  unsigned tiny = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const unsigned k = size_class_shared(c);
    const size_t bytes = size_classes[c].block_bytes, held = size_classes[k].block_bytes;
    EXPECT_EQ(size_class_shared(k), k);
    EXPECT_GE(held, bytes);
    EXPECT_EQ(held % (bytes & -bytes), 0u) << "class " << c << " is aligned, what it borrows is not";
    if (c < TINY_CLASS_COUNT) {
      EXPECT_EQ(held % HAK_CACHE_LINE, 0u) << "class " << c << ": threads would write to the same lines";
    }
    EXPECT_EQ(size_class_is_shared(c), c < TINY_CLASS_COUNT && k == c);
    tiny += size_class_is_shared(c);
  }
  EXPECT_EQ(tiny, 8u);
}

TEST(SizeClass, StandInsAreLargeAndALittleLarger) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const unsigned last = size_class_stand_in(c);
    ASSERT_LT(last, unsigned{SIZE_CLASS_COUNT});
    if (!size_class_is_single(c) || c == SIZE_CLASS_COUNT - 1) {
      EXPECT_EQ(last, c);
      continue;
    }
    EXPECT_GT(last, c);
    const size_t bytes = size_classes[c].block_bytes, held = size_classes[last].block_bytes;
    EXPECT_LE(held, bytes + max_size(bytes / 4, UNIT_BYTES)) << "class " << c;
  }
}

/* A block's number is found from its address, and from no other address. */
TEST(SizeClass, OnlyStartsOfBlocksAreBlocks) {
  ASSERT_TRUE(arena_ready());
  const unit_t slab = the_map.zone_first[ZONE_SMALL]; /* only addresses are computed */
  for (unsigned c : {1u, 3u, 41u, 64u, 65u, 79u, 104u, 112u}) {
    const size_class_t &k = size_classes[c];
    unsigned number;
    for (unsigned n = 0; n < k.capacity; n++) {
      char *block = static_cast<char *>(slab_block_address(slab, c, n));
      ASSERT_TRUE(slab_block_number(block, slab, c, &number));
      ASSERT_EQ(number, n);
      ASSERT_FALSE(slab_block_number(block + 1, slab, c, &number));
      ASSERT_FALSE(slab_block_number(block + k.block_bytes - 1, slab, c, &number));
    }
    size_t tail = size_t{k.slab_units} * UNIT_BYTES - size_t{k.capacity} * k.block_bytes;
    if (tail == 0) continue;
    EXPECT_FALSE(slab_block_number(slab_block_address(slab, c, k.capacity), slab, c, &number)) << "in the tail";
  }
}
