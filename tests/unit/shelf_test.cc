/* The shelf: free runs between the layers above and the arena. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"
#include "support/process.h"

#include <api/address.h>
#include <arena/kept.h>
#include <arena/dense.h>
#include <arena/shelf.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <thread>

#include <sys/resource.h>

namespace {

using hak_test::purge_dirty;
using hak_test::used_bytes;

const unsigned kOfMiB = size_class_of(HAK_MIB(1));

size_t shelved_bytes() { return shelf_units() << UNIT_SHIFT; }
size_t takes() { return arena_usage().takes; }

/* Beside many blocks that stay, so that some may wait for whoever is next. */
class Shelf : public hak_test::WithAnOwner {
 protected:
  static constexpr size_t kHeld = 64;
  hak_test::AttachedOwner others[SHELF_FEW_THREADS]; /* few threads put nothing there */
  void SetUp() override {
    WithAnOwner::SetUp();
    purge_dirty();
    for (unsigned c = MID_CLASS_END; c < SIZE_CLASS_COUNT; c++) {
      owner.flush(c, owner.refill(c, 1));
      shelf_note_missed(c - MID_CLASS_END); /* all are wanted again */
      drain(c);
    }
    held = owner.refill(kOfMiB, kHeld);
    meet_the_arena();
  }
  static void drain(unsigned size_class) {
    for (unit_t run; (run = shelf_take(size_class - MID_CLASS_END)) != 0;) {
      hak_test::write_words(run, size_classes[size_class].slab_units, 0);
      arena_give(run, size_classes[size_class].slab_units);
    }
  }
  void TearDown() override {
    owner.flush(kOfMiB, held);
    purge_dirty();
    EXPECT_EQ(shelf_units(), 0u) << "a purge of everything left something on the shelf";
    WithAnOwner::TearDown();
  }
  /* Which learns how much is in use whenever a run comes back. */
  static void meet_the_arena() {
    unit_t run = arena_take(ZONE_SMALL, 3, 1, nullptr);
    ASSERT_NE(run, 0u);
    arena_give(run, 3);
  }
  /* Flushes one block of that class, so that it lies on the shelf. */
  void *shelve(unsigned size_class) {
    void *block = owner.refill(size_class, 1)[0];
    const size_t before = shelved_bytes();
    owner.flush(size_class, {block});
    EXPECT_EQ(shelved_bytes() - before, size_classes[size_class].block_bytes) << "it went to the arena";
    return block;
  }
  std::vector<void *> held;
};

}  // namespace

/* A block that realloc or a mover has claimed begins with an inner unit: it is no unit of what lies before it. */
TEST_F(Shelf, ABlockThatIsBeingChangedIsNoPartOfTheRunBeforeIt) {
  const auto kind = [](void *address) { return address_kind(address, map_lookup(address)); };
  const std::set<void *> blocks(held.begin(), held.end());
  char *left = nullptr, *right = nullptr;
  for (void *block : held) {
    right = static_cast<char *>(block) + HAK_MIB(1);
    if (left == nullptr && blocks.count(right) != 0) left = static_cast<char *>(block);
  }
  ASSERT_NE(left, nullptr) << "no two of the blocks lie side by side";
  right = left + HAK_MIB(1);
  held.erase(std::find(held.begin(), held.end(), left));
  owner.flush(kOfMiB, {left});
  ASSERT_TRUE(word_is_shelved(map_lookup(left)));
  const unit_t slab = static_cast<unit_t>(map_unit_of(right));
  const uint32_t word = map_lookup(right);
  ASSERT_TRUE(slab_claim_single(slab, word));
  EXPECT_EQ(kind(left + UNIT_BYTES), ADDRESS_FREE);
  EXPECT_EQ(kind(right - UNIT_BYTES), ADDRESS_FREE);
  EXPECT_EQ(kind(right + UNIT_BYTES), ADDRESS_INNER);
  slab_unclaim_single(slab, word);
  EXPECT_EQ(kind(right + UNIT_BYTES), ADDRESS_INNER);
}

