/* Huge blocks: runs of their own, growing without copies. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"

#include <cstdio>
#include <string>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using hak_test::huge_resized;
using hak_test::kMiB;
using hak_test::purge_dirty;

class Huge : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(arena_ready());
    used = arena_usage().used;
  }
  void TearDown() override {
    arena_check();
    EXPECT_EQ(arena_usage().used, used) << "a block was not given back whole";
  }
  size_t used = 0;
};

[[maybe_unused]] size_t page_faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_minflt);
}

/* Of the heap, as the system has them. */
size_t mappings() {
  size_t count = 0;
  unsigned long long first = 0, end = 0;
  char line[512];
  FILE *maps = std::fopen("/proc/self/maps", "re");
  for (; maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr;) {
    if (std::sscanf(line, "%llx-%llx", &first, &end) != 2) continue;
    count += first >= reinterpret_cast<uintptr_t>(map_address(the_map.zone_first[ZONE_HUGE])) &&
             end <= reinterpret_cast<uintptr_t>(map_address(the_map.zone_end[ZONE_HUGE]));
  }
  if (maps != nullptr) std::fclose(maps);
  return count;
}

/* Faults there are to be served by the program; of pages that are there, there are none. -1 where that is refused. */
int watch_faults(void *at, size_t bytes) {
#if defined(UFFD_USER_MODE_ONLY)
  const int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
  uffdio_api api = {};
  api.api = UFFD_API;
  uffdio_register range = {};
  range.range.start = reinterpret_cast<uintptr_t>(at);
  range.range.len = bytes;
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0) return fd;
  if (fd >= 0) close(fd);
#else
  (void)at, (void)bytes;
#endif
  return -1;
}

}  // namespace

TEST_F(Huge, AlignedAsAskedForAndUsableToTheEnd) {
  for (size_t alignment : {size_t{1}, size_t{UNIT_BYTES}, 2 * kMiB, 8 * kMiB, 256 * kMiB}) {
    auto *block = static_cast<char *>(huge_alloc(5 * kMiB + 1, alignment, false));
    ASSERT_NE(block, nullptr) << "alignment " << alignment;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
    EXPECT_GE(huge_usable_size(block), 5 * kMiB + 1);
    hak_test::stamp(block, huge_usable_size(block), 1);
    EXPECT_TRUE(hak_test::stamped(block, huge_usable_size(block), 1));
    EXPECT_EQ(map_lookup(block), word_make(0, KIND_HUGE));
    EXPECT_EQ(map_lookup(block + UNIT_BYTES), word_make(0, KIND_INNER));
    EXPECT_TRUE(huge_free(block));
    EXPECT_EQ(map_lookup(block), 0u);
    EXPECT_EQ(map_lookup(block + UNIT_BYTES), 0u);
  }
}

TEST_F(Huge, ZeroedMeansZeroWhateverLayThereBefore) {
  for (int i = 0; i < 4; i++) {
    size_t bytes = (6 + static_cast<size_t>(i)) * kMiB;
    auto *block = static_cast<char *>(huge_alloc(bytes, 1, true));
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(hak_test::is_zero(block, bytes)) << "calloc of " << bytes << " bytes is not zero";
    std::memset(block, 0xEE, bytes);
    EXPECT_TRUE(huge_free(block));
  }
}

TEST_F(Huge, OfTwoFreesOneIsTold) {
  void *block = huge_alloc(5 * kMiB, 1, false);
  EXPECT_TRUE(huge_free(block));
  EXPECT_FALSE(huge_free(block));
}

TEST_F(Huge, WhoResizesWhatAnotherThreadHasIsTold) {
  void *block = huge_alloc(5 * kMiB, 1, false);
  bool is_lost = false;
  EXPECT_EQ(huge_realloc(block, size_t{PTRDIFF_MAX}, &is_lost), nullptr);
  EXPECT_FALSE(is_lost) << "there is no memory";
  ASSERT_TRUE(huge_claim(block));
  EXPECT_EQ(huge_realloc(block, 6 * kMiB, &is_lost), nullptr);
  EXPECT_TRUE(is_lost);
  huge_unclaim(block);
  EXPECT_TRUE(huge_free(block));
}

TEST_F(Huge, GrowsStepByStepWithItsContents) {
  size_t bytes = 5 * kMiB;
  void *block = huge_alloc(bytes, 1, false);
  void *in_the_way = nullptr;
  for (int step = 0; step < 12; step++) {
    hak_test::stamp_as(block, bytes, 5);
    /* Every other time something lies behind it, and it has to move. */
    if (step % 2 == 1) in_the_way = huge_alloc(5 * kMiB, 1, false);
    size_t larger = bytes + bytes / 2 + 12345;
    block = huge_resized(block, larger);
    ASSERT_NE(block, nullptr);
    EXPECT_GE(huge_usable_size(block), larger);
    ASSERT_TRUE(hak_test::stamped_as(block, bytes, 5, bytes)) << "growing to " << larger << " lost the contents";
    bytes = larger;
    arena_check();
    if (step % 2 == 1) huge_free(in_the_way);
  }
  EXPECT_TRUE(huge_free(block));
}

