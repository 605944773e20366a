/*
 * Seeded stress with payload checks: see CMakeLists.txt for how to run it longer.
 *
 * Every block is stamped with a key that no other block ever had, and checked
 * before it is given back. A block that is handed to two owners, or reaches
 * into another, loses the stamp of one of them. When all threads have ended,
 * the allocator's invariants are walked and its sums compared.
 *
 * Only hak_ names are called, so that the test also runs where a sanitizer
 * serves malloc.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/payload.h"

#include <hakmem.h>
#ifdef HAK_STRESS_WALK
#include <observe/check.h>
#endif

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using hak_test::Random;

constexpr unsigned kThreads = 4;

std::uint64_t number_from_environment(const char *name, std::uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}
std::uint64_t seed() { return number_from_environment("HAK_STRESS_SEED", 1); }
std::size_t scaled(std::size_t operations) {
  return operations * number_from_environment("HAK_STRESS_PERCENT", 100) / 100 / HAK_STRESS_DIVISOR;
}

/* ---- One owner's view of blocks ------------------------------------------------*/

struct Held {
  void *block = nullptr;
  std::size_t bytes = 0; /* stamped: as asked for, or all that is usable */
  std::uint64_t key = 0;
};

[[noreturn]] void lost(const Held &held, const char *when) {
  std::fprintf(stderr,
               "block %p of %zu bytes is not what its owner left in it (%s): it was handed out twice, or another "
               "block reaches into it. Seed %llu.\n",
               held.block, held.bytes, when, static_cast<unsigned long long>(seed()));
  std::abort();
}
[[noreturn]] void fail(const char *what, std::size_t bytes) {
  std::fprintf(stderr, "%s of %zu bytes failed. Seed %llu.\n", what, bytes, static_cast<unsigned long long>(seed()));
  std::abort();
}

std::atomic<std::uint64_t> next_owner{1};

/* Allocates and frees for one thread. */
class Owner {
 public:
  explicit Owner(std::uint64_t stream)
      : random(hak_test::mix(seed()) + stream), serial_(next_owner.fetch_add(1) << 40) {}

  Held allocate(std::size_t bytes) {
    Held held;
    switch (random.below(16)) {
      case 0: held.block = zeroed(bytes); break;
      case 1: return aligned(bytes, std::size_t{1} << random.between(3, 12));
      default: held.block = hak_malloc(bytes); break;
    }
    if (held.block == nullptr) fail("allocation", bytes);
    held.bytes = bytes;
    /* Sometimes everything that may be used: that is where neighbours collide. */
    if (random.below(4) == 0) held.bytes = hak_usable_size(held.block);
    return mark(held);
  }

  Held aligned(std::size_t bytes, std::size_t alignment) {
    Held held;
    held.block = hak_aligned_alloc(alignment, bytes);
    if (held.block == nullptr) fail("aligned allocation", bytes);
    if (reinterpret_cast<std::uintptr_t>(held.block) % alignment != 0) {
      std::fprintf(stderr, "%p is not aligned to %zu\n", held.block, alignment);
      std::abort();
    }
    held.bytes = random.below(4) == 0 ? hak_usable_size(held.block) : bytes;
    return mark(held);
  }

  void reallocate(Held &held, std::size_t bytes) {
    void *moved = hak_realloc(held.block, bytes);
    if (moved == nullptr) fail("realloc", bytes);
    held.block = moved;
    if (!hak_test::stamped_as(moved, std::min(bytes, held.bytes), held.key, held.bytes)) lost(held, "after realloc");
    held.bytes = bytes;
    held = mark(held);
  }

  static void check(const Held &held, const char *when) {
    if (!hak_test::stamped_as(held.block, held.bytes, held.key, held.bytes)) lost(held, when);
  }
  static void release(Held &held) {
    if (held.block == nullptr) return;
    check(held, "before free");
    hak_free(held.block);
    held = Held();
  }

  Random random;

