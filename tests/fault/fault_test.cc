/*
 * Each scenario runs again and again, in a fresh process each time: the first
 * time its first call to the system that can fail does, then the second, ... until
 * it ends before the fault is reached. And once more with all calls from there on
 * failing. Whatever happens, an allocation gives a good block or NULL and ENOMEM,
 * no block loses its contents, and when memory is back everything works and
 * nothing is lost.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/payload.h"
#include "support/process.h"

#include <arena/arena_look.h>
#include <arena/arena_purge.h>
#include <arena/map.h>
#include <hakmem.h>
#include <int/container.h>
#include <observe/check.h>
#include <os/os.h>
#include <support/config.h>
#include <support/limit.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace {

using hak_test::Random;

constexpr size_t kKiB = 1024, kMiB = size_t{1} << 20;

[[noreturn]] void fail(const char *what, size_t bytes) {
  std::fprintf(stderr, "%s (%zu bytes, errno %d)\n", what, bytes, errno);
  _exit(1);
}

/* A program that looks at every result. */
class Program {
 public:
  explicit Program(uint64_t stream = 1) : random(stream), next_key_(stream << 32) {}

  void *keep(size_t bytes, size_t alignment, bool zeroed, const std::function<void *()> &allocate) {
    errno = 0;
    auto *block = static_cast<unsigned char *>(allocate());
    if (block == nullptr) {
      if (errno != ENOMEM) fail("NULL, and errno is not ENOMEM", bytes);
      refused++;
      return nullptr;
    }
    if (reinterpret_cast<uintptr_t>(block) % alignment != 0) fail("a block is not aligned", bytes);
    if (hak_usable_size(block) < bytes) fail("a block is too small", bytes);
    for (size_t i = 0; zeroed && i < bytes; i += i < 5000 ? 1 : 4001)
      if (block[i] != 0) fail("calloc is not zero", bytes);
    hak_test::stamp_as(block, bytes, ++next_key_);
    blocks.push_back({block, bytes, next_key_});
    return block;
  }
  void *malloc(size_t bytes) {
    return keep(bytes, 16, false, [&] { return hak_malloc(bytes); });
  }
  void *calloc(size_t bytes) {
    return keep(bytes, 16, true, [&] { return hak_calloc(1, bytes); });
  }
  void *aligned(size_t alignment, size_t bytes) {
    return keep(bytes, alignment, false, [&] { return hak_aligned_alloc(alignment, bytes); });
  }
  void realloc(size_t index, size_t bytes) {
    Block &b = blocks[index];
    errno = 0;
    void *moved = hak_realloc(b.at, bytes);
    if (moved == nullptr) {
      if (errno != ENOMEM) fail("realloc: NULL, and errno is not ENOMEM", bytes);
      refused++;
      check(b, "a realloc that failed changed the block");
      return;
    }
    b.at = moved;
    if (!hak_test::stamped_as(moved, bytes < b.bytes ? bytes : b.bytes, b.key, b.bytes))
      fail("realloc lost contents", bytes);
    b.bytes = bytes;
    hak_test::stamp_as(moved, bytes, b.key);
  }
  void free(size_t index) {
    std::swap(blocks[index], blocks.back());
    check(blocks.back(), "a block lost its contents");
    errno = 1234;
    hak_free(blocks.back().at);
    if (errno != 1234) fail("free changed errno", blocks.back().bytes);
    blocks.pop_back();
  }
  void free_half() {
    for (size_t n = blocks.size() / 2; n > 0; n--) free(random.below(blocks.size()));
  }
  void free_all() {
    while (!blocks.empty()) free(blocks.size() - 1);
  }

  struct Block {
    void *at;
    size_t bytes;
    uint64_t key;
  };
  static void check(const Block &b, const char *what) {
    if (!hak_test::stamped_as(b.at, b.bytes, b.key, b.bytes)) fail(what, b.bytes);
  }
  std::vector<Block> blocks;
  Random random;
  size_t refused = 0;

 private:
  uint64_t next_key_;
};

