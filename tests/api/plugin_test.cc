/*
 * The end of memory in a C program that has opened a C++ plug-in: the library was loaded before there was a C++
 * run-time library. Every form of new is tried in plugin_operators.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

using hak_test::lines_with;
using hak_test::Outcome;

namespace {

Outcome host(std::vector<std::string> words, const std::string &setting = "HAKMEM_STATS=0") {
  words.insert(words.begin(), HELPER_plugin_host);
  return hak_test::run(words, {setting, "LD_PRELOAD=" HELPER_hakmem_shared});
}

}  // namespace

/* std::string's memory is asked for by the C++ library, which the program has not opened by its name. */
TEST(Plugin, CatchesWhenThereIsNoMemoryAtAll) {
  Outcome outcome = host({"main", HELPER_handler_plugin}, "HAKMEM_HARD_LIMIT=64M");
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "called\n");
}
TEST(Plugin, HasItsHandlerCalledWhoeverAsks) {
  for (const char *form : {"_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t"}) {
    Outcome outcome = host({form, HELPER_handler_plugin});
    EXPECT_TRUE(outcome.exited_with(0)) << form << ": " << outcome.describe();
    EXPECT_EQ(outcome.out, "called\n") << form;
  }
}
TEST(Plugin, GivesNoMemoryOfItsOwn) {
  Outcome outcome = host({"_ZnwmRKSt9nothrow_t", HELPER_own_operators_plugin});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "called\n");
}
TEST(Plugin, WithoutOneNothingCanBeThrown) {
  Outcome outcome = host({"_Znwm"});
  EXPECT_TRUE(outcome.killed_by(SIGABRT)) << outcome.describe();
  EXPECT_EQ(lines_with(outcome.err, ""), 1u) << outcome.err;
  EXPECT_EQ(lines_with(outcome.err, "hakmem: operator new"), 1u) << outcome.err;
}
TEST(Plugin, WithoutOneNothrowMeansNull) {
  Outcome outcome = host({"_ZnwmRKSt9nothrow_t"});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.err, "");
}
