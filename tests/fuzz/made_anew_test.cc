/*
 * A block is freed twice, and between any two basic blocks of the second free's delivery its slab goes and another
 * class's, whose bitmap is shorter, is made in its place: the mistake is counted, and no bit is left that a later slab
 * would take for one of its own. The core calls at each basic block, so one thread does it all.
 *
 * SPDX-License-Identifier: MIT
 */
#include <arena/arena.h>
#include <slab/batch.h>
#include <slab/pool.h>
#include <slab/remote.h>
#include <slab/slab.h>
#include <support/error.h>

#include "support/settings.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace {

unsigned long steps_left; /* until the interruption; 0: there is none to come */
std::function<void()> interruption;

unit_t slab_of(const void *block, unsigned size_class) {
  return slab_first_unit(static_cast<unit_t>(map_unit_of(block)), size_class);
}

std::vector<void *> take(owner_t *owner, unsigned size_class, std::size_t count) {
  std::vector<void *> blocks(count);
  for (std::size_t got = 0, more = 1; got < count && more > 0; got += more)
    more = batch_refill(owner, size_class, &blocks[got], count - got, nullptr);
  return blocks;
}

/* Two owners, as two threads have them. */
class MadeAnew : public testing::Test {
 protected:
  static constexpr unsigned kFirst = 0;
  owner_t *owner_ = nullptr, *other_ = nullptr;
  unsigned short_class_ = 0;

  void SetUp() override {
    ASSERT_TRUE(arena_ready());
    owner_ = pool_attach();
    other_ = pool_attach();
    owner_enter(owner_);
    owner_enter(other_);
    while (size_class_bitmap_words(short_class_) > 1 || size_classes[short_class_].slab_units > 1) short_class_++;
    ASSERT_LT(short_class_, unsigned{MID_CLASS_END});
    ASSERT_EQ(size_classes[kFirst].slab_units, 1) << "or a slab of the other class does not take all of its place";
  }
  void TearDown() override {
    pool_detach(other_);
    pool_detach(owner_);
  }
};

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  if (steps_left > 0 && --steps_left == 0) interruption();
}

TEST_F(MadeAnew, WithAShorterBitmapWhileASecondFreeIsDelivered) {
  const unsigned capacity = size_classes[kFirst].capacity, last = capacity - 1;
  unsigned interrupted = 0;
  for (unsigned long step = 1;; step++) {
    const std::vector<void *> blocks = take(owner_, kFirst, capacity);
    const unit_t slab = slab_of(blocks[0], kFirst);
    const atomic64 *bits = &the_map.remote_bits[slab][last / 64];
    void *block = slab_block_address(slab, kFirst, last);
    const std::uint64_t errors_before = error_count();
    remote_free(other_, block, map_lookup(block));
    batch_flush(owner_, kFirst, blocks.data(), blocks.size());

    std::vector<void *> made;
    interruption = [&] {
      slab_release_empty(owner_);
      do made.push_back(take(owner_, short_class_, 1)[0]);
      while (slab_of(made.back(), short_class_) != slab && made.size() < 1000);
    };
    steps_left = step;
    remote_flush(other_);
    const bool is_over = steps_left > 0;
    steps_left = 0;
    ASSERT_TRUE(is_over || slab_of(made.back(), short_class_) == slab) << "another place was taken";
    remote_collect(owner_, SIZE_MAX);
    EXPECT_EQ(error_count() - errors_before, 1u) << "interrupted at step " << step;
    if (!is_over) {
      EXPECT_EQ(atomic64_load_relaxed(bits), 0u) << "a bit is left, interrupted at step " << step;
    }
    batch_flush(owner_, short_class_, made.data(), made.size());
    slab_release_empty(owner_);
    if (is_over || HasFailure()) break;
    interrupted++;
  }
  EXPECT_GT(interrupted, 20u) << "the core does not call at its basic blocks";
}

int main(int argc, char **argv) {
  hak_test::init_with(argc, argv, {"HAKMEM_ABORT_ON_ERROR=0"});
  return RUN_ALL_TESTS();
}
