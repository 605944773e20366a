/*
 * With HAKMEM_ABORT_ON_ERROR=0 a call with a heap that is none does nothing, and says EINVAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/settings.h"

#include <gtest/gtest.h>
#include <hakmem.h>

#include <cerrno>

namespace {

std::uint64_t errors() {
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  return now.errors;
}

}  // namespace

TEST(HeapMisuseIgnored, ACallWithoutAHeapIsCountedAndFails) {
  hak_heap_t *heap = hak_heap_new(0);
  hak_heap_destroy(heap);
  std::uint64_t before = errors();
  for (hak_heap_t *none : {heap, static_cast<hak_heap_t *>(nullptr)}) {
    errno = 0;
    EXPECT_EQ(hak_heap_malloc(none, 10), nullptr);
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    EXPECT_EQ(hak_heap_calloc(none, 10, 10), nullptr);
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    hak_heap_set_limit(none, 10);
    EXPECT_EQ(errno, EINVAL);
    hak_heap_stats_t stats;
    hak_heap_stats(none, &stats, sizeof stats);
    EXPECT_EQ(stats.struct_bytes, sizeof stats);
    EXPECT_EQ(stats.taken, 0u);
  }
  EXPECT_EQ(errors() - before, 8u);
  hak_heap_destroy(heap);
  EXPECT_EQ(errors() - before, 9u);
}

/* No heap could serve these. That there is none is the greater mistake. */
TEST(HeapMisuseIgnored, ACallWithoutAHeapIsNoticedWhateverIsAskedFor) {
  hak_heap_t *heap = hak_heap_new(0);
  hak_heap_destroy(heap);
  volatile std::size_t too_much = SIZE_MAX; /* or the compiler warns */
  std::uint64_t before = errors(), calls = 0;
  auto fails = [&](void *block) {
    EXPECT_EQ(block, nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(errors() - before, ++calls);
    errno = 0;
  };
  for (hak_heap_t *none : {heap, static_cast<hak_heap_t *>(nullptr)}) {
    fails(hak_heap_malloc(none, too_much));
    fails(hak_heap_calloc(none, too_much, 2));
    fails(hak_heap_realloc(none, nullptr, too_much));
    fails(hak_heap_aligned_alloc(none, 3, 8));
    fails(hak_heap_aligned_alloc(none, too_much / 2 + 1, 8));
  }
}

/* What fails is tried again where there is a hard limit. A mistake is not. */
TEST(HeapMisuseIgnored, AMistakeOfReallocIsCountedOnce) {
  hak_heap_t *heap = hak_heap_new(0);
  char *block = static_cast<char *>(hak_heap_malloc(heap, 1000));
  std::uint64_t before = errors();
  EXPECT_EQ(hak_realloc(block + 16, 2000), nullptr);
  EXPECT_EQ(errors() - before, 1u);
  hak_heap_destroy(heap);
}

TEST(HeapMisuseIgnored, AnothersBlockStaysAsItIs) {
  hak_heap_t *heap = hak_heap_new(0), *other = hak_heap_new(0);
  for (std::size_t bytes : {100, 5000, 100000, 10 << 20}) {
    void *block = hak_heap_malloc(heap, bytes);
    std::uint64_t before = errors();
    hak_heap_free(other, block);
    errno = 0;
    EXPECT_EQ(hak_heap_realloc(other, block, 10), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(errors() - before, 2u);
    EXPECT_GE(hak_usable_size(block), bytes);
    hak_heap_free(heap, block);
    EXPECT_EQ(errors() - before, 2u);
  }
  hak_heap_destroy(heap);
  hak_heap_destroy(other);
}

/* The second free is not heard of: the block is handed out once. */
TEST(HeapMisuseIgnored, ABlockFreedTwiceIsFreeOnce) {
  hak_heap_t *heap = hak_heap_new(0);
  void *block = hak_heap_malloc(heap, 100), *lone = hak_heap_malloc(heap, 100000);
  std::uint64_t before = errors();
  hak_heap_free(heap, block);
  hak_heap_free(heap, block);
  hak_heap_free(heap, lone);
  hak_free(lone);
  hak_thread_flush();
  EXPECT_EQ(errors() - before, 2u);
  hak_heap_stats_t stats;
  hak_heap_stats(heap, &stats, sizeof stats);
  EXPECT_EQ(stats.live, 0u);
  hak_heap_destroy(heap);
}

int main(int argc, char **argv) {
  hak_test::init_with(argc, argv, {"HAKMEM_ABORT_ON_ERROR=0", "HAKMEM_HARD_LIMIT=4G"});
  return RUN_ALL_TESTS();
}