 private:
  void *zeroed(std::size_t bytes) {
    auto *block = static_cast<unsigned char *>(hak_calloc(1, bytes));
    for (std::size_t i = 0; block != nullptr && i < bytes; i += i < 4096 ? 1 : 509) {
      if (block[i] == 0) continue;
      std::fprintf(stderr, "byte %zu of calloc of %zu bytes is not zero\n", i, bytes);
      std::abort();
    }
    return block;
  }
  Held mark(Held held) {
    held.key = hak_test::mix(++serial_);
    hak_test::stamp_as(held.block, held.bytes, held.key);
    return held;
  }
  std::uint64_t serial_;
};

/* ---- Sizes that a pattern is run with --------------------------------------------*/

struct Profile {
  const char *name;
  std::size_t (*size)(Random &);
  std::size_t cost; /* of an operation, relative to a tiny one */
};
const Profile kTiny = {"Tiny", [](Random &r) { return r.between(1, 1024); }, 1};
const Profile kMixed = {"Mixed", [](Random &r) { return r.size_between(1, 65536); }, 12};
const Profile kLarge = {
    "Large",
    [](Random &r) { return r.below(50) == 0 ? r.size_between(4 << 20, 12 << 20) : r.size_between(40000, 4 << 20); },
    300};
const Profile kAll = {
    "All",
    [](Random &r) {
      std::size_t dice = r.below(100);
      return dice == 0 ? r.size_between(65537, 8 << 20) : dice < 20 ? r.size_between(1025, 65536) : r.between(0, 1024);
    },
    10};

class Stress : public testing::TestWithParam<const Profile *> {
 private:
  static void walk() {
#ifdef HAK_STRESS_WALK
    hak__check_all();
#endif
  }

 protected:
  const Profile &profile = *GetParam();
  std::size_t operations(std::size_t of_tiny) const { return scaled(of_tiny / 3) / profile.cost + 1; }
  /* Few at a time, then: the machine may be small. */
  bool is_large() const { return profile.cost >= 100; }
  std::size_t size(Owner &owner) const { return profile.size(owner.random); }

  static void in_threads(const std::function<void(unsigned)> &body) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; t++) threads.emplace_back(body, t);
    for (std::thread &thread : threads) thread.join();
  }

  /* With no other thread left. */
  void TearDown() override {
    walk();
    hak_thread_flush();
    walk();
    hak_stats_t now;
    hak_stats(&now, sizeof now);
    EXPECT_EQ(now.live + now.cached + now.outboxes + now.free_in_slabs,
              now.slab_bytes + now.large_bytes + now.huge_bytes);
    EXPECT_EQ(now.errors, 0u) << "a correct free was reported as a mistake";
  }
};
INSTANTIATE_TEST_SUITE_P(With, Stress, testing::Values(&kTiny, &kMixed, &kLarge, &kAll),
                         [](const auto &info) { return info.param->name; });

}  // namespace

/* Each thread keeps to itself: random allocation, realloc and free in a table. */
TEST_P(Stress, Local) {
  in_threads([&](unsigned t) {
    Owner owner(t);
    std::vector<Held> table(is_large() ? 16 : 1000);
    for (std::size_t i = operations(1500000); i > 0; i--) {
      Held &held = table[owner.random.below(table.size())];
      if (held.block == nullptr) {
        held = owner.allocate(size(owner));
      } else if (owner.random.below(8) == 0) {
        owner.reallocate(held, size(owner) + 1);
      } else {
        Owner::release(held);
      }
    }
    for (Held &held : table) Owner::release(held);
  });
}

