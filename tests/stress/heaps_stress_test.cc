/*
 * Seeded stress of heaps of the program's own: several threads in several heaps, blocks that another
 * thread frees by any name, heaps that go with all their blocks and come again, and threads
 * that end. As in stress_test.cc every block has a pattern of its own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/payload.h"

#include <hakmem.h>
#ifdef HAK_STRESS_WALK
#include <observe/check.h>
#endif

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace {

using hak_test::Random;

constexpr unsigned kThreads = 4, kHeaps = 3;

std::size_t scaled(std::size_t operations) {
  const char *percent = std::getenv("HAK_STRESS_PERCENT");
  return operations * (percent == nullptr ? 100 : std::strtoull(percent, nullptr, 0)) / 100 / HAK_STRESS_DIVISOR;
}
std::uint64_t seed() {
  const char *text = std::getenv("HAK_STRESS_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 0);
}

[[noreturn]] void lost(const void *block, std::size_t bytes) {
  std::fprintf(stderr, "block %p of %zu bytes is not what its owner left in it. Seed %llu.\n", block, bytes,
               static_cast<unsigned long long>(seed()));
  std::abort();
}

std::atomic<std::uint64_t> next_key{1};

struct Held {
  void *block = nullptr;
  std::size_t bytes = 0;
  std::uint64_t key = 0;

  void mark(void *at, std::size_t size) {
    if (at == nullptr) std::fprintf(stderr, "no memory for %zu bytes\n", size), std::abort();
    block = at, bytes = size, key = hak_test::mix(next_key.fetch_add(1, std::memory_order_relaxed));
    hak_test::stamp_as(block, bytes, key);
  }
  void check() const {
    if (!hak_test::stamped_as(block, bytes, key, bytes)) lost(block, bytes);
  }
};

/* A heap, and blocks of it that any thread may take. Who destroys it has it alone. */
struct Shared {
  std::shared_mutex alive;
  hak_heap_t *heap = hak_heap_new(0);
  std::mutex mutex;
  std::vector<Held> blocks;
};

class Thread {
 public:
  Thread(Shared *heaps, std::uint64_t stream) : heaps_(heaps), random_(hak_test::mix(seed()) + stream) {}

  void work(std::size_t operations) {
    while (operations-- > 0) {
      Shared &shared = heaps_[random_.below(kHeaps)];
      if (random_.below(2000) == 0) make_anew(shared);
      std::shared_lock<std::shared_mutex> alive(shared.alive);
      for (int i = 0; i < 20; i++) step(shared);
    }
  }

 private:
  static void make_anew(Shared &shared) {
    std::unique_lock<std::shared_mutex> alone(shared.alive);
    for (const Held &held : shared.blocks) held.check();
    shared.blocks.clear();
    hak_heap_destroy(shared.heap);
    shared.heap = hak_heap_new(0);
  }

  std::size_t size() {
    std::size_t dice = random_.below(200);
    return dice == 0   ? random_.size_between(65537, 3 << 20)
           : dice < 20 ? random_.size_between(1025, 65536)
                       : random_.between(0, 1024);
  }

  void step(Shared &shared) {
    Held held;
    {
      std::lock_guard<std::mutex> lock(shared.mutex);
      std::size_t count = shared.blocks.size();
      if (count > 0 && random_.below(400) < count) {
        std::swap(shared.blocks[random_.below(count)], shared.blocks.back());
        held = shared.blocks.back();
        shared.blocks.pop_back();
      }
    }
    if (held.block == nullptr) {
      std::size_t bytes = size();
      held.mark(
          random_.below(8) == 0 ? hak_heap_aligned_alloc(shared.heap, 64, bytes) : hak_heap_malloc(shared.heap, bytes),
          bytes);
    } else {
      held.check();
      switch (random_.below(4)) {
        case 0: hak_free(held.block); return;
        case 1: {
          std::size_t bytes = size() + 1;
          held.mark(hak_heap_realloc(shared.heap, held.block, bytes), bytes);
          break;
        }
        default: hak_heap_free(shared.heap, held.block); return;
      }
    }
    std::lock_guard<std::mutex> lock(shared.mutex);
    shared.blocks.push_back(held);
  }

  Shared *heaps_;
  Random random_;
};

void walk() {
#ifdef HAK_STRESS_WALK
  hak__check_all();
#endif
}

}  // namespace

TEST(StressHeaps, ManyThreadsInManyHeaps) {
  Shared heaps[kHeaps];
  std::uint64_t stream = 0;
  for (int generation = 0; generation < 4; generation++) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; t++)
      threads.emplace_back([&heaps, s = stream++] { Thread(heaps, s).work(scaled(6000)); });
    for (std::thread &thread : threads) thread.join();
    walk();
    for (Shared &shared : heaps) {
      hak_heap_stats_t now;
      hak_heap_stats(shared.heap, &now, sizeof now);
      std::size_t live = 0;
      for (const Held &held : shared.blocks) live += hak_usable_size(held.block);
      EXPECT_EQ(now.live, live);
      EXPECT_EQ(now.cached, 0u) << "what threads had that have ended";
      EXPECT_EQ(now.live + now.cached + now.free, now.taken);
    }
  }
  for (Shared &shared : heaps) {
    for (const Held &held : shared.blocks) held.check();
    hak_heap_destroy(shared.heap);
  }
  walk();
  hak_stats_t stats;
  hak_stats(&stats, sizeof stats);
  EXPECT_EQ(stats.errors, 0u) << "a correct free was reported as a mistake";
}

/* Threads that have finished with a heap may end while it is destroyed: each gives back a cache that is in
 * the heap's list just then. The caches are of the memory that those of the next round are made of. */
TEST(StressHeaps, ThreadsEndWhileTheirHeapIsDestroyed) {
  constexpr unsigned kEnding = 100;
  for (std::size_t round = 0; round < scaled(120); round++) {
    hak_heap_t *heap = hak_heap_new(0);
    std::atomic<unsigned> ready{0};
    std::atomic<bool> may_end{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kEnding; t++)
      threads.emplace_back([&] {
        Held held;
        held.mark(hak_heap_malloc(heap, 64), 64);
        held.check();
        hak_heap_free(heap, held.block);
        ready.fetch_add(1);
        while (!may_end.load()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      });
    while (ready.load() < kEnding) std::this_thread::yield();
    may_end.store(true);
    std::this_thread::sleep_for(std::chrono::microseconds(round * 37 % 150));
    hak_heap_destroy(heap);
    for (std::thread &thread : threads) thread.join();
  }
  walk();
}
