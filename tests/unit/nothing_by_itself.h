/*
 * For tests of what a call gives back. A free gives back what is too much, unless somebody listens to
 * the bell, and what was not used for a second, which on a slow machine passes meanwhile.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_UNIT_NOTHING_BY_ITSELF_H
#define HAK_TESTS_UNIT_NOTHING_BY_ITSELF_H

#include "layers.h"
#include "support/process.h"

#include <front/bell.h>

#include <functional>

#include <gtest/gtest.h>

namespace hak_test {

/* Runs `body` in a child in which frees do neither; not by the environment, which this process has read
 * if it ran another test before. What it expects, the test expects. */
inline void with_nothing_by_itself(const std::function<void()> &body) {
  Outcome outcome = in_child([&] {
    const OverTime over_time(OVER_TIME_OFF);
    bell_listen();
    body();
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

}  // namespace hak_test
#endif
