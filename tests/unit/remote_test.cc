/* Remote frees: blocks that come back to another owner's slab. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

namespace {

using hak_test::AttachedOwner;
using hak_test::owner_of;
using hak_test::record;
using hak_test::slab_of;

class Remote : public testing::Test {
 protected:
  void TearDown() override {
    for (AttachedOwner *owner : {&a, &b, &c}) owner->detach();
    tidy_sweep(nullptr);
    tidy_sweep(nullptr); /* what one passed on to another */
    arena_check();
    EXPECT_EQ(hak_test::used_bytes(), 0u) << "a block that was freed has not come back to its slab";
  }
  static void free_as(owner_t *freer, void *block) {
    remote_free(freer, block, map_lookup(block));
    error_settle();
  }
  /* Returns how many of the blocks [from, to) have left the outbox as it was: they went alone. */
  static size_t free_all_as(owner_t *freer, const std::vector<void *> &blocks, size_t from, size_t to) {
    size_t alone = 0;
    for (size_t i = 0; i < blocks.size(); i++) {
      const outbox_t before = freer->outbox != nullptr ? *freer->outbox : outbox_t{};
      free_as(freer, blocks[i]);
      if (i >= from && i < to) alone += std::memcmp(&before, freer->outbox, sizeof before) == 0;
    }
    return alone;
  }
  /* What `b` has freed of the owner's; and of each one's. */
  void comes_home(owner_t *owner) {
    remote_flush(b);
    remote_collect(owner, SIZE_MAX);
    slab_check(owner);
  }
  template <size_t kOwners> void comes_home(AttachedOwner (&owners)[kOwners]) {
    for (AttachedOwner &owner : owners) comes_home(owner);
  }
  static bool announced(unit_t slab) { return atomic32_load_relaxed(&the_map.shared[slab].announced) != 0; }
  AttachedOwner a, b, c;
};

}  // namespace

TEST_F(Remote, ABlockWaitsInTheOutboxThenInTheSlabThenIsFree) {
  auto blocks = a.refill(20, 4);
  unit_t slab = slab_of(blocks[0]);
  auto before = record(slab).slab.free_count;
  free_as(b, blocks[0]);
  EXPECT_EQ(b->outbox_count, 1u);
  EXPECT_FALSE(remote_has_pending(a)) << "delivered at once: an atomic operation for every block";
  remote_flush(b);
  EXPECT_EQ(b->outbox_count, 0u);
  EXPECT_TRUE(remote_has_pending(a));
  EXPECT_EQ(record(slab).slab.free_count, before) << "another thread has changed the owner's count";
  remote_collect(a, SIZE_MAX);
  EXPECT_FALSE(remote_has_pending(a));
  EXPECT_FALSE(announced(slab));
  EXPECT_EQ(record(slab).slab.free_count, before + 1);
  slab_check(a);
  blocks.erase(blocks.begin());
  a.flush(20, blocks);
}

TEST_F(Remote, BlocksOfOneWordTravelTogether) {
  auto blocks = a.refill(1, 64);
  for (size_t i = 0; i < 63; i++) free_as(b, blocks[i]);
  EXPECT_EQ(b->outbox_count, 1u) << "64 neighbours of one bitmap word";
  EXPECT_EQ(b->parcel_count, 0u);
  free_as(b, blocks[63]);
  EXPECT_EQ(b->outbox_count, 0u) << "a full entry goes into a parcel at once";
  EXPECT_EQ(b->parcel_count, 1u);
  EXPECT_FALSE(remote_has_pending(a)) << "a parcel for a lone entry";
  remote_flush(b);
  EXPECT_EQ(b->parcel_count, 0u);
  EXPECT_TRUE(remote_has_pending(a));
}

/* A magazine's blocks of one word go home in one step, however many more they are than an entry has room for;
 * in no order, too. */
TEST_F(Remote, BlocksOfAMagazineTravelInRows) {
  const unsigned k = size_class_of(1024);
  const size_t count = size_classes[k].capacity;
  hak_test::Random random(5);
  for (bool in_order : {true, false}) {
    auto blocks = a.refill(k, count);
    std::sort(blocks.begin(), blocks.end());
    unit_t slab = slab_of(blocks[0]);
    ASSERT_EQ(slab, slab_of(blocks.back()));
    auto before = record(slab).slab.free_count;
    const uint64_t frees = atomic64_load_relaxed(&b->remote_frees);
    if (!in_order) random.shuffle(blocks);
    batch_flush(b, k, blocks.data(), blocks.size());
    EXPECT_EQ(b->outbox_count, 0u) << "an entry holds more than it has room for";
    remote_flush(b);
    EXPECT_EQ(atomic64_load_relaxed(&b->remote_frees) - frees, count);
    remote_collect(a, SIZE_MAX);
    EXPECT_EQ(record(slab).slab.free_count, before + count);
    slab_check(a);
  }
}

