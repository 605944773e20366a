/*
 * The variables HAKMEM_*: a program that runs under LD_PRELOAD with each.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/json.h"
#include "support/process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <vector>

using hak_test::lines_with;
using hak_test::Outcome;

namespace {

Outcome run_with(std::vector<std::string> environment, const char *program = HELPER_allocating_program) {
  environment.insert(environment.begin(), {"HAKMEM_STATS", "HAKMEM_STATS_FILE", "HAKMEM_ABORT_ON_ERROR"});
  environment.push_back("LD_PRELOAD=" HELPER_hakmem_shared);
  return hak_test::run({program}, environment);
}

/* A directory of its own for each test, gone afterwards. */
class Environment : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hakmem-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { (void)hak_test::run({"rm", "-rf", directory_}); }
  std::string directory_;
};

std::string content_of(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_F(Environment, NothingSetSaysNothing) {
  Outcome outcome = run_with({});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Environment, UnknownNameWarnsOnceAndTheProgramRuns) {
  for (const char *entry :
       {"HAKMEM_NO_SUCH_THING=1", "HAKMEM_=1", "HAKMEM_STAT=1", "HAKMEM_STATSX=1", "HAKMEM_stats=1"}) {
    Outcome outcome = run_with({entry});
    EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
    EXPECT_EQ(outcome.out, "ok\n") << entry;
    EXPECT_EQ(lines_with(outcome.err, ""), 1u) << entry << ": " << outcome.err;
    std::string name(entry, std::string(entry).find('='));
    EXPECT_EQ(lines_with(outcome.err, "hakmem: "), 1u) << outcome.err;
    EXPECT_EQ(lines_with(outcome.err, name), 1u) << "the warning must name the variable: " << outcome.err;
  }
}

TEST_F(Environment, NamesThatAreNotOursAreLeftAlone) {
  Outcome outcome = run_with({"HAKMEMX=1", "HAKMEM=1", "XHAKMEM_STATS=1"});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Environment, BadValueWarnsOnceAndTheDefaultHolds) {
  for (const char *name : {"HAKMEM_STATS", "HAKMEM_ABORT_ON_ERROR"}) {
    for (const char *value :
         {"", "banana", "2", "-1", "01", "1 ", " 1", "yes please", "99999999999999999999999", "%s%n%s%n", "\xff\xfe"}) {
      Outcome outcome = run_with({std::string(name) + "=" + value});
      EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
      EXPECT_EQ(outcome.out, "ok\n");
      EXPECT_EQ(lines_with(outcome.err, ""), 1u) << name << "='" << value << "': " << outcome.err;
      EXPECT_EQ(lines_with(outcome.err, "hakmem: "), 1u) << outcome.err;
      EXPECT_EQ(lines_with(outcome.err, name), 1u) << "the warning must name the variable: " << outcome.err;
    }
  }
}

TEST_F(Environment, LongValuesAreHarmless) {
  Outcome outcome = run_with({"HAKMEM_STATS=" + std::string(100000, 'x'), "HAKMEM_" + std::string(100000, 'Y') + "=1"});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_EQ(lines_with(outcome.err, "hakmem: "), 2u);
}

TEST_F(Environment, GoodValuesSayNothing) {
  for (const char *entry : {"HAKMEM_STATS=0", "HAKMEM_ABORT_ON_ERROR=0", "HAKMEM_ABORT_ON_ERROR=1"}) {
    Outcome outcome = run_with({entry});
    EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
    EXPECT_EQ(outcome.err, "") << entry;
  }
}

TEST_F(Environment, StatsReportsAtExit) {
  Outcome outcome = run_with({"HAKMEM_STATS=1"});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "ok\n") << "the report belongs on standard error";
  EXPECT_GE(lines_with(outcome.err, ""), 4u) << outcome.err;
  EXPECT_GE(lines_with(outcome.err, "hakmem"), 1u) << outcome.err;
  EXPECT_NE(outcome.err.find("live"), std::string::npos) << outcome.err;
  EXPECT_EQ(lines_with(outcome.err, ": allocating_program, process "), 1u) << outcome.err;
  EXPECT_EQ(lines_with(outcome.err, "MiB of this heap; the process has "), 1u) << outcome.err;
  EXPECT_EQ(lines_with(outcome.err, "resident KiB"), 0u) << "nobody asked for the classes: " << outcome.err;
}

/* A program may be started by any name. */
TEST_F(Environment, TheReportsHeadIsOneLineAndNoCommand) {
  const std::string name = directory_ + "/red\x1b[31m\nline";
  ASSERT_EQ(symlink(HELPER_allocating_program, name.c_str()), 0);
  Outcome outcome = run_with({"HAKMEM_STATS=1"}, name.c_str());
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(lines_with(outcome.err, ": red?[31m?line, process "), 1u) << outcome.err;
}

