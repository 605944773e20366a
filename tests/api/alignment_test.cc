/*
 * aligned_alloc, posix_memalign, memalign, valloc and pvalloc.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/surface.h"
#include "support/payload.h"

#include <cerrno>
#include <malloc.h>
#include <unistd.h>
#include <vector>

using hak_test::stamp;
using hak_test::stamped;

class Aligned : public BothSurfaces {};
FOR_BOTH_SURFACES(Aligned);

TEST_P(Aligned, EveryPowerOfTwoTimesManySizes) {
  struct Piece {
    void *block;
    std::size_t alignment, bytes;
  };
  std::vector<Piece> pieces;
  for (std::size_t alignment = 1; alignment <= 8 << 20; alignment *= 2) {
    for (std::size_t bytes : kSizes) {
      if (bytes > 4 << 20 && alignment % 8 != 0) continue;
      void *block = s.aligned_alloc(alignment, bytes);
      ASSERT_NE(block, nullptr) << "aligned_alloc(" << alignment << ", " << bytes << ")";
      EXPECT_TRUE(aligned_to(block, alignment)) << block << " of aligned_alloc(" << alignment << ", " << bytes << ")";
      EXPECT_TRUE(aligned_to(block, 16));
      EXPECT_GE(s.usable(block), bytes);
      stamp(block, bytes, 1);
      pieces.push_back({block, alignment, bytes});
      if (pieces.size() > 60) {
        std::size_t oldest = pieces.size() - 60;
        EXPECT_TRUE(stamped(pieces[oldest].block, pieces[oldest].bytes, 1)) << "overwritten: " << pieces[oldest].block;
        s.free(pieces[oldest].block);
        pieces[oldest].block = nullptr;
      }
    }
  }
  for (const Piece &piece : pieces) {
    if (piece.block == nullptr) continue;
    EXPECT_TRUE(stamped(piece.block, piece.bytes, 1))
        << "overwritten: aligned_alloc(" << piece.alignment << ", " << piece.bytes << ")";
    s.free(piece.block);
  }
}

TEST_P(Aligned, UpToOneGibibyte) {
  for (std::size_t alignment = 16 << 20; alignment <= std::size_t{1} << 30; alignment *= 2) {
    for (std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 16, std::size_t{3} << 20}) {
      void *first = s.aligned_alloc(alignment, bytes), *second = s.aligned_alloc(alignment, bytes);
      ASSERT_NE(first, nullptr) << "aligned_alloc(" << alignment << ", " << bytes << ")";
      ASSERT_NE(second, nullptr);
      EXPECT_NE(first, second);
      for (void *block : {first, second}) {
        EXPECT_TRUE(aligned_to(block, alignment)) << block << ", " << alignment;
        stamp(block, bytes, 2);
      }
      EXPECT_TRUE(stamped(first, bytes, 2));
      EXPECT_TRUE(stamped(second, bytes, 2));
      s.free(first);
      s.free(second);
    }
  }
}

TEST_P(Aligned, AlignedAllocRefusesWhatIsNoPowerOfTwo) {
  for (std::size_t alignment : {std::size_t{0}, std::size_t{3}, std::size_t{24}, std::size_t{48}, std::size_t{4097},
                                std::size_t{65535}, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(s.aligned_alloc(alignment, 100), nullptr) << "alignment " << alignment;
    EXPECT_EQ(errno, EINVAL) << "alignment " << alignment;
  }
}

/* ISO C17 dropped the rule that the size is a multiple of the alignment. */
TEST_P(Aligned, AlignedAllocTakesAnySize) {
  void *block = s.aligned_alloc(64, 65);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(aligned_to(block, 64));
  EXPECT_GE(s.usable(block), 65u);
  s.free(block);
}

TEST_P(Aligned, PosixMemalignChecksItsArguments) {
  for (std::size_t alignment : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{7},
                                std::size_t{12}, std::size_t{24}, std::size_t{40}, std::size_t{4095}, SIZE_MAX}) {
    void *out = &out;
    errno = 4711;
    EXPECT_EQ(s.posix_memalign(&out, alignment, 100), EINVAL) << "alignment " << alignment;
    EXPECT_EQ(out, &out) << "the result was written although alignment " << alignment << " is wrong";
    EXPECT_EQ(errno, 4711) << "errno was changed";
  }
  for (std::size_t alignment = sizeof(void *); alignment <= 1 << 22; alignment *= 2) {
    for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{70000}}) {
      void *out = nullptr;
      errno = 4711;
      ASSERT_EQ(s.posix_memalign(&out, alignment, bytes), 0) << alignment << ", " << bytes;
      EXPECT_EQ(errno, 4711) << "errno was changed";
      EXPECT_NE(out, nullptr);
      EXPECT_TRUE(aligned_to(out, alignment)) << out << ", " << alignment;
      EXPECT_GE(s.usable(out), bytes);
      s.free(out);
    }
  }
}