/* What waits already is told of, block by block; the others of its row go home. */
TEST_F(Remote, OfARowThatWaitsInPartTheRestGoesHome) {
  const unsigned k = size_class_of(256);
  auto blocks = a.refill(k, 12);
  std::sort(blocks.begin(), blocks.end());
  const uint64_t frees = atomic64_load_relaxed(&b->remote_frees), errors = error_count();
  free_as(b, blocks[3]);
  auto *settings = const_cast<config_t *>(config());
  settings->abort_on_error = false;
  batch_flush(b, k, blocks.data(), blocks.size());
  error_settle();
  settings->abort_on_error = true;
  EXPECT_EQ(error_count() - errors, 1u);
  EXPECT_EQ(b->outbox_count, 1u);
  remote_flush(b);
  EXPECT_EQ(atomic64_load_relaxed(&b->remote_frees) - frees, 12u);
  remote_collect(a, SIZE_MAX);
  slab_check(a);
}

/* Words of the same owner travel together, and touch none of its slabs' tables. */
TEST_F(Remote, WordsOfOneOwnerTravelInAParcel) {
  constexpr size_t kBlocks = size_t{PARCEL_ENTRIES} * 64;
  auto blocks = a.refill(1, kBlocks);
  std::sort(blocks.begin(), blocks.end());
  unit_t slab = slab_of(blocks[0]);
  auto before = record(slab).slab.free_count;
  for (size_t i = 0; i + 1 < kBlocks; i++) free_as(b, blocks[i]);
  EXPECT_FALSE(remote_has_pending(a)) << "it was posted before it was full";
  free_as(b, blocks.back());
  EXPECT_EQ(b->parcel_count, 0u);
  EXPECT_TRUE(remote_has_pending(a)) << "a full parcel is posted";
  EXPECT_FALSE(announced(slab));
  for (unsigned w = 0; w < PARCEL_ENTRIES; w++)
    EXPECT_EQ(atomic64_load_relaxed(&the_map.remote_bits[slab][w]), 0u) << "a bitmap was touched";
  EXPECT_EQ(remote_collect(a, SIZE_MAX), 1u) << "parcels";
  EXPECT_EQ(record(slab).slab.free_count, before + kBlocks);
  EXPECT_FALSE(remote_has_pending(a));
  EXPECT_EQ(atomic64_load_relaxed(&b->remote_frees), kBlocks);
}

TEST_F(Remote, ParcelsAreForOneOwnerEach) {
  auto of_a = a.refill(1, 128), of_c = c.refill(1, 128);
  for (int i = 0; i < 128; i++) {
    free_as(b, of_a[static_cast<size_t>(i)]);
    free_as(b, of_c[static_cast<size_t>(i)]);
  }
  remote_flush(b);
  EXPECT_TRUE(remote_has_pending(a));
  EXPECT_TRUE(remote_has_pending(c));
  remote_collect(a, SIZE_MAX);
  remote_collect(c, SIZE_MAX);
  EXPECT_FALSE(remote_has_pending(a)) << "what one owner had was passed on to the other";
  slab_check(a);
  slab_check(c);
}

/* There are more owners than parcels that are packed at a time. */
TEST_F(Remote, OwnersTakeTurnsAtAParcel) {
  AttachedOwner owners[OUTBOX_PARCELS + 1];
  std::vector<std::vector<void *>> blocks;
  for (auto &owner : owners) blocks.push_back(owner.refill(1, 128));
  for (auto &its : blocks) std::sort(its.begin(), its.end());
  for (size_t i = 0; i < 128; i++)
    for (auto &its : blocks) free_as(b, its[i]);
  EXPECT_LE(b->parcel_count, unsigned{OUTBOX_PARCELS});
  remote_flush(b);
  /* The last first: another one's collection would pass on what is not its own. */
  for (size_t i = OUTBOX_PARCELS + 1; i-- > 0;) {
    const auto before = owners[i]->free_bytes;
    remote_collect(owners[i], SIZE_MAX);
    EXPECT_EQ(owners[i]->free_bytes - before, 128 * 16) << "an entry went elsewhere first";
    slab_check(owners[i]);
  }
}