TEST_F(Huge, ShrinkingGivesTheTailBack) {
  auto *block = static_cast<char *>(huge_alloc(64 * kMiB, 1, false));
  hak_test::stamp_as(block, 64 * kMiB, 9);
  EXPECT_EQ(huge_resized(block, 20 * kMiB), block) << "a smaller block need not move";
  EXPECT_EQ(huge_usable_size(block), 20 * kMiB);
  EXPECT_EQ(arena_usage().used - used, 20 * kMiB);
  EXPECT_EQ(map_lookup(block + 20 * kMiB), 0u) << "the tail is still said to be a block's";
  EXPECT_TRUE(hak_test::stamped_as(block, 20 * kMiB, 9, 64 * kMiB));
  EXPECT_EQ(huge_resized(block, 19 * kMiB), block);
  EXPECT_EQ(huge_usable_size(block), 20 * kMiB) << "given back for a trifle";
  EXPECT_TRUE(huge_free(block));
}

TEST_F(Huge, WhatIsCutOffDoesNotStay) {
  constexpr size_t kBlocks = 16;
  void *blocks[kBlocks];
  for (void *&block : blocks) block = huge_alloc(16 * kMiB, 1, false);
  for (void *block : blocks) EXPECT_EQ(huge_resized(block, 4 * kMiB), block);
  EXPECT_LE(arena_usage().dirty, kBlocks * 4 * kMiB / 4) << "of 192 MiB, which nobody uses and nobody frees";
  for (void *block : blocks) EXPECT_TRUE(huge_free(block));
}

/* Its pages were moved; then it is cut, and both parts come back as zero memory. */
TEST_F(Huge, AMovedBlockShrinksAndItsMemoryIsReusable) {
  void *block = huge_alloc(16 * kMiB, 1, false), *in_the_way = huge_alloc(5 * kMiB, 1, false);
  hak_test::stamp_as(block, 16 * kMiB, 3);
  block = huge_resized(block, 48 * kMiB);
  EXPECT_TRUE(hak_test::stamped_as(block, 16 * kMiB, 3, 16 * kMiB));
  block = huge_resized(block, 10 * kMiB);
  EXPECT_TRUE(hak_test::stamped_as(block, 10 * kMiB, 3, 16 * kMiB));
  void *zeroed = huge_alloc(60 * kMiB, 1, true);
  EXPECT_TRUE(hak_test::is_zero(zeroed, 60 * kMiB));
  std::memset(zeroed, 1, 60 * kMiB);
  for (void *each : {block, in_the_way, zeroed}) EXPECT_TRUE(huge_free(each));
}

#if !defined(HAK_TEST_NO_LIMITS) /* sanitizers and the emulator have page faults of their own */
/* What one leaves serves the next one, moved pages and all. */
TEST_F(Huge, WhatGrowsAgainFindsItsPages) {
  constexpr size_t kBytes = 8 * kMiB;
  void *in_the_way = nullptr;
  const auto grows_and_goes = [&] {
    auto *block = static_cast<char *>(huge_alloc(5 * kMiB, 1, false));
    std::memset(block, 1, 5 * kMiB);
    in_the_way = huge_alloc(5 * kMiB, 1, false);
    block = static_cast<char *>(huge_resized(block, kBytes));
    std::memset(block, 1, kBytes);
    EXPECT_TRUE(huge_free(block));
    EXPECT_TRUE(huge_free(in_the_way));
  };
  for (int i = 0; i < 10; i++) grows_and_goes(); /* until it is known that it is reused */
  const size_t before = page_faults();
  for (int i = 0; i < 10; i++) grows_and_goes();
  EXPECT_LT(page_faults() - before, 10 * kBytes / os_page_bytes() / 4) << "faulted in again each time";
}
#endif

/* What is dirty by the books may never have been written to, and most of the block neither. */
TEST_F(Huge, WhatIsHardlyUsedIsNotCopied) {
  ASSERT_TRUE(huge_free(huge_alloc(16 * kMiB, 1, false)));
  auto *block = static_cast<char *>(huge_alloc(5 * kMiB, 1, false));
  void *in_the_way = huge_alloc(5 * kMiB, 1, false);
  std::memset(block, 1, 100);
  block = static_cast<char *>(huge_resized(block, 8 * kMiB));
  EXPECT_LT(hak_test::resident_pages(block, 8 * kMiB), 100u);
  EXPECT_TRUE(huge_free(block));
  EXPECT_TRUE(huge_free(in_the_way));
}

/* A block ends in the middle of a huge page, and its pages move away. */
TEST_F(Huge, WhatLiesBesideABlockThatMovedGoesWithIt) {
  void *block = huge_alloc(5 * kMiB, 1, false), *in_the_way = huge_alloc(5 * kMiB, 1, false);
  const size_t end = (map_unit_of(block) + 5 * kMiB / UNIT_BYTES) / SUPERSLAB_UNITS;
  map_superslab(end)->has_slack = true; /* as if a huge page lay there */
  std::memset(block, 1, 5 * kMiB);
  block = huge_resized(block, 9 * kMiB);
  EXPECT_FALSE(map_superslab(end)->has_slack) << "it counts as clean, so nobody gives it back";
  EXPECT_TRUE(huge_free(block));
  EXPECT_TRUE(huge_free(in_the_way));
  purge_dirty();
}