/* Half of the threads allocate, the others free: nobody frees what is his own. */
TEST_P(Stress, ProducersAndConsumers) {
  constexpr std::size_t kQueue = 200;
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Held> blocks;
    bool ended = false;
  } queues[kThreads / 2];
  const std::size_t count = operations(600000);
  in_threads([&](unsigned t) {
    Queue &queue = queues[t / 2];
    Owner owner(t);
    if (t % 2 == 0) {
      for (std::size_t i = 0; i < count; i++) {
        Held held = owner.allocate(size(owner));
        std::unique_lock<std::mutex> lock(queue.mutex);
        queue.changed.wait(lock, [&] { return queue.blocks.size() < kQueue; });
        queue.blocks.push_back(held);
        queue.changed.notify_one();
      }
      std::lock_guard<std::mutex> lock(queue.mutex);
      queue.ended = true;
      queue.changed.notify_one();
      return;
    }
    for (;;) {
      std::deque<Held> taken;
      {
        std::unique_lock<std::mutex> lock(queue.mutex);
        queue.changed.wait(lock, [&] { return queue.ended || !queue.blocks.empty(); });
        if (queue.blocks.empty()) return;
        taken.swap(queue.blocks);
        queue.changed.notify_one();
      }
      for (Held &held : taken) Owner::release(held);
    }
  });
}

/* Threads in a circle: each takes what its left neighbour sends, frees it,
 * reallocates it or passes it on. */
TEST_P(Stress, Ring) {
  struct Box {
    std::mutex mutex;
    std::vector<Held> blocks;
  } boxes[kThreads];
  const std::size_t rounds = operations(1000000) / 20 + 1;
  in_threads([&](unsigned t) {
    Owner owner(t);
    for (std::size_t round = 0; round < rounds; round++) {
      std::vector<Held> taken, sent;
      {
        std::lock_guard<std::mutex> lock(boxes[t].mutex);
        taken.swap(boxes[t].blocks);
      }
      for (Held &held : taken) {
        std::size_t dice = owner.random.below(8);
        if (dice < 5) {
          Owner::release(held);
          continue;
        }
        if (dice == 5) owner.reallocate(held, size(owner) + 1);
        else Owner::check(held, "on its way round");
        sent.push_back(held);
      }
      for (int i = 0; i < 8; i++) sent.push_back(owner.allocate(size(owner)));
      Box &next = boxes[(t + 1) % kThreads];
      std::lock_guard<std::mutex> lock(next.mutex);
      /* A neighbour that is asleep must not make the heap grow without bound. */
      while (next.blocks.size() > 400) {
        Owner::release(next.blocks.back());
        next.blocks.pop_back();
      }
      next.blocks.insert(next.blocks.end(), sent.begin(), sent.end());
    }
  });
  for (Box &box : boxes)
    for (Held &held : box.blocks) Owner::release(held);
}

/* A table that all threads share: put a block in, free whatever was there. */
TEST_P(Stress, Exchange) {
  struct Slot {
    std::mutex mutex;
    Held held;
  };
  std::vector<Slot> table(is_large() ? 40 : 2000);
  in_threads([&](unsigned t) {
    Owner owner(t);
    for (std::size_t i = operations(1000000); i > 0; i--) {
      Held held = owner.allocate(size(owner));
      Slot &slot = table[owner.random.below(table.size())];
      {
        std::lock_guard<std::mutex> lock(slot.mutex);
        std::swap(slot.held, held);
      }
      Owner::release(held);
    }
  });
  for (Slot &slot : table) Owner::release(slot.held);
}

/* Short-lived threads: each inherits blocks, frees some, and leaves some behind. */
TEST_P(Stress, ThreadChurn) {
  const std::size_t generations = operations(300000) / 300 + 1;
  in_threads([&](unsigned t) {
    std::vector<Held> estate;
    for (std::size_t generation = 0; generation < generations; generation++) {
      std::thread([&] {
        Owner owner(generation * kThreads + t);
        for (int i = 0; i < 150; i++) estate.push_back(owner.allocate(size(owner)));
        const std::size_t kept = owner.random.below(is_large() ? 20 : 400);
        while (estate.size() > kept) {
          std::swap(estate[owner.random.below(estate.size())], estate.back());
          Owner::release(estate.back());
          estate.pop_back();
        }
        if (owner.random.below(3) == 0) hak_thread_flush();
      }).join();
    }
    for (Held &held : estate) Owner::release(held);
  });
}