TEST_F(Shelf, WhatOneThreadFreesAnotherTakesWithoutTheArena) {
  hak_test::AttachedOwner other;
  hak_test::Random random(1);
  std::vector<std::pair<unsigned, void *>> blocks;
  const auto size_class = [&] { return unsigned(MID_CLASS_END + random.below(SIZE_CLASS_COUNT - MID_CLASS_END)); };
  const auto take = [&](hak_test::AttachedOwner &by, unsigned c) {
    void *block = by.refill(c, 1)[0];
    blocks.emplace_back(word_kind(map_lookup(block)), block);
  };
  for (int i = 0; i < 64; i++) take(owner, size_class());
  const size_t before = takes();
  constexpr int kReplaced = 2000;
  for (int i = 0; i < kReplaced; i++) {
    std::swap(blocks[random.below(blocks.size())], blocks.back());
    const auto [c, block] = blocks.back();
    blocks.pop_back();
    const bool is_others = hak_test::owner_of(block) == other->id;
    (is_others ? other : owner).flush(c, {block});
    take(random.below(2) == 0 ? owner : other, size_class());
  }
  EXPECT_LT(takes() - before, kReplaced / 10u) << "most blocks came from the arena";
  for (const auto &[c, block] : blocks) (hak_test::owner_of(block) == other->id ? other : owner).flush(c, {block});
}

/* However often blocks come and go: more than a thread remembers to have gone. */
TEST_F(Shelf, WhatHasGoneMakesRoom) {
  const size_t before = takes();
  constexpr int kTimes = 500; /* of a MiB, beside 64 that are in use */
  for (int i = 0; i < kTimes; i++) owner.flush(kOfMiB, owner.refill(kOfMiB, 1));
  EXPECT_LT(takes() - before, kTimes / 10u) << "blocks came from the arena";
}

/* As all that is freed at the end of a program's work. */
TEST_F(Shelf, FewThreadsUseTheArena) {
  shelve(kOfMiB);
  others[0].detach();
  const size_t before = shelf_units();
  ASSERT_GT(before, 0u);
  owner.flush(kOfMiB, owner.refill(kOfMiB, 1));
  EXPECT_EQ(shelf_units(), before - HAK_MIB(1) / UNIT_BYTES) << "what lies there is used up, and nothing comes";
}

/* Or small blocks would count as large ones, and get no huge pages. */
TEST_F(Shelf, WhatIsTakenDownIsNoLargeBlockAnyMore) {
  const size_t before = dense_wide_units();
  shelve(kOfMiB);
  EXPECT_EQ(dense_wide_units(), before + HAK_MIB(1) / UNIT_BYTES) << "it is left counted while it lies there";
  purge_dirty();
  EXPECT_EQ(dense_wide_units(), before);
}

TEST_F(Shelf, AThreadThatWillSleepTakesItDown) {
  shelve(kOfMiB);
  arena_yield(HAK_MIB(1) / UNIT_BYTES);
  EXPECT_EQ(shelf_units(), 0u);
}

TEST_F(Shelf, WhatIsNotWantedAgainGoesToTheArena) {
  shelve(kOfMiB);
  purge_dirty(); /* from here on it is not */
  owner.flush(kOfMiB, owner.refill(kOfMiB, 1));
  EXPECT_EQ(shelved_bytes(), 0u) << "nobody has missed one since";
  owner.flush(kOfMiB, owner.refill(kOfMiB, 1));
  EXPECT_EQ(shelved_bytes(), HAK_MIB(1));
}

TEST_F(Shelf, ABlockComesBackAsItWas) {
  char *block = static_cast<char *>(shelve(kOfMiB));
  EXPECT_TRUE(word_is_shelved(map_lookup(block)));
  bool zero = true;
  void *again = nullptr;
  ASSERT_EQ(batch_refill(owner, kOfMiB, &again, 1, &zero), 1u);
  EXPECT_EQ(again, block);
  EXPECT_FALSE(zero) << "nobody has cleared it";
  EXPECT_EQ(map_lookup(block), word_make(owner->id, kOfMiB));
  EXPECT_EQ(map_lookup(block + HAK_MIB(1) - 1), word_make(0, KIND_INNER));
  owner.flush(kOfMiB, {again});
}

