/* The order of a magazine's blocks. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"

#include <deque>
#include <thread>

namespace {

constexpr std::size_t kNodeBytes = 64;
const unsigned kNodeClass = size_class_of(kNodeBytes);

using hak_test::a_second_passes, hak_test::own_heap;

/* Trees of blocks, of sizes that vary, of which the oldest is freed as a new one is made: each node after those
 * below it. */
class Queue {
 public:
  Queue(std::size_t trees, unsigned depth) : trees_(trees), depth_(depth) {}
  ~Queue() {
    while (!queue_.empty()) drop_oldest();
  }
  void go_on(int times) {
    for (int i = 1; i <= times; i++) {
      if (queue_.size() == trees_) drop_oldest();
      queue_.push_back(grow(depth_));
    }
  }
  /* Of the blocks of the newest tree, those that lie near the one before. */
  double neighbours() const {
    std::size_t near = 0, all = 0;
    const char *before = nullptr;
    walk(*queue_.back(), [&](const Node &node) {
      near += std::abs(reinterpret_cast<const char *>(&node) - before) <= 8 * (std::ptrdiff_t)kNodeBytes;
      before = reinterpret_cast<const char *>(&node);
      all++;
    });
    return static_cast<double>(near) / static_cast<double>(all);
  }

 private:
  struct Node {
    std::size_t count;
    Node *below[(kNodeBytes - sizeof(std::size_t)) / sizeof(Node *)];
  };
  static_assert(sizeof(Node) == kNodeBytes);

  Node *grow(unsigned depth) {
    Node *node = static_cast<Node *>(hak_malloc(sizeof(Node)));
    node->count = depth == 0 ? 0 : random_.between(depth == depth_ ? 3 : 0, std::size(node->below));
    for (std::size_t i = 0; i < node->count; i++) node->below[i] = grow(depth - 1);
    return node;
  }
  template <typename Visit> static void walk(const Node &node, const Visit &visit) {
    visit(node);
    for (std::size_t i = 0; i < node.count; i++) walk(*node.below[i], visit);
  }
  static void drop(Node *node) {
    for (std::size_t i = 0; i < node->count; i++) drop(node->below[i]);
    hak_free(node);
  }
  void drop_oldest() {
    drop(queue_.front());
    queue_.pop_front();
  }

  std::size_t trees_;
  unsigned depth_;
  hak_test::Random random_{1};
  std::deque<Node *> queue_;
};

/* Of so many blocks some are freed, in no order, and as many are made. */
void replace_at_random(std::vector<void *> &blocks, std::size_t count, int times) {
  hak_test::Random random(2);
  for (void *&block : blocks)
    if (block == nullptr) block = hak_malloc(kNodeBytes);
  for (int i = 0; i < times; i++) {
    random.shuffle(blocks);
    for (std::size_t k = 0; k < count; k++) hak_free(blocks[k]);
    for (std::size_t k = 0; k < count; k++) blocks[k] = hak_malloc(kNodeBytes);
  }
}

}  // namespace

TEST(Order, TreesOfManySizesStayTogether) {
  heap_t *heap = own_heap();
  Queue queue(60, 6);
  queue.go_on(6000); /* a hundred times each */
  EXPECT_LE(heap->magazines[kNodeClass].capacity, 2 * BATCH_CAPACITY + 1);
  EXPECT_GE(queue.neighbours(), 0.6) << "who walks over it misses the caches";
  hak__check_all();
}

/* There the visits to slabs are all that it would change. */
TEST(Order, OfFewBlocksItDoesNotMatter) {
  heap_t *heap = own_heap();
  {
    Queue queue(20, 4);
    queue.go_on(3000);
    EXPECT_GT(heap->magazines[kNodeClass].capacity, 2 * BATCH_CAPACITY + 1);
  }
  hak__check_all();
}

TEST(Order, WhatIsFreedInNoOrderHasNone) {
  heap_t *heap = own_heap();
  std::vector<void *> blocks(200000);
  replace_at_random(blocks, 2000, 50);
  EXPECT_GE(heap->magazines[kNodeClass].capacity, 1023);
  for (void *block : blocks) hak_free(block);
  hak__check_all();
}

TEST(Order, IsForgottenWhereThereIsNoneAnyMore) {
  const hak_test::OverTime over_time(OVER_TIME_OFF);
  heap_t *heap = own_heap();
  {
    Queue queue(60, 6);
    queue.go_on(6000);
    ASSERT_NE(heap->gets_mixed >> kNodeClass & 1, 0u);
    for (int i = 0; i < 3; i++) {
      queue.go_on(500);
      a_second_passes(heap);
      EXPECT_NE(heap->gets_mixed >> kNodeClass & 1, 0u) << "it was in order in that second";
    }
  }
  std::vector<void *> blocks(200000);
  for (int i = 0; i < 3; i++) {
    replace_at_random(blocks, 2000, 20);
    a_second_passes(heap);
  }
  EXPECT_EQ(heap->gets_mixed >> kNodeClass & 1, 0u);
  replace_at_random(blocks, 2000, 50);
  EXPECT_GE(heap->magazines[kNodeClass].capacity, 1023);
  for (void *block : blocks) hak_free(block);
  hak__check_all();
}

TEST(Order, OfAThreadThatHasEndedIsForgotten) {
  heap_t *its = nullptr;
  std::thread([&] {
    its = own_heap();
    Queue(60, 6).go_on(6000);
    EXPECT_NE(its->gets_mixed, 0u);
  }).join();
  EXPECT_EQ(its->gets_mixed | its->in_order, 0u);
  hak__check_all();
}