/* Where nothing comes together, blocks go straight to their slabs; and they are packed again when it helps. */
TEST_F(Remote, WhatIsPackedInVainGoesAlone) {
  constexpr size_t kOwners = 128, kBlocks = 512, kLast = 1000;
  AttachedOwner owners[kOwners];
  std::vector<void *> blocks;
  for (auto &owner : owners)
    for (void *block : owner.refill(1, kBlocks)) blocks.push_back(block);
  hak_test::Random random(3);
  random.shuffle(blocks);
  const size_t alone = free_all_as(b, blocks, blocks.size() - kLast, blocks.size());
  EXPECT_GT(alone, kLast / 2) << "each pushed another one out";
  EXPECT_GT(atomic64_load_relaxed(&b->remote_frees), blocks.size() / 2) << "they are not counted";
  EXPECT_GT(b->scattered, 0u);

  std::vector<void *> of_a = a.refill(1, 60000);
  std::sort(of_a.begin(), of_a.end());
  for (void *block : of_a) free_as(b, block);
  EXPECT_EQ(b->scattered, 0u) << "what others have left in the outbox is in the way for ever";
  comes_home(owners);
  comes_home(a);
  EXPECT_EQ(atomic64_load_relaxed(&b->remote_frees), blocks.size() + of_a.size());
}

/* The same of rows, which magazines send: of as many blocks as that one of 16 is to try whether packing is in
 * vain still. */
TEST_F(Remote, RowsThatArePackedInVainArePackedAgain) {
  constexpr size_t kOwners = 128, kBlocks = 512, kRow = 16, kOfA = 240000;
  static_assert(kBlocks % kRow == 0 && kOfA % kRow == 0, "whole rows");
  AttachedOwner owners[kOwners];
  std::vector<void *> blocks;
  std::vector<size_t> rows;
  auto flush_row = [&](size_t row) { batch_flush(b, 1, &blocks[row * kRow], kRow); };
  for (auto &owner : owners) {
    auto some = owner.refill(1, kBlocks);
    std::sort(some.begin(), some.end());
    for (size_t i = 0; i < kBlocks; i += kRow) rows.push_back((blocks.size() + i) / kRow);
    blocks.insert(blocks.end(), some.begin(), some.end());
  }
  hak_test::Random random(3);
  random.shuffle(rows);
  atomic64_store_relaxed(&b->remote_frees, 1);
  for (size_t row : rows) flush_row(row);
  EXPECT_GE(b->scattered, 32u) << "the test is void";

  blocks = a.refill(1, kOfA);
  std::sort(blocks.begin(), blocks.end());
  for (size_t row = 0; row < kOfA / kRow; row++) flush_row(row);
  EXPECT_EQ(b->scattered, 0u) << "what others have left in the outbox is in the way for ever";
  comes_home(owners);
  comes_home(a);
}

/* The same where all are one owner's, of more words than there are places. */
TEST_F(Remote, WhatIsSparseGoesAlone) {
  constexpr size_t kBlocks = 64 * 1024, kLast = 1000; /* 1024 words */
  std::vector<void *> blocks = a.refill(1, kBlocks);
  const uint64_t frees = atomic64_load_relaxed(&b->remote_frees);
  hak_test::Random random(3);
  random.shuffle(blocks);
  const size_t alone = free_all_as(b, blocks, blocks.size() / 2, blocks.size() / 2 + kLast);
  EXPECT_GT(alone, kLast / 2) << "each pushed another one out";
  EXPECT_GT(b->sparse, 0u);
  comes_home(a);

  blocks = a.refill(1, kBlocks);
  std::sort(blocks.begin(), blocks.end());
  /* Of each word the half, so that none is full before it is in another's way. */
  for (size_t half = 0; half < 2; half++) {
    for (size_t i = 0; i < kBlocks; i++)
      if (i / 32 % 2 == half) free_as(b, blocks[i]);
    EXPECT_EQ(b->sparse, 0u) << "what was sparse once is for ever";
  }
  comes_home(a);
  EXPECT_EQ(atomic64_load_relaxed(&b->remote_frees) - frees, 2 * kBlocks);
}

namespace {
/* Frees blocks of very many owners in no order, until they go alone; returns one of those that did last. */
void *scatter(owner_t *freer, AttachedOwner *owners, size_t count, size_t *quick) {
  std::vector<void *> blocks;
  for (size_t i = 0; i < count; i++)
    for (void *block : owners[i].refill(1, 512)) blocks.push_back(block);
  hak_test::Random random(3);
  random.shuffle(blocks);
  void *last = nullptr;
  for (void *block : blocks) {
    const uint64_t before = atomic64_load_relaxed(&freer->remote_frees);
    if (!remote_free_quickly(freer, block, map_lookup(block))) {
      remote_free(freer, block, map_lookup(block));
    } else if (atomic64_load_relaxed(&freer->remote_frees) == before + 1) {
      ++*quick;
      if (freer->alone % 16 < 10) last = block; /* and what follows goes alone, too */
    }
    error_settle();
  }
  return last;
}
}  // namespace

TEST_F(Remote, WhatIsPackedInVainGoesAloneQuickly) {
  AttachedOwner owners[128];
  size_t quick = 0;
  scatter(b, owners, 128, &quick);
  EXPECT_GT(quick, 128u * 512 / 2);
  comes_home(owners);
  EXPECT_EQ(atomic64_load_relaxed(&b->remote_frees), 128u * 512);
}

