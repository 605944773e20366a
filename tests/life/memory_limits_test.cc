/*
 * The end of memory: NULL and ENOMEM, nothing broken, and life goes on.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/payload.h"
#include "support/process.h"

#include <gtest/gtest.h>
#include <hakmem.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

using hak_test::opaque;
using hak_test::Outcome;
using hak_test::run;

namespace {

const char *const kPreload = "LD_PRELOAD=" HELPER_hakmem_shared;

/* Runs a command under `ulimit`, with hakmem preloaded into it and not into the shell. */
Outcome run_limited(const std::string &limit, const std::vector<std::string> &command, const char *preload = kPreload) {
  std::vector<std::string> argv = {"sh", "-c", "ulimit " + limit + " && exec env \"$@\"", "sh", preload};
  argv.insert(argv.end(), command.begin(), command.end());
  return run(argv);
}

void expect_ok(const Outcome &outcome) {
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "ok\n") << outcome.describe();
  EXPECT_EQ(outcome.err, "") << outcome.describe();
}

bool limit_data_to_now_plus(std::size_t bytes) {
  rlimit limit = {(hak_test::status_kib("VmData:") << 10) + bytes, RLIM_INFINITY};
  limit.rlim_max = limit.rlim_cur;
  return setrlimit(RLIMIT_DATA, &limit) == 0;
}

}  // namespace

/* ---- Under a limit from the start ------------------------------------------------------*/

TEST(AddressSpaceLimit, ThreadsLiveThroughTheEndOfMemory) {
  for (const char *limit : {"-v 150000", "-v 300000"}) {
    SCOPED_TRACE(limit);
    expect_ok(run_limited(limit, {HELPER_limits_program}));
  }
}

TEST(DataLimit, ThreadsLiveThroughTheEndOfMemory) {
  for (const char *limit : {"-d 100000", "-d 200000"}) {
    SCOPED_TRACE(limit);
    expect_ok(run_limited(limit, {HELPER_limits_program}));
  }
}

/* Whatever the limit, a program either works or is told that there is no memory. */
TEST(AddressSpaceLimit, NoLimitCrashesAProgram) {
  for (int kib = 6000; kib < 2000000; kib += kib / 2) {
    Outcome outcome = run_limited("-v " + std::to_string(kib), {HELPER_allocating_program});
    /* Below some limit the C library itself does not start: 127 or an abort of the loader, without us too. */
    Outcome without = run_limited("-v " + std::to_string(kib), {HELPER_allocating_program}, "NOTHING=1");
    if (!WIFEXITED(without.status) || WEXITSTATUS(without.status) > 1) continue;
    EXPECT_TRUE(outcome.out == "ok\n" || outcome.out == "malloc failed\n" || outcome.exited_with(127))
        << "ulimit -v " << kib << ": " << outcome.describe();
    EXPECT_TRUE(WIFEXITED(outcome.status)) << "ulimit -v " << kib << ": " << outcome.describe();
    /* It needs 20 MB. What the allocator adds must not be a multiple of that. */
    if (kib >= 100000) {
      EXPECT_EQ(outcome.out, "ok\n") << "ulimit -v " << kib << ": " << outcome.describe();
    }
  }
}

#ifdef PYTHON
TEST(AddressSpaceLimit, PythonStarts) {
  Outcome outcome = run_limited("-v 300000", {PYTHON, "-c", "import json, decimal; print('ok')"});
  expect_ok(outcome);
}

const char *const kPythonUntilTheEnd =
    "import sys\n"
    "ends = 0\n"
    "for size in (100, 3000, 100000, 30000000):\n"
    "    for again in range(2):\n"
    "        held = []\n"
    "        try:\n"
    "            while True: held.append(bytearray(size))\n"
    "        except MemoryError:\n"
    "            count = len(held)\n"
    "            del held[:]\n"
    "            ends += count > 0\n"
    "text = ''.join(map(str, range(1000)))\n"
    "print('ok' if ends == 8 and len(text) == 2890 else ends)\n";

TEST(AddressSpaceLimit, PythonRecoversFromMemoryErrors) {
  expect_ok(run_limited("-v 300000", {PYTHON, "-c", kPythonUntilTheEnd}));
}
TEST(DataLimit, PythonRecoversFromMemoryErrors) {
  expect_ok(run_limited("-d 200000", {PYTHON, "-c", kPythonUntilTheEnd}));
}
#endif

/* ---- A limit that comes later --------------------------------------------------------------*/

class LaterLimit : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Blocks, LaterLimit, testing::Values(16, 100, 1024, 8192, 65536, 300000, 3 << 20, 20 << 20),
                         [](const auto &info) { return "Of" + std::to_string(info.param); });

