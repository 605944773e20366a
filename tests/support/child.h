/*
 * What the bodies of children (in_child, process.h) have in common: each returns 0, or says what does not hold.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_SUPPORT_CHILD_H
#define HAK_TESTS_SUPPORT_CHILD_H

#include "support/process.h"

#include <cerrno>
#include <cstdio>

#include <gtest/gtest.h>

/* Ends a function that returns 0, or 1 where something does not hold; with a sentence. */
#define REQUIRE(c)                                                                                              \
  do {                                                                                                          \
    if (!(c)) return std::fprintf(stderr, "'%s' does not hold at line %d, errno %d\n", #c, __LINE__, errno), 1; \
  } while (false)

namespace hak_test {

inline void expect_zero(const Outcome &outcome) { EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe(); }

}  // namespace hak_test

#endif