/* When memory is back: everything works. */
void recover() {
  Program program(99);
  for (size_t bytes : {1ul, 100ul, 1000ul, 5000ul, 60000ul, 300000ul, 5 * kMiB})
    for (size_t held = 0; held < 30 * bytes && held < 2 * kMiB; held += bytes) {
      if (program.malloc(bytes) == nullptr) fail("memory is back, and malloc still refuses", bytes);
      if (program.calloc(bytes) == nullptr) fail("memory is back, and calloc still refuses", bytes);
    }
  if (program.aligned(64 * kMiB, 100) == nullptr) fail("memory is back, and aligned_alloc still refuses", 100);
  std::thread([&] { program.free_half(); }).join();
  program.free_all();
}

enum { REACHED = 40, NOT_REACHED = 41 };

/* What runs in the child. */
int run(const std::function<void()> &scenario, uint64_t nth, bool sticky) {
  os_fault_set(nth, sticky);
  scenario();
  bool reached = os_fault_set(0, false) >= nth;
  hak__check_all();
  recover();
  hak__check_all();
  hak_thread_flush();
  hak_stats_t stats;
  hak_stats(&stats, sizeof stats);
  if (stats.live != 0) fail("all is freed, and some is live still", stats.live);
  if (stats.errors != 0) fail("a correct free was taken for a mistake", stats.errors);
  return reached ? REACHED : NOT_REACHED;
}

void fail_each_call(const std::function<void()> &scenario, uint64_t at_least, std::vector<bool> ways = {false, true}) {
  for (bool sticky : ways) {
    uint64_t nth = 1;
    for (;; nth++) {
      hak_test::Outcome outcome = hak_test::in_child([&] { return run(scenario, nth, sticky); });
      if (outcome.exited_with(NOT_REACHED)) break;
      ASSERT_TRUE(outcome.exited_with(REACHED)) << "with call " << nth << (sticky ? " and all after it" : "")
                                                << " to the system failing: " << outcome.describe();
      ASSERT_LT(nth, 2000u) << "the scenario has no end";
    }
    std::printf("%llu calls%s\n", static_cast<unsigned long long>(nth - 1), sticky ? ", each with all after it" : "");
    EXPECT_GT(nth, at_least) << "the scenario reaches fewer calls than it should: it tests less";
  }
}

}  // namespace

TEST(Fault, TheFirstAllocation) {
  fail_each_call(
      [] {
        Program program;
        program.malloc(24);
        program.free_all();
      },
      5);
}

TEST(Fault, TinyBlocksMakeTheHeapGrow) {
  fail_each_call(
      [] {
        Program program;
        for (int i = 0; i < 12000; i++) program.malloc(program.random.below(1025));
        program.free_half();
        for (int i = 0; i < 5000; i++) program.malloc(program.random.below(1025));
        program.free_all();
      },
      12);
}

TEST(Fault, MidBlocks) {
  fail_each_call(
      [] {
        Program program;
        for (int i = 0; i < 400; i++) program.malloc(program.random.size_between(1025, 65536));
        program.free_half();
        for (int i = 0; i < 200; i++) program.malloc(program.random.size_between(1025, 65536));
        program.free_all();
      },
      10);
}

TEST(Fault, LargeBlocks) {
  fail_each_call(
      [] {
        Program program;
        for (int i = 0; i < 20; i++) program.malloc(program.random.size_between(65537, 2 * kMiB));
        program.free_half();
        for (int i = 0; i < 10; i++) program.malloc(program.random.size_between(65537, 4 * kMiB));
        program.free_all();
      },
      10);
}

TEST(Fault, HugeBlocksGrowAndShrink) {
  fail_each_call(
      [] {
        Program program;
        for (int i = 0; i < 2; i++) program.malloc(5 * kMiB);
        for (size_t bytes : {6 * kMiB, 10 * kMiB, 16 * kMiB, 7 * kMiB, 3 * kMiB, 100 * kKiB, 300 * kKiB, 9 * kMiB})
          for (size_t i = 0; i < program.blocks.size(); i++) program.realloc(i, bytes + i * kMiB / 4);
        program.free_all();
      },
      15);
}

/* As Linux 6.17 and later, which move mapping by mapping until one is refused; and then one call more is. If all were,
 * half of a block would be here and half there. */
