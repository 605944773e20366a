/*
 * operator new in programs that are linked statically: with libhakmem.a alone, and with a
 * static libstdc++, from which the linker takes only what somebody names.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <string>
#include <unistd.h>
#include <vector>

using hak_test::Outcome;
using hak_test::run;

namespace {

struct Case {
  int number;
  const char *name;
};
const Case kCases[] = {
    {1, "Caught"},        {2, "HandlerGivesUp"}, {3, "Nothrow"},           {4, "HandlerThrowsInNothrow"},
    {5, "AlignedCaught"}, {6, "NotCaught"},      {7, "HandlerIsNotNeeded"}};
std::ostream &operator<<(std::ostream &out, const Case &c) { return out << c.name; }

/* Links as a user does, with those flags: a program that cannot be linked is a failure of
 * the test, not of the build. */
void expect_ok(const Case &c, const std::vector<std::string> &flags) {
  char program[] = "/tmp/hakmem-static-XXXXXX";
  const int fd = mkstemp(program);
  ASSERT_GE(fd, 0);
  close(fd);
  std::vector<std::string> link = {
      CXX_COMPILER, "-std=c++17",   "-O1",      "-fno-builtin", "-DSTATIC_CPP_CASE=" + std::to_string(c.number),
      CPP_PROGRAM,  HAKMEM_ARCHIVE, "-pthread", "-o",           program};
  link.insert(link.end(), flags.begin(), flags.end());
  Outcome linked = run(link);
  EXPECT_TRUE(linked.exited_with(0)) << linked.describe();
  if (linked.exited_with(0)) {
    Outcome outcome = run({program});
    EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
    EXPECT_EQ(outcome.out, "ok\n") << outcome.describe();
  }
  unlink(program);
}

class StaticCpp : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Program, StaticCpp, testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

}  // namespace

TEST_P(StaticCpp, FullyStatic) { expect_ok(GetParam(), {"-static"}); }
TEST_P(StaticCpp, StaticPie) { expect_ok(GetParam(), {"-static-pie", "-fPIE"}); }
TEST_P(StaticCpp, StaticLibstdcppOnly) { expect_ok(GetParam(), {"-static-libstdc++", "-static-libgcc"}); }
TEST_P(StaticCpp, SharedLibstdcpp) { expect_ok(GetParam(), {}); }

/* As README.md says, in one step, by the C compiler: nothing of C++ may be asked for. */
TEST(StaticC, NeedsNoLibstdcpp) {
  const char *const program = PLACE "/static_c_again";
  Outcome outcome = run({C_COMPILER, "-static", C_PROGRAM, "-I" INCLUDES, HAKMEM_ARCHIVE, "-pthread", "-o", program});
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.describe();
  Outcome ran = run({program});
  EXPECT_TRUE(ran.exited_with(0)) << ran.describe();
  Outcome names = run({NM, program});
  ASSERT_TRUE(names.exited_with(0));
  for (const char *cpp : {"_ZSt15get_new_handlerv", "__cxa_throw", "_ZTISt9bad_alloc", "__gxx_personality_v0"})
    EXPECT_EQ(names.out.find(std::string(" T ") + cpp), std::string::npos) << cpp << " has come into a C program";
}
