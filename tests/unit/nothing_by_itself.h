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

/* Runs `body` in a child in which frees do neither: settings are read once, and last. What it expects,
 * the test expects. */
inline void with_nothing_by_itself(const std::function<void()> &body) {
  Outcome outcome = in_child([&] {
    const char *environment[] = {"HAKMEM_INT=off", nullptr};
    config_read(const_cast<char *const *>(environment));
    bell_listen();
    body();
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}

}  // namespace hak_test
#endif
