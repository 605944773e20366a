/* What a thread gives back that says it will sleep. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "nothing_by_itself.h"
#include "support/payload.h"
#include "support/process.h"

#include <atomic>
#include <functional>
#include <thread>

#include <unistd.h>

namespace {

class Idle : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(arena_ready()); }
  void TearDown() override {
    trim(0);
    trim(0); /* frees of slabs that have changed hands are handed on, by the first one */
    hak__check_all();
    EXPECT_EQ(error_count(), 0u);
    EXPECT_EQ(hak_test::used_bytes(), 0u) << "a block is lost";
  }
};

hak_stats_t stats() {
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  return now;
}
hak_account_t account() {
  hak_account_t now;
  hak_account(&now, sizeof now);
  return now;
}

/* Allocates and frees 16 to 1024 bytes, and keeps a few. */
std::vector<void *> churn(std::uint64_t seed, std::size_t kept) {
  hak_test::Random random(seed);
  std::vector<void *> blocks(400);
  for (int i = 0; i < 20000; i++) {
    void *&block = blocks[random.below(blocks.size())];
    hak_free(block);
    const std::size_t bytes = random.between(16, 1024);
    block = hak_malloc(bytes);
    std::memset(block, 1, bytes);
  }
  for (; blocks.size() > kept; blocks.pop_back()) hak_free(blocks.back());
  return blocks;
}