TEST(Fault, HugeBlocksMoveInPart) {
  for (size_t most : {700 * kKiB, 3 * kMiB})
    fail_each_call(
        [most] {
          os_fault_moves_set(most);
          Program program;
          for (int i = 0; i < 2; i++) program.malloc(5 * kMiB);
          for (size_t bytes : {6 * kMiB, 8 * kMiB})
            for (size_t i = 0; i < program.blocks.size(); i++) program.realloc(i, bytes);
          os_fault_moves_set(0);
          for (size_t i = 0; i < program.blocks.size(); i++) program.realloc(i, 11 * kMiB);
          program.free_all();
        },
        20, {false});
}

/* What is refused leaves no gap in what was mapped before: the program's own mappings would come to lie there,
 * or a look at an address end it. */
TEST(Fault, TheWindowStaysWhole) {
  for (bool is_held : {false, true})
    for (uint64_t nth = 1; nth < 40; nth++) {
      hak_test::Outcome outcome = hak_test::in_child([=] {
        char entry[] = "HAKMEM_RESERVE=1G";
        char *environment[] = {entry, nullptr};
        config_read(environment);
        os_fault_set(is_held, false); /* the first call asks where to lie */
        hak_free(hak_malloc(100));
        if (the_map.is_held != is_held) return 1;
        std::vector<unsigned char> resident((the_map.units << UNIT_SHIFT) / os_page_bytes());
        os_fault_set(nth, false);
        for (size_t bytes : {24ul, 60000ul, 300000ul, 5 * kMiB, 24 * kMiB, 90 * kMiB})
          for (int i = 0; i < 3; i++) {
            (void)!hak_malloc(bytes);
            for (size_t unit = 0; unit < the_map.units; unit++)
              (void)!map_lookup(map_address(static_cast<unit_t>(unit)));
            if (is_held && mincore(the_map.base, the_map.units << UNIT_SHIFT, resident.data()) != 0) return 2;
          }
        return 0;
      });
      ASSERT_TRUE(outcome.exited_with(0)) << "call " << nth << (is_held ? ", held: " : ": ") << outcome.describe();
    }
}

TEST(Fault, BlocksGrowThroughAllSizes) {
  fail_each_call(
      [] {
        Program program;
        for (int i = 0; i < 2; i++) program.malloc(1);
        for (size_t bytes = 10; bytes < 12 * kMiB; bytes += bytes / 2 + 7)
          for (size_t i = 0; i < program.blocks.size(); i++) program.realloc(i, bytes);
        for (size_t bytes = 10 * kMiB; bytes > 0; bytes /= 5)
          for (size_t i = 0; i < program.blocks.size(); i++) program.realloc(i, bytes);
        program.free_all();
      },
      12);
}

TEST(Fault, ZeroedBlocks) {
  fail_each_call(
      [] {
        Program program;
        for (int round = 0; round < 3; round++) {
          for (int i = 0; i < 25; i++)
            program.calloc(program.random.size_between(1, i % 20 == 0 ? 6 * kMiB : 500 * kKiB));
          program.free_half();
        }
        program.free_all();
      },
      10);
}

/* Blocks that were full earn huge pages for the next one, which lies where they were. */
TEST(Fault, HugePagesAreAskedFor) {
  fail_each_call(
      [] {
        Program program;
        for (size_t bytes : {8 * kMiB, 16 * kMiB})
          if (void *block = program.malloc(bytes))
            std::memset(block, 1, bytes), hak_test::stamp_as(block, bytes, program.blocks.back().key);
        program.free_all();
        program.calloc(24 * kMiB);
        program.free_all();
      },
      8);
}

/* A heap of the program's own: each of its blocks is NULL or good, and destroying it needs nothing. */
TEST(Fault, HeapsOfTheProgram) {
  fail_each_call(
      [] {
        for (int round = 0; round < 2; round++) {
          Program program;
          hak_heap_t *heap = hak_heap_new(0);
          if (heap == nullptr) {
            if (errno != ENOMEM) fail("no heap, and errno is not ENOMEM", 0);
            continue;
          }
          auto each = [&](size_t bytes, bool zeroed) {
            program.keep(bytes, 16, zeroed,
                         [&] { return zeroed ? hak_heap_calloc(heap, 1, bytes) : hak_heap_malloc(heap, bytes); });
          };
          for (int i = 0; i < 1000; i++) each(program.random.below(1025), i % 7 == 0);
          for (int i = 0; i < 20; i++) each(program.random.size_between(1025, 5 * kMiB), i % 7 == 0);
          program.free_half();
          for (size_t i = 0; i < 10 && i < program.blocks.size(); i++)
            program.realloc(i, program.random.size_between(1, 2 * kMiB));
          std::thread([&] { program.free_half(); }).join();
          hak__check_all();
          if (round == 0) program.free_all();
          hak_heap_destroy(heap);
        }
      },
      12);
}

