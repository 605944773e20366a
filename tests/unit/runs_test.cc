/* The tree of free runs against std::set. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"

#include <set>

namespace {

using hak_test::record;
using Key = std::pair<size_t, unit_t>; /* length, first unit: the tree's order */

/* A tree over the records of units that a run of the arena holds: nobody else
 * uses those inside it meanwhile. */
class Runs : public testing::Test {
 protected:
  static constexpr unsigned kUnits = 4096;
  void SetUp() override {
    run = arena_take(ZONE_SMALL, kUnits, 1, nullptr);
    ASSERT_NE(run, 0u);
    hak_test::write_words(run, kUnits, hak_test::kInUse);
  }
  void TearDown() override {
    record(run).run_units = kUnits;
    hak_test::write_words(run, kUnits, 0);
    arena_give(run, kUnits);
    arena_check();
  }
  void insert(Key key) {
    record(key.second).run_units = static_cast<uint32_t>(key.first);
    runs_insert(&root, key.second);
    oracle.insert(key);
  }
  void remove(Key key) {
    runs_remove(&root, key.second);
    oracle.erase(key);
  }
  void compare() {
    size_t units = 0, expected = 0;
    ASSERT_EQ(runs_check(root, &units), oracle.size());
    for (const Key &key : oracle) expected += key.first;
    ASSERT_EQ(units, expected);
  }
  unit_t run = 0, root = 0;
  std::set<Key> oracle;
};

}  // namespace

TEST_F(Runs, RandomInsertionsAndRemovalsKeepTheOrder) {
  hak_test::Random random(7);
  std::set<unit_t> in_tree;
  for (int i = 0; i < 60000; i++) {
    unit_t unit = static_cast<unit_t>(run + 1 + random.below(kUnits - 1));
    /* Few lengths, so that many runs are equally long. */
    if (in_tree.insert(unit).second) insert({random.between(1, 1 + i % 40), unit});
    else in_tree.erase(unit), remove({record(unit).run_units, unit});

    Key wanted{random.below(44), run + random.below(kUnits)};
    auto expected = oracle.lower_bound(wanted);
    ASSERT_EQ(runs_not_before(root, wanted.first, wanted.second), expected == oracle.end() ? 0 : expected->second)
        << "the first run not before " << wanted.first << " units at " << wanted.second;
    if (i % 500 == 0) compare();
  }
  compare();
}

/* In order, as the arena makes them when a heap is taken apart: the worst for a
 * tree that does not balance itself. A path as long as the tree would run for a
 * very long time here, but what is asserted is the depth. */
TEST_F(Runs, StaysShallowWhenRunsComeInOrder) {
  for (unit_t i = 1; i < kUnits; i++) insert({1, run + i});
  compare();
  unsigned deepest = 0;
  for (unit_t i = 1; i < kUnits; i++) {
    unsigned depth = 1;
    for (unit_t at = root; at != run + i; depth++) at = run + i < at ? record(at).free.left : record(at).free.right;
    deepest = depth > deepest ? depth : deepest;
  }
  EXPECT_LT(deepest, 60u) << "of 4095 runs; a balanced tree has 12 levels";
  while (root != 0) remove({1, root});
  compare();
}

TEST_F(Runs, AnEmptyTreeHasNothing) {
  EXPECT_EQ(runs_not_before(root, 0, 0), 0u);
  insert({5, run + 1});
  EXPECT_EQ(runs_not_before(root, 6, 0), 0u);
  EXPECT_EQ(runs_not_before(root, 5, run + 1), run + 1);
  EXPECT_EQ(runs_not_before(root, 5, run + 2), 0u);
  remove({5, run + 1});
  EXPECT_EQ(root, 0u);
}
