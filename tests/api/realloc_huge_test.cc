/*
 * realloc of blocks that are managed as huge ones: those beyond 4 MiB, and those of
 * any size that were asked for with an alignment above 64 KiB. Whatever the size,
 * before and after, and whether or not there is memory: the result holds as much as
 * was asked for, or it is NULL and the block is as it was.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/surface.h"
#include "support/payload.h"
#include "support/process.h"

#include <hakmem.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <sys/resource.h>
#include <vector>

namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

/* At and around each size from which on realloc decides differently. */
constexpr std::size_t kEdges[] = {1,        1000,         64 * kKiB - 1, 64 * kKiB,    64 * kKiB + 1, 512 * kKiB,
                                  kMiB - 1, kMiB,         kMiB + 1,      2 * kMiB - 1, 2 * kMiB,      2 * kMiB + 1,
                                  3 * kMiB, 4 * kMiB - 1, 4 * kMiB,      4 * kMiB + 1, 5 * kMiB,      9 * kMiB};
constexpr std::size_t kAlignments[] = {128 * kKiB, kMiB, 2 * kMiB, 4 * kMiB};

struct Filled {
  void *at;
  std::size_t bytes;
  std::uint64_t key;
  bool intact() const { return hak_test::stamped_as(at, bytes, key, bytes); }
};

/* Says what went wrong in a child, whose exit status it also is. */
int wrong(int code, const char *what, const Filled &block, std::size_t to) {
  std::fprintf(stderr, "%s: a block of %zu bytes, realloc to %zu\n", what, block.bytes, to);
  return code;
}

/* Nothing of up to 16 bytes is left; what is taken is never given back. */
void take_all_memory(const Surface &s) {
  for (std::size_t bytes : {8 * kMiB, kMiB, 64 * kKiB, kKiB, std::size_t{16}})
    while (hak_test::opaque(s.malloc(bytes)) != nullptr) {}
}

/* Reallocs each block to `to`, and looks at the result and at all other blocks. */
int realloc_each(const Surface &s, std::vector<Filled> &blocks, std::size_t to, bool memory_is_short) {
  for (Filled &block : blocks) {
    const Filled before = block;
    if (memory_is_short) take_all_memory(s);
    errno = 0;
    void *moved = s.realloc(block.at, to);
    if (moved == nullptr) {
      if (!memory_is_short) return wrong(2, "there is memory, and NULL", before, to);
      if (errno != ENOMEM) return wrong(3, "NULL, and errno is not ENOMEM", before, to);
      if (!block.intact()) return wrong(4, "a realloc that failed changed the block", before, to);
      continue;
    }
    if (s.usable(moved) < to) return wrong(5, "success, and the block is too small", before, to);
    if (!hak_test::stamped_as(moved, std::min(to, before.bytes), before.key, before.bytes))
      return wrong(6, "the contents are lost", before, to);
    block = {moved, to, before.key + 1};
    hak_test::stamp_as(moved, to, block.key);
  }
  for (const Filled &block : blocks) {
    if (!block.intact()) return wrong(7, "another block overwrote this one", block, to);
    s.free(block.at);
  }
  return 0;
}

}  // namespace

class ReallocHuge : public BothSurfaces {
 protected:
  void SetUp() override {
    if (kEmulated) GTEST_SKIP() << "the emulator loses pages that realloc moves";
  }
  /* A block of each size on the edge, with that alignment. */
  std::vector<Filled> blocks_of(std::size_t alignment) {
    std::vector<Filled> blocks;
    for (std::size_t bytes : kEdges) {
      Filled block = {s.aligned_alloc(alignment, bytes), bytes, hak_test::mix(alignment + bytes)};
      if (block.at == nullptr) std::abort();
      hak_test::stamp_as(block.at, bytes, block.key);
      blocks.push_back(block);
    }
    return blocks;
  }
};
FOR_BOTH_SURFACES(ReallocHuge);

TEST_P(ReallocHuge, OfAlignedBlocksAcrossEveryEdge) {
  for (std::size_t alignment : kAlignments)
    for (std::size_t to : kEdges) {
      std::vector<Filled> blocks = blocks_of(alignment);
      ASSERT_EQ(realloc_each(s, blocks, to, false), 0) << "aligned to " << alignment;
    }
}

TEST_P(ReallocHuge, OfAlignedBlocksWithoutMemory) {
  for (std::size_t alignment : kAlignments)
    for (std::size_t to : kEdges) {
      hak_test::Outcome outcome = hak_test::in_child([&] {
        std::vector<Filled> blocks = blocks_of(alignment);
        rlimit limit = {(hak_test::status_kib("VmData:") << 10) + 16 * kMiB, RLIM_INFINITY};
        limit.rlim_max = limit.rlim_cur;
        if (setrlimit(RLIMIT_DATA, &limit) != 0) return 1;
        return realloc_each(s, blocks, to, true);
      });
      ASSERT_TRUE(outcome.exited_with(0)) << "aligned to " << alignment << ": " << outcome.describe();
    }
}

/* What grows by one byte at a time around an edge and shrinks again. */
TEST_P(ReallocHuge, BackAndForthOverAnEdge) {
  for (std::size_t edge : {64 * kKiB, kMiB, 2 * kMiB, 4 * kMiB}) {
    Filled block = {s.aligned_alloc(256 * kKiB, 100), 100, edge};
    ASSERT_NE(block.at, nullptr);
    hak_test::stamp_as(block.at, block.bytes, block.key);
    for (std::size_t round = 0; round < 40; round++) {
      const std::size_t to = round % 2 == 0 ? edge + round : edge / 2 - round;
      void *moved = s.realloc(block.at, to);
      ASSERT_NE(moved, nullptr) << to;
      ASSERT_GE(s.usable(moved), to);
      ASSERT_TRUE(hak_test::stamped_as(moved, std::min(to, block.bytes), block.key, block.bytes)) << to;
      block = {moved, to, block.key + 1};
      hak_test::stamp_as(moved, to, block.key);
    }
    s.free(block.at);
  }
}