TEST(Fault, AlignedBlocks) {
  fail_each_call(
      [] {
        Program program;
        for (size_t alignment = 16; alignment <= 256 * kMiB; alignment *= 8)
          for (size_t bytes : {1ul, 3000ul, 5 * kMiB}) program.aligned(alignment, bytes);
        program.free_half();
        program.free_all();
      },
      10);
}

TEST(Fault, MemoryIsGivenBack) {
  fail_each_call(
      [] {
        Program program;
        for (int i = 0; i < 3; i++) program.malloc(4 * kMiB), program.malloc(7 * kMiB), program.malloc(3000);
        program.free_half();
        hak_trim(8 * kMiB);
        program.free_half();
        hak_trim(0);
        for (int i = 0; i < 4; i++) program.calloc(4 * kMiB);
        program.free_all();
        hak_trim(0);
      },
      25);
}

TEST(Fault, BatchesMakeMagazinesGrow) {
  fail_each_call(
      [] {
        Program program;
        for (size_t bytes : {24, 200, 1000, 3000})
          for (int round = 0; round < 4; round++) {
            for (int i = 0; i < 1000; i++) program.malloc(bytes);
            program.free_all();
          }
        hak_thread_flush();
      },
      10);
}

/* One that gets no heap can free all the same. */
TEST(Fault, ThreadsStart) {
  fail_each_call(
      [] {
        Program program;
        for (uint64_t round = 0; round < 10; round++) {
          for (size_t bytes : {100, 5000, 100000})
            for (int i = 0; i < 50; i++) program.malloc(bytes);
          std::vector<std::thread> threads;
          for (uint64_t t = 0; t < 3; t++)
            threads.emplace_back([t, round] {
              Program mine(t + 2 + round * 10);
              for (int i = 0; i < 30; i++) mine.malloc(mine.random.size_between(1, 20000));
              mine.free_all();
            });
          for (std::thread &thread : threads) thread.join();
          std::thread([&] { program.free_all(); }).join();
        }
      },
      10);
}

TEST(Fault, BlocksAreFreedByOtherThreads) {
  fail_each_call(
      [] {
        Program program;
        for (int round = 0; round < 6; round++) {
          std::vector<Program> producers;
          for (uint64_t t = 0; t < 2; t++) producers.emplace_back(t + 2);
          std::vector<std::thread> threads;
          for (Program &producer : producers)
            threads.emplace_back([&producer] {
              for (int i = 0; i < 600; i++)
                producer.malloc(producer.random.size_between(1, i % 100 == 0 ? 200000 : 3000));
            });
          for (std::thread &thread : threads) thread.join();
          program.malloc(10); /* this thread has a heap, if it can */
          for (Program &producer : producers) producer.free_all();
          program.free_half();
          hak_thread_flush();
        }
        program.free_all();
      },
      10);
}

/* At the end of a hard limit, where what is free goes back before a request fails; what the
 * system refuses to take stays, and counts. */
TEST(Fault, AHardLimitIsReached) {
  fail_each_call(
      [] {
        limit_set_hard(12 * kMiB);
        Program program;
        for (size_t bytes : {3000 * kKiB, 100 * kKiB, 20 * kKiB, 5 * kMiB}) {
          for (size_t sum = 0; sum < 13 * kMiB; sum += bytes) program.malloc(bytes);
          for (size_t i = 0; i < program.blocks.size(); i += 3) program.realloc(i, bytes * 2);
          if (limit_charged() > 12 * kMiB) fail("more is charged than the limit allows", limit_charged());
          program.free_half();
        }
        program.free_all();
        limit_set_hard(0);
      },
      10);
}

