/*
 * Programs that lock memory: a page of a block, a whole block, or everything. Locked pages
 * are not given back, and everything else is; and what the program has locked stays locked.
 *
 * SPDX-License-Identifier: MIT
 */
#include "life/busy_threads.h"
#include "life/heap_view.h"
#include "support/process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

using hak_test::resident_bytes;

namespace {

constexpr std::size_t kMiB = 1 << 20;

char *touched(std::size_t bytes) {
  char *block = static_cast<char *>(malloc(bytes));
  if (block == nullptr) std::abort();
  std::memset(block, 1, bytes);
  return block;
}

/* Goes on allocating small blocks until some seconds have passed for the allocator: it
 * gives back at calls, not at times. */
void work_for_seconds(unsigned seconds) {
  for (unsigned i = 0; i < seconds * 20; i++) {
    std::vector<void *> some;
    for (int k = 0; k < 4000; k++) some.push_back(malloc(100));
    for (void *block : some) free(block);
    usleep(50000);
  }
}

/* Bytes of [at, at + bytes) that lie in mappings that are locked. */
std::size_t locked_bytes(const void *at, std::size_t bytes) {
  std::ifstream maps("/proc/self/smaps");
  std::size_t sum = 0, overlap = 0;
  const auto from = reinterpret_cast<std::size_t>(at), to = from + bytes;
  for (std::string line; std::getline(maps, line);) {
    std::size_t start, end;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &start, &end) == 2)
      overlap = std::min(end, to) > std::max(start, from) ? std::min(end, to) - std::max(start, from) : 0;
    else if (line.compare(0, 8, "VmFlags:") == 0 && (line + " ").find(" lo ") != std::string::npos) sum += overlap;
  }
  return sum;
}

class LockedMemory : public testing::Test {
 protected:
  void SetUp() override {
    rlimit limit;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (geteuid() != 0 && limit.rlim_cur < 64 << 10) GTEST_SKIP() << "no memory may be locked here";
  }
  static void may_lock_all() {
    if (geteuid() != 0) GTEST_SKIP() << "only root may lock all memory";
  }
};

/* 400 MiB in blocks of that size, one page among them locked, all but its block freed:
 * how much is resident after some seconds, and after a trim. */
int resident_beside_a_locked_page(std::size_t bytes, bool by_trim) {
  std::vector<char *> blocks;
  const std::size_t before = resident_bytes();
  for (std::size_t sum = 0; sum < 400 * kMiB; sum += bytes) blocks.push_back(touched(bytes));
  /* One of the first: what lies around it has been free the longest when all is. The
   * program forgets to unlock it. */
  char *locked = blocks[blocks.size() / 50];
  char *page = reinterpret_cast<char *>((reinterpret_cast<std::uintptr_t>(locked) + 4095) & ~std::uintptr_t{4095});
  if (mlock(page, 4096) != 0) return 2;
  for (std::size_t i = 0; i < blocks.size(); i++) {
    free(blocks[i]);
    if (i == blocks.size() / 10) heap_view::flush();
  }
  heap_view::flush();
  if (by_trim) heap_view::trim(0);
  else work_for_seconds(2);
  const std::size_t after = resident_bytes();
  std::fprintf(stderr, "%zu MiB before, %zu MiB after\n", before / kMiB, after / kMiB);
  return after < before + 120 * kMiB ? 0 : 1;
}

}  // namespace

TEST_F(LockedMemory, OnePageDoesNotStopTheRestFromGoingBack) {
  for (std::size_t bytes : {std::size_t{64}, std::size_t{9000}, std::size_t{200000}, 3 * kMiB})
    for (bool by_trim : {true, false}) {
      if (!by_trim && bytes != 200000) continue; /* takes seconds */
      hak_test::Outcome outcome = hak_test::in_child([&] { return resident_beside_a_locked_page(bytes, by_trim); });
      EXPECT_TRUE(outcome.exited_with(0))
          << "blocks of " << bytes << (by_trim ? ", trimmed" : "") << ": " << outcome.describe();
    }
}

/* Nothing can be given back while everything is locked, and everything when it is not any more. */
TEST_F(LockedMemory, EverythingGoesBackAfterAllWasUnlocked) {
  may_lock_all();
  if (IsSkipped()) return;
  hak_test::Outcome outcome = hak_test::in_child([] {
    const std::size_t before = resident_bytes();
    std::vector<char *> blocks;
    for (std::size_t i = 0; i < 300; i++) blocks.push_back(touched(i % 2 == 0 ? kMiB : 20000));
    const std::size_t never_used = heap_view::stats().clean_free; /* but mapped: the lock makes it resident */
    if (mlockall(MCL_CURRENT) != 0) return 2;
    for (char *block : blocks) free(block);
    heap_view::trim(0);
    free(touched(5 * kMiB));
    munlockall();
    heap_view::trim(0);
    const std::size_t after = resident_bytes();
    std::fprintf(stderr, "%zu MiB before, %zu MiB after, %zu MiB were never used\n", before / kMiB, after / kMiB,
                 never_used / kMiB);
    return after < before + never_used + 8 * kMiB ? 0 : 1;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

/* A realloc of one block leaves the others as they are: locked. */
TEST_F(LockedMemory, ReallocUnlocksNoOtherBlock) {
  may_lock_all();
  if (IsSkipped()) return;
  for (std::size_t bytes : {3 * kMiB, 5 * kMiB, 20 * kMiB}) {
    for (std::size_t grown : {bytes * 2, bytes * 5, bytes / 3}) {
      hak_test::Outcome outcome = hak_test::in_child([&] {
        std::vector<char *> neighbours;
        char *middle = nullptr;
        for (int i = 0; i < 7; i++) {
          char *block = touched(bytes);
          if (i == 3) middle = block;
          else neighbours.push_back(block);
        }
        if (mlockall(MCL_CURRENT) != 0) return 2;
        for (char *block : neighbours)
          if (locked_bytes(block, bytes) != bytes) return 3;
        for (int again = 0; again < 3; again++) {
          middle = static_cast<char *>(realloc(middle, grown + static_cast<std::size_t>(again) * bytes));
          if (middle == nullptr) return 4;
        }
        for (char *block : neighbours) {
          const std::size_t locked = locked_bytes(block, bytes);
          if (locked == bytes) continue;
          std::fprintf(stderr, "of a neighbour's %zu KiB, %zu are locked\n", bytes >> 10, locked >> 10);
          return 1;
        }
        return 0;
      });
      EXPECT_TRUE(outcome.exited_with(0)) << bytes << " bytes grown to " << grown << ": " << outcome.describe();
    }
  }
}

/* The same for one block that the program locked itself, and the next one. */
TEST_F(LockedMemory, ReallocOfAFreeNeighbourLeavesALockedBlockLocked) {
  hak_test::Outcome outcome = hak_test::in_child([&] {
    char *locked = touched(5 * kMiB), *other = touched(5 * kMiB), *third = touched(5 * kMiB);
    if (mlock(locked, 16 << 10) != 0) return 2;
    other = static_cast<char *>(realloc(other, 15 * kMiB));
    third = static_cast<char *>(realloc(third, 40 * kMiB));
    if (other == nullptr || third == nullptr) return 4;
    return locked_bytes(locked, 16 << 10) == 16 << 10 ? 0 : 1;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}