/* Blocks that only ever grow and shrink. */
TEST_P(Stress, ReallocChains) {
  in_threads([&](unsigned t) {
    Owner owner(t);
    std::vector<Held> chains(8);
    for (Held &held : chains) held = owner.allocate(1);
    for (std::size_t i = operations(600000); i > 0; i--) {
      Held &held = chains[owner.random.below(chains.size())];
      switch (owner.random.below(5)) {
        case 0: owner.reallocate(held, size(owner) + 1); break;
        case 1: owner.reallocate(held, held.bytes / 2 + 1); break;
        case 2: owner.reallocate(held, std::min(held.bytes * 2 + 1, std::size_t{16} << 20)); break;
        case 3: owner.reallocate(held, held.bytes + 1); break;
        default: Owner::release(held); held = owner.allocate(size(owner));
      }
    }
    for (Held &held : chains) Owner::release(held);
  });
}

TEST_P(Stress, AlignedMixes) {
  in_threads([&](unsigned t) {
    Owner owner(t);
    std::vector<Held> table(is_large() ? 12 : 300);
    for (std::size_t i = operations(800000); i > 0; i--) {
      Held &held = table[owner.random.below(table.size())];
      Owner::release(held);
      std::size_t alignment = std::size_t{1} << owner.random.below(owner.random.below(20) == 0 ? 22 : 13);
      held = owner.random.below(3) == 0 ? owner.allocate(size(owner)) : owner.aligned(size(owner), alignment);
    }
    for (Held &held : table) Owner::release(held);
  });
}

/* Many of one size at once, freed in the same or in the opposite order. */
TEST_P(Stress, BatchesLifoAndFifo) {
  in_threads([&](unsigned t) {
    Owner owner(t);
    std::vector<Held> batch;
    for (std::size_t done = 0, total = operations(1500000); done < total; done += batch.size() + 1) {
      batch.resize(owner.random.between(1, is_large() ? 20 : 1500));
      const std::size_t bytes = size(owner);
      if (bytes * batch.size() > 64 << 20) continue;
      for (Held &held : batch) held = owner.allocate(bytes);
      if (owner.random.below(2) == 0) std::reverse(batch.begin(), batch.end());
      if (owner.random.below(4) == 0) owner.random.shuffle(batch);
      for (Held &held : batch) Owner::release(held);
    }
  });
}

/* The heap is filled with one size, emptied, and filled with another: slabs
 * change their class, with a few blocks of the last phase still in the way. */
TEST_P(Stress, Phases) {
  in_threads([&](unsigned t) {
    Owner owner(t);
    std::vector<Held> survivors, batch;
    for (std::size_t done = 0, total = operations(1500000); done < total;) {
      const std::size_t bytes = size(owner) + 1;
      const std::size_t count = std::min<std::size_t>((24 << 20) / bytes + 1, 3000);
      for (std::size_t i = 0; i < count; i++) batch.push_back(owner.allocate(bytes));
      done += count;
      for (Held &held : batch) {
        if (owner.random.below(200) == 0 && survivors.size() < (is_large() ? 4 : 500)) survivors.push_back(held);
        else Owner::release(held);
      }
      batch.clear();
      while (survivors.size() > 100) {
        Owner::release(survivors.back());
        survivors.pop_back();
      }
      if (owner.random.below(4) == 0) hak_trim(owner.random.below(2) << 22);
    }
    for (Held &held : survivors) Owner::release(held);
  });
}

/* Each thread goes from size to size, and some blocks of each stay for a while, or go to other threads: what lies free
 * in its slabs goes to those that need it. */
