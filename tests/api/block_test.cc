/*
 * What a block is: its own memory, all of it usable, aligned, zero where calloc
 * promises zero; and what free leaves alone.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/surface.h"
#include "support/payload.h"

#include <hakmem.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

using hak_test::Random;
using hak_test::stamp;
using hak_test::stamped;

class Block : public BothSurfaces {};
FOR_BOTH_SURFACES(Block);

TEST_P(Block, OfSizeZeroIsUniqueAndFreeable) {
  std::set<void *> blocks;
  for (int i = 0; i < 1000; i++) {
    void *block = s.malloc(0);
    ASSERT_NE(block, nullptr) << "malloc(0) number " << i;
    EXPECT_TRUE(blocks.insert(block).second) << block << " was given out twice";
  }
  for (void *block : blocks) s.free(block);
  for (auto zero : {s.calloc(0, 8), s.calloc(8, 0), s.realloc(nullptr, 0), s.reallocarray(nullptr, 0, 7)}) {
    EXPECT_NE(zero, nullptr);
    s.free(zero);
  }
}

TEST_P(Block, FreeOfNullDoesNothing) {
  s.free(nullptr);
  s.free_sized(nullptr, 10);
  s.free_aligned_sized(nullptr, 64, 10);
  EXPECT_EQ(s.usable(nullptr), 0u);
}

TEST_P(Block, IsAlignedToSixteenAndPowersOfTwoToThemselves) {
  std::vector<void *> blocks;
  for (std::size_t bytes : kSizes) {
    std::size_t wanted = 16;
    if (bytes >= 16 && bytes <= 4096 && (bytes & (bytes - 1)) == 0) wanted = bytes;
    for (int i = 0; i < (bytes <= 65536 ? 300 : 2); i++) {
      void *block = s.malloc(bytes);
      ASSERT_NE(block, nullptr) << bytes;
      EXPECT_TRUE(aligned_to(block, wanted)) << block << " of malloc(" << bytes << ")";
      blocks.push_back(block);
    }
  }
  for (std::size_t bytes = 1; bytes <= 4096; bytes *= 2) {
    for (void *block : {s.calloc(1, bytes), s.realloc(nullptr, bytes)}) {
      EXPECT_TRUE(aligned_to(block, std::max<std::size_t>(16, bytes))) << block << " of " << bytes;
      blocks.push_back(block);
    }
  }
  for (void *block : blocks) s.free(block);
}

/* Every usable byte of every block is that block's alone. */
TEST_P(Block, UsableBytesAreUsableAndNobodyElses) {
  struct Piece {
    void *block;
    std::size_t bytes;
  };
  std::vector<Piece> pieces;
  Random random(1);
  for (int i = 0; i < 20000; i++) {
    std::size_t asked = random.size_between(1, i % 100 == 0 ? 6 << 20 : 20000);
    if (i % 100 != 0 && pieces.size() > 8000) {
      std::swap(pieces[random.below(pieces.size())], pieces.back());
      ASSERT_TRUE(stamped(pieces.back().block, pieces.back().bytes, 1)) << "overwritten: " << pieces.back().block;
      s.free(pieces.back().block);
      pieces.pop_back();
    }
    if (i % 100 == 0 && i >= 4000) continue; /* 40 big ones are enough */
    void *block = s.malloc(asked);
    ASSERT_NE(block, nullptr);
    std::size_t usable = s.usable(block);
    ASSERT_GE(usable, asked) << block;
    stamp(block, usable, 1);
    pieces.push_back({block, usable});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece &a, const Piece &b) { return a.block < b.block; });
  for (std::size_t i = 0; i < pieces.size(); i++) {
    const Piece &piece = pieces[i];
    if (i > 0) {
      const Piece &before = pieces[i - 1];
      EXPECT_LE(static_cast<char *>(before.block) + before.bytes, piece.block)
          << "a block of " << before.bytes << " usable bytes reaches into the next";
    }
    EXPECT_TRUE(stamped(piece.block, piece.bytes, 1)) << "overwritten: " << piece.block << ", " << piece.bytes;
    EXPECT_EQ(s.usable(piece.block), piece.bytes) << "usable size changed by itself";
  }
  for (const Piece &piece : pieces) s.free(piece.block);
}

/* That asks the system whether what lies before it can be read. */
TEST_P(Block, UsableSizeOfAnothersBlockLeavesErrnoAlone) {
  alignas(64) static char others[256]; /* glibc's chunk of 112 bytes, for all that anybody can tell */
  std::size_t header = 112 | 1;
  std::memcpy(others + 120, &header, sizeof header);
  for (char *block : {others + 128, others}) {
    errno = 0;
    (void)s.usable(block);
    EXPECT_EQ(errno, 0);
  }
}

