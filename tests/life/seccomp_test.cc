/*
 * Sandboxes that kill for a system call which they do not expect. They are often installed
 * long after start, when a call that was allowed once is not any more. Those of services are there before the program.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

using hak_test::Outcome;

namespace {

std::vector<std::string> environment(bool with_hakmem) {
  return {with_hakmem ? "LD_PRELOAD=" HELPER_hakmem_shared : "NOTHING=1"};
}

/* "confined-positive": under a filter that was there before the program, which may not gain privileges, and then a
 * positive one. */
Outcome run_case(std::string filter, const char *action, const char *name, bool with_hakmem) {
  std::vector<std::string> words;
  const std::size_t dash = filter.find('-');
  if (dash != std::string::npos) words = {HELPER_filtered_program, filter.substr(0, dash)}, filter.erase(0, dash + 1);
  for (std::string word : {HELPER_seccomp_program, filter.c_str(), action, HELPER_plugin_plain, name})
    words.push_back(word);
  return hak_test::run(words, environment(with_hakmem));
}

/* Which call it was, by a filter that tells. */
std::string culprit(const char *filter, const char *name) { return run_case(filter, "trap", name, true).err; }

class Sandbox : public testing::TestWithParam<std::tuple<const char *, const char *>> {
 protected:
  const char *filter = std::get<0>(GetParam()), *name = std::get<1>(GetParam());
};
std::string name_of(const testing::TestParamInfo<std::tuple<const char *, const char *>> &info) {
  std::string text = std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
  for (char &c : text)
    if (c == '-') c = '_';
  return text;
}

/* What a program may do with a heap. */
const auto kEverything = testing::Values("every-size", "zeroed", "resized", "threads", "sleepers", "given-back",
                                         "forked", "looked-at", "foreign");

class Works : public Sandbox {};
INSTANTIATE_TEST_SUITE_P(In, Works, testing::Combine(testing::Values("unusual", "positive"), kEverything), name_of);

/* A container's filter, under which files may be opened and threads started, and the program's own, under which they
 * may not: the first heap of more than 16 MiB and the first thread come before it, or after it. */
INSTANTIATE_TEST_SUITE_P(Files, Works,
                         testing::Combine(testing::Values("closed", "free-closed", "confined-closed"),
                                          testing::Values("cold-every-size", "cold-threads", "sleepers", "given-back",
                                                          "forked")),
                         name_of);

class Reports : public Sandbox {};
INSTANTIATE_TEST_SUITE_P(In, Reports,
                         testing::Combine(testing::Values("unusual", "positive"),
                                          testing::Values("freed-inside", "freed-on-the-stack", "freed-twice",
                                                          "freed-nowhere", "awake-freed-on-the-stack",
                                                          "awake-freed-nowhere")),
                         name_of);

/* Under a filter that was there before, as a service's, which allows no more than is listed, without that call, and
 * answers all others so. */
Outcome run_listed(const char *may, const char *action, const char *without, const char *name, bool with_hakmem) {
  return hak_test::run(
      {HELPER_listed_program, may, action, without, HELPER_seccomp_program, "none", "kill", HELPER_plugin_plain, name},
      environment(with_hakmem));
}

/* Whether its program may gain privileges, and what it does. */
class Listed : public Sandbox {};
INSTANTIATE_TEST_SUITE_P(In, Listed, testing::Combine(testing::Values("free", "confined"), kEverything), name_of);

/* Whether its program may gain privileges, and a call that it needs. */
class LeftOut : public Sandbox {};
INSTANTIATE_TEST_SUITE_P(In, LeftOut,
                         testing::Combine(testing::Values("free", "confined"),
                                          testing::Values("close", "fstat", "futex", "getpid", "gettid", "madvise",
                                                          "mmap", "munmap", "newfstatat", "openat", "prctl", "pread64",
                                                          "prlimit64", "read", "rt_sigprocmask", "sysinfo")),
                         name_of);

/* Those of them that the C library's malloc does not make in one thread. */
class NotOfTheCLibrary : public Sandbox {};
INSTANTIATE_TEST_SUITE_P(In, NotOfTheCLibrary,
                         testing::Combine(testing::Values("free", "confined"),
                                          testing::Values("madvise", "prctl", "sysinfo")),
                         name_of);

}  // namespace

/* What docs/configuration.md and hak list is enough. */
TEST_P(Listed, IsEnough) {
  Outcome without = run_listed(filter, "kill", "", name, false);
  if (without.exited_with(77)) GTEST_SKIP() << "no filter can be installed here";
  ASSERT_TRUE(without.exited_with(0)) << "the filter is too strict: " << without.describe();
  Outcome with = run_listed(filter, "kill", "", name, true);
  EXPECT_TRUE(with.exited_with(0)) << with.describe();
  EXPECT_EQ(with.out, "ok\n");
}

/* And no less is. */
TEST_P(LeftOut, EndsTheProgram) {
  Outcome with = run_listed(filter, "kill", name, "sleepers", true);
  if (with.exited_with(77)) GTEST_SKIP() << "no filter can be installed here";
  EXPECT_TRUE(with.killed_by(SIGSYS)) << with.describe();
}

/* So a service that was well without hakmem is ended; with an error for an answer it goes on. */
TEST_P(NotOfTheCLibrary, EndsTheProgramUnlessAnsweredWithAnError) {
  Outcome without = run_listed(filter, "kill", name, "every-size", false);
  if (without.exited_with(77)) GTEST_SKIP() << "no filter can be installed here";
  EXPECT_TRUE(without.exited_with(0)) << without.describe();
  Outcome with = run_listed(filter, "kill", name, "every-size", true);
  EXPECT_TRUE(with.killed_by(SIGSYS)) << with.describe();
  for (const char *what : {"every-size", "resized", "sleepers"}) {
    Outcome answered = run_listed(filter, "error", name, what, true);
    EXPECT_TRUE(answered.exited_with(0)) << what << ": " << answered.describe();
    EXPECT_EQ(answered.out, "ok\n") << what;
  }
}

/* What the C library's malloc does without a kill, hakmem does; and without files. */
TEST_P(Works, AsWithTheCLibrarysMalloc) {
  Outcome without = run_case(filter, "kill", name, false);
  if (without.exited_with(77)) GTEST_SKIP() << "no filter can be installed here";
  /* Who counts processors to choose an arena, as the GNU C library, opens a file. */
  if (std::string(filter).find("closed") == std::string::npos) {
    ASSERT_TRUE(without.exited_with(0)) << "the filter is too strict: " << without.describe();
  }
  Outcome with = run_case(filter, "kill", name, true);
  EXPECT_TRUE(with.exited_with(0)) << with.describe() << culprit(filter, name);
  EXPECT_EQ(with.out, "ok\n");
}

/* A mistake ends the program with a report, not for a call that was made to look at it. What
 * may be the C library's block, as far as can be told, the C library may report. */
TEST_P(Reports, AMistake) {
  Outcome with = run_case(filter, "kill", name, true);
  if (with.exited_with(77)) GTEST_SKIP() << "no filter can be installed here";
  EXPECT_TRUE(with.killed_by(SIGABRT)) << with.describe() << culprit(filter, name);
  EXPECT_EQ(hak_test::lines_with(with.err, "hakmem: ") + hak_test::lines_with(with.err, "invalid pointer"), 1u)
      << with.describe();
}
