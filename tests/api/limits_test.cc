/*
 * Requests that cannot be met: NULL, ENOMEM, nothing changed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/surface.h"
#include "support/payload.h"

#include <cerrno>
#include <climits>
#include <cstdint>
#include <malloc.h>

class Limits : public BothSurfaces {
 protected:
  /* Runs one request; it has to fail with ENOMEM. */
  template <class Request> void expect_enomem(Request request, const char *what, std::size_t a, std::size_t b = 0) {
    errno = 0;
    void *block = request();
    EXPECT_EQ(block, nullptr) << what << "(" << a << ", " << b << ") gave a block";
    EXPECT_EQ(errno, ENOMEM) << what << "(" << a << ", " << b << ")";
    if (block != nullptr) s.free(block);
  }
};
FOR_BOTH_SURFACES(Limits);

static std::vector<std::size_t> impossible_sizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t k = 0; k <= 64; k++) {
    sizes.push_back(SIZE_MAX - k);
    sizes.push_back(static_cast<std::size_t>(PTRDIFF_MAX) + 1 + k);
  }
  for (std::size_t k : {4095, 4096, 65535, 65536, 1 << 20, (1 << 21) - 1, 1 << 21}) sizes.push_back(SIZE_MAX - k);
  return sizes;
}

TEST_P(Limits, SizesBeyondPtrdiffMax) {
  void *old = s.malloc(100);
  hak_test::stamp(old, 100, 1);
  for (std::size_t bytes : impossible_sizes()) {
    expect_enomem([&] { return s.malloc(bytes); }, "malloc", bytes);
    expect_enomem([&] { return s.calloc(1, bytes); }, "calloc", 1, bytes);
    expect_enomem([&] { return s.calloc(bytes, 1); }, "calloc", bytes, 1);
    expect_enomem([&] { return s.realloc(nullptr, bytes); }, "realloc of NULL", bytes);
    expect_enomem([&] { return s.realloc(old, bytes); }, "realloc", bytes);
    expect_enomem([&] { return s.reallocarray(old, 1, bytes); }, "reallocarray", 1, bytes);
    for (std::size_t alignment : {std::size_t{16}, std::size_t{4096}, std::size_t{1} << 21, std::size_t{1} << 30}) {
      expect_enomem([&] { return s.aligned_alloc(alignment, bytes); }, "aligned_alloc", alignment, bytes);
      void *out = &out;
      errno = 4711;
      EXPECT_EQ(s.posix_memalign(&out, alignment, bytes), ENOMEM) << alignment << ", " << bytes;
      EXPECT_EQ(out, &out) << "posix_memalign failed and yet wrote a result";
      EXPECT_EQ(errno, 4711) << "posix_memalign changed errno";
    }
  }
  EXPECT_TRUE(hak_test::stamped(old, 100, 1)) << "a realloc that failed changed the block";
  s.free(old);
}

TEST_P(Limits, ThisMuchAddressSpaceDoesNotExist) {
  for (std::size_t bytes : {static_cast<std::size_t>(PTRDIFF_MAX), static_cast<std::size_t>(PTRDIFF_MAX) - 65536,
                            std::size_t{1} << 62, std::size_t{1} << 57}) {
    expect_enomem([&] { return s.malloc(bytes); }, "malloc", bytes);
    expect_enomem([&] { return s.calloc(1, bytes); }, "calloc", 1, bytes);
    expect_enomem([&] { return s.aligned_alloc(1 << 16, bytes); }, "aligned_alloc", 1 << 16, bytes);
  }
}