TEST_F(Remote, WhatGoesAloneIsReportedAtOnce) {
  AttachedOwner owners[128];
  size_t quick = 0;
  void *block = scatter(b, owners, 128, &quick);
  ASSERT_NE(block, nullptr);
  b->alone = 0; /* no sixteenth */
  EXPECT_DEATH(remote_free_quickly(b, block, map_lookup(block)), "double free");
  remote_flush(b);
  for (auto &owner : owners) remote_collect(owner, SIZE_MAX);
}

/* Who does not come to its mail gets no more than MAIL_MOST parcels of it; the rest are bits. */
TEST_F(Remote, MailIsBounded) {
  const unsigned k = size_class_of(2048);
  std::vector<void *> blocks = a.refill(k, 16u * 2 * (MAIL_MOST + 50));
  for (void *block : blocks) free_as(b, block);
  remote_flush(b);
  EXPECT_EQ(atomic64_load_relaxed(&a->pending.mail) >> 32, uint64_t{MAIL_MOST});
  EXPECT_NE(atomic32_load_relaxed(&a->pending.head), 0u) << "and bits";
  EXPECT_LE(b->spare_count, 16u) << "parcels that are needed no more go back";
  EXPECT_GT(remote_collect(a, SIZE_MAX), size_t{MAIL_MOST});
  EXPECT_LE(a->spare_count, 16u);
  slab_check(a);
  slab_release_empty(a);
  EXPECT_EQ(hak_test::used_bytes(), 0u) << "a block is lost";
}

/* What a claimer empties goes back when it lets go: it waits for no gate before. */
TEST_F(Remote, AClaimerKeepsTheParcelsForLater) {
  auto blocks = a.refill(size_class_of(2048), 16u * 2 * 40);
  for (void *block : blocks) free_as(b, block);
  remote_flush(b);
  a->puts_aside = true;
  gate_enter(&metadata_gate);
  remote_collect(a, SIZE_MAX); /* would wait for ever */
  EXPECT_GE(a->spare_count, 40u);
  gate_leave(&metadata_gate);
  unit_t aside = a->put_aside;
  a->put_aside = 0;
  a->puts_aside = false;
  slab_give_aside(aside);
  parcel_give_surplus(parcel_surplus(a));
  EXPECT_LE(a->spare_count, 8u);
  auto again = a.refill(1, 64); /* and serve others */
  for (void *block : again) free_as(c, block);
  remote_flush(c);
  EXPECT_GT(c->spare_count, 0u);
}

TEST_F(Remote, WhatIsPackedIsPostedWithoutTheEntries) {
  auto blocks = a.refill(1, 130);
  std::sort(blocks.begin(), blocks.end());
  for (void *block : blocks) free_as(b, block);
  EXPECT_EQ(b->parcel_count, 1u);
  EXPECT_EQ(b->outbox_count, 1u);
  remote_post(b);
  EXPECT_EQ(b->parcel_count, 0u);
  EXPECT_EQ(b->outbox_count, 1u) << "its thread may be adding to it";
  EXPECT_TRUE(remote_has_pending(a));
}

TEST_F(Remote, ABitForAnEntryThatIsThereIsAddedQuickly) {
  AttachedOwner a, b;
  auto blocks = a.refill(1, 70), large = a.refill(size_class_of(2000), 1);
  std::sort(blocks.begin(), blocks.end());
  const uint32_t word = map_lookup(blocks[0]);
  EXPECT_FALSE(remote_free_quickly(b, blocks[0], word)) << "there is no entry yet";
  remote_free(b, blocks[0], word);
  EXPECT_TRUE(remote_free_quickly(b, blocks[1], word));
  EXPECT_FALSE(remote_free_quickly(b, blocks[1], word)) << "a second time, which is to be reported";
  EXPECT_FALSE(remote_free_quickly(b, static_cast<char *>(blocks[2]) + 8, word)) << "no block";
  EXPECT_FALSE(remote_free_quickly(b, large[0], map_lookup(large[0]))) << "there is no entry of its slab";
  for (int i = 2; i < 70; i++)
    if (!remote_free_quickly(b, blocks[static_cast<size_t>(i)], word))
      remote_free(b, blocks[static_cast<size_t>(i)], word);
  remote_free(b, large[0], map_lookup(large[0]));
  remote_flush(b);
  remote_collect(a, SIZE_MAX);
  EXPECT_EQ(atomic64_load_relaxed(&b->remote_frees), 71u);
}

