/*
 * The sums of hak_stats where several threads have been at work. They hold while none is: without hakmem's own
 * thread, which starts with the program's second one and would take and give memory meanwhile.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/stats.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <thread>
#include <vector>

using hak_test::stats;

/* Freed by another thread, cached by it, sent home by it: each step moves bytes
 * between the columns and loses none. */
TEST(HakStats, AddUpAcrossThreads) {
  std::vector<void *> blocks;
  for (int i = 0; i < 3000; i++) blocks.push_back(malloc(static_cast<std::size_t>(i) * 7));
  EXPECT_STATS_ADD_UP(stats());
  std::atomic<bool> is_started{false}; /* starting a thread allocates, also behind the moment at which it runs */
  std::thread other([&] {
    while (!is_started) std::this_thread::yield();
    for (std::size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
    EXPECT_STATS_ADD_UP(stats());
    hak_thread_flush();
    EXPECT_STATS_ADD_UP(stats());
    for (std::size_t i = 0; i < blocks.size(); i += 2) blocks[i] = malloc(i * 7);
    EXPECT_STATS_ADD_UP(stats());
  });
  is_started = true;
  other.join();
  EXPECT_STATS_ADD_UP(stats());
  for (void *block : blocks) free(block);
  hak_thread_flush();
  EXPECT_STATS_ADD_UP(stats());
  EXPECT_GT(stats().remote_frees, 0u);
}