/* A request is served by what is a little too large, as in the magazines. */
TEST_F(Shelf, ALargerBlockStandsIn) {
  void *block = shelve(kOfMiB + 1);
  EXPECT_EQ(owner.refill(kOfMiB, 1)[0], block);
  EXPECT_EQ(shelved_bytes(), 0u);
  owner.flush(kOfMiB + 1, {block});
  void *other = owner.refill(kOfMiB - 4, 1)[0];
  EXPECT_NE(other, block) << "more than a quarter too large";
  owner.flush(kOfMiB - 4, {other});
}

TEST_F(Shelf, ItHoldsAShareOfWhatIsInUse) {
  auto blocks = owner.refill(kOfMiB, 3 * kHeld);
  size_t freed = 0;
  for (void *block : blocks) {
    owner.flush(kOfMiB, {block});
    freed += HAK_MIB(1);
    ASSERT_LE(shelved_bytes(), HAK_MIB(4) + (used_bytes() + freed) / 2) << "hoards what nobody uses";
  }
  EXPECT_LE(shelved_bytes(), SHELF_PLACES * HAK_MIB(1)) << "more runs of a length than there are places";
}

/* Of a heap that shrinks, on the shelf and off it. */
TEST_F(Shelf, WhatIsFreedForGoodIsGivenBack) {
  arena_tick(os_now_ms() + 100000); /* what was reused before is forgotten */
  std::vector<std::pair<unsigned, void *>> blocks;
  for (int i = 0; i < 20; i++)
    for (unsigned c = MID_CLASS_END; c < SIZE_CLASS_COUNT; c++) blocks.emplace_back(c, owner.refill(c, 1)[0]);
  const auto free = [&](unsigned c, void *block) {
    owner.flush(c, {block});
    arena_relieve(size_classes[c].slab_units);
    /* The floor, as much again before it begins, and an eighth of what was in use when the arena
     * looked last; nothing was reused. */
    ASSERT_LE(arena_usage().dirty, HAK_MIB(4 + 4) + (used_bytes() + arena_usage().dirty) / 8);
  };
  for (auto [c, block] : blocks) free(word_kind(map_lookup(block)), block);
  for (void *block : held) free(kOfMiB, block);
  held.clear();
  EXPECT_EQ(used_bytes(), 0u);
  EXPECT_LE(arena_usage().dirty, HAK_MIB(1 + 1)) << "a heap that is empty keeps a large heap's share";
}

TEST_F(Shelf, RunsThatNobodyTakesAreTheArenasAfterAQuarterOfASecond) {
  shelve(kOfMiB);
  const uint64_t now_ms = os_now_ms();
  const size_t dirty = arena_usage().dirty;
  arena_tick(now_ms + 100);
  EXPECT_EQ(shelved_bytes(), HAK_MIB(1)) << "too early";
  EXPECT_GE(arena_tick(now_ms + 300), HAK_MIB(1));
  EXPECT_EQ(shelved_bytes(), 0u);
  EXPECT_EQ(arena_usage().dirty, dirty) << "it was dirty all the time";
  for (int i = 1; i < 50; i++) arena_tick(now_ms + 3000 + i * 100);
  EXPECT_EQ(arena_usage().dirty, 0u) << "and goes to the system a second later";
}

TEST_F(Shelf, WhatLiesThereIsNotInUse) {
  const size_t used = used_bytes();
  shelve(kOfMiB);
  EXPECT_EQ(used_bytes(), used);
  shelve(MID_CLASS_END);
  EXPECT_EQ(used_bytes(), used);
}

/* The most that was in use, whether it came from the shelf or the arena. */
TEST_F(Shelf, ThePeakIsOfWhatWasInUse) {
  shelve(MID_CLASS_END);
  std::vector<void *> blocks;
  while (used_bytes() <= arena_usage().peak - HAK_MIB(1) || blocks.empty())
    blocks.push_back(owner.refill(kOfMiB, 1)[0]);
  blocks.push_back(owner.refill(kOfMiB, 1)[0]);
  EXPECT_EQ(arena_usage().peak, used_bytes()) << "what lies on the shelf counts in the peak";
  owner.flush(kOfMiB, {blocks.back()});
  blocks.back() = owner.refill(kOfMiB + 1, 1)[0]; /* beside what is shelved */
  ASSERT_GT(shelved_bytes(), HAK_MIB(1));
  const size_t before = arena_usage().peak;
  EXPECT_EQ(before, used_bytes());
  blocks.push_back(owner.refill(kOfMiB, 1)[0]);
  EXPECT_EQ(arena_usage().peak, before + HAK_MIB(1)) << "what came from the shelf does not";
  for (void *block : blocks) owner.flush(word_kind(map_lookup(block)), {block});
}