TEST_F(Remote, TheOutboxIsBoundedAndLosesNothing) {
  std::vector<void *> blocks;
  for (unsigned size_class : {1u, 5u, 30u, 64u})
    for (void *block : a.refill(size_class, 600)) blocks.push_back(block);
  hak_test::Random random(2);
  random.shuffle(blocks);
  for (void *block : blocks) {
    free_as(b, block);
    ASSERT_LE(b->outbox_count, unsigned{OUTBOX_ENTRIES});
    size_t entries = 0;
    for (auto &entry : b->outbox->entries) entries += entry.bits != 0;
    ASSERT_EQ(entries, b->outbox_count);
  }
  comes_home(a);
  slab_release_empty(a);
  EXPECT_EQ(hak_test::used_bytes(), 0u) << "the owner has collected all and does not have all";
}

TEST_F(Remote, LargerBlocksAreNotHoarded) {
  for (auto [bytes, waiting] :
       {std::pair<size_t, size_t>{512, 15}, {1024, 7}, {2048, 3}, {5000, 7}, {8192, 7}, {16384, 3}, {65536, 0}}) {
    const unsigned k = size_class_of(bytes);
    auto blocks = a.refill(k, 8 * (waiting + 1));
    std::sort(blocks.begin(), blocks.end());
    for (size_t i = 0; i < waiting; i++) free_as(b, blocks[i]);
    EXPECT_EQ(b->parcel_count, 0u) << "a parcel for a block of " << bytes << " bytes";
    EXPECT_EQ(b->outbox_count, waiting > 0 ? 1u : 0u);
    free_as(b, blocks[waiting]);
    EXPECT_EQ(b->outbox_count, 0u) << "too much waits, in blocks of " << bytes << " bytes";
    for (size_t i = waiting + 1; i < blocks.size(); i++) {
      free_as(b, blocks[i]);
      EXPECT_LT(remote_outbox_bytes(b), 3 * 64u * 1024) << "an outbox of " << bytes << " bytes";
    }
    EXPECT_TRUE(remote_has_pending(a)) << "blocks of " << bytes << " bytes";
    remote_flush(b);
    remote_collect(a, SIZE_MAX);
    slab_release_empty(a);
  }
}

/* Blocks of which few fill an entry wait in few of them, the last ones; small ones in all. */
TEST_F(Remote, FewEntriesHoldMidBlocks) {
  const unsigned k = size_class_of(16384);
  const size_t in_a_slab = size_classes[k].capacity;
  auto blocks = a.refill(k, 60 * in_a_slab);
  std::sort(blocks.begin(), blocks.end());
  for (size_t i = 0; i < blocks.size(); i += in_a_slab) {
    free_as(b, blocks[i]); /* one of each slab */
    EXPECT_LE(b->outbox_count, unsigned{ROOMY_ENTRIES});
    EXPECT_LE(remote_outbox_bytes(b), ROOMY_ENTRIES * size_t{16384} + 32 * 1024);
  }
  EXPECT_EQ(b->outbox_count, unsigned{ROOMY_ENTRIES}) << "of as many slabs blocks might come together";
  auto small = a.refill(1, 64u * 60);
  std::sort(small.begin(), small.end());
  for (size_t i = 0; i < small.size(); i += 64) free_as(b, small[i]);
  EXPECT_GT(b->outbox_count, 30u);
  for (size_t i = 1; i < blocks.size(); i += in_a_slab) free_as(b, blocks[i]);
  EXPECT_GT(b->outbox_count, 30u) << "mid blocks have sent small ones away";
  for (size_t i = 0; i < blocks.size(); i++)
    if (i % in_a_slab > 1) free_as(b, blocks[i]);
  for (size_t i = 0; i < small.size(); i++)
    if (i % 64 > 0) free_as(b, small[i]);
  comes_home(a);
}

TEST_F(Remote, ASlabIsAnnouncedOnceHoweverManyBlocksComeBack) {
  const unsigned k = size_class_of(2048);
  auto blocks = a.refill(k, 30);
  unit_t slab = slab_of(blocks[0]);
  for (int i = 0; i < 20; i++) {
    owner_t *freer = i % 2 == 0 ? b : c;
    free_as(freer, blocks[static_cast<size_t>(i)]);
    remote_flush(freer);
  }
  EXPECT_EQ(atomic32_load_relaxed(&a->pending.head), slab);
  EXPECT_EQ(the_map.shared[slab].pending_next, 0u) << "twice on the stack";
  remote_collect(a, 1);
  EXPECT_FALSE(remote_has_pending(a));
  free_as(b, blocks[20]);
  remote_flush(b);
  EXPECT_TRUE(remote_has_pending(a)) << "after a collection it is announced anew";
  a.flush(k, std::vector<void *>(blocks.begin() + 21, blocks.end()));
}

