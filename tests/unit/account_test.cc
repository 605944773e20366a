/* The account: each page is found once, under what lies on it. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"
#include "support/process.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

namespace {

hak_account_t checked_account() {
  hak_account_t account;
  hak_account(&account, sizeof account);
  EXPECT_EQ(account.resident_live + account.resident_cached + account.resident_outboxes +
                account.resident_free_in_slabs + account.resident_slab_tails + account.resident_dirty +
                account.resident_huge_page_slack + account.resident_metadata,
            account.resident);
  EXPECT_EQ(account.resident + account.returned, account.mapped);
  return account;
}

hak_stats_t stats() {
  hak_stats_t figures;
  hak_stats(&figures, sizeof figures);
  return figures;
}

/* Pages one at a time, whatever was advised. */
void touch(void *at, std::size_t bytes) {
  madvise(at, align_up(bytes, os_page_bytes()), MADV_NOHUGEPAGE);
  std::memset(at, 1, bytes);
}

class Account : public testing::Test {
 protected:
  void SetUp() override {
    hak_free(hak_malloc(1));
    trim(0);
    if (checked_account().is_measured == 0) GTEST_SKIP() << "the system does not say what is resident";
  }
  const std::size_t page = os_page_bytes();
};

}  // namespace

TEST_F(Account, AddsUpAtAnyMoment) {
  hak_test::Random random(5);
  std::vector<std::pair<void *, std::size_t>> blocks;
  for (int i = 0; i < 3000; i++) {
    std::size_t bytes = random.size_between(1, i % 20 == 0 ? 6 << 20 : 20000);
    void *block = hak_malloc(bytes);
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, random.below(bytes) + 1);
    blocks.emplace_back(block, bytes);
    if (blocks.size() > 100) {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      hak_free(blocks.back().first);
      blocks.pop_back();
    }
    if (i % 50 != 0) continue;
    hak_account_t account = checked_account();
    hak_stats_t figures = stats();
    EXPECT_EQ(account.mapped, figures.committed + figures.metadata);
    EXPECT_LE(account.resident_dirty, figures.dirty_free);
    EXPECT_LE(account.resident_huge_page_slack, figures.clean_free);
    EXPECT_LE(account.resident_slab_tails, figures.slab_tails);
    EXPECT_LE(account.resident_metadata, figures.metadata);
  }
  for (auto &block : blocks) hak_free(block.first);
}

TEST_F(Account, OfLargeAndHugeBlocksCountsWhatIsTouched) {
  for (std::size_t bytes : {std::size_t{1} << 20, std::size_t{3} << 20, std::size_t{50} << 20}) {
    hak_account_t before = checked_account();
    void *block = hak_malloc(bytes);
    EXPECT_EQ(checked_account().resident_live, before.resident_live) << bytes << " bytes, none touched";
    touch(block, 100 * page);
    EXPECT_EQ(checked_account().resident_live - before.resident_live, 100 * page) << "of " << bytes;
    touch(static_cast<char *>(block) + bytes / 2, 7 * page);
    hak_account_t after = checked_account();
    EXPECT_EQ(after.resident_live - before.resident_live, 107 * page) << "of " << bytes;
    hak_free(block);
    hak_thread_flush();
    after = checked_account();
    EXPECT_EQ(after.resident_live, before.resident_live) << "it was freed";
    if (bytes < 2 << 20) { /* larger ones are more than is kept */
      EXPECT_EQ(after.resident_dirty - before.resident_dirty, 107 * page) << "of " << bytes;
    }
    trim(0);
    after = checked_account();
    EXPECT_EQ(after.resident_dirty, 0u);
    EXPECT_GE(after.returned, 107 * page);
  }
}