/* For one size: to the end, NULL and ENOMEM; free one, have one again; free all, have all again. */
TEST_P(LaterLimit, EveryRangeEndsAndComesBack) {
  const std::size_t bytes = GetParam();
  Outcome outcome = hak_test::in_child([=] {
    std::vector<void *> held;
    held.reserve((std::size_t{300} << 20) / bytes);
    if (!limit_data_to_now_plus(100 << 20)) return 3;
    std::size_t first_count = 0;
    for (int round = 0; round < 3; round++) {
      for (;;) {
        errno = 0;
        void *block = opaque(malloc(bytes));
        if (block == nullptr) break;
        if (held.size() == held.capacity()) return 4;
        hak_test::stamp(block, bytes, 1);
        held.push_back(block);
      }
      if (errno != ENOMEM) return 5;
      if (opaque(calloc(1, bytes)) != nullptr || errno != ENOMEM) return 6;
      if (round == 0) first_count = held.size();
      /* As much again as the first time: nothing was lost. */
      if (held.size() < first_count - first_count / 8) return 7;
      for (void *block : held)
        if (!hak_test::stamped(block, bytes, 1)) return 8;
      for (int i = 0; i < 100; i++) {
        free(held.back());
        held.back() = opaque(malloc(bytes));
        if (held.back() == nullptr) return 9;
        hak_test::stamp(held.back(), bytes, 1);
      }
      for (void *block : held) free(block);
      held.clear();
    }
    /* Other sizes can have the memory, too. */
    for (std::size_t other : {std::size_t{50}, std::size_t{5000}, std::size_t{200000}, std::size_t{10} << 20}) {
      std::size_t sum = 0;
      for (; sum < std::size_t{50} << 20; sum += other) {
        held.push_back(opaque(malloc(other)));
        if (held.back() == nullptr) {
          std::fprintf(stderr, "after %zu bytes in blocks of %zu\n", sum, other);
          return 10;
        }
        if (held.size() == held.capacity()) break;
      }
      for (void *block : held) free(block);
      held.clear();
    }
    return 0;
  });
  EXPECT_TRUE(outcome.exited_with(0))
      << "4: memory never ended, 5/6: no ENOMEM, 7: less memory than the time before, 8: overwritten, 9: a block was "
         "freed and the same size cannot be had, 10: freed memory is lost to other sizes\n"
      << outcome.describe();
}

/* A request that is refused goes round all threads, and the next ones do not. That lasts no longer than there is
 * nothing to be had. */
TEST(LaterLimits, WhatThreadsHaveFreedIsThereAtOnce) {
  for (int threads : {1, 2, 8}) {
    SCOPED_TRACE(threads);
    Outcome outcome = hak_test::in_child([threads] {
      if (!limit_data_to_now_plus((200 << 20) + static_cast<std::size_t>(threads) * (9 << 20))) return 3;
      std::vector<std::thread> all;
      for (int t = 0; t < threads; t++)
        all.emplace_back([] {
          struct node_t {
            node_t *next;
          } *blocks = nullptr;
          for (std::size_t bytes : {1000, 5000, 100, 40})
            for (void *block; (block = opaque(malloc(bytes))) != nullptr;) blocks = new (block) node_t{blocks};
          while (blocks != nullptr) free(std::exchange(blocks, blocks->next));
        });
      for (std::thread &thread : all) thread.join();
      return opaque(malloc(100 << 20)) != nullptr ? 0 : 4;
    });
    EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  }
}

/* Each fills the memory and leaves it to the next, again and again: what lies in caches of one size then serves all. */
TEST(LaterLimits, WhatOneSizeHasLeftServesEveryOther) {
  static const std::size_t sizes[] = {100, 5000, 60000, 100000, 1 << 20, 3 << 20, 8 << 20, 30 << 20};
  constexpr std::size_t kSizes = sizeof sizes / sizeof *sizes;
  Outcome outcome = hak_test::in_child([&] {
    if (!limit_data_to_now_plus(150 << 20)) return 3;
    struct node_t {
      node_t *next;
    };
    std::size_t first[kSizes] = {};
    for (int pass = 0; pass < 3; pass++)
      for (std::size_t i = 0; i < kSizes; i++) {
        std::size_t had = 0;
        node_t *all = nullptr;
        for (void *block; (block = opaque(malloc(sizes[i]))) != nullptr; had += sizes[i]) all = new (block) node_t{all};
        while (all != nullptr) free(std::exchange(all, all->next));
        if (pass == 0) first[i] = had;
        if (had >= first[i] / 4 * 3) continue;
        std::fprintf(stderr, "pass %d: %zu bytes in blocks of %zu, at first %zu\n", pass, had, sizes[i], first[i]);
        return 4;
      }
    return 0;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}