TEST_F(Remote, ACollectionIsBoundedAndGoesOnWhereItStopped) {
  const unsigned k = size_class_of(2048);
  auto blocks = a.refill(k, size_classes[k].capacity * 10u);
  std::set<unit_t> slabs;
  for (void *block : blocks) {
    slabs.insert(slab_of(block));
    remote_free_directly(block, map_lookup(block));
  }
  ASSERT_EQ(slabs.size(), 10u);
  auto waiting = [&] { return std::count_if(slabs.begin(), slabs.end(), announced); };
  remote_collect(a, 3);
  EXPECT_EQ(waiting(), 7) << "a malloc would pay for all";
  EXPECT_TRUE(remote_has_pending(a));
  remote_collect(a, 3);
  EXPECT_EQ(waiting(), 4);
  remote_collect(a, SIZE_MAX);
  EXPECT_EQ(waiting(), 0);
  EXPECT_FALSE(remote_has_pending(a));
}

TEST_F(Remote, ACollectionTakesAsManyParcelsAsItMay) {
  auto blocks = a.refill(size_class_of(2048), 32u * 10);
  for (void *block : blocks) free_as(b, block);
  ASSERT_EQ(atomic64_load_relaxed(&a->pending.mail) >> 32, 20u) << "32 KiB each";
  for (unsigned left = 20; left > 0; left -= 2) {
    EXPECT_TRUE(remote_has_pending(a)) << left << " are left";
    EXPECT_EQ(remote_collect(a, 2), 2u) << "a malloc would pay for all";
  }
  EXPECT_FALSE(remote_has_pending(a));
}

TEST_F(Remote, ARefillUsesWhatOthersHaveFreed) {
  const unsigned k = size_class_of(2048);
  auto blocks = a.refill(k, size_classes[k].capacity);
  size_t used = hak_test::used_bytes();
  for (void *block : blocks) free_as(b, block);
  remote_flush(b);
  auto again = a.refill(k, size_classes[k].capacity);
  EXPECT_EQ(hak_test::used_bytes(), used) << "fresh memory was taken although a slab had come back";
  std::sort(blocks.begin(), blocks.end());
  std::sort(again.begin(), again.end());
  EXPECT_EQ(again, blocks);
  a.flush(k, again);
}

TEST_F(Remote, AnOutboxIsDeliveredWhenItsThreadEnds) {
  auto blocks = a.refill(20, 3);
  for (void *block : blocks) free_as(b, block);
  EXPECT_FALSE(remote_has_pending(a));
  b.detach();
  EXPECT_TRUE(remote_has_pending(a)) << "blocks wait in the outbox of a thread that has ended";
}

/* ---- Slabs that change hands while a block is on its way -----------------------*/

TEST_F(Remote, ABlockThatWaitsInAnOutboxFindsTheNewOwner) {
  auto blocks = a.refill(20, 10);
  unit_t slab = slab_of(blocks[0]);
  free_as(b, blocks[0]);
  a.detach();
  ASSERT_TRUE(adopt(c, 20));
  EXPECT_EQ(owner_of(blocks[0]), c->id);
  auto before = record(slab).slab.free_count;
  remote_flush(b);
  EXPECT_TRUE(remote_has_pending(c)) << "delivered to the owner of before";
  remote_collect(c, SIZE_MAX);
  EXPECT_EQ(record(slab).slab.free_count, before + 1);
  slab_check(c);
  blocks.erase(blocks.begin());
  c.flush(20, blocks);
}

TEST_F(Remote, MailOfAFormerOwnerIsPassedOn) {
  const unsigned k = size_class_of(512);
  auto blocks = a.refill(k, 100);
  unit_t slab = slab_of(blocks[0]);
  owner_t *former = a;
  for (size_t i = 0; i < 90; i++) free_as(b, blocks[i]);
  remote_flush(b);
  ASSERT_NE(atomic64_load_relaxed(&former->pending.mail), 0u) << "the test is void";
  uint64_t mail = atomic64_exchange_relaxed(&former->pending.mail, 0); /* it has not come to it */
  a.detach();
  ASSERT_TRUE(adopt(c, k));
  ASSERT_EQ(owner_of(blocks[0]), c->id);
  atomic64_store_relaxed(&former->pending.mail, mail);
  auto before = record(slab).slab.free_count;
  tidy_sweep(nullptr);
  EXPECT_EQ(record(slab).slab.free_count, before) << "another owner's count was changed";
  EXPECT_TRUE(remote_has_pending(c)) << "its blocks are lost";
  remote_collect(c, SIZE_MAX);
  EXPECT_EQ(record(slab).slab.free_count, before + 90);
  slab_check(c);
  c.flush(k, std::vector<void *>(blocks.begin() + 90, blocks.end()));
}

/* A freer that was slow to announce pushes the slab on the stack of the owner
 * that it was. Whoever takes it from there passes it on. */