TEST_F(Account, OfSlabsEachPageGoesToWhatLiesOnIt) {
  struct {
    std::size_t bytes, kept; /* each which block is kept */
  } const cases[] = {{page, 2}, {64, 64}, {48, 3}, {page / 2, 2}, {1040, 5}};
  for (const auto &c : cases) {
    hak_thread_flush();
    trim(0);
    hak_account_t before = checked_account();
    const std::size_t live_before = stats().live, free_before = stats().free_in_slabs;
    const std::size_t purged_before = stats().purged_strained;
    std::vector<void *> blocks(20000);
    for (void *&block : blocks) touch(block = hak_malloc(c.bytes), c.bytes);
    std::sort(blocks.begin(), blocks.end());
    for (std::size_t i = 0; i < blocks.size(); i++)
      if (i % c.kept != 0) hak_free(blocks[i]);
    hak_thread_flush();
    hak_account_t held = checked_account();
    const std::size_t live = stats().live - live_before, free = stats().free_in_slabs - free_before;
    const std::size_t ends = 600 * 1024; /* the last slab is not touched to its end, and pages of neighbours count */
    EXPECT_NEAR(static_cast<double>(held.resident_live - before.resident_live), static_cast<double>(live), page)
        << c.bytes << ": all blocks that are left were touched";
    EXPECT_LE(held.resident_free_in_slabs - before.resident_free_in_slabs, free + page);
    const std::size_t purged = stats().purged_strained - purged_before;
    EXPECT_GE(held.resident_free_in_slabs - before.resident_free_in_slabs + ends + purged, free)
        << "the others were, too";

    trim(0);
    hak_account_t trimmed = checked_account();
    EXPECT_NEAR(static_cast<double>(trimmed.resident_live - before.resident_live), static_cast<double>(live), page);
    if (c.kept * c.bytes >= 2 * page) { /* pages without a live block */
      EXPECT_LT(trimmed.resident_free_in_slabs - before.resident_free_in_slabs,
                (held.resident_free_in_slabs - before.resident_free_in_slabs) / 4 * 3);
    }
    for (std::size_t i = 0; i < blocks.size(); i += c.kept) hak_free(blocks[i]);
  }
}

TEST_F(Account, WhatWaitsInMagazinesIsNotLive) {
  hak_account_t before = checked_account();
  for (int i = 0; i < 10; i++) { /* one that is wanted again and again stays at hand */
    void *block = hak_malloc(1 << 20);
    touch(block, 1 << 20);
    EXPECT_EQ(checked_account().resident_live - before.resident_live, 1u << 20);
    hak_free(block);
  }
  hak_account_t freed = checked_account();
  ASSERT_EQ(stats().cached, 1u << 20) << "nothing else is cached, or nothing at all: the test is void";
  EXPECT_EQ(freed.resident_cached, 1u << 20);
  EXPECT_EQ(freed.resident_live, before.resident_live);
  hak_thread_flush();
  EXPECT_EQ(checked_account().resident_cached, 0u);
}

/* Packed, posted, and taken by the owner who has not come to all of it: small blocks, of
 * which 32 KiB make a parcel. */
TEST_F(Account, ParcelsAndMailAreInOutboxes) {
  constexpr std::size_t kBlocks = 4000, kBytes = 64;
  std::vector<void *> blocks(kBlocks);
  for (void *&block : blocks) block = hak_malloc(kBytes);
  hak_stats_t before = stats();
  std::thread([&] {
    for (void *block : blocks) hak_free(block);
    hak_thread_flush();
  }).join();
  hak_stats_t posted = stats();
  EXPECT_EQ(before.live - posted.live, kBlocks * kBytes) << "the program has freed them";
  EXPECT_GE(posted.outboxes - before.outboxes, kBlocks * kBytes / 2) << "most of them are mail";
  remote_collect(&the_heap->owner, 3);
  ASSERT_NE(the_heap->owner.mail_taken, 0u) << "the test is void";
  hak_stats_t taken = stats();
  EXPECT_EQ(taken.live, posted.live) << "what the owner has taken counts as well";
  EXPECT_LT(taken.outboxes, posted.outboxes);
  remote_collect(&the_heap->owner, SIZE_MAX);
  EXPECT_EQ(stats().outboxes, before.outboxes);
  EXPECT_EQ(stats().live, posted.live);
}

