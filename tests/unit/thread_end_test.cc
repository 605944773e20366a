/* What a thread that ends leaves in its magazines, and what is found out then. SPDX-License-Identifier: MIT */
#include "layers.h"

#include <functional>
#include <thread>

namespace {

/* Tiny classes that borrow from no other. */
std::vector<unsigned> own_classes() {
  std::vector<unsigned> classes;
  for (unsigned c = 1; c < TINY_CLASS_COUNT; c++)
    if (size_class_coarse(c) == c) classes.push_back(c);
  return classes;
}
size_t bytes_of(unsigned size_class) { return size_classes[size_class].block_bytes; }

/* The heap of a thread that does that and ends. */
heap_t *thread_with(const std::function<void()> &work) {
  heap_t *heap = nullptr;
  std::thread([&] {
    hak_free(hak_malloc(1));
    heap = the_heap;
    work();
  }).join();
  return heap;
}
void use_each(size_t blocks) {
  for (unsigned c : own_classes()) {
    std::vector<void *> own(blocks);
    for (void *&block : own) block = hak_malloc(bytes_of(c));
    for (void *block : own) hak_free(block);
  }
}

class ThreadEnd : public testing::Test {
 protected:
  void SetUp() override { hak_trim(0); }
  /* A round over all owners, `milliseconds` after the last one. */
  void tidy_after(uint64_t milliseconds) {
    now_ms_ += milliseconds;
    while (tidy_some(now_ms_, flush_step, nullptr) != TIDY_NOTHING) now_ms_ += 1;
  }

 private:
  uint64_t now_ms_ = os_now_ms() + 1000000;
};

}  // namespace

TEST_F(ThreadEnd, TheNextThreadFindsAFewBlocksInPlace) {
  heap_t *heap = thread_with([] { use_each(2); });
  EXPECT_GT(hak_test::cached_bytes(heap), 0u);
  uint64_t refills = 0, before = 0;
  heap_t *next = thread_with([&] {
    before = atomic64_load_relaxed(&the_heap->owner.refills);
    use_each(2);
    refills = atomic64_load_relaxed(&the_heap->owner.refills) - before;
  });
  ASSERT_EQ(next, heap);
  EXPECT_EQ(refills, 0u) << "what the first thread had went home";
  hak__check_all();
}

TEST_F(ThreadEnd, WhatStaysIsLittleAndTiny) {
  heap_t *heap = thread_with([] {
    use_each(12);
    std::vector<void *> many(2000);
    for (void *&block : many) block = hak_malloc(64); /* a magazine that has grown */
    for (void *block : many) hak_free(block);
    for (size_t bytes : {size_t{2048}, size_t{40000}, size_t{1} << 20})
      for (int i = 0; i < 4; i++) hak_free(hak_malloc(bytes));
  });
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++)
    EXPECT_LE(magazine_count_of_others(heap, c), c < TINY_CLASS_COUNT ? 4u : 0u) << "class " << c;
  EXPECT_EQ(magazine_count_of_others(heap, size_class_of(64)), 0u);
  hak__check_all();
}

TEST_F(ThreadEnd, WhatNobodyComesForGoesHome) {
  heap_t *heap = thread_with([] { use_each(2); });
  tidy_after(0);
  tidy_after(300);
  EXPECT_GT(hak_test::cached_bytes(heap), 0u) << "a thread may come soon";
  tidy_after(300);
  EXPECT_EQ(hak_test::cached_bytes(heap), 0u);
  hak__check_all();
}

/* A thread whose magazines serve it alone comes to no batch boundary, and has used the heap all the same. */
TEST_F(ThreadEnd, WhatThreadsComeForStays) {
  heap_t *heap = thread_with([] { use_each(2); });
  for (int i = 0; i < 5; i++) {
    tidy_after(300);
    ASSERT_EQ(thread_with([] { use_each(1); }), heap);
  }
  tidy_after(300);
  EXPECT_GT(hak_test::cached_bytes(heap), 0u);
}

/* ---- Mistakes that are found when a thread ends, although what it has may stay --------------------*/
using ThreadEndDeathTest = ThreadEnd;

TEST_F(ThreadEndDeathTest, ABlockIsTwiceInAMagazine) {
  EXPECT_DEATH(thread_with([] {
                 void *block = hak_malloc(48), *other = hak_malloc(48);
                 hak_free(block);
                 hak_free(other);
                 hak_free(block);
               }),
               "double free of .*48 bytes");
}

/* One would stay, and the other one go home. */
TEST_F(ThreadEndDeathTest, ABlockIsTwiceInAMagazineFarApart) {
  EXPECT_DEATH(thread_with([] {
                 void *blocks[8];
                 for (void *&block : blocks) block = hak_malloc(48);
                 for (void *block : blocks) hak_free(block);
                 hak_free(blocks[1]);
               }),
               "double free of .*48 bytes");
}

TEST_F(ThreadEndDeathTest, ABlockIsInAMagazineAndFreeInItsSlab) {
  EXPECT_DEATH(thread_with([] {
                 void *block = hak_malloc(48), *keeps_the_slab = hak_malloc(48);
                 hak_free(block);
                 hak_thread_flush();
                 hak_free(block);
                 *static_cast<void **>(keeps_the_slab) = block;
               }),
               "double free of .*48 bytes");
}

TEST_F(ThreadEndDeathTest, ABlockIsInAMagazineAndCameBackFromAnotherThread) {
  EXPECT_DEATH(thread_with([] {
                 void *block = hak_malloc(48), *keeps_the_slab = hak_malloc(48);
                 std::thread([&] { hak_free(block); }).join();
                 hak_free(block);
                 *static_cast<void **>(keeps_the_slab) = block;
               }),
               "double free of .*48 bytes");
}

TEST_F(ThreadEndDeathTest, AnAddressInAMagazineIsNoBlocks) {
  EXPECT_DEATH(thread_with([] { hak_free(static_cast<char *>(hak_malloc(48)) + 16); }), "interior pointer");
}