/* Threads that do a step of work each when they are told to, and sleep in between. */
class Sleepers {
 public:
  static constexpr int kCount = 200;
  template <typename Body> void each(Body body) {
    if (threads_.empty()) {
      for (int i = 0; i < kCount; i++) threads_.emplace_back([this, i] { run(i); });
    }
    body_ = body;
    done_ = 0;
    step_++;
    while (done_ < kCount) std::this_thread::yield();
  }
  void end() {
    body_ = nullptr;
    step_++;
    for (std::thread &thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void run(int number) {
    for (int seen = 0;;) {
      while (step_ == seen) usleep(500);
      seen++;
      if (!body_) return;
      body_(number);
      done_++;
    }
  }
  std::function<void(int)> body_;
  std::atomic<int> step_{0}, done_{0};
  std::vector<std::thread> threads_;
};

}  // namespace

/* Nobody waits, and there is no background thread. */
TEST_F(Idle, ManySleepingThreadsKeepLittleMoreThanTheirBlocks) {
  if (!account().is_measured) GTEST_SKIP() << "the system does not say what is resident";
  constexpr std::size_t kKept = 10;
  static std::vector<void *> kept[Sleepers::kCount];
  static std::atomic<std::size_t> given;
  given = 0;
  Sleepers sleepers;
  sleepers.each([](int i) { kept[i] = churn(static_cast<std::uint64_t>(i), kKept); });
  const hak_account_t before = account();
  const hak_stats_t held = stats();
  std::size_t unused = held.cached + held.free_in_slabs;
  FOR_EACH_HEAP(heap) unused -= static_cast<std::size_t>(heap->owner.purged_bytes); /* a second ago or so */
  ASSERT_GT(before.resident, std::size_t{Sleepers::kCount} * HAK_KIB(256)) << "the test is void";
  sleepers.each([](int) { given += hak_thread_idle(); });
  const hak_account_t after = account();
  const hak_stats_t now = stats();
  EXPECT_EQ(now.cached, 0u) << "blocks are left in caches";
  EXPECT_EQ(now.live, held.live);
  FOR_EACH_HEAP(heap) EXPECT_EQ(heap->capacity_bytes, 0u) << "of the budget";
  EXPECT_GE(given, unused / 10 * 9);
  EXPECT_LE(given, unused + held.outboxes);
  EXPECT_LT(after.resident, before.resident / 3);
  /* For each thread its blocks' pages, those of the tables and of the heap; and what is kept for all. How
   * close together the blocks lie depends on how the threads took turns. */
  EXPECT_LT(after.resident, Sleepers::kCount * HAK_KIB(160) + HAK_MIB(8));
  /* What came home while the pool's gate was shut lies at the slabs that all of them shared. What was sent to those
   * that slept already stays there: no background thread fetches it here. */
  tidy_sweep(nullptr);
  EXPECT_LT(stats().outboxes, Sleepers::kCount * HAK_KIB(16));
  EXPECT_LE(now.dirty_free, HAK_MIB(4) + now.slab_bytes / 8) << "beyond what is kept";
  /* They work on as if nothing had been. */
  sleepers.each([](int i) {
    for (void *block : kept[i]) hak_free(block);
    kept[i] = churn(static_cast<std::uint64_t>(i) + 1000, kKept);
    hak_thread_idle();
  });
  EXPECT_LT(account().resident, before.resident / 3);
  sleepers.each([](int i) {
    for (void *block : kept[i]) hak_free(block);
    kept[i] = {};
  });
  sleepers.end();
}

TEST_F(Idle, SaysHowMuchItWas) {
  EXPECT_EQ(hak_thread_idle(), 0u);
  std::vector<void *> blocks;
  for (int i = 0; i < 64; i++) blocks.push_back(hak_malloc(1024));
  hak_free(hak_malloc(100000));
  hak_free(hak_malloc(100000)); /* wanted again, so it is cached */
  const std::size_t slab_free = UNIT_BYTES - 1024, pages_free = UNIT_BYTES - os_page_bytes();
  for (; blocks.size() > 1; blocks.pop_back()) hak_free(blocks.back());
  const hak_stats_t held = stats();
  ASSERT_EQ(held.slab_count, 1u);
  ASSERT_EQ(held.cached + held.free_in_slabs, HAK_KIB(128) + slab_free) << "the test is void";
  EXPECT_EQ(hak_thread_idle(), HAK_KIB(128) + pages_free) << "all but what lies in the page of the block";
  EXPECT_EQ(stats().cached, 0u);
  EXPECT_EQ(hak_thread_idle(), 0u) << "there was nothing more";
  hak_free(blocks.back());
  EXPECT_EQ(hak_thread_idle(), os_page_bytes()) << "the block, and what was free beside it";
  EXPECT_EQ(hak_test::used_bytes(), 0u);
}

/* Whatever it had, and however long ago: nobody else comes by. A call does a bounded amount. */
TEST_F(Idle, OfALoneThreadAllGoesInSomeCalls) {
  const hak_test::Outcome outcome = hak_test::in_child([] {
    constexpr std::size_t kBlock = HAK_MIB(1), kBlocks = 64;
    const hak_test::OverTime over_time(OVER_TIME_OFF); /* where pages come slowly, some would be old by then */
    std::vector<void *> blocks(kBlocks);
    const uint64_t begun_ms = os_now_ms();
    for (int round = 0; round < 2; round++) { /* the second time it was reused, and may stay */
      for (void *&block : blocks) std::memset(block = hak_malloc(kBlock), 1, kBlock);
      for (void *block : blocks) hak_free(block);
    }
    if (os_now_ms() > begun_ms + 200) return 0; /* pages come slowly: it was reused too long ago to stay */
    hak_thread_idle();
    const std::size_t dirty = stats().dirty_free;
    EXPECT_GT(dirty, HAK_MIB(30)) << "the test is void, or a call takes too long";
    EXPECT_EQ(hak_thread_idle(), 0u);
    EXPECT_LE(stats().dirty_free, dirty - HAK_MIB(16));
    for (int i = 0; i < 4; i++) hak_thread_idle();
    EXPECT_LE(stats().dirty_free, HAK_MIB(4)) << "but for what is kept";
    return HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

TEST_F(Idle, DeliversWhatWasFreedOfOthers) {
  std::vector<void *> blocks;
  for (int i = 0; i < 100; i++) blocks.push_back(hak_malloc(64));
  std::thread([&] {
    for (int i = 0; i < 10; i++) hak_free(blocks[static_cast<std::size_t>(i)]);
    ASSERT_GT(stats().outboxes, 0u) << "the test is void";
    EXPECT_EQ(hak_thread_idle(), 10u * 64);
    EXPECT_EQ(stats().outboxes, 0u);
  }).join();
  for (std::size_t i = 10; i < blocks.size(); i++) hak_free(blocks[i]);
}

/* Another thread's need is served from them. */
TEST_F(Idle, SlabsThatAreHardlyUsedServeOtherThreads) {
  hak_free(hak_malloc(16)); /* there are two */
  std::atomic<int> step{0};
  std::vector<void *> kept;
  std::thread sleeper([&] {
    for (int i = 0; i < 100; i++) kept.push_back(hak_malloc(512));
    while (kept.size() > 2) hak_free(kept.back()), kept.pop_back();
    hak_thread_idle();
    step = 1;
    while (step < 2) std::this_thread::yield();
    for (void *block : kept) hak_free(block);
  });
  while (step < 1) std::this_thread::yield();
  std::vector<void *> ours;
  for (int i = 0; i < 60; i++) ours.push_back(hak_malloc(512));
  EXPECT_EQ(hak_test::slab_of(ours[0]), hak_test::slab_of(kept[0])) << "others ask for fresh memory";
  for (void *block : ours) hak_free(block);
  step = 2;
  sleeper.join();
}

/* A call does a bounded amount, and the next one goes on. */
TEST_F(Idle, VeryManySlabsTakeSeveralCalls) {
  hak_test::with_nothing_by_itself([] {
    constexpr std::size_t kSlabs = 3000, kBytes = 16384;
    std::vector<void *> kept, others;
    for (std::size_t i = 0; i < kSlabs * 8; i++) (i % 8 == 0 ? kept : others).push_back(hak_malloc(kBytes));
    for (void *block : others) hak_free(block);
    hak_thread_flush();
    ASSERT_EQ(stats().slab_count, kSlabs) << "the test is void";
    std::size_t calls = 0, all = 0;
    for (std::size_t given; (given = hak_thread_idle()) > 0; calls++) {
      EXPECT_LE(given, 1024u * 7 * kBytes);
      all += given;
    }
    EXPECT_GT(calls, 1u);
    EXPECT_EQ(all, others.size() * kBytes);
    for (void *block : kept) hak_free(block);
  });
}

TEST_F(Idle, OfAThreadThatHasNothing) {
  const std::uint32_t made = pool_owner_count();
  std::thread([] { EXPECT_EQ(hak_thread_idle(), 0u); }).join();
  EXPECT_EQ(pool_owner_count(), made) << "it was given a heap";
}

namespace {
pthread_key_t before_ours, after_ours;
void idle_in_destructor(void *block) {
  hak_free(block);
  hak_thread_idle();
  hak_free(hak_malloc(100));
  hak_thread_idle();
}
/* Called in each of the rounds that there are, the last one when the thread has no heap any more. */
void idle_again(void *rounds) {
  hak_thread_idle();
  hak_free(hak_malloc(100));
  if (const auto left = reinterpret_cast<std::uintptr_t>(rounds); left > 0)
    pthread_setspecific(after_ours, reinterpret_cast<void *>(left - 1));
  EXPECT_EQ(hak_thread_idle() > 0, the_heap != &the_null_heap) << "rounds left: " << rounds;
}
}  // namespace

TEST_F(Idle, WhileAThreadEnds) {
  ASSERT_EQ(pthread_key_create(&before_ours, idle_in_destructor), 0);
  ASSERT_EQ(pthread_key_create(&after_ours, idle_again), 0);
  std::thread([] {
    pthread_setspecific(before_ours, hak_malloc(1000));
    pthread_setspecific(after_ours, reinterpret_cast<void *>(3));
  }).join();
  pthread_key_delete(before_ours);
  pthread_key_delete(after_ours);
}

TEST_F(Idle, InAForkedChild) {
  std::vector<void *> kept = churn(1, 10);
  hak_test::Outcome outcome = hak_test::in_child([&] {
    pool_before_fork(); /* there are no fork handlers in this program */
    thread_after_fork();
    if (hak_thread_idle() == 0) return 1;
    if (hak_test::cached_bytes() != 0) return 2;
    for (void *block : kept) hak_free(block);
    hak_thread_idle();
    hak__check_all();
    return error_count() == 0 ? 0 : 3;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  for (void *block : kept) hak_free(block);
}
