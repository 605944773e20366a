/*
 * Tests of a program that needs settings in its environment, such as HAKMEM_ABORT_ON_ERROR=0.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_SUPPORT_SETTINGS_H
#define HAK_TESTS_SUPPORT_SETTINGS_H

#include "support/process.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace hak_test {

/* testing::InitGoogleTest, and start_again_with, to which the choice of tests is handed on. */
inline void init_with(int argc, char **argv, const std::vector<std::string> &settings) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return;
  setenv("GTEST_FILTER", testing::GTEST_FLAG(filter).c_str(), 1);
  start_again_with(argv, settings);
}

}  // namespace hak_test
#endif
