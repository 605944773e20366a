/*
 * Frees that name the block's size, after everything that may have given it that
 * size: a size that was asked for, in whatever way, is never wrong. (Sizes that
 * are wrong are in tests/death.)
 *
 * A right size that is taken for a wrong one ends the process, so each sweep runs in
 * a child, whose last words name the sizes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/surface.h"
#include "support/payload.h"
#include "support/process.h"

#include <hakmem.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <functional>
#include <new>
#include <ostream>
#include <sys/resource.h>
#include <vector>

namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

/* The ways to give a block back that name its size, but not its alignment. */
struct Release {
  const char *name;
  void (*release)(void *, std::size_t);
};
std::ostream &operator<<(std::ostream &out, const Release &release) { return out << release.name; }
const Release kReleases[] = {
    {"free_sized", [](void *p, std::size_t bytes) { free_sized(p, bytes); }},
    {"hak_free_sized", [](void *p, std::size_t bytes) { hak_free_sized(p, bytes); }},
    {"operator delete", [](void *p, std::size_t bytes) { ::operator delete(p, bytes); }},
    {"operator delete[]", [](void *p, std::size_t bytes) { ::operator delete[](p, bytes); }},
};

/* The sizes at which usable sizes change, up to `up_to`: the last and the first of each. */
std::vector<std::size_t> boundaries(std::size_t up_to) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 1; bytes <= up_to;) {
    void *block = malloc(bytes);
    const std::size_t usable = hak_usable_size(block);
    free(block);
    sizes.push_back(usable);
    sizes.push_back(usable + 1);
    bytes = usable + 1;
  }
  return sizes;
}

/* In steps smaller and larger than a quarter, and over to other kinds of blocks. */
std::array<std::size_t, 11> growths(std::size_t from) {
  return {from + 1,
          from + 16,
          from + from / 100 + 1,
          from + from / 16 + 1,
          from + from / 8 + 1,
          from + from / 4,
          from + from / 4 + 1,
          from * 3 / 2 + 1,
          from * 2,
          from * 2 + 1,
          from * 5 + 3};
}

void expect_none_reported(const std::function<void()> &sweep) {
  hak_test::Outcome outcome = hak_test::in_child([&] {
    sweep();
    hak_thread_flush();
    return 0;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.err, "");
}

class SizedFree : public testing::TestWithParam<Release> {
 protected:
  void SetUp() override {
    if (kEmulated) GTEST_SKIP() << "the emulator loses pages that realloc moves";
  }
  const Release &release = GetParam();
};
INSTANTIATE_TEST_SUITE_P(By, SizedFree, testing::ValuesIn(kReleases), [](const auto &info) {
  std::string name = info.param.name;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace

TEST_P(SizedFree, AfterMallocAndCalloc) {
  expect_none_reported([&] {
    for (std::size_t bytes : boundaries(12 * kMiB))
      for (bool zeroed : {false, true}) release.release(zeroed ? calloc(1, bytes) : malloc(bytes), bytes);
  });
}

TEST_P(SizedFree, AfterReallocGrewABlockOfEachSize) {
  expect_none_reported([&] {
    for (std::size_t from : boundaries(12 * kMiB))
      for (std::size_t to : growths(from)) release.release(realloc(malloc(from), to), to);
  });
}

/* Each step is legal to end with. */
TEST_P(SizedFree, AfterEachOfManyGrowths) {
  expect_none_reported([&] {
    for (std::size_t step : {std::size_t{7}, std::size_t{600}, 40 * kKiB, 200 * kKiB})
      for (std::size_t count = 1; count <= 40; count++) {
        void *block = nullptr;
        for (std::size_t i = 1; i <= count; i++) block = realloc(block, 50 * step + i * step);
        release.release(block, 50 * step + count * step);
      }
  });
}

TEST_P(SizedFree, AfterReallocGrewAndShrankIt) {
  if (release.name[0] == 'o') GTEST_SKIP() << "a block that was shrunk is C's: C++ has no realloc";
  expect_none_reported([&] {
    for (std::size_t from : boundaries(12 * kMiB))
      for (std::size_t to : growths(from))
        for (std::size_t last : {from, from - from / 16, from / 2 + 1, from / 2, from / 5 + 1})
          if (last > 0) release.release(realloc(realloc(malloc(from), to), last), last);
  });
}

TEST_P(SizedFree, AfterReallocOfBlocksWithALargeAlignment) {
  expect_none_reported([&] {
    for (std::size_t alignment : {std::size_t{64}, 4 * kKiB, 64 * kKiB, 128 * kKiB, 2 * kMiB})
      for (std::size_t from :
           {std::size_t{1}, std::size_t{1000}, 60 * kKiB, 64 * kKiB, 200 * kKiB, kMiB, 3 * kMiB, 6 * kMiB})
        for (std::size_t to : growths(from)) release.release(realloc(aligned_alloc(alignment, from), to), to);
  });
}

/* Where there is no memory for what realloc would like to have to spare, it takes less. */
TEST_P(SizedFree, AfterReallocWithLittleMemory) {
  const std::vector<std::size_t> sizes = boundaries(8 * kMiB);
  expect_none_reported([&] {
    rlimit limit = {(hak_test::status_kib("VmData:") << 10) + 24 * kMiB, RLIM_INFINITY};
    limit.rlim_max = limit.rlim_cur;
    if (setrlimit(RLIMIT_DATA, &limit) != 0) _exit(9);
    for (std::size_t from : sizes)
      for (std::size_t to : growths(from)) {
        void *block = malloc(from);
        void *grown = block == nullptr ? nullptr : realloc(block, to);
        if (grown != nullptr) release.release(grown, to);
        else release.release(block, from);
      }
  });
}

TEST(AlignedSizedFree, AfterAlignedAllocOfEachSize) {
  expect_none_reported([] {
    for (std::size_t alignment = 1; alignment <= 4 * kMiB; alignment *= 4)
      for (std::size_t bytes : boundaries(6 * kMiB)) {
        free_aligned_sized(aligned_alloc(alignment, bytes), alignment, bytes);
        hak_free_aligned_sized(hak_aligned_alloc(alignment, bytes), alignment, bytes);
        if (alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
          ::operator delete (::operator new (bytes, std::align_val_t{alignment}), bytes, std::align_val_t{alignment});
      }
  });
}