TEST_P(Limits, ProductsThatOverflow) {
  void *old = s.malloc(100);
  hak_test::stamp(old, 100, 1);
  const std::size_t half = SIZE_MAX / 2 + 1, root = std::size_t{1} << (sizeof(std::size_t) * CHAR_BIT / 2);
  const std::size_t pairs[][2] = {{half, 2},
                                  {2, half},
                                  {root, root},
                                  {root + 1, root - 1},
                                  {SIZE_MAX, 2},
                                  {SIZE_MAX, SIZE_MAX},
                                  {SIZE_MAX / 3 + 1, 3},
                                  {SIZE_MAX / 16 + 1, 16},
                                  {16, SIZE_MAX / 16 + 2},
                                  {root, root + 1}};
  for (const auto &pair : pairs) {
    expect_enomem([&] { return s.calloc(pair[0], pair[1]); }, "calloc", pair[0], pair[1]);
    expect_enomem([&] { return s.reallocarray(nullptr, pair[0], pair[1]); }, "reallocarray", pair[0], pair[1]);
    expect_enomem([&] { return s.reallocarray(old, pair[0], pair[1]); }, "reallocarray", pair[0], pair[1]);
  }
  EXPECT_TRUE(hak_test::stamped(old, 100, 1)) << "a reallocarray that failed changed the block";
  s.free(old);
}

TEST_P(Limits, WorksAfterwards) {
  for (int i = 0; i < 100; i++) {
    EXPECT_EQ(s.malloc(SIZE_MAX - static_cast<std::size_t>(i)), nullptr);
    for (std::size_t bytes : kSizes) {
      void *block = s.malloc(bytes);
      ASSERT_NE(block, nullptr) << bytes;
      hak_test::stamp(block, bytes, 5);
      EXPECT_TRUE(hak_test::stamped(block, bytes, 5));
      s.free(block);
    }
  }
}

TEST(LibcLimits, PageAlignedFormsRoundUpWithoutWrapping) {
  for (std::size_t k = 0; k <= 8192; k += 64) {
    errno = 0;
    EXPECT_EQ(pvalloc(SIZE_MAX - k), nullptr);
    EXPECT_EQ(errno, ENOMEM) << "pvalloc(SIZE_MAX - " << k << ")";
    errno = 0;
    EXPECT_EQ(valloc(SIZE_MAX - k), nullptr);
    EXPECT_EQ(errno, ENOMEM) << "valloc(SIZE_MAX - " << k << ")";
    errno = 0;
    EXPECT_EQ(memalign(4096, SIZE_MAX - k), nullptr);
    EXPECT_EQ(errno, ENOMEM) << "memalign(4096, SIZE_MAX - " << k << ")";
  }
}

/* Alignments that are powers of two, and larger than any address space: there is nothing
 * wrong with them, only no memory. */
TEST_P(Limits, AlignmentsBeyondTheAddressSpace) {
  for (unsigned shift = 56; shift < 64; shift++) {
    const std::size_t alignment = std::size_t{1} << shift;
    for (std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{16}, std::size_t{5000}, std::size_t{1} << 20, alignment}) {
      expect_enomem([&] { return s.aligned_alloc(alignment, bytes); }, "aligned_alloc", alignment, bytes);
      void *out = &out;
      EXPECT_EQ(s.posix_memalign(&out, alignment, bytes), ENOMEM) << alignment << ", " << bytes;
      EXPECT_EQ(out, &out) << "posix_memalign failed and yet wrote a result";
    }
  }
}

TEST(LibcLimits, MemalignWithAlignmentsBeyondTheAddressSpace) {
  for (unsigned shift = 56; shift < 64; shift++)
    for (std::size_t bytes : {0, 1, 16, 5000, 1 << 20}) {
      errno = 0;
      EXPECT_EQ(hak_test::opaque(memalign(std::size_t{1} << shift, bytes)), nullptr);
      EXPECT_EQ(errno, ENOMEM) << "memalign(1 << " << shift << ", " << bytes << ")";
    }
  /* No power of two is as large as these; the C library finds the same wrong with them. */
  for (std::size_t alignment : {(std::size_t{1} << 63) + 1, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(hak_test::opaque(memalign(alignment, 16)), nullptr);
    EXPECT_EQ(errno, EINVAL) << "memalign(" << alignment << ", 16)";
  }
}
