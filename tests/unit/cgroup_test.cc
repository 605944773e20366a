/*
 * What the system says about control groups, in trees of files that are made up: what
 * containers show, and what is broken.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layers.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/stat.h>

#include <os/cgroup.h>

namespace {

namespace fs = std::filesystem;

constexpr const char *kV2Mounts =
    "22 1 0:20 / / rw - ext4 /dev/vda rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char *kV1Mounts =
    "29 22 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "33 29 0:29 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n"
    "34 29 0:30 / /sys/fs/cgroup/memory rw shared:10 master:3 - cgroup cgroup rw,memory\n";

class Cgroup : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "hakmem-cgroup-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void file(const std::string &path, const std::string &text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  void self(const std::string &cgroup, const std::string &mountinfo) {
    file("/proc/self/cgroup", cgroup);
    file("/proc/self/mountinfo", mountinfo);
  }
  void group(const std::string &directory, const std::string &most, const std::string &high = "max") {
    file(directory + "/memory.max", most + "\n");
    file(directory + "/memory.high", high + "\n");
  }
  void group_1(const std::string &directory, const std::string &limit) {
    file(directory + "/memory.limit_in_bytes", limit + "\n");
  }

  void expect(uint64_t limit) {
    uint64_t bytes = 7;
    ASSERT_TRUE(cgroup_memory_limit(root_.c_str(), &bytes));
    EXPECT_EQ(bytes, limit);
  }
  void expect_none() {
    uint64_t bytes = 7;
    EXPECT_FALSE(cgroup_memory_limit(root_.c_str(), &bytes)) << bytes;
  }

  std::string root_;
};

}  // namespace

/* ---- Version 2 -----------------------------------------------------------------------*/

TEST_F(Cgroup, OfAContainerWithANamespace) {
  self("0::/\n", kV2Mounts);
  group("/sys/fs/cgroup", "1000000");
  expect(1000000);
}

TEST_F(Cgroup, TheTightestOfAllAboveCounts) {
  self("0::/a/b/c\n", kV2Mounts);
  group("/sys/fs/cgroup/a/b/c", "max");
  group("/sys/fs/cgroup/a/b", "2000000");
  group("/sys/fs/cgroup/a", "1000000");
  group("/sys/fs/cgroup", "9000000");
  expect(1000000);
  group("/sys/fs/cgroup/a/b/c", "600000");
  expect(600000);
}

TEST_F(Cgroup, HighIsALimit) {
  self("0::/a\n", kV2Mounts);
  group("/sys/fs/cgroup/a", "max", "1000");
  expect(1000);
  group("/sys/fs/cgroup/a", "800", "1000");
  expect(800);
}

TEST_F(Cgroup, NoLimitIsNone) {
  self("0::/a\n", kV2Mounts);
  expect_none();
  group("/sys/fs/cgroup/a", "max");
  expect_none();
  group("/sys/fs/cgroup/a", "9223372036854775807");
  expect_none();
  group("/sys/fs/cgroup/a", "18446744073709551615");
  expect_none();
}

/* ---- Version 1, and both -----------------------------------------------------------------*/

TEST_F(Cgroup, VersionOne) {
  self("5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n", kV1Mounts);
  group_1("/sys/fs/cgroup/memory/docker/abc", "1000000");
  group_1("/sys/fs/cgroup/memory", "9223372036854771712");
  expect(1000000);
  group_1("/sys/fs/cgroup/memory/docker", "900000");
  expect(900000);
}

TEST_F(Cgroup, UnlimitedInPagesOfAnySize) {
  self("4:memory:/\n", kV1Mounts);
  for (const char *unlimited : {"9223372036854771712", "9223372036854759424", "9223372036854710272"}) {
    group_1("/sys/fs/cgroup/memory", unlimited);
    expect_none();
  }
}

