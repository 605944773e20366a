/* Slabs: batches of blocks out and back. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"

extern "C" {
#include "arena/dense.h"
}

#include <algorithm>
#include <map>
#include <set>

namespace {

using hak_test::AttachedOwner;
using hak_test::record;
using hak_test::slab_of;
using hak_test::used_bytes;

/* One class of each kind: 16 bytes, a slab with a tail, one unit, several units. */
const unsigned kClasses[] = {1, 3, 20, 64, 65, 79, 96, 104, 112};

class Slab : public hak_test::WithAnOwner {
 protected:
  size_t slabs_listed(unsigned size_class) {
    size_t count = 0;
    for (unit_t slab = owner->slabs[size_class]; slab != 0; slab = record(slab).slab.next) count++;
    return count;
  }
};

}  // namespace

TEST_F(Slab, ASlabHandsOutEachOfItsBlocksOnce) {
  for (unsigned c : kClasses) {
    auto blocks = owner.refill(c, size_classes[c].capacity);
    EXPECT_EQ(std::set<void *>(blocks.begin(), blocks.end()).size(), blocks.size()) << "a block twice; class " << c;
    for (void *block : blocks) {
      ASSERT_EQ(slab_of(block), slab_of(blocks[0])) << "one slab would have done; class " << c;
      unsigned number;
      ASSERT_TRUE(slab_block_number(block, slab_of(block), c, &number)) << "class " << c;
      ASSERT_EQ(map_lookup(block), word_make(owner->id, c));
    }
    EXPECT_EQ(slabs_listed(c), 0u) << "a slab without a free block is listed";
    slab_check(owner);
    owner.flush(c, blocks);
    slab_check(owner);
    EXPECT_EQ(slabs_listed(c), 1u) << "one empty slab is kept; class " << c;
    slab_release_empty(owner);
  }
}

TEST_F(Slab, TheLastOfABatchHasTheLowestAddress) {
  auto blocks = owner.refill(10, 50);
  EXPECT_TRUE(std::is_sorted(blocks.rbegin(), blocks.rend())) << "they are popped from the end, in order of address";
  /* Every second one comes back: gaps are filled from below. */
  std::vector<void *> back;
  for (size_t i = 0; i < blocks.size(); i += 2) back.push_back(blocks[i]);
  owner.flush(10, back);
  auto again = owner.refill(10, back.size());
  std::sort(back.begin(), back.end());
  std::sort(again.begin(), again.end());
  EXPECT_EQ(again, back) << "untouched blocks were preferred to those that are in the cache";
  for (size_t i = 1; i < blocks.size(); i += 2) again.push_back(blocks[i]);
  owner.flush(10, again);
}

TEST_F(Slab, OneEmptySlabOfAClassIsKeptAndNoMore) {
  const unsigned c = 40;
  auto blocks = owner.refill(c, size_classes[c].capacity * 5u);
  size_t used = used_bytes();
  owner.flush(c, blocks);
  EXPECT_EQ(used - used_bytes(), 4u * UNIT_BYTES);
  EXPECT_EQ(slabs_listed(c), 1u);
}

/* What dense.h is told: a slab counts if a page of a block may be used and the others not. */
TEST_F(Slab, SlabsOfBlocksOfSeveralPagesAreWide) {
  for (const size_t bytes : {HAK_KIB(8), HAK_KIB(8) + 1, HAK_KIB(33), HAK_KIB(64), HAK_KIB(64) + 1}) {
    const unsigned c = size_class_of(bytes);
    const size_t before = dense_wide_units(), units = bytes > HAK_KIB(8) ? size_classes[c].slab_units : 0;
    auto block = owner.refill(c, 1);
    EXPECT_EQ(dense_wide_units() - before, units) << bytes << " bytes";
    owner.flush(c, block);
    slab_release_empty(owner);
    EXPECT_EQ(dense_wide_units(), before) << bytes << " bytes";
  }
}

/* What dense.h is told: a slab counts until all of its blocks are out, for the first time and for good. */
TEST_F(Slab, ASlabIsUnfilledUntilItWasFullOnce) {
  for (unsigned c : kClasses) {
    const size_t units = size_classes[c].slab_units, capacity = size_classes[c].capacity;
    const size_t before = dense_unfilled_units();
    auto most = owner.refill(c, capacity - 1u);
    EXPECT_EQ(dense_unfilled_units() - before, units) << "a block was never out; class " << c;
    auto last = owner.refill(c, 1);
    EXPECT_EQ(dense_unfilled_units(), before) << "all are out; class " << c;
    owner.flush(c, most);
    EXPECT_EQ(dense_unfilled_units(), before) << "they have been; class " << c;
    most = owner.refill(c, capacity - 1u);
    EXPECT_EQ(dense_unfilled_units(), before) << "all are out again, which is no news; class " << c;
    owner.flush(c, most);
    owner.flush(c, last);
    slab_release_empty(owner);
    EXPECT_EQ(dense_unfilled_units(), before) << "a slab that went was counted a second time; class " << c;
    owner.flush(c, owner.refill(c, 1));
    EXPECT_EQ(dense_unfilled_units() - before, units) << "a new slab in the same place is unfilled again; class " << c;
    slab_release_empty(owner);
    EXPECT_EQ(dense_unfilled_units(), before) << "it has gone unfilled; class " << c;
  }
}

