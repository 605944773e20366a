/*
 * HAKMEM_HARD_LIMIT and HAKMEM_SOFT_LIMIT, as programs see them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

using hak_test::Outcome;

namespace {

const char *const kPreload = "LD_PRELOAD=" HELPER_hakmem_shared;
constexpr std::size_t kMiB = std::size_t{1} << 20;

Outcome run_with(const std::string &setting, std::vector<std::string> argv) {
  return hak_test::run(argv, {kPreload, setting});
}

void expect_ok(const Outcome &outcome) {
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "ok\n") << outcome.describe();
  EXPECT_EQ(outcome.err, "") << outcome.describe();
}

/* In which little goes back as time passes: it is more where the program is slow. */
std::size_t peak_kib(const std::string &setting) {
  Outcome outcome = hak_test::run({HELPER_limited_program, "phases"}, {kPreload, setting, "HAKMEM_PROFILE=speed"});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  return std::strtoull(outcome.out.c_str(), nullptr, 10);
}

}  // namespace

TEST(HardLimit, NoMoreIsResident) {
  for (std::size_t mib : {30, 120})
    expect_ok(run_with("HAKMEM_HARD_LIMIT=" + std::to_string(mib) + "M",
                       {HELPER_limited_program, "resident", std::to_string(mib * kMiB)}));
}
TEST(HardLimit, NorInAChild) {
  expect_ok(run_with("HAKMEM_HARD_LIMIT=60M", {HELPER_limited_program, "child", std::to_string(60 * kMiB)}));
}
TEST(HardLimit, OperatorsThrow) { expect_ok(run_with("HAKMEM_HARD_LIMIT=70M", {HELPER_limited_program, "new"})); }

TEST(HardLimit, ThreadsLiveThroughTheEndOfMemory) {
  for (const char *limit : {"2M", "30M", "200M"}) {
    SCOPED_TRACE(limit);
    expect_ok(run_with(std::string("HAKMEM_HARD_LIMIT=") + limit, {HELPER_limits_program}));
  }
}

/* Whatever the limit, a program either works or is told that there is no memory. */
TEST(HardLimit, NoLimitCrashesAProgram) {
  for (std::size_t kib = 1024; kib < 60000; kib += kib / 3) {
    Outcome outcome = run_with("HAKMEM_HARD_LIMIT=" + std::to_string(kib) + "K", {HELPER_allocating_program});
    EXPECT_TRUE(WIFEXITED(outcome.status)) << kib << " KiB: " << outcome.describe();
    EXPECT_TRUE(outcome.out == "ok\n" || outcome.out == "malloc failed\n") << kib << " KiB: " << outcome.describe();
    /* It needs 20 MB. */
    if (kib >= 30000) {
      EXPECT_EQ(outcome.out, "ok\n") << kib << " KiB: " << outcome.describe();
    }
  }
}

TEST(HardLimit, OneThatIsTooSmallIsRefusedWithAWord) {
  Outcome outcome = run_with("HAKMEM_HARD_LIMIT=100K", {HELPER_allocating_program});
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_EQ(outcome.err, "hakmem: HAKMEM_HARD_LIMIT='100K' is ignored: expected 0, or 1M to 1024T\n");
}

/* Grows to 100 MiB in one size after the other, and keeps a twentieth of each: 130 MiB at the end. */
TEST(SoftLimit, MemoryGoesBackBeforeMoreIsTaken) {
  const std::size_t without = peak_kib("HAKMEM_SOFT_LIMIT=0"), with = peak_kib("HAKMEM_SOFT_LIMIT=150M");
  EXPECT_LT(with, 170u * 1024);
  EXPECT_GT(without, with + 25 * 1024) << "the program has no slack: the test is void";
}