/* The two columns are the sums of what stands above, but for what is cut off behind the second digit. */
TEST_F(Environment, TheReportAddsUp) {
  Outcome outcome = run_with({"HAKMEM_STATS=1"});
  std::istringstream lines(outcome.err);
  double resident = 0, mapped = 0;
  int kinds = 0;
  bool reached_the_sum = false;
  for (std::string line; std::getline(lines, line) && !reached_the_sum;) {
    double in_memory, in_all;
    if (line.size() < 20 || std::sscanf(line.c_str() + 20, "%lf %lf", &in_memory, &in_all) != 2) continue;
    if (line.rfind("  in all", 0) == 0) {
      EXPECT_NEAR(in_memory, resident, 0.05) << outcome.err;
      EXPECT_NEAR(in_all, mapped, 0.05) << outcome.err;
      reached_the_sum = true;
    }
    resident += in_memory, mapped += in_all, kinds++;
  }
  EXPECT_TRUE(reached_the_sum) << outcome.err;
  EXPECT_EQ(kinds, 9) << outcome.err;
}

TEST_F(Environment, TheClassesAreReportedWhereTheyAreAskedFor) {
  Outcome outcome = run_with({"HAKMEM_STATS=classes"});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(lines_with(outcome.err, "resident KiB"), 1u) << outcome.err;
  const std::size_t table = outcome.err.find("resident KiB");
  ASSERT_NE(table, std::string::npos);
  std::istringstream rows(outcome.err.substr(outcome.err.find('\n', table) + 1));
  int count = 0;
  for (std::size_t block, before = 0, slabs; rows >> block; before = block, count++) {
    EXPECT_GE(block, before) << outcome.err;
    EXPECT_TRUE(rows >> slabs && slabs > 0) << outcome.err;
    rows.ignore(1000, '\n');
  }
  EXPECT_GT(count, 0) << outcome.err;
}

TEST_F(Environment, StatsFileIsJson) {
  std::string path = directory_ + "/stats.json";
  Outcome outcome = run_with({"HAKMEM_STATS_FILE=" + path});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.err, "");
  const std::string found = content_of(path);
  std::map<std::string, double> numbers;
  std::string error;
  ASSERT_TRUE(hak_test::parse_json_object(found, &numbers, &error)) << path << ": " << error << "\n" << found;
  EXPECT_GT(numbers["refills"], 0) << found;
  EXPECT_EQ(numbers["errors"], 0) << found;
}

/* As under the C library, in a thread that has no more than 16 KiB. */
TEST_F(Environment, SmallestStacksWillDoForReports) {
  const std::string path = directory_ + "/stats.json";
  for (const char *stats : {"HAKMEM_STATS=0", "HAKMEM_STATS=1", "HAKMEM_STATS=classes"}) {
    for (bool reports : {false, true}) {
      std::vector<std::string> arguments = {HELPER_small_stack_program};
      if (reports) arguments.emplace_back("reports");
      Outcome outcome = hak_test::run(arguments,
                                      {stats, "HAKMEM_STATS_FILE=" + path, "LD_PRELOAD=" HELPER_hakmem_shared});
      EXPECT_TRUE(outcome.exited_with(0)) << stats << ": " << outcome.describe();
      std::map<std::string, double> numbers;
      std::string error;
      EXPECT_TRUE(hak_test::parse_json_object(content_of(path), &numbers, &error)) << error;
      (void)unlink(path.c_str());
    }
  }
}

TEST_F(Environment, StatsFileThatCannotBeWrittenIsHarmless) {
  for (const char *path : {"/no/such/directory/stats.json", "/", "/proc/version"}) {
    Outcome outcome = run_with({std::string("HAKMEM_STATS_FILE=") + path});
    EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
    EXPECT_EQ(outcome.out, "ok\n");
    EXPECT_LE(lines_with(outcome.err, ""), 1u) << outcome.err;
  }
}

/* Signals by which the system says that a write fails: they would end the program. */
Outcome run_by_bash(const std::string &script, const std::string &setting) {
  return hak_test::run(
      {"bash", "-c", script, "env", "LD_PRELOAD=" HELPER_hakmem_shared, setting, HELPER_allocating_program});
}

TEST_F(Environment, AFileThatWouldBeTooLargeIsToldAndHarmless) {
  const std::string path = directory_ + "/stats.json";
  Outcome outcome = run_by_bash("ulimit -f 1; exec \"$0\" \"$@\"", "HAKMEM_STATS_FILE=" + path);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_EQ(lines_with(outcome.err, "File too large"), 1u) << outcome.err;
  EXPECT_EQ(content_of(path).size(), 1024u) << "there was no limit";
}