TEST_P(Stress, Drift) {
  struct Slot {
    std::mutex mutex;
    Held held;
  };
  std::vector<Slot> table(is_large() ? 8 : 2000);
  std::vector<std::thread> threads; /* more than the few among which nothing spills */
  for (unsigned number = 0; number < 2 * kThreads; number++)
    threads.emplace_back([&, t = number] {
      Owner owner(t);
      std::vector<Held> batch;
      for (std::size_t done = 0, total = operations(1200000); done < total;) {
        const std::size_t bytes = size(owner) + 1;
        const std::size_t count = std::min<std::size_t>((3 << 20) / bytes + 1, 6000);
        for (std::size_t i = 0; i < count; i++) batch.push_back(owner.allocate(bytes));
        done += count;
        for (std::size_t i = 0; i < batch.size(); i++) {
          if (i % 50 == 0) {
            Slot &slot = table[owner.random.below(table.size())];
            std::lock_guard<std::mutex> lock(slot.mutex);
            std::swap(slot.held, batch[i]);
          }
          Owner::release(batch[i]);
        }
        batch.clear();
      }
    });
  for (std::thread &thread : threads) thread.join();
  for (Slot &slot : table) Owner::release(slot.held);
}

/* While two threads exchange blocks, the others flush, trim and ask for statistics. */
TEST_P(Stress, FlushTrimAndStatisticsMeanwhile) {
  std::mutex mutex;
  std::vector<Held> shared;
  std::atomic<unsigned> workers{2};
  in_threads([&](unsigned t) {
    Owner owner(t);
    if (t >= 2) {
      while (workers.load() > 0) {
        Held held = owner.allocate(size(owner));
        hak_stats_t now;
        hak_stats(&now, sizeof now);
        hak_stats_json([](void *, const char *, std::size_t) { return true; }, nullptr);
        (void)hak_owns(&owner);
        Owner::release(held);
        t % 2 == 0 ? hak_thread_flush() : static_cast<void>(hak_trim(owner.random.below(2) << 24));
      }
      return;
    }
    std::vector<Held> own;
    for (std::size_t i = operations(400000); i > 0; i--) {
      own.push_back(owner.allocate(size(owner)));
      if (own.size() < 64) continue;
      {
        std::lock_guard<std::mutex> lock(mutex);
        own.swap(shared);
      }
      for (Held &held : own) Owner::release(held);
      own.clear();
    }
    for (Held &held : own) Owner::release(held);
    workers--;
  });
  for (Held &held : shared) Owner::release(held);
}

/* Members of a pool of threads hand blocks on and say that they will sleep, whenever they like, while another thread
 * trims: it goes into their caches and slabs, as the background thread does, where there is one. */
TEST_P(Stress, IdleAgainAndAgain) {
  struct Box {
    std::mutex mutex;
    std::vector<Held> blocks;
  } boxes[kThreads];
  const std::size_t rounds = operations(1000000) / 40 + 1;
  std::atomic<unsigned> workers{kThreads - 1};
  in_threads([&](unsigned t) {
    Owner owner(t);
    if (t == kThreads - 1) {
      while (workers.load() > 0) {
        (void)hak_trim(owner.random.below(2) << 24);
        std::this_thread::yield();
      }
      return;
    }
    for (std::size_t round = 0; round < rounds; round++) {
      std::vector<Held> taken, sent;
      {
        std::lock_guard<std::mutex> lock(boxes[t].mutex);
        taken.swap(boxes[t].blocks);
      }
      for (std::size_t i = 0; i < taken.size(); i++) {
        if (i % 4 == 0 && taken.size() < 100) sent.push_back(taken[i]);
        else Owner::release(taken[i]);
      }
      for (int i = 0; i < 16; i++) {
        sent.push_back(owner.allocate(size(owner)));
        if (i % 4 == 0) Owner::release(sent.back()), sent.pop_back();
      }
      {
        Box &next = boxes[(t + 1) % (kThreads - 1)];
        std::lock_guard<std::mutex> lock(next.mutex);
        next.blocks.insert(next.blocks.end(), sent.begin(), sent.end());
      }
      if (owner.random.below(2) == 0) (void)hak_thread_idle();
    }
    workers--;
  });
  for (Box &box : boxes)
    for (Held &held : box.blocks) Owner::release(held);
}
