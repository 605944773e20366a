/*
 * How often the allocator asks the system: ten million operations must not show.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <sstream>
#include <string>

using hak_test::Outcome;

namespace {

struct Calls {
  unsigned long mmap = 0, munmap = 0, madvise = 0, mremap = 0;
};

Calls counted_by_itself(const char *operations) {
  Outcome outcome = hak_test::run({HELPER_system_calls_program, operations});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  Calls calls;
  std::istringstream(outcome.out) >> calls.mmap >> calls.munmap >> calls.madvise >> calls.mremap;
  return calls;
}

}  // namespace

TEST(SystemCalls, OfTenMillionRandomOperations) {
  Calls calls = counted_by_itself("10000000");
  EXPECT_GT(calls.mmap, 0u) << "the heap came from nowhere: the counters are void";
  EXPECT_LE(calls.mmap, 32u);
  EXPECT_LE(calls.munmap, 3u);
  EXPECT_LE(calls.madvise, 32u);
  EXPECT_LE(calls.mremap, 3u);
}

/* The same seen from outside: what the whole process does, less what it does without operations. */
TEST(SystemCalls, AsTheKernelSeesThem) {
  auto traced = [](const char *operations) {
    Outcome outcome = hak_test::run({"strace", "-f", "-e", "trace=mmap,mprotect,munmap,madvise,mremap,brk", "-o",
                                     "/dev/stderr", HELPER_system_calls_program, operations});
    std::map<std::string, int> counts;
    std::istringstream lines(outcome.err);
    /* A line is a call, maybe with the process's number before it. */
    for (std::string line; std::getline(lines, line);) {
      const std::size_t name = line.find_first_not_of("0123456789 "), end = line.find('(');
      if (end != std::string::npos && name < end && std::islower(line[name])) counts[line.substr(name, end - name)]++;
    }
    counts["failed"] = !outcome.exited_with(0);
    counts["missing"] = outcome.exited_with(127);
    return counts;
  };
  std::map<std::string, int> none = traced("0"), many = traced("10000000");
  if (none["missing"] != 0) GTEST_SKIP() << "there is no strace";
  if (none["failed"] != 0 || none["mmap"] == 0) GTEST_SKIP() << "strace may not trace here";
  ASSERT_EQ(many["failed"], 0);
  EXPECT_LE(many["mmap"] + many["mprotect"] - none["mmap"] - none["mprotect"], 32);
  EXPECT_LE(many["munmap"] - none["munmap"], 3);
  EXPECT_LE(many["madvise"] - none["madvise"], 32);
  /* One brk belongs to the loader; the heap of the C library must stay asleep. */
  EXPECT_LE(many["brk"], none["brk"]);
}