TEST_P(Aligned, ReallocOfAnAlignedBlockKeepsItsContent) {
  for (std::size_t alignment : {std::size_t{32}, std::size_t{256}, std::size_t{4096}, std::size_t{1} << 18}) {
    for (std::size_t bytes : {std::size_t{24}, std::size_t{500}, std::size_t{40000}, std::size_t{300000}}) {
      for (std::size_t to : {bytes / 2, bytes * 3, bytes + 1, std::size_t{6} << 20}) {
        if (bytes > kLargestRealloc) continue;
        void *block = s.aligned_alloc(alignment, bytes);
        ASSERT_NE(block, nullptr);
        hak_test::stamp_as(block, bytes, 77);
        void *moved = s.realloc(block, to);
        ASSERT_NE(moved, nullptr) << alignment << ", " << bytes << " to " << to;
        EXPECT_GE(s.usable(moved), to);
        EXPECT_TRUE(hak_test::stamped_as(moved, std::min(bytes, to), 77, bytes))
            << "content lost: aligned_alloc(" << alignment << ", " << bytes << ") to " << to;
        s.free(moved);
      }
    }
  }
}

/* Aligned blocks must not disturb the ordinary ones of their class, nor be given out twice. */
TEST_P(Aligned, MixWithOrdinaryBlocks) {
  hak_test::Random random(3);
  struct Piece {
    void *block;
    std::size_t bytes;
    std::uint64_t key;
  };
  std::vector<Piece> pieces;
  for (std::uint64_t i = 0; i < 20000; i++) {
    if (pieces.size() > 500 || (!pieces.empty() && random.below(3) == 0)) {
      std::swap(pieces[random.below(pieces.size())], pieces.back());
      Piece &piece = pieces.back();
      ASSERT_TRUE(hak_test::stamped_as(piece.block, piece.bytes, piece.key, piece.bytes))
          << "overwritten: " << piece.block;
      s.free(piece.block);
      pieces.pop_back();
      continue;
    }
    std::size_t bytes = random.size_between(1, 100000), alignment = std::size_t{1} << random.below(17);
    void *block = random.below(2) == 0 ? s.malloc(bytes) : s.aligned_alloc(alignment, bytes);
    ASSERT_NE(block, nullptr);
    bytes = s.usable(block);
    hak_test::stamp_as(block, bytes, i);
    pieces.push_back({block, bytes, i});
  }
  for (const Piece &piece : pieces) {
    EXPECT_TRUE(hak_test::stamped_as(piece.block, piece.bytes, piece.key, piece.bytes))
        << "overwritten: " << piece.block;
    s.free(piece.block);
  }
}

TEST(LibcAligned, Memalign) {
  for (std::size_t alignment = 1; alignment <= 1 << 22; alignment *= 2) {
    for (std::size_t bytes : {std::size_t{0}, std::size_t{10}, std::size_t{5000}, std::size_t{200000}}) {
      void *block = memalign(alignment, bytes);
      ASSERT_NE(block, nullptr) << alignment << ", " << bytes;
      EXPECT_TRUE(aligned_to(block, alignment)) << block << ", " << alignment;
      EXPECT_GE(malloc_usable_size(block), bytes);
      stamp(block, bytes, 4);
      free(block);
    }
  }
}

/* glibc rounds an odd alignment up, the BSDs refuse it: both are sound, a less aligned block is not. */
TEST(LibcAligned, MemalignWithAnOddAlignmentNeverGivesLess) {
  for (std::size_t alignment : {3, 24, 48, 100, 5000}) {
    std::size_t rounded = 1;
    while (rounded < alignment) rounded *= 2;
    errno = 0;
    void *block = memalign(alignment, 100);
    if (block == nullptr) EXPECT_EQ(errno, EINVAL) << alignment;
    else EXPECT_TRUE(aligned_to(block, rounded)) << block << ", " << alignment;
    free(block);
  }
}

TEST(LibcAligned, VallocAndPvallocGivePages) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t bytes : {std::size_t{1}, std::size_t{100}, page - 1, page, page + 1, 10 * page + 5}) {
    void *block = valloc(bytes);
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_TRUE(aligned_to(block, page)) << block;
    stamp(block, bytes, 6);
    free(block);

    block = pvalloc(bytes);
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_TRUE(aligned_to(block, page)) << block;
    EXPECT_GE(malloc_usable_size(block), (bytes + page - 1) / page * page) << "pvalloc gives whole pages";
    stamp(block, malloc_usable_size(block), 6);
    free(block);
  }
  for (void *block : {valloc(0), pvalloc(0)}) {
    EXPECT_NE(block, nullptr);
    EXPECT_TRUE(aligned_to(block, page));
    free(block);
  }
}