/* What was given and made again is kept the next time, up to 1 MiB; over time less. */
TEST_F(Slab, EmptySlabsThatAreWantedAgainAreKept) {
  const unsigned c = size_class_of(16384), units = size_classes[c].slab_units;
  const size_t blocks = size_classes[c].capacity * 5u;
  owner.flush(c, owner.refill(c, blocks));
  EXPECT_EQ(slabs_listed(c), 1u) << "nobody has wanted them again";
  owner.flush(c, owner.refill(c, blocks));
  EXPECT_EQ(slabs_listed(c), 4u) << "they come and go";
  slab_check(owner);
  owner.flush(c, owner.refill(c, blocks));
  EXPECT_EQ(slabs_listed(c), 5u);
  for (int i = 0; i < 8; i++) owner.flush(c, owner.refill(c, 20 * blocks));
  EXPECT_EQ(slabs_listed(c), HAK_MIB(1) / UNIT_BYTES / units) << "too much is kept";
  auto some = owner.refill(c, 3);
  owner.flush(c, owner.refill(c, blocks));
  slab_check(owner);
  some.push_back(owner.refill(c, 1)[0]);
  EXPECT_EQ(slab_of(some[3]), slab_of(some[0])) << "an empty slab was preferred";
  std::map<unit_t, std::vector<void *>> out;
  for (void *block : owner.refill(c, size_classes[c].capacity * 3u)) out[slab_of(block)].push_back(block);
  std::vector<std::vector<void *>> whole;
  for (auto &[slab, its] : out)
    if (its.size() == size_classes[c].capacity) whole.push_back(its), its.clear();
  ASSERT_GE(whole.size(), 2u);
  for (auto &its : whole) owner.flush(c, {its.back()}), its.pop_back();
  for (void *block : whole.back()) owner.flush(c, {block}); /* the first in the list, and empty in the end */
  void *next = owner.refill(c, 1)[0];
  EXPECT_NE(slab_of(next), slab_of(whole.back()[0])) << "a slab was preferred that has just been emptied";
  whole.back() = {next};
  for (auto &its : whole) owner.flush(c, its);
  for (auto &[slab, its] : out) owner.flush(c, its);
  slab_age_empty(owner);
  slab_age_empty(owner);
  owner.flush(c, owner.refill(c, blocks));
  EXPECT_LE(slabs_listed(c), size_t{4}) << "what was wanted once is kept for ever";
  slab_release_empty(owner);
  EXPECT_EQ(slabs_listed(c), 1u) << "the one that has blocks in use";
  slab_check(owner);
  owner.flush(c, some);
  slab_release_empty(owner);
}

TEST_F(Slab, RandomBatchesOfManyClasses) {
  hak_test::Random random(5);
  struct Class {
    std::vector<void *> out;
    std::set<void *> known;
  } classes[SIZE_CLASS_COUNT];
  for (int i = 0; i < 3000; i++) {
    unsigned c = kClasses[random.below(std::size(kClasses))];
    Class &k = classes[c];
    if (random.below(2) == 0 && k.out.size() * size_classes[c].block_bytes < (4 << 20)) {
      for (void *block : owner.refill(c, random.between(1, c < 65 ? 300 : 20))) {
        ASSERT_TRUE(k.known.insert(block).second) << "a block that is out came again; class " << c;
        hak_test::stamp(block, size_classes[c].block_bytes, c);
        k.out.push_back(block);
      }
    } else {
      std::vector<void *> back;
      for (size_t n = random.below(400); n > 0 && !k.out.empty(); n--) {
        std::swap(k.out[random.below(k.out.size())], k.out.back());
        ASSERT_TRUE(hak_test::stamped(k.out.back(), size_classes[c].block_bytes, c))
            << "the contents of a block changed";
        back.push_back(k.out.back());
        k.known.erase(k.out.back());
        k.out.pop_back();
      }
      owner.flush(c, back);
    }
    if (i % 10 == 0) slab_check(owner);
    if (i % 100 == 0) slab_release_empty(owner), arena_check();
  }
  for (unsigned c : kClasses) owner.flush(c, classes[c].out);
}

TEST_F(Slab, LoneBlocks) {
  for (unsigned c : {unsigned{MID_CLASS_END}, 120u, unsigned{SIZE_CLASS_COUNT - 1}}) {
    bool zero = false;
    void *block = nullptr;
    ASSERT_EQ(batch_refill(owner, c, &block, 1, &zero), 1u);
    EXPECT_EQ(block, map_address(slab_of(block)));
    EXPECT_TRUE(!zero || hak_test::is_zero(block, size_classes[c].block_bytes));
    EXPECT_EQ(map_lookup(static_cast<char *>(block) + UNIT_BYTES), word_make(0, KIND_INNER));
    std::memset(block, 1, size_classes[c].block_bytes);
    owner.flush(c, {block});
    EXPECT_FALSE(hak_owns(block));
    EXPECT_EQ(used_bytes(), 0u);
  }
}