TEST_F(Remote, AnAnnouncementToTheFormerOwnerIsPassedOn) {
  const unsigned k = size_class_of(2048);
  auto blocks = a.refill(k, 10);
  unit_t slab = slab_of(blocks[0]);
  owner_t *former = a;
  a.detach();
  ASSERT_TRUE(adopt(c, k));
  the_map.shared[slab].pending_next = 0;
  atomic32_store_relaxed(&the_map.shared[slab].announced, 1);
  atomic32_store_relaxed(&former->pending.head, slab);
  free_as(b, blocks[0]);
  remote_flush(b);
  EXPECT_FALSE(remote_has_pending(c)) << "it was announced, though elsewhere";
  tidy_sweep(nullptr); /* somebody looks after the former owner, who is in the pool */
  EXPECT_TRUE(remote_has_pending(c)) << "the announcement ended with the former owner: its blocks are lost";
  auto before = record(slab).slab.free_count;
  remote_collect(c, SIZE_MAX);
  EXPECT_EQ(record(slab).slab.free_count, before + 1);
  blocks.erase(blocks.begin());
  c.flush(k, blocks);
}

TEST_F(Remote, AnAnnouncementOfAUnitThatIsNoSlabAnyMoreIsDropped) {
  auto blocks = a.refill(20, 1);
  unit_t slab = slab_of(blocks[0]);
  a.flush(20, blocks);
  slab_release_empty(a);
  ASSERT_EQ(map_lookup(map_address(slab)), 0u);
  the_map.shared[slab].pending_next = 0;
  atomic32_store_relaxed(&the_map.shared[slab].announced, 1);
  atomic32_store_relaxed(&a->pending.head, slab);
  remote_collect(a, SIZE_MAX);
  EXPECT_FALSE(announced(slab)) << "a slab that is made of the unit could never be announced";
  EXPECT_FALSE(remote_has_pending(a));
  arena_check();
}

/* The last block of a slab that is collected empties it: it goes back, and the
 * rest of its bitmap is not ours any more. */
TEST_F(Remote, CollectingTheLastBlockGivesTheSlabBack) {
  auto keep = a.refill(1, 2);
  auto blocks = a.refill(1, 4094u + 4096u);
  std::set<unit_t> slabs;
  for (void *block : blocks) slabs.insert(slab_of(block));
  ASSERT_EQ(slabs.size(), 2u);
  a.flush(1, {keep.back()}); /* the class has another slab: the empty one is not kept */
  keep.pop_back();
  size_t used = hak_test::used_bytes();
  for (void *block : blocks) free_as(b, block);
  comes_home(a);
  EXPECT_EQ(used - hak_test::used_bytes(), size_t{UNIT_BYTES});
  a.flush(1, keep);
}

/* ---- Two threads ------------------------------------------------------------------*/

TEST_F(Remote, TwoThreadsPassBlocksToEachOther) {
  constexpr int kRounds = 400, kBatch = 100;
  struct Box {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::vector<std::pair<void *, uint64_t>>> batches;
  } boxes[2];
  auto body = [&](owner_t *owner, Box &in, Box &out, uint64_t seed) {
    hak_test::Random random(seed);
    const unsigned classes[] = {1, 7, 64, size_class_of(3000)};
    for (int round = 0; round < kRounds; round++) {
      std::vector<std::pair<void *, uint64_t>> batch;
      while (batch.size() < kBatch) {
        unsigned k = classes[random.below(4)];
        void *blocks[10];
        size_t got = batch_refill(owner, k, blocks, 10, nullptr);
        for (size_t i = 0; i < got; i++) {
          batch.push_back({blocks[i], random.next()});
          hak_test::stamp_as(blocks[i], size_classes[k].block_bytes, batch.back().second);
        }
      }
      {
        std::lock_guard<std::mutex> lock(out.mutex);
        out.batches.push_back(std::move(batch));
        out.changed.notify_one();
      }
      std::vector<std::pair<void *, uint64_t>> taken;
      {
        std::unique_lock<std::mutex> lock(in.mutex);
        in.changed.wait(lock, [&] { return !in.batches.empty(); });
        taken = std::move(in.batches.front());
        in.batches.pop_front();
      }
      for (auto &[block, key] : taken) {
        uint32_t word = map_lookup(block);
        size_t bytes = size_classes[word_kind(word)].block_bytes;
        ASSERT_TRUE(hak_test::stamped_as(block, bytes, key, bytes)) << "a block was handed out twice";
        ASSERT_NE(word_owner(word), owner->id);
        if (random.below(2) == 0) remote_free(owner, block, word); /* by mail; else by bits */
        else remote_free_directly(block, word);
        error_settle();
      }
    }
    remote_flush(owner);
  };
  std::thread other([&] { body(b, boxes[0], boxes[1], 1); });
  body(a, boxes[1], boxes[0], 2);
  other.join();
  for (owner_t *owner : {static_cast<owner_t *>(a), static_cast<owner_t *>(b)}) {
    remote_collect(owner, SIZE_MAX);
    slab_check(owner);
    slab_release_empty(owner);
  }
  EXPECT_EQ(hak_test::used_bytes(), 0u) << "blocks that were freed have not come back";
}

