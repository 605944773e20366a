/*
 * Machines that this one is not: pages of 4, 16 and 64 KiB, windows from 1 GiB to 16
 * TiB, limits, locked memory, and a system that refuses; each with each, in a process
 * of its own. The page size is that of the layer src/os, which then also ends the
 * process for every call that does not keep to it.
 *
 * SPDX-License-Identifier: MIT
 */
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include <arena/map.h>
#include <hakmem.h>
#include <observe/check.h>
#include <os/os.h>
#include <support/config.h>
#include <support/limit.h>

#include "support/payload.h"
#include "support/process.h"

#include <gtest/gtest.h>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/* Ends the child with a sentence. */
#define REQUIRE(c)                                                                                              \
  do {                                                                                                          \
    if (!(c)) std::fprintf(stderr, "'%s' does not hold at line %d, errno %d\n", #c, __LINE__, errno), _exit(1); \
  } while (false)

struct Block {
  void *at;
  std::size_t bytes;
};

/* Blocks of every kind, as many as there is memory for and no more than so many bytes. */
std::vector<Block> fill(std::size_t most) {
  static const std::size_t sizes[] = {1, 24, 500, 1024, 1025, 3000, 40000, 65536, 65537, 300000, 3 * kMiB, 5 * kMiB};
  std::vector<Block> blocks;
  std::size_t held = 0;
  for (std::size_t i = 0, refused = 0; held < most && refused < std::size(sizes); i++) {
    const std::size_t bytes = sizes[i % std::size(sizes)];
    void *at = i % 3 == 0   ? hak_aligned_alloc(std::size_t{16} << i % 14, bytes)
               : i % 3 == 1 ? hak_calloc(1, bytes)
                            : hak_malloc(bytes);
    if (at == nullptr) {
      REQUIRE(errno == ENOMEM);
      refused++;
      continue;
    }
    refused = 0;
    if (i % 3 == 1) REQUIRE(static_cast<char *>(at)[0] == 0 && static_cast<char *>(at)[bytes - 1] == 0);
    hak_test::stamp(at, bytes, i);
    blocks.push_back({at, bytes});
    held += bytes;
  }
  return blocks;
}

/* Grows some, frees the rest; whatever the system refuses, contents stay. */
void use(std::size_t most) {
  for (int round = 0; round < 3; round++) {
    std::vector<Block> blocks = fill(most);
    hak__check_all();
    for (std::size_t i = 0; i < blocks.size(); i += 5) {
      unsigned char before = *static_cast<unsigned char *>(blocks[i].at);
      void *moved = hak_realloc(blocks[i].at, blocks[i].bytes * 2);
      if (moved != nullptr) blocks[i].at = moved;
      REQUIRE(*static_cast<unsigned char *>(blocks[i].at) == before);
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) hak_free(blocks[i].at);
    auto free_the_rest = [&] {
      for (std::size_t i = 1; i < blocks.size(); i += 2) hak_free(blocks[i].at);
    };
    try {
      std::thread(free_the_rest).join();
    } catch (const std::system_error &) { /* there is no address space for its stack */
      free_the_rest();
    }
    if (round == 0) hak_thread_idle();
    if (round == 1) hak_trim(0);
    hak__check_all();
  }
}

enum Limit { kNoLimit, kAddressSpace, kData, kHard, kSoft };
enum Trouble { kNone, kLockedPage, kAllLocked, kLaterRefused, kAllRefusedForAWhile };

void limit(Limit which) {
  const std::size_t room = 80 * kMiB;
  if (which == kHard) limit_set_hard(room / 2);
  if (which == kSoft) limit_set_soft(room / 4);
  if (which != kAddressSpace && which != kData) return;
  const int resource = which == kAddressSpace ? RLIMIT_AS : RLIMIT_DATA;
  const std::size_t now = hak_test::status_kib(which == kAddressSpace ? "VmSize:" : "VmData:") * 1024;
  const rlimit to = {now + room, now + room};
  REQUIRE(setrlimit(static_cast<__rlimit_resource>(resource), &to) == 0);
}

using Machine = std::tuple<int, const char *, Limit, Trouble>;
class Matrix : public testing::TestWithParam<Machine> {};

int live_on(const Machine &machine) {
  const auto [page, window, limited, trouble] = machine;
  os_page_bytes_set(static_cast<std::size_t>(page));
  const std::string entry = std::string("HAKMEM_RESERVE=") + window;
  char *environment[] = {const_cast<char *>(entry.c_str()), nullptr};
  config_read(environment);
  limit(limited);
  void *first = hak_malloc(100);
  REQUIRE(first != nullptr);
  REQUIRE(the_map.zone_first[ZONE_SMALL] < the_map.zone_end[ZONE_SMALL]);
  REQUIRE(the_map.zone_end[ZONE_SMALL] <= the_map.zone_first[ZONE_HUGE]);
  REQUIRE(the_map.zone_first[ZONE_HUGE] < the_map.zone_end[ZONE_HUGE] && the_map.zone_end[ZONE_HUGE] <= the_map.units);
  if (trouble == kLockedPage) (void)!mlock(first, 1);
  if (trouble == kAllLocked && mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return 0;
  if (trouble == kLaterRefused) os_fault_set(40, false);
  if (trouble == kAllRefusedForAWhile) os_fault_set(25, true);
  use(40 * kMiB);
  os_fault_set(0, false);
  use(40 * kMiB); /* all is well again */
  void *large = hak_malloc(30 * kMiB);
  REQUIRE(large != nullptr || (limited != kNoLimit && limited != kSoft));
  if (limited == kHard) REQUIRE(limit_charged() <= 40 * kMiB);
  hak_free(large);
  hak_free(first);
  hak__check_all();
  hak_thread_flush();
  hak_stats_t stats;
  hak_stats(&stats, sizeof stats);
  REQUIRE(stats.live == 0 && stats.errors == 0);
  return 0;
}

std::string name_of(const testing::TestParamInfo<Machine> &info) {
  static const char *const limits[] = {"NoLimit", "AddressSpace", "Data", "HardLimit", "SoftLimit"};
  static const char *const troubles[] = {"NoTrouble", "LockedPage", "AllLocked", "LaterRefused", "AllRefusedForAWhile"};
  const auto &[page, window, limited, trouble] = info.param;
  return "Pages" + std::to_string(page / 1024) + "KWindow" + window + limits[limited] + troubles[trouble];
}
INSTANTIATE_TEST_SUITE_P(
    Of, Matrix,
    testing::Combine(testing::Values(4096, 16384, 65536), testing::Values("1G", "4G", "64G", "16T"),
                     testing::Values(kNoLimit, kAddressSpace, kData, kHard, kSoft),
                     testing::Values(kNone, kLockedPage, kAllLocked, kLaterRefused, kAllRefusedForAWhile)),
    name_of);

}  // namespace

TEST_P(Matrix, ProgramsLiveThere) {
  hak_test::Outcome outcome = hak_test::in_child([] { return live_on(GetParam()); });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}
