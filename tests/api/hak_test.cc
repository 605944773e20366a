/*
 * What hakmem.h offers beyond malloc(3).
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/stats.h"
#include "api/surface.h"
#include "support/json.h"
#include "support/payload.h"
#include "support/process.h"

#include <hakmem.h>

#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <string>
#include <sys/resource.h>
#include <vector>

using hak_test::stats;

namespace {

bool append(void *context, const char *text, std::size_t bytes) {
  EXPECT_EQ(text[bytes], '\0');
  static_cast<std::string *>(context)->append(text, bytes);
  return true;
}

}  // namespace

TEST(Hak, VersionIsTheHeaders) {
  std::string expected = std::to_string(HAK_VERSION_MAJOR) + "." + std::to_string(HAK_VERSION_MINOR) + "." +
                         std::to_string(HAK_VERSION_PATCH);
  EXPECT_EQ(hak_version(), expected);
}

TEST(Hak, OwnsWhatItGaveOutAndNothingElse) {
  static int in_data;
  int on_stack = 0;
  for (std::size_t bytes : kSizes) {
    auto *block = static_cast<char *>(malloc(bytes));
    EXPECT_TRUE(hak_owns(block)) << "the block of malloc(" << bytes << ")";
    if (bytes > 1) {
      EXPECT_TRUE(hak_owns(block + bytes - 1)) << "the last byte of malloc(" << bytes << ")";
    }
    free(block);
  }
  for (const void *foreign :
       {static_cast<const void *>(nullptr), static_cast<const void *>(&in_data), static_cast<const void *>(&on_stack),
        static_cast<const void *>("text"), reinterpret_cast<const void *>(&hak_owns),
        reinterpret_cast<const void *>(16), reinterpret_cast<const void *>(~std::uintptr_t{0}),
        reinterpret_cast<const void *>(std::uintptr_t{1} << 63)})
    EXPECT_FALSE(hak_owns(foreign)) << foreign;
}

TEST(Hak, DoesNotOwnWhatTheSystemGaveOthers) {
  void *break_now = sbrk(0);
  EXPECT_FALSE(hak_owns(break_now));
}

TEST(HakStats, AddUpAtAnyMoment) {
  EXPECT_STATS_ADD_UP(stats());
  hak_test::Random random(11);
  std::vector<void *> blocks;
  for (int i = 0; i < 40000; i++) {
    if (blocks.size() > 3000 || (!blocks.empty() && random.below(5) < 2)) {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      free(blocks.back());
      blocks.pop_back();
    } else {
      blocks.push_back(malloc(random.size_between(1, i % 64 == 0 ? 8 << 20 : 60000)));
    }
    if (i % 1000 == 0) {
      hak_stats_t now = stats();
      EXPECT_STATS_ADD_UP(now);
      EXPECT_GE(now.reserved, now.committed);
      EXPECT_GE(now.committed, now.slab_bytes) << "slabs in memory that may not be written";
    }
  }
  for (void *block : blocks) free(block);
  EXPECT_STATS_ADD_UP(stats());
  hak_thread_flush();
  EXPECT_STATS_ADD_UP(stats());
  hak_trim(0);
  EXPECT_STATS_ADD_UP(stats());
}

TEST(HakStats, LiveGrowsByTheUsableBytes) {
  for (std::size_t bytes : kSizes) {
    const std::size_t before = stats().live;
    void *blocks[10];
    std::size_t sum = 0;
    for (void *&block : blocks) {
      block = malloc(bytes);
      sum += hak_usable_size(block);
    }
    EXPECT_EQ(stats().live, before + sum) << "after 10 x malloc(" << bytes << ")";
    for (void *block : blocks) free(block);
    hak_thread_flush();
    EXPECT_EQ(stats().live, before) << "after 10 x free of " << bytes;
  }
}

TEST(HakStats, FillsWhatTheCallerKnows) {
  union {
    hak_stats_t stats;
    unsigned char bytes[sizeof(hak_stats_t) + 64];
  } u;
  std::memset(&u, 0x5a, sizeof u);
  hak_stats(&u.stats, sizeof u.stats);
  EXPECT_EQ(u.stats.struct_bytes, sizeof u.stats);
  for (std::size_t i = sizeof u.stats; i < sizeof u; i++) ASSERT_EQ(u.bytes[i], 0x5a) << "written beyond the struct";

  const std::size_t reserved = u.stats.reserved;
  for (std::size_t older : {sizeof(std::size_t), 2 * sizeof(std::size_t), 5 * sizeof(std::size_t)}) {
    std::memset(&u, 0x5a, sizeof u);
    hak_stats(&u.stats, older);
    EXPECT_EQ(u.stats.struct_bytes, sizeof u.stats) << "the library's own size, whoever asks";
    if (older >= 2 * sizeof(std::size_t)) {
      EXPECT_EQ(u.stats.reserved, reserved);
    }
    for (std::size_t i = older; i < sizeof u; i++) ASSERT_EQ(u.bytes[i], 0x5a) << "asked for " << older << " bytes";
  }

  std::memset(&u, 0x5a, sizeof u);
  hak_stats(&u.stats, sizeof u);
  EXPECT_EQ(u.stats.struct_bytes, sizeof u.stats) << "a caller of a newer version learns what was filled";
  EXPECT_EQ(u.stats.reserved, reserved);
}

TEST(HakStatsJson, IsValidAndSaysTheSameAsTheStruct) {
  std::vector<void *> blocks;
  for (std::size_t bytes : kSizes) blocks.push_back(malloc(bytes));
  std::string text;
  text.reserve(1 << 20); /* so that append does not allocate meanwhile */
  hak_stats_t now = stats();
  hak_stats_json(append, &text);

  std::map<std::string, double> numbers;
  std::string error;
  ASSERT_TRUE(hak_test::parse_json_object(text, &numbers, &error)) << error << "\n" << text;