/* The owner collects while the other frees: when the last block has been freed, one
 * more collection finds all. A block that nobody announced is missing then. */
TEST_F(Remote, WhenTheFreerIsDoneOneCollectionFindsAll) {
  constexpr unsigned kRounds = 2000, kBlocks = 30;
  const unsigned k = size_class_of(2048);
  std::vector<void *> blocks;
  std::atomic<unsigned> to_do{0}, done{0};
  std::thread freer([&] {
    for (unsigned round = 1; round <= kRounds; round++) {
      while (to_do.load() != round) std::this_thread::yield();
      for (unsigned i = 0; i < kBlocks; i++) {
        if (round % 4 == 0) free_as(b, blocks[i]); /* by mail; else by bits */
        else remote_free_directly(blocks[i], map_lookup(blocks[i]));
        error_settle();
        if (i % 8 == 7) std::this_thread::yield(); /* so that both take part on one processor, too */
      }
      remote_flush(b);
      done.store(round);
    }
  });
  unsigned lost = 0;
  for (unsigned round = 1; round <= kRounds; round++) {
    blocks = a.refill(k, kBlocks);
    unit_t slab = slab_of(blocks[0]);
    auto before = record(slab).slab.free_count;
    to_do.store(round);
    while (done.load() != round) {
      if (remote_has_pending(a)) remote_collect(a, 1);
      else std::this_thread::yield();
    }
    remote_collect(a, SIZE_MAX);
    lost += before + kBlocks - record(slab).slab.free_count;
  }
  freer.join();
  EXPECT_EQ(lost, 0u) << "blocks lie in a remote bitmap, and no announcement leads the owner there";
}

/* Owners come and go in one thread, slabs change hands, and another thread frees
 * into them all the time. */
TEST_F(Remote, SlabsChangeHandsWhileAnotherThreadFreesIntoThem) {
  constexpr int kRounds = 300;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<void *> queue;
  bool ended = false;
  std::thread freer([&] {
    for (;;) {
      std::deque<void *> taken;
      {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return ended || !queue.empty(); });
        if (queue.empty()) break;
        taken.swap(queue);
      }
      for (void *block : taken) free_as(b, block);
    }
    remote_flush(b);
  });
  for (int round = 0; round < kRounds; round++) {
    AttachedOwner one, two;
    auto blocks = one.refill(size_class_of(2048), 40);
    for (void *block : two.refill(20, 40)) blocks.push_back(block);
    {
      std::lock_guard<std::mutex> lock(mutex);
      queue.insert(queue.end(), blocks.begin(), blocks.end());
      changed.notify_one();
    }
    one.detach(); /* its slabs may be adopted by the next round's owner of another number */
    auto more = two.refill(size_class_of(2048), 10);
    two.flush(size_class_of(2048), more);
  }
  {
    std::lock_guard<std::mutex> lock(mutex);
    ended = true;
    changed.notify_one();
  }
  freer.join();
}

/* A block that was freed twice waits in an outbox while its slab becomes one of another class. */
TEST_F(Remote, AMistakeInTheOutboxLeavesRightFreesAlone) {
  auto *settings = const_cast<config_t *>(config());
  settings->abort_on_error = false;
  constexpr unsigned kBefore = 64, kNow = 48;
  void *twice = a.refill(kBefore, 1)[0];
  const unit_t slab = slab_of(twice);
  free_as(b, twice);
  a.flush(kBefore, {twice});
  slab_release_empty(a);
  ASSERT_EQ(atomic32_load_relaxed(map_word(slab)), 0u);
  auto blocks = a.refill(kNow, 40);
  ASSERT_EQ(slab_of(blocks[0]), slab) << "the test is void";
  for (void *block : blocks) free_as(b, block);
  remote_flush(b);
  remote_collect(a, SIZE_MAX);
  error_settle();
  EXPECT_EQ(error_count(), 1u);
  EXPECT_EQ(record(slab).slab.free_count, record(slab).slab.capacity) << "right frees are lost";
  slab_check(a);
  settings->abort_on_error = true;
}

using RemoteDeathTest = Remote;

TEST_F(RemoteDeathTest, MistakesAreNoticed) {
  auto blocks = a.refill(20, 2);
  EXPECT_DEATH(free_as(b, static_cast<char *>(blocks[0]) + 16), "interior pointer");
  free_as(b, blocks[0]);
  EXPECT_DEATH(free_as(b, blocks[0]), "double free") << "both in one outbox";
  remote_flush(b);
  EXPECT_DEATH((free_as(c, blocks[0]), remote_flush(c), error_settle()), "double free") << "delivered, not collected";
  remote_collect(a, SIZE_MAX);
  EXPECT_DEATH((free_as(c, blocks[0]), remote_flush(c), remote_collect(a, 1), error_settle()), "double free")
      << "free already";
  a.flush(20, {blocks[1]});
}