/* Pages that were moved are a mapping of their own, until they are mapped anew. */
TEST_F(Huge, WhatHasGrownIsPartOfTheHeapsMappingAgainWhenItIsPurged) {
  void *block = huge_alloc(5 * kMiB, 1, false), *in_the_way = huge_alloc(5 * kMiB, 1, false);
  std::memset(block, 1, 5 * kMiB);
  arena_give(arena_take(ZONE_HUGE, 160, SUPERSLAB_UNITS, nullptr), 160); /* the zone grows now, and not below */
  purge_dirty();
  const size_t before = mappings();
  block = huge_resized(block, 8 * kMiB);
  EXPECT_GT(mappings(), before) << "the test is void: no pages were moved";
  EXPECT_TRUE(huge_free(block));
  EXPECT_GE(arena_usage().dirty, 8 * kMiB) << "nothing is left for the next one";
  purge_dirty();
  EXPECT_EQ(arena_usage().dirty, 0u);
  EXPECT_EQ(mappings(), before);
  EXPECT_TRUE(huge_free(in_the_way));
}

/* Of blocks that grow side by side little stays, however often they come again. */
TEST_F(Huge, OfManyThatHaveGrownLittleStays) {
  constexpr int kBlocks = 8;
  for (int round = 0; round < 6; round++) {
    char *blocks[kBlocks];
    for (char *&block : blocks) std::memset(block = static_cast<char *>(huge_alloc(5 * kMiB, 1, false)), 1, 5 * kMiB);
    for (size_t has = 5 * kMiB, next; has < 20 * kMiB; has = next) {
      next = has + has / 2;
      for (char *&block : blocks) {
        block = static_cast<char *>(huge_resized(block, next));
        std::memset(block + has, 1, next - has);
      }
    }
    for (char *block : blocks) EXPECT_TRUE(huge_free(block));
    EXPECT_LE(arena_usage().dirty, 40 * kMiB) << "in round " << round;
  }
}

/* Linux 6.17 and later move what lies before memory whose faults the program serves, and refuse the rest. */
TEST_F(Huge, WhatTheSystemMovesInPartKeepsItsContents) {
  constexpr size_t kBytes = 24 * kMiB;
  for (size_t where : {size_t{0}, kMiB + 8 * os_page_bytes(), 13 * kMiB, 23 * kMiB}) {
    auto *block = static_cast<char *>(huge_alloc(kBytes, 1, false));
    void *in_the_way = huge_alloc(5 * kMiB, 1, false);
    hak_test::stamp_as(block, kBytes, where); /* all pages of it are there */
    const int fd = watch_faults(block + where, kMiB);
    block = static_cast<char *>(huge_resized(block, 2 * kBytes));
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(hak_test::stamped_as(block, kBytes, where, kBytes)) << "faults are watched from " << where << " on";
    std::memset(block + kBytes, 1, kBytes);
    if (fd >= 0) close(fd);
    EXPECT_TRUE(huge_free(block));
    EXPECT_TRUE(huge_free(in_the_way));
    if (fd < 0) GTEST_SKIP() << "the system lets nobody serve page faults";
  }
}

TEST_F(Huge, TakesOverTheContentsOfARun) {
  unit_t run = arena_take(ZONE_SMALL, 40, 1, nullptr);
  hak_test::write_words(run, 40, hak_test::kInUse);
  size_t bytes = 40 * UNIT_BYTES;
  hak_test::stamp_as(map_address(run), bytes, 8);
  huge_source_t source = HUGE_SOURCE_LOST;
  void *block = huge_from_run(map_address(run), bytes, 5 * kMiB, &source);
  ASSERT_NE(block, nullptr);
  EXPECT_NE(source, HUGE_SOURCE_LOST);
  EXPECT_TRUE(hak_test::stamped_as(block, bytes, 8, bytes));
  std::memset(map_address(run), 1, bytes); /* still the caller's, and writable */
  EXPECT_TRUE(hak_test::stamped_as(block, bytes, 8, bytes)) << "both are the same memory";
  EXPECT_TRUE(huge_free(block));
  hak_test::write_words(run, 40, 0);
  arena_give(run, 40);
}

TEST_F(Huge, MoreThanThereIsIsRefusedAndTheBlockIsAsItWas) {
  void *block = huge_alloc(8 * kMiB, 1, false);
  hak_test::stamp(block, 8 * kMiB, 2);
  EXPECT_EQ(huge_resized(block, size_t{PTRDIFF_MAX}), nullptr);
  EXPECT_EQ(huge_alloc(size_t{PTRDIFF_MAX}, 1, false), nullptr);
  EXPECT_EQ(huge_usable_size(block), 8 * kMiB);
  EXPECT_TRUE(hak_test::stamped(block, 8 * kMiB, 2));
  EXPECT_TRUE(huge_free(block));
}
