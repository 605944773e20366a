/*
 * Core files, by gdb's gcore and by the kernel, and checkpoints by CRIU: of a program under hakmem
 * they are about as large as under the C library's malloc, both in length and on disk; and a
 * program that is restored from a checkpoint goes on.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using hak_test::Outcome;

namespace {

/* Beyond this the writer is stopped: a file that grows to the size of all that is
 * reserved would fill the disk. */
constexpr rlim_t kMostBytes = rlim_t{1} << 30;

struct Size {
  double length = 0, on_disk = 0; /* MB */
};

class CoreFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hakmem-core-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { (void)hak_test::run({"rm", "-rf", directory_}); }

  /* Of what lies in the directory, which then goes. */
  static Size take_files(const std::string &directory) {
    Size size;
    DIR *entries = opendir(directory.c_str());
    while (const dirent *entry = readdir(entries)) {
      struct stat file;
      const std::string path = directory + "/" + entry->d_name;
      if (entry->d_name[0] == '.' || stat(path.c_str(), &file) != 0) continue;
      size.length += static_cast<double>(file.st_size) / 1e6;
      size.on_disk += static_cast<double>(file.st_blocks) * 512 / 1e6;
      unlink(path.c_str());
    }
    closedir(entries);
    return size;
  }
  static void expect_similar(const Size &with, const Size &without) {
    EXPECT_GT(without.on_disk, 80) << "the other core file is not whole: the test is void";
    EXPECT_GT(with.on_disk, 80) << "the core file lacks what the program holds";
    EXPECT_LE(with.length, 1.3 * without.length) << "MB long";
    EXPECT_LE(with.on_disk, 1.3 * without.on_disk) << "MB on disk";
  }
  std::string directory_;
};

/* A program that says when it is ready, and ends with this object. */
class Waiting {
 public:
  /* `file`: that of a program that looks again (core_program.c), in a session of its own, as for CRIU. */
  explicit Waiting(const std::string &preload, const std::string &file = "") {
    int out[2];
    if (pipe(out) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      if (!preload.empty()) setenv("LD_PRELOAD", preload.c_str(), 1);
      close(out[0]);
      close(out[1]);
      if (!file.empty()) setsid();
      execl(HELPER_core_program, HELPER_core_program, file.empty() ? nullptr : file.c_str(),
            static_cast<char *>(nullptr));
      _exit(127);
    }
    close(out[1]);
    char byte;
    is_ready = read(out[0], &byte, 1) == 1;
    close(out[0]);
  }
  ~Waiting() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  /* It has ended by itself. Another may have its number by now. */
  void is_gone() {
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  std::string pid() const { return std::to_string(pid_); }
  bool is_ready = false;

 private:
  pid_t pid_;
};

}  // namespace

TEST_F(CoreFile, ByGcore) {
  if (!hak_test::run({"sh", "-c", "command -v gcore"}).exited_with(0)) GTEST_SKIP() << "there is no gcore";
  Size sizes[2];
  for (int with : {0, 1}) {
    Waiting program(with ? HELPER_hakmem_shared : "");
    ASSERT_TRUE(program.is_ready);
    Outcome outcome = hak_test::in_child([&] {
      const rlimit limit = {kMostBytes, kMostBytes};
      setrlimit(RLIMIT_FSIZE, &limit);
      const std::string prefix = directory_ + "/core", pid = program.pid();
      execlp("gcore", "gcore", "-o", prefix.c_str(), pid.c_str(), static_cast<char *>(nullptr));
      return 127;
    });
    if (!with && outcome.err.find("ptrace") != std::string::npos) GTEST_SKIP() << "gdb may not trace here";
    EXPECT_TRUE(outcome.exited_with(0)) << (with ? "under hakmem: " : "without: ") << outcome.describe();
    sizes[with] = take_files(directory_);
  }
  expect_similar(sizes[1], sizes[0]);
}

TEST_F(CoreFile, ByTheKernel) {
  std::string pattern;
  std::ifstream file("/proc/sys/kernel/core_pattern");
  std::getline(file, pattern);
  if (pattern.empty() || pattern.find_first_of("|/") != std::string::npos)
    GTEST_SKIP() << "core files go elsewhere here: " << pattern;
  rlimit limit;
  getrlimit(RLIMIT_CORE, &limit);
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < kMostBytes) GTEST_SKIP() << "no core files are allowed";
  Size sizes[2];
  for (int with : {0, 1}) {
    Outcome outcome = hak_test::in_child([&] {
      const rlimit core = {kMostBytes, kMostBytes};
      if (chdir(directory_.c_str()) != 0 || setrlimit(RLIMIT_CORE, &core) != 0) return 1;
      if (with) setenv("LD_PRELOAD", HELPER_hakmem_shared, 1);
      execl(HELPER_core_program, HELPER_core_program, "abort", static_cast<char *>(nullptr));
      return 127;
    });
    ASSERT_TRUE(outcome.killed_by(SIGABRT)) << outcome.describe();
    sizes[with] = take_files(directory_);
  }
  expect_similar(sizes[1], sizes[0]);
}

TEST_F(CoreFile, ByCriuAndBack) {
  if (!hak_test::run({"sh", "-c", "command -v criu && criu check"}).exited_with(0))
    GTEST_SKIP() << "there is no criu that works here";
  Size sizes[2];
  for (int with : {0, 1}) {
    const std::string images = directory_ + "/images", said = directory_ + "/said";
    ASSERT_EQ(mkdir(images.c_str(), 0700), 0);
    Waiting program(with ? HELPER_hakmem_shared : "", said);
    ASSERT_TRUE(program.is_ready);
    const std::string pid = program.pid();
    Outcome dumped = hak_test::run({"criu", "dump", "-t", pid, "-D", images});
    if (!with && !dumped.exited_with(0)) GTEST_SKIP() << "criu cannot do it without hakmem: " << dumped.describe();
    ASSERT_TRUE(dumped.exited_with(0)) << dumped.describe();
    program.is_gone();
    const std::string pidfile = directory_ + "/pid";
    Outcome restored = hak_test::run({"criu", "restore", "-d", "--pidfile", pidfile, "-D", images});
    ASSERT_TRUE(restored.exited_with(0)) << (with ? "under hakmem: " : "without: ") << restored.describe();
    kill(std::stoi(pid), SIGUSR1);
    std::string word;
    for (int i = 0; i < 200 && word != "whole"; i++, usleep(100000)) std::ifstream(said) >> word;
    EXPECT_EQ(word, "whole") << (with ? "under hakmem" : "without");
    unlink(said.c_str());
    unlink(pidfile.c_str());
    sizes[with] = take_files(images);
    rmdir(images.c_str());
  }
  expect_similar(sizes[1], sizes[0]);
}
