/*
 * The ways a program comes to hakmem: linked, preloaded, static, or by a library
 * that it loads. Each starts a helper program and reads its last word.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <csignal>

using hak_test::Outcome;
using hak_test::run;

namespace {

const char *const kPreload = "LD_PRELOAD=" HELPER_hakmem_shared;

void expect_ok(const Outcome &outcome) {
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_NE(outcome.out.find("ok\n"), std::string::npos) << outcome.describe();
  EXPECT_EQ(outcome.err, "") << outcome.describe();
}

/* What the dynamic loader is told to load for a program or library. */
std::string needed_by(const char *file) {
  Outcome outcome = run({READELF, "-dW", file});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  return outcome.out;
}

}  // namespace

/* ---- Before main, after main ------------------------------------------------------*/

TEST(EarlyAndLate, Preloaded) { expect_ok(run({HELPER_early_plain}, {kPreload})); }
TEST(EarlyAndLate, LinkedWithTheSharedLibrary) { expect_ok(run({HELPER_early_linked})); }
TEST(EarlyAndLate, LinkedWithTheArchive) { expect_ok(run({HELPER_early_archive})); }
TEST(EarlyAndLate, FullyStatic) { expect_ok(run({HELPER_early_static})); }
TEST(EarlyAndLate, WithTheCLibrary) { expect_ok(run({HELPER_early_plain})); }

/* The process ends while a thread allocates without pause. */
TEST(EarlyAndLate, WithAThreadThatStillAllocates) {
  for (int i = 0; i < 8; i++) {
    expect_ok(run({HELPER_early_plain, "busy"}, {kPreload}));
    expect_ok(run({HELPER_early_linked, "busy"}));
    expect_ok(run({HELPER_early_static, "busy"}));
    if (HasFailure()) break;
  }
}

TEST(EarlyAndLate, MainThreadEndsFirst) {
  for (int i = 0; i < 10; i++) expect_ok(run({HELPER_main_thread_ends_first}, {kPreload}));
}

/* ---- Linking ------------------------------------------------------------------------*/

TEST(Linking, ACProgramNeedsNothingOfCpp) {
  for (const char *program : {HELPER_c_shared, HELPER_c_archive}) {
    std::string needed = needed_by(program);
    EXPECT_EQ(needed.find("libstdc++"), std::string::npos) << program << "\n" << needed;
    EXPECT_EQ(needed.find("libgcc"), std::string::npos) << program << "\n" << needed;
    EXPECT_NE(needed.find("libc.so"), std::string::npos) << needed;
  }
}
TEST(Linking, OnlyTheSharedFormNeedsTheLibrary) {
  EXPECT_NE(needed_by(HELPER_c_shared).find("libhakmem"), std::string::npos);
  EXPECT_EQ(needed_by(HELPER_c_archive).find("libhakmem"), std::string::npos);
  EXPECT_EQ(needed_by(HELPER_c_static).find("NEEDED"), std::string::npos);
}
TEST(Linking, ACProgramIsServedInEveryForm) {
  for (const char *program : {HELPER_c_shared, HELPER_c_archive, HELPER_c_static}) {
    Outcome outcome = run({program});
    EXPECT_TRUE(outcome.exited_with(0)) << program << ": " << outcome.describe();
    EXPECT_NE(outcome.out.find("serves malloc"), std::string::npos) << program << ": " << outcome.describe();
  }
}
/* A program with the library inside, run under the preload as well. */
TEST(Linking, TwoCopiesInOneProcess) {
  for (const char *program : {HELPER_c_shared, HELPER_c_archive}) {
    Outcome outcome = run({program}, {kPreload});
    EXPECT_TRUE(outcome.exited_with(0)) << program << ": " << outcome.describe();
  }
}

/* ---- Loading ------------------------------------------------------------------------*/

TEST(Loading, ByALibraryInAProgramOnTheCLibrarysMalloc) {
  expect_ok(run({HELPER_loading_program, HELPER_plugin_linked, "late"}));
}
TEST(Loading, BlocksOfALibraryWithTheCLibrarysMalloc) {
  expect_ok(run({HELPER_loading_program, HELPER_plugin_plain, "foreign"}, {kPreload}));
}
TEST(Loading, BlocksOfALibraryWithTheSameHakmem) {
  expect_ok(run({HELPER_loading_program, HELPER_plugin_linked, "foreign"}, {kPreload}));
}
TEST(Loading, BlocksOfAProgramOnTheCLibrarysMallocInALibraryWithHakmem) {
  expect_ok(run({HELPER_loading_program, HELPER_plugin_linked, "own", HELPER_plugin_plain}));
}
TEST(Loading, ALibraryThatWaitsForAThreadThatFreesTheCLibrarysBlock) {
  expect_ok(run({HELPER_loading_program, HELPER_waiting_plugin, "waits"}, {kPreload}));
}
TEST(Loading, ALibraryThatWouldBindToTheCLibrarysMalloc) {
  expect_ok(run({HELPER_loading_program, HELPER_plugin_plain, "deepbind"}, {kPreload}));
  expect_ok(run({HELPER_loading_linked, HELPER_plugin_plain, "deepbind"}));
}
