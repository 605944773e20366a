/*
 * That the allocator's mappings have names, whatever the kernel of this machine can.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

static void expect_ok(const char *program) {
  hak_test::Outcome outcome = hak_test::run({program}, {"HAKMEM_INT=inline"});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "ok\n");
}

TEST(Names, EveryMappingHasOne) { expect_ok(HELPER_names_granted); }
TEST(Names, AreAskedForOnceWhereThereAreNone) { expect_ok(HELPER_names_refused); }
TEST(Names, AreNotAskedForUnderAFilter) { expect_ok(HELPER_names_filtered); }
