/* Statistics: they add up, and the JSON is JSON. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/json.h"
#include "support/payload.h"

#include <map>
#include <string>
#include <thread>

namespace {

hak_stats_t now() {
  hak_stats_t stats;
  hak_stats(&stats, sizeof stats);
  return stats;
}

void expect_sums() {
  hak_stats_t s = now();
  EXPECT_EQ(s.live + s.cached + s.outboxes + s.free_in_slabs, s.slab_bytes + s.large_bytes + s.huge_bytes);
  EXPECT_EQ(s.slab_bytes + s.slab_tails + s.large_bytes + s.huge_bytes + s.dirty_free + s.clean_free, s.committed);
}

bool append(void *context, const char *text, size_t bytes) {
  static_cast<std::string *>(context)->append(text, bytes);
  return true;
}

}  // namespace

TEST(Stats, LiveIsWhatTheProgramHolds) {
  hak_test::Random random(11);
  const size_t before = now().live;
  std::vector<void *> blocks;
  size_t held = 0;
  for (int i = 0; i < 5000; i++) {
    void *block = hak_malloc(random.size_between(1, i % 50 == 0 ? 9 << 20 : 40000));
    ASSERT_NE(block, nullptr);
    held += hak_usable_size(block);
    blocks.push_back(block);
    if (blocks.size() > 60) {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      held -= hak_usable_size(blocks.back());
      hak_free(blocks.back());
      blocks.pop_back();
    }
    if (i % 100 == 0) {
      expect_sums();
      EXPECT_EQ(now().live - before, held) << "after " << i << " allocations";
    }
  }
  for (void *block : blocks) hak_free(block);
  EXPECT_EQ(now().live, before);
}

TEST(Stats, BlocksFreedByAnotherThreadAreNotLive) {
  const hak_stats_t before = now();
  std::vector<void *> blocks;
  for (int i = 0; i < 3000; i++) blocks.push_back(hak_malloc(1 + i % 112)); /* smaller than what travels */
  std::thread([&] {
    for (void *block : blocks) hak_free(block);
  }).join();
  EXPECT_EQ(now().live, before.live);
  EXPECT_EQ(now().remote_frees - before.remote_frees, blocks.size());
  expect_sums();
}

/* Of those that travel some lie in the depot, and a thread that has ended has none. */
TEST(Stats, BlocksOnTheirWayBetweenThreadsAreNotLive) {
  const hak_stats_t before = now();
  std::vector<void *> blocks;
  for (int i = 0; i < 3000; i++) blocks.push_back(hak_malloc(200 + i % 2000));
  std::thread([&] {
    for (void *block : blocks) hak_free(block);
  }).join();
  const hak_stats_t after = now();
  EXPECT_EQ(after.live, before.live);
  EXPECT_GT(after.outboxes, before.outboxes);
  expect_sums();
  hak_thread_flush();
  EXPECT_EQ(now().outboxes, 0u);
  EXPECT_EQ(now().live, before.live);
}

TEST(Stats, KindsOfBlocksAreToldApart) {
  hak_stats_t before = now();
  void *tiny = hak_malloc(100), *large = hak_malloc(HAK_MIB(1)), *huge = hak_malloc(HAK_MIB(20));
  hak_stats_t after = now();
  EXPECT_GT(after.slab_bytes + after.cached, before.slab_bytes);
  EXPECT_EQ(after.large_bytes - before.large_bytes, HAK_MIB(1));
  EXPECT_EQ(after.huge_bytes - before.huge_bytes, HAK_MIB(20));
  hak_free(tiny);
  hak_free(large);
  hak_free(huge);
  EXPECT_EQ(now().huge_bytes, before.huge_bytes);
}

TEST(Stats, JsonSaysTheSame) {
  void *block = hak_malloc(HAK_MIB(5));
  std::string text, error;
  hak_stats_json(append, &text);
  std::map<std::string, double> numbers;
  ASSERT_TRUE(hak_test::parse_json_object(text, &numbers, &error)) << error << " in\n" << text;
  hak_stats_t s = now();
  EXPECT_EQ(numbers["huge_bytes"], static_cast<double>(s.huge_bytes));
  EXPECT_EQ(numbers["live"], static_cast<double>(s.live));
  EXPECT_EQ(numbers["mmap_calls"], static_cast<double>(s.mmap_calls));
  EXPECT_EQ(numbers["errors"], 0.0);
  std::size_t figures = 0;
  for (const auto &number : numbers) figures += number.first.find('.') == std::string::npos;
  EXPECT_EQ(figures, sizeof s / 8 - 1 + sizeof(hak_account_t) / 8 - 2) << "a figure is missing";
  hak_free(block);
}

TEST(Stats, JsonStopsWhenTheReaderHasEnough) {
  struct Reader {
    int pieces = 0;
    static bool read(void *context, const char *, size_t) { return ++static_cast<Reader *>(context)->pieces < 3; }
  } reader;
  hak_stats_json(Reader::read, &reader);
  EXPECT_LE(reader.pieces, 4) << "it went on after `write` had returned false";
}

/* The figures of the one are not those of the other: what the reader asks for is of a moment in which there is more. */
TEST(Stats, AReaderMayAskForJsonItself) {
  struct Reader {
    std::string text, inner;
    static bool read(void *context, const char *piece, size_t bytes) {
      auto *reader = static_cast<Reader *>(context);
      if (reader->inner.empty()) {
        void *block = hak_malloc(HAK_MIB(20));
        hak_stats_json(append, &reader->inner);
        hak_free(block);
      }
      return append(&reader->text, piece, bytes);
    }
  } reader;
  const hak_stats_t before = now();
  hak_stats_json(Reader::read, &reader);
  std::map<std::string, double> outer, inner;
  std::string error;
  ASSERT_TRUE(hak_test::parse_json_object(reader.text, &outer, &error)) << error << " in\n" << reader.text;
  ASSERT_TRUE(hak_test::parse_json_object(reader.inner, &inner, &error)) << error << " in\n" << reader.inner;
  EXPECT_EQ(outer["huge_bytes"], static_cast<double>(before.huge_bytes));
  EXPECT_EQ(inner["huge_bytes"], static_cast<double>(before.huge_bytes + HAK_MIB(20)));
}

TEST(Stats, AnOlderCallerGetsWhatItKnows) {
  struct {
    size_t struct_bytes, reserved, guard;
  } small = {0, 0, 42};
  hak_stats(reinterpret_cast<hak_stats_t *>(&small), 2 * sizeof(size_t));
  EXPECT_EQ(small.struct_bytes, sizeof(hak_stats_t));
  EXPECT_EQ(small.guard, 42u) << "written beyond what the caller has room for";
}