/* malloc_usable_size must not make the rest of the size class unreachable: what
 * it says, realloc must be able to use in place. */
TEST_P(Block, GrowsInPlaceToItsUsableSize) {
  for (std::size_t bytes : kSizes) {
    void *block = s.malloc(bytes);
    std::size_t usable = s.usable(block);
    if (usable == 0) usable = 1;
    void *same = s.realloc(block, usable);
    EXPECT_EQ(same, block) << "realloc of malloc(" << bytes << ") to its usable size " << usable << " moved it";
    s.free(same);
  }
}

TEST_P(Block, OfCallocIsZero) {
  for (std::size_t bytes : kSizes) {
    for (int round = 0; round < 8; round++) {
      auto *block = static_cast<unsigned char *>(s.calloc(1, bytes));
      ASSERT_NE(block, nullptr) << bytes;
      auto *end = block + bytes;
      auto *dirty = std::find_if(block, end, [](unsigned char c) { return c != 0; });
      ASSERT_EQ(dirty, end) << "byte " << dirty - block << " of calloc(1, " << bytes << ") is not zero, round "
                            << round;
      std::memset(block, 0xff, s.usable(block));
      s.free(block);
      /* By way of the magazine, of the slab, and of the arena. */
      if (round == 3) hak_thread_flush();
      if (round == 5) hak_trim(0);
    }
  }
}

/* The same where the memory before had other sizes: dirty everything, free it, then calloc all over it. */
TEST_P(Block, OfCallocIsZeroInMemoryThatOthersLeft) {
  Random random(2);
  std::vector<std::pair<void *, std::size_t>> blocks;
  for (int round = 0; round < 6; round++) {
    for (int i = 0; i < 400; i++) {
      std::size_t bytes = random.size_between(1, i % 20 == 0 ? 9 << 20 : 200000);
      std::size_t count = random.between(1, 9);
      auto *block = static_cast<unsigned char *>(s.calloc(count, bytes / count));
      ASSERT_NE(block, nullptr);
      bytes = bytes / count * count;
      auto *dirty = std::find_if(block, block + bytes, [](unsigned char c) { return c != 0; });
      ASSERT_EQ(dirty, block + bytes) << "byte " << dirty - block << " of calloc of " << bytes << " bytes";
      std::memset(block, 0xa5, s.usable(block));
      blocks.emplace_back(block, bytes);
    }
    while (!blocks.empty()) {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      s.free(blocks.back().first);
      blocks.pop_back();
    }
    if (round % 2 == 1) hak_thread_flush();
  }
}

TEST_P(Block, FreeKeepsErrno) {
  for (std::size_t bytes : kSizes) {
    std::vector<void *> blocks;
    for (int i = 0; i < (bytes <= 4096 ? 5000 : bytes <= 65536 ? 500 : 4); i++) blocks.push_back(s.malloc(bytes));
    std::size_t index = 0;
    for (void *block : blocks) {
      errno = 4711;
      if (index % 3 == 1) s.free_sized(block, bytes);
      else s.free(block);
      ASSERT_EQ(errno, 4711) << "after free number " << index << " of blocks of " << bytes << " bytes";
      index++;
    }
  }
  errno = 4711;
  s.free(nullptr);
  EXPECT_EQ(errno, 4711);
}

TEST_P(Block, SuccessKeepsErrno) {
  for (std::size_t bytes : kSizes) {
    errno = 4711;
    void *block = s.malloc(bytes);
    EXPECT_EQ(errno, 4711) << "malloc(" << bytes << ") succeeded and changed errno";
    s.free(block);
  }
}

TEST_P(Block, MayBeFreedWithItsSize) {
  for (std::size_t bytes : kSizes) {
    for (int i = 0; i < 50; i++) {
      s.free_sized(s.malloc(bytes), bytes);
      s.free_sized(s.calloc(1, bytes), bytes);
      s.free_sized(s.realloc(s.malloc(33), bytes == 0 ? 1 : bytes), bytes == 0 ? 1 : bytes);
      for (std::size_t alignment : {std::size_t{8}, std::size_t{64}, std::size_t{4096}, std::size_t{1} << 17})
        s.free_aligned_sized(s.aligned_alloc(alignment, bytes), alignment, bytes);
    }
  }
  hak_thread_flush();
  hak_stats_t stats;
  hak_stats(&stats, sizeof stats);
  EXPECT_EQ(stats.errors, 0u) << "a correct sized free was reported";
}
