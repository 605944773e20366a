/*
 * Resident memory where the system hands out transparent huge pages unasked (always), on
 * request (madvise), or not at all (never): what a program does not use does not become
 * resident because a huge page was at hand.
 *
 * Switches the machine's setting and switches it back; nothing else may run meanwhile.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

const char *const kSetting = "/sys/kernel/mm/transparent_hugepage/enabled";
const std::string kPreload = HELPER_hakmem_shared;

/* The word in brackets. */
std::string setting() {
  std::ifstream file(kSetting);
  std::string line;
  std::getline(file, line);
  const std::size_t from = line.find('['), to = line.find(']');
  return from == std::string::npos || to == std::string::npos ? "" : line.substr(from + 1, to - from - 1);
}

bool set(const std::string &mode) {
  std::ofstream(kSetting) << mode << std::flush;
  return setting() == mode;
}

class HugePages : public testing::TestWithParam<const char *> {
 protected:
  void SetUp() override {
    before_ = setting();
    if (before_.empty() || !set(GetParam())) GTEST_SKIP() << kSetting << " cannot be set to " << GetParam();
  }
  void TearDown() override {
    if (!before_.empty()) set(before_);
  }
  /* KiB, the least of three runs; -1 with a failure. */
  static long resident(const std::vector<std::string> &words, const std::string &variable) {
    std::vector<std::string> command = {HELPER_huge_pages_program};
    command.insert(command.end(), words.begin(), words.end());
    long least = -1;
    for (int i = 0; i < 3; i++) {
      hak_test::Outcome outcome = hak_test::run(command, {variable});
      EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
      const long kib = std::atol(outcome.out.c_str());
      if (least < 0 || kib < least) least = kib;
    }
    EXPECT_GT(least, 100);
    return least;
  }

 private:
  std::string before_;
};
INSTANTIATE_TEST_SUITE_P(Set, HugePages, testing::Values("always", "madvise", "never"),
                         [](const auto &info) { return "To" + std::string(info.param); });

}  // namespace

TEST_P(HugePages, ManyThreadsWithAFewBlocksEach) {
  EXPECT_LE(resident({"threads"}, "LD_PRELOAD=" + kPreload), 200 << 10) << "KiB for 500 threads";
}

TEST_P(HugePages, LargeBlocksOfWhichAPageIsUsed) {
  EXPECT_LE(resident({"sparse"}, "LD_PRELOAD=" + kPreload), 60 << 10) << "KiB for 3000 blocks, 12 MiB in use";
}

/* A block of 65 KiB has two units of 64 KiB, and the second is hardly used. */
TEST_P(HugePages, LargeBlocksOfWhichHalfIsUsed) {
  EXPECT_LE(resident({"tails"}, "LD_PRELOAD=" + kPreload), 150 << 10) << "KiB for 127 MiB in use";
}

/* Half a MiB is room for noise; one huge page too many is 2 MiB. */
TEST_P(HugePages, ASmallProgramNeedsNoMoreThanWithout) {
  const std::string preload = "LD_PRELOAD=" + kPreload, for_it = "LD_PRELOAD_FOR_IT=" + kPreload;
  const long here = resident({"small"}, preload), ls = resident({"run", "ls", "/"}, for_it);
  ASSERT_TRUE(set("never"));
  EXPECT_LE(here, resident({"small"}, preload) + 512) << "KiB";
  EXPECT_LE(ls, resident({"run", "ls", "/"}, for_it) + 512) << "KiB for ls";
}