/* Nobody looks a second time, nor beside another thread: that might be about to open a file. */
TEST(Fault, AContainerIsLookedAtOnce) {
  const auto calls_of_a_look = [] {
    os_fault_set(UINT64_MAX, false);
    container_look();
    return os_fault_set(0, false);
  };
  hak_test::Outcome alone = hak_test::in_child([&] {
    if (calls_of_a_look() < 2) return 1; /* threads are counted, files are opened */
    return calls_of_a_look() == 0 ? 0 : 2;
  });
  EXPECT_TRUE(alone.exited_with(0)) << alone.describe();
  hak_test::Outcome beside = hak_test::in_child([&] {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    std::thread other([&] { (void)!read(ends[0], ends, 1); });
    const bool looked = calls_of_a_look() > 1; /* threads are counted */
    (void)!write(ends[1], "", 1);
    other.join();
    return looked || calls_of_a_look() > 0 ? 2 : 0;
  });
  EXPECT_TRUE(beside.exited_with(0)) << beside.describe();
}

/* The container is looked at, and the heap squeezed again and again as it grows. */
TEST(Fault, NearASoftLimit) {
  fail_each_call(
      [] {
        hak_set_soft_limit(22 * kMiB);
        Program program;
        for (size_t bytes : {100 * kKiB, 3000 * kKiB, 20 * kKiB}) {
          for (size_t sum = 0; sum < 14 * kMiB; sum += bytes) program.malloc(bytes);
          std::thread([&] { program.free_half(); }).join();
        }
        program.free_all();
        hak_set_soft_limit(0);
      },
      30);
}

/* What is refused is counted, and what is done instead leaves memory where it is. */
TEST(Fault, RefusalsAreTold) {
  hak_test::Outcome outcome = hak_test::in_child([] {
    const auto stats = [] {
      hak_stats_t stats;
      hak_stats(&stats, sizeof stats);
      return stats;
    };
    hak_free(hak_malloc(200 * kKiB)); /* its magazine and the heap are there */
    hak_trim(0);
    void *blocks[40];
    for (void *&block : blocks) block = hak_malloc(200 * kKiB);
    for (void *block : blocks) hak_free(block);
    const hak_stats_t before = stats();
    os_fault_set(1, true);
    hak_trim(0);
    const bool fenced = os_fence_thread(os_thread_id()) == OS_FENCED;
    os_fault_set(0, false);
    const hak_stats_t after = stats();
    if (fenced || after.refused_membarriers == before.refused_membarriers) return 1;
    if (after.refused_purges == before.refused_purges || after.dirty_free == 0) return 2;
    hak_trim(0);
    return stats().dirty_free == 0 && stats().refused_purges == after.refused_purges ? 0 : 3;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

/* As where all is locked: what has fallen would go before a fork, or for what is taken. Not each page is tried,
 * nor each time. */
TEST(Fault, WhatHasFallenIsNotTriedAgainAndAgain) {
  hak_test::Outcome outcome = hak_test::in_child([] {
    const auto refused = [] { return atomic64_load_relaxed(&os_calls.refused_purges); };
    arena_attend(true);
    std::vector<void *> blocks(400);
    for (void *&block : blocks) block = hak_malloc(200 * kKiB);
    for (void *block : blocks) hak_free(block);
    if (arena_usage().dirty < 60 * kMiB) return 1;
    os_fault_set(1, true);
    const uint64_t before = refused();
    for (int i = 0; i < 10; i++) {
      arena_purge_fallen();
      arena_pay_owed();
    }
    os_fault_set(0, false);
    const uint64_t times = refused() - before;
    if (times == 0 || times > 300) return std::fprintf(stderr, "%lu times\n", static_cast<unsigned long>(times)), 2;
    usleep(1100000);
    arena_purge_fallen();
    return arena_usage().dirty < 30 * kMiB ? 0 : 3;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

TEST(Fault, LookingIsSafeWhateverFails) {
  fail_each_call(
      [] {
        Program program;
        int local = 0;
        if (hak_owns(&local)) fail("a local variable is ours", 0);
        program.malloc(100);
        program.malloc(10 * kMiB);
        hak_stats_json([](void *, const char *, size_t) { return true; }, nullptr);
        hak_stats_t stats;
        hak_stats(&stats, sizeof stats);
        for (const Program::Block &b : program.blocks)
          if (!hak_owns(b.at)) fail("a live block is not ours", b.bytes);
        program.free_all();
      },
      5);
}
