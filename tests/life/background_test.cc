/*
 * The background thread in whole programs: when there is one, what it gives back, and
 * when it ends. What it does is tests/unit/claim_test.cc.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

const std::string kPreload = "LD_PRELOAD=" HELPER_hakmem_shared;

hak_test::Outcome run(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  words.insert(words.begin(), HELPER_background_program);
  environment.push_back(kPreload);
  return hak_test::run(words, environment);
}

void expect_says(const hak_test::Outcome &outcome, const std::string &text) {
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, text) << outcome.describe();
}

/* Far more than it takes on a busy machine; what happens is waited for no longer than that. */
const char *const kPatience = "60";

}  // namespace

TEST(Background, AProcessWithOneThreadStaysSo) { expect_says(run({"single"}), "1 thread\n"); }

TEST(Background, WhatWasFreedForSleepingThreadsGoesBackWithoutACall) {
  expect_says(run({"sleepers", kPatience}), "gone\n");
}

TEST(Background, EndsWhenThereIsNothingToDo) { expect_says(run({"ends", kPatience}), "gone\nended\n"); }

TEST(Background, IsNotStartedWhereItIsTurnedOff) { expect_says(run({"sleepers", "6"}, {"HAKMEM_INT=off"}), "there\n"); }

TEST(Background, AForkedChildHasItsOwnWhenItHasThreads) {
  expect_says(run({"child"}), "1 thread\n1 of the allocator\n");
}
