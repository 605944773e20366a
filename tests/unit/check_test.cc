/*
 * The invariant walker finds what is planted: each case breaks one thing in a
 * forked child and expects the walker to end it, naming what is broken.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layers.h"

namespace {

class CheckDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t bytes : {16, 100, 1000, 3000}) {
      for (int i = 0; i < 40; i++) blocks.push_back(hak_malloc(bytes));
    }
    for (size_t i = 0; i < blocks.size(); i += 2) {
      hak_free(blocks[i]);
      blocks[i] = nullptr;
    }
    large = hak_malloc(HAK_MIB(1));
    hak_free(hak_malloc(HAK_MIB(1)));
    hak_thread_flush();
    heap = the_heap;
    hak__check_all(); /* content before */
    slab = heap->owner.slabs[size_class_of(100)];
    ASSERT_NE(slab, 0u);
    /* A second slab in a list, for the links. */
    for (int i = 0; i < 5000; i++) blocks.push_back(hak_malloc(48));
    for (size_t i = 160; i < blocks.size(); i += 5) hak_free(blocks[i]), blocks[i] = nullptr;
    hak_thread_flush();
    listed = heap->owner.slabs[size_class_of(48)];
    ASSERT_NE(record(listed).next, 0u) << "two slabs of a class are needed";
    hak__check_all();
  }
  void TearDown() override {
    hak__check_all();
    for (void *block : blocks) hak_free(block);
    hak_free(large);
  }
  static decltype(unit_record_t::slab) &record(unit_t unit) { return hak_test::record(unit).slab; }
  uint64_t &first_word() { return the_map.free_bits[slab][record(slab).first_word]; }

  std::vector<void *> blocks;
  void *large = nullptr;
  heap_t *heap = nullptr;
  unit_t slab = 0, listed = 0;
};

/* Runs the statement, then the walker. */
#define EXPECT_FOUND(statement, what) \
  EXPECT_DEATH(                       \
      {                               \
        statement;                    \
        hak__check_all();             \
      },                              \
      "internal error: .*" what)

TEST_F(CheckDeathTest, BitmapsAndCounts) {
  EXPECT_FOUND(first_word() ^= first_word() & -first_word(), "free_count");
  EXPECT_FOUND(first_word() = ~first_word(), "free_count");
  EXPECT_FOUND(record(slab).free_count++, "free_count");
  EXPECT_FOUND(record(slab).first_word++; first_word() = 0, "free_count|first_word");
  EXPECT_FOUND(atomic64_store_relaxed(&the_map.remote_bits[slab][record(slab).first_word], UINT64_MAX), "remote_bits");
  EXPECT_FOUND(heap->owner.free_bytes += 16, "free_bytes");
  EXPECT_FOUND(heap->owner.outbox_count++, "outbox");
  EXPECT_FOUND(heap->owner.parcel_count++, "parcels");
}

TEST_F(CheckDeathTest, Lists) {
  EXPECT_FOUND(record(slab).listed = false, "listed");
  EXPECT_FOUND(record(slab).size_class++, "size_class");
  EXPECT_FOUND(record(record(listed).next).previous = 0, "previous");
  EXPECT_FOUND(heap->owner.slabs[size_class_of(48)] = record(listed).next, "previous|free_bytes");
  EXPECT_FOUND(heap->owner.slabs[size_class_of(48)] = 0, "listed");
  EXPECT_FOUND(heap->owner.listed[0] = 0, "listed");
}

TEST_F(CheckDeathTest, WordsAndRuns) {
  EXPECT_FOUND(atomic32_store_relaxed(map_word(slab), word_make(heap->owner.id + 1, size_class_of(100))), "map_word");
  EXPECT_FOUND(atomic32_store_relaxed(map_word(slab), 0), "map_word");
  EXPECT_FOUND(hak_test::record(slab).run_units++, "");
  EXPECT_FOUND(hak_test::record(hak_test::slab_of(large)).run_units--, "");
  EXPECT_FOUND(the_map.superslabs[slab / SUPERSLAB_UNITS].used ^= 1u << slab % SUPERSLAB_UNITS, "");
  EXPECT_FOUND(the_map.superslabs[slab / SUPERSLAB_UNITS].dirty ^= 1u << slab % SUPERSLAB_UNITS, "dirty");
  unit_t behind = hak_test::zone_end(ZONE_SMALL) - 1; /* in the run at the zone's end */
  EXPECT_FOUND(hak_test::record(behind).run_first++, "run_first");
  EXPECT_FOUND(atomic32_store_relaxed(map_word(behind), word_make(1, 1)), "map_word");
}

TEST_F(CheckDeathTest, Magazines) {
  void *block = hak_malloc(100);
  hak_free(block);
  const unsigned c = size_class_of(100);
  ASSERT_EQ(*heap->slots[c].top, block);
  hak__check_all();
  EXPECT_FOUND(heap->arrays[0] = 0, "arrays");
  EXPECT_FOUND(*heap->slots[c].top = static_cast<char *>(block) + 16, "number");
  EXPECT_FOUND(*heap->slots[c].top = large, "word");
  EXPECT_FOUND(*heap->slots[c].top = &block, "word");
  EXPECT_FOUND(heap->capacity_bytes++, "capacity_bytes");
  EXPECT_FOUND(heap->slots[c].top = heap->slots[c].limit + 1, "count");
  /* The block lies in the magazine and is free in its slab, too. */
  unsigned number;
  ASSERT_TRUE(slab_block_number(block, hak_test::slab_of(block), c, &number));
  EXPECT_FOUND(the_map.free_bits[hak_test::slab_of(block)][number / 64] |= uint64_t{1} << number % 64, "");
}

/* With HAKMEM_ABORT_ON_ERROR=0 a program's mistakes are no invariant's: they lie in magazines
 * and bitmaps until their batch comes, and the walker finds what is planted all the same. */
TEST_F(CheckDeathTest, MistakesThatAreIgnoredAreNotTheAllocatorsOwn) {
  auto *settings = const_cast<config_t *>(config());
  settings->abort_on_error = false;
  void *block = hak_malloc(100);
  hak_free(block);
  hak_free(block);                           /* twice in the magazine */
  hak_free(static_cast<char *>(large) + 16); /* no start of a block */
  hak__check_all();
  EXPECT_FOUND(heap->capacity_bytes++, "capacity_bytes");
  hak_thread_flush();
  hak__check_all();
  EXPECT_EQ(error_count(), 2u);
  settings->abort_on_error = true;
}

}  // namespace