TEST_F(Shelf, ItIsInTheBooks) {
  hak_stats_t before = {}, after = {};
  stats_collect(&before);
  shelve(kOfMiB);
  shelve(MID_CLASS_END);
  stats_collect(&after);
  EXPECT_EQ(after.large_bytes, before.large_bytes);
  EXPECT_EQ(after.live, before.live);
  EXPECT_GE(after.dirty_free, shelved_bytes());
  EXPECT_EQ(
      after.slab_bytes + after.slab_tails + after.large_bytes + after.huge_bytes + after.dirty_free + after.clean_free,
      after.committed);
}

TEST_F(Shelf, WhatIsResidentOfItIsDirty) {
  hak_account_t before = {}, after = {};
  account_collect(&before);
  void *block = owner.refill(kOfMiB, 1)[0];
  std::memset(block, 1, 5 * os_page_bytes());
  owner.flush(kOfMiB, {block});
  ASSERT_EQ(shelved_bytes(), HAK_MIB(1));
  account_collect(&after);
  EXPECT_GE(after.resident_dirty, before.resident_dirty + 5 * os_page_bytes());
  EXPECT_EQ(after.resident_live, before.resident_live);
}

TEST_F(Shelf, WhatLiesThereIsNoBlock) {
  char *block = static_cast<char *>(shelve(kOfMiB));
  for (size_t at : {size_t{0}, size_t{16}, size_t{HAK_MIB(1) - UNIT_BYTES}}) {
    EXPECT_FALSE(hak_owns(block + at)) << at;
    EXPECT_EQ(hak_usable_size(block + at), 0u) << at;
  }
  EXPECT_TRUE(hak_owns(held[0]));
  EXPECT_TRUE(hak_owns(static_cast<char *>(held[0]) + UNIT_BYTES));
}

using ShelfDeathTest = Shelf;

TEST_F(ShelfDeathTest, ABlockThatIsFreedAgainIsNoticedAtOnce) {
  char *block = static_cast<char *>(shelve(kOfMiB));
  EXPECT_DEATH(hak_free(block), "double free of .*block of 1048576 bytes");
  EXPECT_DEATH(hak_free(block + 16), "no allocated block");
  EXPECT_DEATH(hak_free(block + UNIT_BYTES), "no allocated block");
  EXPECT_DEATH(owner.flush(kOfMiB, {block}), "double free of .*1048576 bytes");
}

/* As dirty memory that is taken again. */
TEST_F(Shelf, WhatComesAndGoesStays) {
  const uint64_t later_ms = os_now_ms() + 100000;
  arena_tick(later_ms); /* what was reused before is forgotten */
  const size_t kept = kept_units();
  void *block = owner.refill(kOfMiB, 1)[0];
  const size_t before = takes();
  for (int i = 0; i < 500; i++) {
    owner.flush(kOfMiB, {block});
    block = owner.refill(kOfMiB, 1)[0];
  }
  ASSERT_EQ(takes(), before);
  arena_tick(later_ms + 100);
  EXPECT_GE(kept_units(), kept + 2 * 16) << "twice what was in use";
  owner.flush(kOfMiB, {block});
  size_t used = 0; /* at most, at a time: each round has a length that the one before has not left there */
  for (unsigned c = SIZE_CLASS_COUNT - 8; c < SIZE_CLASS_COUNT; c++) {
    const auto blocks = owner.refill(c, SHELF_PLACES_OF_MANY);
    used = std::max(used, used_bytes());
    owner.flush(c, blocks);
    meet_the_arena();
  }
  EXPECT_GE(shelved_bytes(), used / 2);
  EXPECT_LE(shelved_bytes(), HAK_MIB(4) + used) << "however much comes and goes";
}

