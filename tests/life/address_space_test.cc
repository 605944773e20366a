/*
 * Address space: limits that come or go after start, memory that is all locked, and
 * mappings that lie in the heap's way. Where the C library's malloc lets a program live, so
 * does hakmem.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

using hak_test::Outcome;

namespace {

Outcome run_case(const std::vector<std::string> &words, const std::string &before, bool with_hakmem) {
  std::vector<std::string> argv = {"sh",
                                   "-c",
                                   before + "exec env \"$@\"",
                                   "sh",
                                   with_hakmem ? "LD_PRELOAD=" HELPER_hakmem_shared : "NOTHING=1",
                                   HELPER_address_space_program};
  argv.insert(argv.end(), words.begin(), words.end());
  return hak_test::run(argv);
}

/* A case that fails without hakmem is none: the machine does not allow it. */
void expect_ok(const std::vector<std::string> &words, const std::string &before = "") {
  Outcome without = run_case(words, before, false);
  if (!without.exited_with(0)) GTEST_SKIP() << "not possible here without hakmem, either: " << without.describe();
  Outcome with = run_case(words, before, true);
  EXPECT_TRUE(with.exited_with(0)) << with.describe();
  EXPECT_EQ(with.out, "ok\n") << with.describe();
}

}  // namespace

TEST(AddressSpace, ASoftLimitIsTakenAwayAndTheProgramMapsMuchItself) {
  for (const char *kib : {"400000", "1000000"}) {
    SCOPED_TRACE(kib);
    expect_ok({"raised"}, std::string("ulimit -Sv ") + kib + " && ");
  }
}

TEST(AddressSpace, AProgramLimitsItselfAfterStart) { expect_ok({"limited"}); }
TEST(AddressSpace, AProgramLimitsItselfWhenItHasAHeap) { expect_ok({"limited-later"}); }
TEST(AddressSpace, AProgramLimitsItselfAndLiftsTheLimit) { expect_ok({"limited-and-lifted"}); }

TEST(AddressSpace, AllIsLocked) { expect_ok({"lock-current"}); }
TEST(AddressSpace, AllIsLockedNowAndLater) { expect_ok({"lock-future"}); }
TEST(AddressSpace, AllIsLockedUnderASmallLimit) { expect_ok({"lock-small-limit"}); }

TEST(AddressSpace, SomethingLiesInTheHeapsWay) {
  for (const char *mib : {"4", "20", "100", "500", "1500"}) {
    SCOPED_TRACE(mib);
    expect_ok({"obstacles", mib});
  }
}
TEST(AddressSpace, MuchLiesInTheHeapsWay) { expect_ok({"many-obstacles"}); }
/* Where little is reserved, the program's mappings get in between. */
TEST(AddressSpace, SomethingLiesInTheWayOfAHeapUnderALimit) {
  for (const char *mib : {"4", "20", "100", "500", "1500"}) {
    SCOPED_TRACE(mib);
    expect_ok({"obstacles", mib}, "ulimit -Sv 8000000 && ");
  }
}