TEST_F(Cgroup, WhatIsMountedMayBeAPartOfTheHierarchy) {
  self("4:memory:/docker/abc/inner\n", "34 29 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  group_1("/sys/fs/cgroup/memory/inner", "1000");
  group_1("/sys/fs/cgroup/memory", "900");
  expect(900);
  group_1("/sys/fs/cgroup/memorydef/inner", "50"); /* where a path ends up that is put together wrongly */
  /* Another container's group with the same beginning; one outside. What is mounted is what can be seen. */
  for (const char *outside : {"/docker/abcdef/inner", "/", "/../other", "/docker/abc/../x"}) {
    self(std::string("4:memory:") + outside + "\n",
         "34 29 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    expect(900);
  }
}

TEST_F(Cgroup, TheControllerIsInOneOfTwoVersions) {
  const std::string both = std::string(kV1Mounts) + "35 29 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  self("9:name=memory:/wrong\n4:memory:/one\n0::/two\n", both);
  group_1("/sys/fs/cgroup/memory/one", "1000");
  group("/sys/fs/cgroup/unified/two", "10");
  expect(1000);
  self("0::/two\n4:memory:/one\n", both);
  expect(1000);
  self("9:cpu:/one\n0::/two\n", both);
  expect(10);
}

TEST_F(Cgroup, PathsWithSpaces) {
  self("0::/my group\n", "30 22 0:26 / /mnt/c\\040g\\134x rw - cgroup2 cgroup2 rw\n");
  group("/mnt/c g\\x/my group", "1000");
  expect(1000);
}

/* ---- What is broken ------------------------------------------------------------------------*/

TEST_F(Cgroup, NoProc) { expect_none(); }

TEST_F(Cgroup, OnlyHalfOfIt) {
  file("/proc/self/cgroup", "0::/\n");
  expect_none();
  file("/proc/self/mountinfo", kV2Mounts);
  expect_none();
  file("/sys/fs/cgroup/memory.max", "1000");
  expect(1000);
}

TEST_F(Cgroup, FilesOfRubbish) {
  const std::string rubbish[] = {
      "",
      "\n\n\n",
      ":",
      "::\n",
      "0::",
      "0::relative\n",
      std::string("0::/\0\n", 6),
      std::string(8 << 20, 'x'), /* more than lies behind any buffer */
      "0::/" + std::string(5000, 'a') + "\n",
      std::string(100000, '\n'),
      std::string(9000, '\0'),
      "0::/" + std::string(4090, 'b') + "/c\n",
  };
  const std::string mounts[] = {
      "",
      "30\n",
      "30 22 0:26 / \n",
      "30 22 0:26 / /x rw\n",
      "30 22 0:26 / /x rw -\n",
      "30 22 0:26 / /x rw - cgroup2\n",
      "30 22 0:26 / /x rw - cgroup2 x\n",
      std::string(100000, ' '),
      std::string(50000, '-') + "\n",
      "30 22 0:26 / /" + std::string(4500, 'm') + " rw - cgroup2 c rw\n",
      "30 22 0:26 /" + std::string(3000, 'r') + " /" + std::string(900, 'm') + " rw - cgroup2 c rw\n",
      "30 22 0:26 / /\\1 rw - cgroup2 c rw\n",
      "30 22 0:26 / /\\ rw - cgroup2 c rw\n",
      "30 22 0:26 / /\\400 rw - cgroup2 c rw\n",
  };
  for (const std::string &text : rubbish) {
    self(text, kV2Mounts);
    expect_none();
  }
  for (const std::string &text : mounts) {
    self("0::/\n", text);
    expect_none();
  }
  for (const std::string &text : rubbish)
    for (const std::string &mount : mounts) self(text, mount), expect_none();
}

TEST_F(Cgroup, LinesBeforeAndAfterWhatIsTooLong) {
  self("7:" + std::string(9000, 'x') + ":/\n0::/\n", std::string(5000, 'y') + "\n" + kV2Mounts);
  group("/sys/fs/cgroup", "1000");
  expect(1000);
}

/* Lines that end where a read ends. */
TEST_F(Cgroup, LinesAtTheEdgesOfReads) {
  group("/sys/fs/cgroup", "1000");
  for (size_t before = 4000; before < 4100; before++) {
    self("0::/\n", std::string(before - 2000, 'z') + "\n" + std::string(1998, 'y') + "\n" + kV2Mounts);
    expect(1000);
  }
}

TEST_F(Cgroup, NumbersThatAreNone) {
  self("0::/\n", kV2Mounts);
  for (const char *limit : {"", "-1", "1000x", " 1000", "18446744073709551616", "99999999999999999999999", "0x10"}) {
    group("/sys/fs/cgroup", limit);
    expect_none();
  }
  group("/sys/fs/cgroup", "0");
  expect(0);
}

/* In the place of a file: nobody waits for a writer, and nothing else than a file is read. */
TEST_F(Cgroup, WhatIsNoFile) {
  self("0::/a\n", kV2Mounts);
  group("/sys/fs/cgroup/a", "max");
  group("/sys/fs/cgroup", "1000");
  const std::string most = root_ + "/sys/fs/cgroup/a/memory.max";
  fs::remove(most);
  ASSERT_EQ(mkfifo(most.c_str(), 0600), 0);
  expect(1000);
  fs::remove(most);
  fs::create_directory(most);
  expect(1000);
  fs::remove(most);
  file("/elsewhere", "5\n");
  fs::create_symlink(root_ + "/elsewhere", most);
  expect(1000);
}