TEST_F(Shelf, AChildTakesWhatLiesThere) {
  void *block = shelve(kOfMiB);
  hak_test::Outcome outcome = hak_test::in_child([&] {
    void *again = nullptr;
    if (batch_refill(owner, kOfMiB, &again, 1, nullptr) != 1 || again != block) return 1;
    return shelf_units() == 0 ? 0 : 2;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(shelved_bytes(), HAK_MIB(1));
}

/* What another thread had in hand when the process was forked. */
TEST_F(Shelf, AChildCountsWhatLiesThere) {
  shelve(kOfMiB);
  void *block = shelve(kOfMiB + 1);
  const unsigned length = kOfMiB + 1 - MID_CLASS_END;
  shelf_cursor_t at = {length, 0};
  ASSERT_EQ(map_address(shelf_take_old(os_now_ms(), &at)), block);
  const size_t taken = size_classes[kOfMiB + 1].block_bytes;
  EXPECT_EQ(shelved_bytes(), HAK_MIB(1) + taken) << "it counts until its taker says so";
  hak_test::Outcome outcome = hak_test::in_child([&] {
    arena_after_fork(); /* there are no fork handlers in this program */
    return shelved_bytes() == HAK_MIB(1) ? 0 : 1;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << "somebody takes it down who is not there; " << outcome.describe();
  shelf_note_gone(taken >> UNIT_SHIFT);
  const unit_t run = unit_t(map_unit_of(block));
  hak_test::write_words(run, taken >> UNIT_SHIFT, 0);
  arena_give(run, taken >> UNIT_SHIFT);
}

#if !defined(HAK_TEST_NO_LIMITS)
/* Where the system gives nothing more, what lies on the shelf serves a request of another length. */
TEST_F(Shelf, WhereMemoryIsShortItIsTakenDown) {
  hak_test::Outcome outcome = hak_test::in_child([&] {
    const size_t size = hak_test::status_kib("VmSize:") * 1024;
    const rlimit limit = {size, size};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    while (arena_take(ZONE_HUGE, 1, 1, nullptr) != 0) continue; /* all that there is, of both zones */
    for (void *each : held) batch_flush(owner, kOfMiB, &each, 1);
    if (shelf_units() < 2 * 16) return 2;
    const size_t all = arena_usage().dirty >> UNIT_SHIFT;
    size_t found = 0;
    while (arena_take(ZONE_HUGE, 1, 1, nullptr) != 0) found++;
    return found == all ? 0 : 3;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << "3: some is still there; " << outcome.describe();
}
#endif

/* ---- Threads ---------------------------------------------------------------------*/

/* Threads put runs there and take what they find, and each run is one's at a time. */
TEST_F(Shelf, ARunIsOneThreadsAtATime) {
  constexpr unsigned kThreads = 4, kRuns = 48;
  constexpr int kSteps = 40000;
  const std::set<unsigned> lengths = {0, 15};
  struct Seen {
    std::atomic<unsigned> holder{0};
    uint64_t contents = 0; /* plain: the shelf hands it over */
  };
  std::vector<std::pair<unsigned, unit_t>> runs;
  for (unsigned i = 0; i < kRuns; i++) {
    const unsigned length = i % 3 == 0 ? 15 : 0;
    runs.emplace_back(length, hak_test::slab_of(owner.refill(MID_CLASS_END + length, 1)[0]));
  }
  std::unique_ptr<Seen[]> seen(new Seen[the_map.units]);
  std::atomic<unsigned> broken{0};
  std::vector<std::vector<std::pair<unsigned, unit_t>>> left(kThreads);
  std::vector<std::thread> threads;
  for (unsigned me = 1; me <= kThreads; me++) {
    threads.emplace_back([&, me] {
      hak_test::Random random(me);
      auto &mine = left[me - 1];
      for (unsigned i = me - 1; i < kRuns; i += kThreads) {
        mine.push_back(runs[i]);
        seen[runs[i].second].holder = me;
      }
      for (int step = 0; step < kSteps; step++) {
        if (!mine.empty() && random.below(2) == 0) {
          std::swap(mine[random.below(mine.size())], mine.back());
          const auto [length, run] = mine.back();
          seen[run].contents++;
          if (seen[run].holder.exchange(0) != me) broken++;
          atomic32_store_relaxed(map_word(run), word_make(0, MID_CLASS_END + length));
          if (shelf_put(length, run, false)) mine.pop_back();
          else seen[run].holder = me;
        } else {
          const unsigned length = random.below(2) == 0 ? 0 : 15;
          shelf_cursor_t at = {length, 0};
          const bool is_old = random.below(8) == 0;
          const unit_t run = is_old ? shelf_take_old(os_now_ms(), &at) : shelf_take(length);
          if (run == 0) {
            shelf_note_missed(length); /* what is taken down is not wanted */
            continue;
          }
          const unsigned found = word_kind(atomic32_load_relaxed(map_word(run))) - MID_CLASS_END;
          if (is_old) shelf_note_gone(size_classes[MID_CLASS_END + found].slab_units);
          seen[run].contents++;
          if ((!is_old && found != length) || seen[run].holder.exchange(me) != 0) broken++;
          mine.emplace_back(found, run);
        }
      }
    });
  }
  for (auto &thread : threads) thread.join();
  EXPECT_EQ(broken, 0u) << "a run was handed to two";
  for (unsigned length : lengths)
    for (unit_t run; (run = shelf_take(length)) != 0;) left[0].emplace_back(length, run);
  EXPECT_EQ(shelf_units(), 0u);
  std::set<unit_t> all;
  for (auto &mine : left)
    for (auto [length, run] : mine) {
      EXPECT_TRUE(all.insert(run).second) << "two have it";
      atomic32_store_relaxed(map_word(run), word_make(owner->id, MID_CLASS_END + length));
      owner.flush(MID_CLASS_END + length, {map_address(run)});
    }
  EXPECT_EQ(all.size(), kRuns) << "some are lost";
}

/* Two threads put a run where there is one place left, and take one where there is one, each time at
 * the same moment. */
TEST_F(Shelf, OneOfTwoGetsThePlace) {
  constexpr int kRounds = 5000;
  constexpr unsigned kLength = 5;
  for (unsigned c : {kOfMiB, kOfMiB + 1, kOfMiB + 2}) shelve(c); /* where many lengths are, each has few places */
  std::vector<void *> blocks = owner.refill(MID_CLASS_END + kLength, SHELF_PLACES_OF_MANY + 1);
  for (void *block : blocks)
    atomic32_store_relaxed(map_word(hak_test::slab_of(block)), word_make(0, MID_CLASS_END + kLength));
  for (unsigned i = 2; i < blocks.size(); i++) ASSERT_TRUE(shelf_put(kLength, unit_t(map_unit_of(blocks[i])), true));
  std::atomic<int> arrived{0};
  const auto meet = [&](int count) {
    arrived++;
    for (int i = 0; arrived < count; i++)
      if (i % 256 == 255) std::this_thread::yield();
  };
  int put[2][kRounds] = {};
  std::vector<std::thread> threads;
  for (int me = 0; me < 2; me++) {
    threads.emplace_back([&, me] {
      unit_t mine = unit_t(map_unit_of(blocks[me]));
      for (int round = 0; round < kRounds; round++) {
        meet(4 * round + 2);
        const bool was_put = shelf_put(kLength, mine, true);
        put[me][round] = was_put;
        meet(4 * round + 4);
        if (was_put) mine = shelf_take(kLength); /* any of them */
      }
    });
  }
  for (auto &thread : threads) thread.join();
  for (int round = 0; round < kRounds; round++) ASSERT_EQ(put[0][round] + put[1][round], 1) << "round " << round;
  std::set<unit_t> left;
  for (unit_t run; (run = shelf_take(kLength)) != 0;) left.insert(run);
  EXPECT_EQ(left.size(), SHELF_PLACES_OF_MANY - 1u);
  for (void *block : blocks) {
    atomic32_store_relaxed(map_word(unit_t(map_unit_of(block))), word_make(owner->id, MID_CLASS_END + kLength));
    owner.flush(MID_CLASS_END + kLength, {block});
  }
}