TEST_F(Account, WhatIsOnItsWayToAnotherThreadIsInOutboxes) {
  std::vector<void *> blocks(200);
  for (void *&block : blocks) std::memset(block = hak_malloc(64), 1, 64);
  hak_stats_t before = stats();
  const std::size_t resident_free = checked_account().resident_free_in_slabs;
  std::atomic<int> step{0};
  std::thread thread([&] {
    for (int i = 0; i < 5; i++) hak_free(blocks[static_cast<std::size_t>(i)]);
    step = 1;
    while (step != 2) std::this_thread::yield();
    hak_thread_flush();
    step = 3;
    while (step != 4) std::this_thread::yield();
  });
  while (step != 1) std::this_thread::yield();
  hak_stats_t during = stats();
  EXPECT_EQ(during.outboxes - before.outboxes, 5u * 64);
  EXPECT_EQ(before.live - during.live, 5u * 64) << "the program has freed them";
  EXPECT_GT(checked_account().resident_outboxes, 0u);
  EXPECT_LE(checked_account().resident_outboxes, 5u * 64)
      << "their share of what is out, which was touched but for a few";
  step = 2;
  while (step != 3) std::this_thread::yield();
  EXPECT_EQ(stats().outboxes, 0u) << "delivered";
  EXPECT_EQ(stats().free_in_slabs - before.free_in_slabs, 5u * 64) << "although nobody has collected them";
  EXPECT_EQ(checked_account().resident_free_in_slabs - resident_free, 5u * 64);
  EXPECT_EQ(checked_account().resident_outboxes, 0u);
  step = 4;
  thread.join();
  for (std::size_t i = 5; i < blocks.size(); i++) hak_free(blocks[i]);
}

/* What a huge page brings in beside what was asked for. */
TEST_F(Account, CleanUnitsThatAreResidentAreSlack) {
  bool is_zero = false;
  unit_t first = arena_take(ZONE_SMALL, 4, 1, &is_zero);
  ASSERT_NE(first, 0u);
  ASSERT_TRUE(is_zero);
  arena_give_clean(first, 4, 0);
  hak_account_t before = checked_account();
  touch(map_address(first), 5 * page);
  EXPECT_EQ(checked_account().resident_huge_page_slack - before.resident_huge_page_slack, 5 * page);
  ASSERT_TRUE(os_purge(map_address(first), 5 * page)); /* they are promised to be zero */
  EXPECT_EQ(checked_account().resident_huge_page_slack, before.resident_huge_page_slack);
}

/* Tables are read where nobody has written: what the system shows there takes no memory. */
TEST_F(Account, PagesThatWereOnlyReadAreNoMetadata) {
  std::vector<void *> blocks(3000);
  for (void *&block : blocks) std::memset(block = hak_malloc(60000), 1, 60000);
  std::uint64_t bits = 0;
  for (void *block : blocks) bits |= atomic64_load_relaxed(&the_map.remote_bits[map_unit_of(block)][0]);
  EXPECT_EQ(bits, 0u);
  unsigned char resident = 1;
  char *in_table = reinterpret_cast<char *>(
      align_down(reinterpret_cast<uintptr_t>(&the_map.remote_bits[map_unit_of(blocks[1000])]), page));
  if (!os_unmark_zero_pages(in_table, page, 1, &resident)) GTEST_SKIP() << "the system does not say what is zero";
  const std::size_t only_read = blocks.size() * UNIT_BITMAP_WORDS * 8 / page;
  std::size_t shown = 0, bytes = 0;
  char *at = nullptr;
  for (unsigned i = 0; map_table_piece(i, &at, &bytes); i++) shown += hak_test::resident_pages(at, bytes);
  for (unsigned i = 0; metadata_piece(i, &at, &bytes); i++) shown += hak_test::resident_pages(at, bytes);
  EXPECT_LE(checked_account().resident_metadata, (shown - only_read / 2) * page);
  for (void *block : blocks) hak_free(block);
}