TEST_F(Environment, ABrokenPipeForTheReportIsHarmless) {
  const std::string to_nobody = "(sleep 0.2; exec \"$0\" \"$@\" 2>&1 >/dev/null) | true; exit ${PIPESTATUS[0]}";
  Outcome outcome = run_by_bash(to_nobody, "HAKMEM_STATS=classes");
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  /* What is the program's own does end it. */
  outcome = hak_test::run({"bash", "-c", "(sleep 0.2; exec yes) | true; exit ${PIPESTATUS[0]}"});
  EXPECT_TRUE(outcome.exited_with(128 + SIGPIPE)) << outcome.describe();
}

/* What the program writes there stays, before and after: stdio's buffers are written after us, but for musl's first
 * line. */
TEST_F(Environment, TheFileMayBeStandardOutput) {
  const std::string file = directory_ + "/out", to_file = "exec \"$0\" \"$@\" >" + file;
  Outcome outcome = run_by_bash(to_file, "HAKMEM_STATS_FILE=/dev/stdout");
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  const std::string content = content_of(file), its_own = "ok\n";
  std::string report = content;
  const size_t at = content.rfind(its_own, 0) == 0 ? 0 : content.size() - std::min(content.size(), its_own.size());
  EXPECT_EQ(content.substr(at, its_own.size()), its_own) << content;
  report.erase(at, its_own.size());
  EXPECT_EQ(report.rfind("{\"version\"", 0), 0u) << content;
  EXPECT_EQ(report.rfind("}\n"), report.size() - 2) << content;
}

TEST_F(Environment, AFileThatIsReadIsNoFileForStatistics) {
  const std::string file = directory_ + "/in", from_file = "echo data >" + file + "; exec \"$0\" \"$@\" <" + file;
  Outcome outcome = run_by_bash(from_file, "HAKMEM_STATS_FILE=/dev/stdin");
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(content_of(file), "data\n");
  EXPECT_EQ(lines_with(outcome.err, "'/dev/stdin' cannot be written"), 1u) << outcome.err;
}

/* As with a program that was made to preload the library, under one that is preloaded for the whole session. */
TEST_F(Environment, ASecondCopyOfTheLibraryHasNothingToTell) {
  const std::string second = directory_ + "/libsecond.so", file = directory_ + "/stats";
  std::filesystem::copy_file(HELPER_hakmem_shared, second);
  Outcome outcome = hak_test::run({HELPER_allocating_program}, {"LD_PRELOAD=" HELPER_hakmem_shared ":" + second,
                                                                "HAKMEM_STATS=1", "HAKMEM_STATS_FILE=" + file});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(lines_with(outcome.err, ", process "), 1u) << outcome.err;
  EXPECT_EQ(content_of(file).find("\"reserved\": 0,"), std::string::npos) << "the idle copy has written it";
}

/* /dev/full: every write fails. */
TEST_F(Environment, FullDiskIsToldAndHarmless) {
  Outcome outcome = run_with({"HAKMEM_STATS_FILE=/dev/full"});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_EQ(outcome.err, "hakmem: HAKMEM_STATS_FILE='/dev/full' cannot be written: No space left on device\n");
}

TEST_F(Environment, ClosedStandardErrorIsHarmless) {
  Outcome outcome = hak_test::run(
      {"sh", "-c", "LD_PRELOAD=" HELPER_hakmem_shared " " HELPER_allocating_program " 2>&-"},
      {"HAKMEM_STATS=1", "HAKMEM_NONSENSE=1"});
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  EXPECT_EQ(outcome.out, "ok\n");
}

/* A set-uid program must not let its caller write files or learn of its heap. */
TEST_F(Environment, IsIgnoredBySetUidPrograms) {
  struct statvfs filesystem;
  ASSERT_EQ(statvfs(directory_.c_str(), &filesystem), 0);
  if (geteuid() != 0 || (filesystem.f_flag & ST_NOSUID) != 0)
    GTEST_SKIP() << "needs root and a file system that honours the set-uid bit";
  /* Linked, not preloaded: the loader itself ignores LD_PRELOAD here. */
  std::string program = directory_ + "/privileged", file = directory_ + "/stats.json";
  ASSERT_TRUE(hak_test::run({"cp", HELPER_linked_program, program}).exited_with(0));
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  std::vector<std::string> environment = {"HAKMEM_STATS=1", "HAKMEM_STATS_FILE=" + file, "HAKMEM_NONSENSE=1"};

  Outcome plain = hak_test::run({program}, environment);
  EXPECT_TRUE(plain.exited_with(0)) << plain.describe();
  EXPECT_NE(plain.err, "") << "without the bit it must report, or this test shows nothing";

  ASSERT_EQ(unlink(file.c_str()), 0);
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(chown(program.c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  Outcome privileged = hak_test::run({program}, environment);
  EXPECT_TRUE(privileged.exited_with(0)) << privileged.describe();
  EXPECT_EQ(privileged.out, "ok\n");
  EXPECT_EQ(privileged.err, "") << "a set-uid program reported to its caller";
  EXPECT_NE(access(file.c_str(), F_OK), 0) << "a set-uid program wrote the file that its caller named";
}