TEST_F(Slab, ALoneBlockGrowsInPlaceWhereThereIsRoom) {
  const unsigned small = size_class_of(HAK_KIB(128)), wider = size_class_of(HAK_KIB(512)),
                 widest = size_class_of(HAK_MIB(4));
  void *block = owner.refill(small, 1)[0];
  unit_t slab = slab_of(block);
  ASSERT_TRUE(slab_extend_single(slab, map_lookup(map_address(slab)), wider)) << "fresh memory lies behind it";
  EXPECT_EQ(map_lookup(block), word_make(owner->id, wider));
  void *behind = owner.refill(small, 1)[0];
  EXPECT_FALSE(slab_extend_single(slab, map_lookup(map_address(slab)), widest)) << "another block lies behind it";
  EXPECT_EQ(map_lookup(block), word_make(owner->id, wider)) << "a failure changed it";
  arena_check();
  owner.flush(wider, {block});
  owner.flush(small, {behind});
}

TEST_F(Slab, ALoneBlockIsTakenOverOnce) {
  AttachedOwner other;
  const unsigned c = size_class_of(HAK_KIB(256));
  void *block = owner.refill(c, 1)[0];
  uint32_t word = map_lookup(block);
  EXPECT_TRUE(slab_take_over_single(other, slab_of(block), word));
  EXPECT_EQ(map_lookup(block), word_make(other->id, c));
  EXPECT_FALSE(slab_take_over_single(owner, slab_of(block), word)) << "two threads that free one block both get it";
  other.flush(c, {block});
}

/* Whoever changes its run keeps all others off. */
TEST_F(Slab, AClaimedLoneBlockIsNobodysUntilItIsLetGo) {
  const unsigned c = size_class_of(HAK_KIB(256));
  void *block = owner.refill(c, 1)[0];
  const unit_t slab = slab_of(block);
  const uint32_t word = map_lookup(block);
  ASSERT_TRUE(slab_claim_single(slab, word));
  EXPECT_FALSE(slab_claim_single(slab, word)) << "claimed by two";
  EXPECT_FALSE(slab_take_over_single(owner, slab, word)) << "freed by another thread meanwhile";
  EXPECT_FALSE(slab_free_single(owner, slab, word)) << "flushed meanwhile";
  EXPECT_FALSE(slab_extend_single(slab, word, c + 1)) << "made larger meanwhile";
  slab_unclaim_single(slab, word);
  EXPECT_EQ(map_lookup(block), word);
  owner.flush(c, {block});
}

/* Of the same slab and word of its bitmap, of others, in any order. */
TEST_F(Slab, ABatchIsSoundIfAFlushWouldTakeItAsItIs) {
  for (unsigned c : {1u, 3u, 20u, 64u, 79u}) {
    const size_t count = size_classes[c].capacity + size_t{4};
    auto blocks = owner.refill(c, count);
    ASSERT_EQ(blocks.size(), count);
    std::vector<void *> some = {blocks.front(), blocks.back(), blocks[1], blocks[count / 2]};
    const auto is_sound = [&](const owner_t *whose) { return batch_is_sound(whose, c, some.data(), some.size()); };
    EXPECT_TRUE(is_sound(owner)) << "class " << c;
    for (size_t i = 0; i < some.size(); i++) {
      void *was = some[i];
      some[i] = some[(i + 1) % some.size()];
      EXPECT_FALSE(is_sound(owner)) << "one twice, class " << c;
      some[i] = static_cast<char *>(was) + 8;
      EXPECT_FALSE(is_sound(owner)) << "no block, class " << c;
      owner.flush(c, {was});
      some[i] = was;
      EXPECT_FALSE(is_sound(owner)) << "one is free, class " << c;
      ASSERT_EQ(owner.refill(c, 1)[0], was);
    }
    AttachedOwner other;
    EXPECT_FALSE(is_sound(other)) << "they are another's, class " << c;
    owner.flush(c, blocks);
  }
}

using SlabDeathTest = Slab;

TEST_F(SlabDeathTest, AFreeBlockIsNoticedWhenItComesBackAgain) {
  auto blocks = owner.refill(20, 10);
  owner.flush(20, {blocks[3]});
  EXPECT_DEATH(owner.flush(20, {blocks[3]}), "double free of .*320 bytes");
  EXPECT_DEATH(owner.flush(20, {blocks[4], blocks[4]}), "double free");
  EXPECT_DEATH(owner.flush(20, {blocks[4], blocks[5], blocks[4], blocks[6]}), "double free");
  blocks.erase(blocks.begin() + 3);
  owner.flush(20, blocks);
}

TEST_F(SlabDeathTest, WhatIsNoBlockIsNoticed) {
  auto blocks = owner.refill(20, 1);
  EXPECT_DEATH(owner.flush(20, {static_cast<char *>(blocks[0]) + 16}), "interior pointer");
  EXPECT_DEATH(owner.flush(21, blocks), "double free") << "a block of another class";
  owner.flush(20, blocks);
}