#define EXPECT_MEMBER(field)                                                       \
  EXPECT_EQ(numbers.count(#field), 1u) << "no member \"" #field "\" in\n" << text; \
  EXPECT_EQ(numbers[#field], static_cast<double>(now.field)) << #field
  EXPECT_MEMBER(reserved);
  EXPECT_MEMBER(committed);
  EXPECT_MEMBER(metadata);
  EXPECT_MEMBER(slab_bytes);
  EXPECT_MEMBER(large_bytes);
  EXPECT_MEMBER(huge_bytes);
  EXPECT_MEMBER(live);
  EXPECT_MEMBER(cached);
  EXPECT_MEMBER(free_in_slabs);
  EXPECT_MEMBER(slab_count);
  EXPECT_MEMBER(heap_count);
  EXPECT_MEMBER(refills);
  EXPECT_MEMBER(mmap_calls);
  EXPECT_MEMBER(errors);
  for (void *block : blocks) free(block);
}

TEST(HakStatsJson, TheClassesAddUpToTheWhole) {
  std::vector<void *> blocks;
  for (std::size_t bytes : kSizes)
    for (int i = 0; i < 7; i++) blocks.push_back(malloc(bytes));
  for (std::size_t i = 0; i < blocks.size(); i += 3) free(blocks[i]);
  std::string text, error;
  text.reserve(1 << 20);
  hak_stats_t now = stats();
  hak_account_t account;
  hak_account(&account, sizeof account);
  hak_stats_json(append, &text);
  std::map<std::string, double> numbers;
  ASSERT_TRUE(hak_test::parse_json_object(text, &numbers, &error)) << error << "\n" << text;
  double live = 0, cached = 0, free_in_slabs = 0, tails = 0, resident = 0, classes = 0;
  for (;; classes++) {
    const std::string entry = "classes." + std::to_string(static_cast<int>(classes)) + ".";
    if (numbers.count(entry + "block_bytes") == 0) break;
    const double bytes = numbers[entry + "block_bytes"];
    EXPECT_GT(numbers[entry + "slab_count"], 0);
    live += bytes * numbers[entry + "live_count"];
    cached += bytes * numbers[entry + "cached_count"];
    free_in_slabs += bytes * numbers[entry + "free_count"];
    tails += numbers[entry + "tail_bytes"];
    resident += numbers[entry + "resident_bytes"];
  }
  EXPECT_GT(classes, 10);
  EXPECT_EQ(live, static_cast<double>(now.live - now.huge_bytes));
  EXPECT_EQ(cached, static_cast<double>(now.cached));
  EXPECT_EQ(free_in_slabs, static_cast<double>(now.free_in_slabs));
  EXPECT_EQ(tails, static_cast<double>(now.slab_tails));
  EXPECT_LE(resident, numbers["resident"]);
  EXPECT_EQ(numbers["resident_live"], static_cast<double>(account.resident_live));
  EXPECT_EQ(numbers["returned"], static_cast<double>(account.returned));
  for (std::size_t i = 0; i < blocks.size(); i++)
    if (i % 3 != 0) free(blocks[i]);
}

TEST(HakStatsJson, StopsWhenToldTo) {
  for (int stop_after = 1; stop_after <= 3; stop_after++) {
    struct Context {
      int calls, stop_after;
    } context = {0, stop_after};
    hak_stats_json(
        [](void *p, const char *, std::size_t) {
          auto *c = static_cast<Context *>(p);
          return ++c->calls < c->stop_after;
        },
        &context);
    EXPECT_LE(context.calls, stop_after) << "called again after it had returned false";
    EXPECT_GE(context.calls, 1);
  }
}

TEST(HakStatsJson, TheWriterMayAllocate) {
  std::string text;
  hak_stats_json(
      [](void *context, const char *piece, std::size_t bytes) {
        for (std::size_t size : kSizes) free(malloc(size));
        static_cast<std::string *>(context)->append(piece, bytes);
        return true;
      },
      &text);
  std::map<std::string, double> numbers;
  std::string error;
  EXPECT_TRUE(hak_test::parse_json_object(text, &numbers, &error)) << error << "\n" << text;
}

/* With no memory left, the statistics can still be had: they allocate nothing. */
TEST(HakStatsJson, NeedsNoMemory) {
  hak_test::Outcome outcome = hak_test::in_child([] {
    static char text[1 << 18];
    static std::size_t length;
    rlimit limit = {hak_test::status_kib("VmData:") << 10, RLIM_INFINITY};
    limit.rlim_max = limit.rlim_cur;
    if (setrlimit(RLIMIT_DATA, &limit) != 0) return 3;
    for (std::size_t bytes = 1 << 24; bytes >= 16; bytes /= 2)
      while (hak_test::opaque(malloc(bytes)) != nullptr) {}
    hak_stats_t now;
    hak_stats(&now, sizeof now);
    if (now.live == 0) return 4;
    hak_stats_json(
        [](void *, const char *piece, std::size_t bytes) {
          if (bytes > sizeof text - length) return false;
          std::memcpy(text + length, piece, bytes);
          length += bytes;
          return true;
        },
        nullptr);
    return write(1, text, length) == static_cast<ssize_t>(length) ? 0 : 5;
  });
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.describe();
  std::map<std::string, double> numbers;
  std::string error;
  EXPECT_TRUE(hak_test::parse_json_object(outcome.out, &numbers, &error)) << error << "\n" << outcome.describe();
}

TEST(HakStats, CountNothingThemselves) {
  std::string text;
  text.reserve(1 << 20);
  hak_stats_t before = stats();
  for (int i = 0; i < 100; i++) {
    text.clear();
    hak_stats_json(append, &text);
    (void)stats();
  }
  hak_stats_t after = stats();
  EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0) << "asking for statistics changed them";
}

TEST(Hak, ThreadFlushEmptiesTheCallersCache) {
  std::vector<void *> blocks;
  for (int i = 0; i < 5000; i++) blocks.push_back(malloc(static_cast<std::size_t>(i)));
  for (void *block : blocks) free(block);
  EXPECT_GT(stats().cached, 0u) << "nothing is cached at all: the test is void";
  hak_thread_flush();
  EXPECT_EQ(stats().cached, 0u) << "bytes still cached; no other thread ever was";
}

TEST(Hak, TrimKeepsWhatItIsToldToKeep) {
  std::vector<void *> blocks;
  for (int i = 0; i < 400; i++) {
    blocks.push_back(malloc(200000));
    std::memset(blocks.back(), 1, 200000);
  }
  for (void *block : blocks) free(block);
  hak_trim(std::size_t{20} << 20);
  const std::size_t kept = stats().dirty_free;
  EXPECT_LE(kept, std::size_t{20} << 20) << "bytes of free memory kept";
  ASSERT_GT(kept, std::size_t{1} << 20) << "the test is void";
  EXPECT_TRUE(hak_trim(std::size_t{1} << 20));
  EXPECT_EQ(stats().dirty_free, std::size_t{1} << 20);
  hak_trim(0);
  EXPECT_EQ(stats().dirty_free, 0u);
  EXPECT_FALSE(hak_trim(0)) << "there was nothing left to give back";
}

/* Pages between live blocks are free memory, too. */
TEST(Hak, TrimKeepsPagesOfPartlyUsedSlabsAsWell) {
  hak_account_t account;
  hak_account(&account, sizeof account);
  if (!account.is_measured) GTEST_SKIP() << "the system does not say what is resident";
  constexpr std::size_t kBlocks = 100000, kKeep = 1 << 20; /* the frees have given most back */
  std::vector<void *> blocks(kBlocks), live;
  for (void *&block : blocks) std::memset(block = malloc(256), 1, 256);
  for (std::size_t i = 0; i < kBlocks; i++) (i % 1000 == 0 ? live.push_back(blocks[i]) : free(blocks[i]));
  EXPECT_TRUE(malloc_trim(kKeep));
  hak_account(&account, sizeof account);
  const std::size_t kept = account.resident_free_in_slabs + account.resident_dirty;
  /* Units that are free count as a whole; nobody may have written to some of their pages. */
  const std::size_t not_there = stats().dirty_free - account.resident_dirty;
  EXPECT_GE(kept + not_there, kKeep - 4096);
  EXPECT_LE(kept, kKeep + live.size() * 4096) << "what lies beside live blocks in their pages cannot go";
  EXPECT_FALSE(malloc_trim(kKeep)) << "there was no more than that";
  EXPECT_TRUE(malloc_trim(0));
  hak_account(&account, sizeof account);
  constexpr std::size_t kOthers = 16; /* pages of blocks that GoogleTest holds, more with every test */
  EXPECT_LE(account.resident_free_in_slabs + account.resident_dirty, (live.size() + kOthers) * 4096);
  for (void *block : live) free(block);
}

TEST(Hak, TrimGivesBackPagesOfPartlyUsedSlabs) {
  const std::size_t before = hak_test::resident_bytes();
  std::vector<void *> blocks(400000), kept;
  for (void *&block : blocks) {
    block = malloc(256);
    std::memset(block, 1, 256);
  }
  const std::size_t full = hak_test::resident_bytes();
  ASSERT_GT(full, before + 90'000'000);
  for (std::size_t i = 0; i < blocks.size(); i++) {
    if (i % 1000 == 0) kept.push_back(blocks[i]);
    else free(blocks[i]);
  }
  hak_trim(0);
  EXPECT_LT(hak_test::resident_bytes() - before, (full - before) / 5)
      << "bytes resident when 1 block in 1000 is still live";
  for (void *block : kept) free(block);
}
