/*
 * The background thread in whole programs: when there is one, what it gives back, when it
 * sleeps and when it ends. What it does there is tests/unit/claim_test.cc and strip_test.cc.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

const std::string kPreload = "LD_PRELOAD=" HELPER_hakmem_shared;

void expect_says(const std::string &text, const std::string &way, std::vector<std::string> environment = {}) {
  environment.push_back(kPreload);
  hak_test::Outcome outcome = hak_test::run({HELPER_background_program, way}, environment);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, text) << outcome.describe();
}

}  // namespace

TEST(Background, AProcessWithOneThreadStaysSo) { expect_says("1 thread\n", "single"); }

TEST(Background, WhatWasFreedForSleepingThreadsGoesBackWithoutACall) { expect_says("gone\n", "sleepers"); }

TEST(Background, IsNotStartedWhereItIsTurnedOff) {
  for (const char *setting : {"HAKMEM_INT=off", "HAKMEM_INT=inline"}) expect_says("there\n", "brief", {setting});
}

TEST(Background, EndsWhenTheProgramIsDownToOneThreadAndBeginsAnew) { expect_says("ended\nbegun\n", "ends"); }

TEST(Background, IsStartedByAThreadOfC11) { expect_says("begun\n", "c11"); }

TEST(Background, SleepsWhenThereIsNothingToDo) { expect_says("asleep\n", "sleeps"); }

TEST(Background, TakesNoSignals) { expect_says("blocked\n", "signals"); }

TEST(Background, AForkedChildHasItsOwnWhenItHasThreads) { expect_says("1 thread\n1 of the allocator\n", "child"); }

TEST(Background, AForkedChildHasNothingOfAFall) { expect_says("gone\n", "fallen"); }

TEST(Background, AProcessWhoseFirstThreadHasEndedEndsWithItsLast) { expect_says("exit with signals\n", "leader"); }

/* As in many containers. It kills for what no other allocator calls, nor its threads. */
TEST(Background, IsThereUnderAFilterThatWasThereBefore) {
  for (const char *may : {"confined", "free"})
    for (const char *way : {"ended", "leader", "child"}) {
      hak_test::Outcome outcome = hak_test::run({HELPER_filtered_program, may, HELPER_background_program, way},
                                                {kPreload});
      if (outcome.exited_with(77)) GTEST_SKIP() << "no filter can be installed here";
      EXPECT_TRUE(outcome.exited_with(0)) << way << ": " << outcome.describe();
      EXPECT_EQ(outcome.out, way == std::string("ended")    ? "begun\ngone\nended\n"
                             : way == std::string("leader") ? "exit with signals\n"
                                                            : "1 thread\n1 of the allocator\n")
          << outcome.describe();
    }
}

/* Such a filter knows no membarrier: threads are looked at. Not where nobody could see a further filter. */
TEST(Background, WhatSleepingThreadsHoldComesBackUnderAFilterThatWasThereBefore) {
  hak_test::Outcome outcome = hak_test::run({HELPER_filtered_program, "free", HELPER_background_program, "sleepers"},
                                            {kPreload});
  if (outcome.exited_with(77)) GTEST_SKIP() << "no filter can be installed here";
  EXPECT_EQ(outcome.out, "gone\n") << outcome.describe();
}

TEST(Background, IdsOfTheProcessCanBeSet) { expect_says("set\n", "ids"); }