/* Under a filter of system calls nobody asks: what may be resident counts. */
TEST_F(Account, WithoutAnAnswerItSaysTheMost) {
  void *block = hak_malloc(30 << 20);
  hak_account_t measured = checked_account();
  hak_test::Outcome outcome = hak_test::in_child([&] {
    sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program = {1, allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      return 77;
    hak_account_t account = checked_account();
    if (account.is_measured != 0) return 1;
    if (account.resident_live < 30 << 20 || account.resident_live < measured.resident_live) return 2;
    if (account.resident_dirty != stats().dirty_free) return 3;
    if (account.resident_metadata != stats().metadata) return 4;
    if (account.resident_huge_page_slack != 0) return 5;
    return testing::Test::HasFailure() ? 6 : 0;
  });
  if (outcome.exited_with(77)) GTEST_SKIP() << "no filter may be installed here";
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_LT(measured.resident_live, 30u << 20);
  hak_free(block);
}

TEST_F(Account, FillsWhatTheCallerKnows) {
  struct {
    std::size_t struct_bytes, is_measured, guard;
  } small = {0, 7, 42};
  hak_account(reinterpret_cast<hak_account_t *>(&small), 2 * sizeof(std::size_t));
  EXPECT_EQ(small.struct_bytes, sizeof(hak_account_t));
  EXPECT_EQ(small.is_measured, 1u);
  EXPECT_EQ(small.guard, 42u);
}

/* ---- Why it went -------------------------------------------------------------------*/

TEST_F(Account, SaysForWhatReasonMemoryWentBack) {
  constexpr std::size_t kBytes = 16 << 20;
  auto free_16_mib = [] {
    void *block = hak_malloc(kBytes);
    std::memset(block, 1, kBytes);
    hak_free(block);
  };
  hak_stats_t before = stats();
  free_16_mib();
  hak_stats_t after = stats();
  EXPECT_GE(after.purged_strained - before.purged_strained, kBytes / 2) << "4 MiB and an eighth are kept";
  EXPECT_EQ(after.purged_aged, before.purged_aged);

  const std::size_t kept = after.dirty_free;
  ASSERT_GE(kept, 1u << 20) << "nothing is dirty: the test is void";
  while (arena_tick(os_now_ms() + 5000) > 0) {}
  after = stats();
  EXPECT_EQ(after.purged_aged - before.purged_aged, kept);
  EXPECT_EQ(after.purged_trimmed, before.purged_trimmed);

  before = stats();
  free_16_mib();
  const std::size_t dirty = stats().dirty_free;
  trim(0);
  after = stats();
  EXPECT_GE(after.purged_trimmed - before.purged_trimmed, dirty);
  EXPECT_EQ(after.purged_aged, before.purged_aged);
}

TEST_F(Account, SaysForWhatReasonBlocksWentHome) {
  hak_stats_t before = stats();
  std::thread([] {
    void *block = hak_malloc(100);
    hak_free(block);
    EXPECT_GT(hak_test::cached_bytes(the_heap), 0u);
  }).join();
  hak_stats_t after = stats();
  EXPECT_GE(after.flushed_ended - before.flushed_ended, 100u);
  EXPECT_EQ(after.flushed_unused, before.flushed_unused);
  EXPECT_EQ(after.flushed_stripped, before.flushed_stripped);
}

TEST_F(Account, ThePeakStays) {
  void *block = hak_malloc(100 << 20);
  const std::size_t peak = stats().peak_in_use;
  EXPECT_GE(peak, 100u << 20);
  hak_free(block);
  trim(0);
  hak_free(hak_malloc(2 << 20));
  EXPECT_EQ(stats().peak_in_use, peak);
}
