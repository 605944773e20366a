/* HAKMEM_* variables. Each case reads them in a child: settings last. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/process.h"

#include <cstdio>
#include <string>

namespace {

/* What the settings are afterwards goes to standard output. */
hak_test::Outcome read(std::vector<const char *> environment) {
  environment.push_back(nullptr);
  return hak_test::in_child([&] {
    config_read(const_cast<char *const *>(environment.data()));
    const config_t *c = config();
    std::printf("%d %d %s", c->abort_on_error, c->report, c->stats_file == nullptr ? "none" : c->stats_file);
    std::fflush(stdout);
    return 0;
  });
}

void expect(std::vector<const char *> environment, const std::string &settings) {
  hak_test::Outcome outcome = read(environment);
  EXPECT_EQ(outcome.out, settings) << outcome.describe();
  EXPECT_EQ(outcome.err, "") << "a good value draws a warning";
}

void expect_warning(const char *entry, const std::string &warning) {
  hak_test::Outcome outcome = read({entry});
  EXPECT_EQ(outcome.out, "1 0 none") << entry << " changes a setting";
  EXPECT_EQ(outcome.err, warning);
}

}  // namespace

TEST(Config, DefaultsWithoutVariables) {
  expect({}, "1 0 none");
  expect({"PATH=/bin", "HAKMEM=1", "XHAKMEM_STATS=1", "no equals sign", "="}, "1 0 none");
}

TEST(Config, GoodValues) {
  expect({"HAKMEM_ABORT_ON_ERROR=0"}, "0 0 none");
  expect({"HAKMEM_ABORT_ON_ERROR=1"}, "1 0 none");
  expect({"HAKMEM_STATS=1"}, "1 1 none");
  expect({"HAKMEM_STATS=classes"}, "1 2 none");
  expect({"HAKMEM_STATS_FILE=/tmp/x=y.json"}, "1 0 /tmp/x=y.json");
  expect({"HAKMEM_STATS=1", "HAKMEM_STATS=0", "HAKMEM_ABORT_ON_ERROR=0"}, "0 0 none");
}

TEST(Config, TheWindowsSizeIsAPowerOfTwo) {
  struct {
    const char *entry;
    size_t gib;
  } good[] = {{"HAKMEM_RESERVE=1G", 1},    {"HAKMEM_RESERVE=64G", 64},    {"HAKMEM_RESERVE=100G", 64},
              {"HAKMEM_RESERVE=1T", 1024}, {"HAKMEM_RESERVE=16T", 16384}, {"HAKMEM_RESERVE=16384G", 16384}};
  for (const auto &each : good) {
    const char *environment[] = {each.entry, nullptr};
    hak_test::Outcome outcome = hak_test::in_child([&] {
      config_read(const_cast<char *const *>(environment));
      return config()->reserve_bytes == HAK_GIB(each.gib) ? 0 : 1;
    });
    EXPECT_TRUE(outcome.exited_with(0)) << each.entry << ": " << outcome.describe();
    EXPECT_EQ(outcome.err, "");
  }
  for (const char *entry : {"HAKMEM_RESERVE=", "HAKMEM_RESERVE=0G", "HAKMEM_RESERVE=17T", "HAKMEM_RESERVE=1M",
                            "HAKMEM_RESERVE=G", "HAKMEM_RESERVE=1G ", "HAKMEM_RESERVE=99999999999999999999G"})
    expect_warning(entry, "hakmem: HAKMEM_RESERVE='" + std::string(std::strchr(entry, '=') + 1) +
                              "' is ignored: expected 1G to 16T\n");
}

TEST(Config, LimitsAreBytes) {
  struct {
    const char *value;
    size_t bytes;
  } good[] = {{"0", 0},
              {"1048576", 1 << 20},
              {"1024K", 1 << 20},
              {"1M", 1 << 20},
              {"0G", 0},
              {"300M", size_t{300} << 20},
              {"2G", size_t{2} << 30},
              {"1024T", size_t{1} << 50},
              {"1125899906842624", size_t{1} << 50}};
  for (const auto &each : good) {
    const std::string hard = std::string("HAKMEM_HARD_LIMIT=") + each.value,
                      soft = std::string("HAKMEM_SOFT_LIMIT=") + each.value;
    const char *environment[] = {hard.c_str(), soft.c_str(), nullptr};
    hak_test::Outcome outcome = hak_test::in_child([&] {
      config_read(const_cast<char *const *>(environment));
      return config()->hard_limit == each.bytes && config()->soft_limit == each.bytes &&
                     limit_is_hard() == (each.bytes != 0) && limit_exists() == (each.bytes != 0)
                 ? 0
                 : 1;
    });
    EXPECT_TRUE(outcome.exited_with(0)) << each.value << ": " << outcome.describe();
    EXPECT_EQ(outcome.err, "");
  }
  for (const std::string &value : std::vector<std::string>{
           "", "M", "1", "1023K", "1048575", "1025T", "1P", "1MB", "1M ", " 1M", "-1M", "+1M", "1.5G", "0x100000",
           "1125899906842625", "99999999999999999999999999", "18446744073709551617K"})
    for (const std::string &name : std::vector<std::string>{"HAKMEM_HARD_LIMIT", "HAKMEM_SOFT_LIMIT"})
      expect_warning((name + "=" + value).c_str(),
                     "hakmem: " + name + "='" + value + "' is ignored: expected 0, or 1M to 1024T\n");
}

TEST(Config, SamplesAreSoManyBytesApart) {
  struct {
    const char *entry;
    size_t bytes;
  } good[] = {
      {"HAKMEM_SAMPLE=0", 0}, {"HAKMEM_SAMPLE=1", 1}, {"HAKMEM_SAMPLE=512K", 512 << 10}, {"HAKMEM_SAMPLE=1G", 1 << 30}};
  for (const auto &each : good) {
    hak_test::Outcome outcome = hak_test::in_child([&] {
      const char *environment[] = {each.entry, nullptr};
      config_read(const_cast<char *const *>(environment));
      return config()->sample_bytes == each.bytes ? 0 : 1;
    });
    EXPECT_TRUE(outcome.exited_with(0)) << each.entry << ": " << outcome.describe();
    EXPECT_EQ(outcome.err, "");
  }
  const auto parent_of = [](const char *entry) {
    const char *environment[] = {entry, nullptr};
    config_read(const_cast<char *const *>(environment));
    return config()->sample_bytes == 2048 ? static_cast<int>(config()->sample_parent) : -1;
  };
  EXPECT_TRUE(hak_test::in_child([&] { return parent_of("HAKMEM_SAMPLE=2K:77"); }).exited_with(77));
  EXPECT_TRUE(hak_test::in_child([&] { return parent_of("HAKMEM_SAMPLE=2K"); }).exited_with(0));
  for (const char *value : {"", "1T", "1025M", "-1", "1KB", ":", "1:", ":7", "1K:0", "1K:x", "1K:7:7",
                            "00000000000000000000000000000001:7"})
    expect_warning((std::string("HAKMEM_SAMPLE=") + value).c_str(),
                   std::string("hakmem: HAKMEM_SAMPLE='") + value +
                       "' is ignored: expected 0, or 1 to 1G, and perhaps a colon and a process\n");
}

TEST(Config, WhatIsDecidedOverTimeAndTheProfileAreWords) {
  const auto settings = [](const char *entry) {
    hak_test::Outcome outcome = hak_test::in_child([&] {
      const char *environment[] = {entry, nullptr};
      config_read(const_cast<char *const *>(environment));
      std::printf("%d %d", config()->over_time, config()->profile);
      std::fflush(stdout);
      return 0;
    });
    return outcome.out + outcome.err;
  };
  EXPECT_EQ(settings("HAKMEM_INT=off"), "0 0");
  EXPECT_EQ(settings("HAKMEM_INT=inline"), "1 0");
  EXPECT_EQ(settings("HAKMEM_INT=on"), "2 0");
  EXPECT_EQ(settings("HAKMEM_PROFILE=balanced"), "2 0");
  EXPECT_EQ(settings("HAKMEM_PROFILE=memory"), "2 1");
  EXPECT_EQ(settings("HAKMEM_PROFILE=speed"), "2 2");
  for (const char *value : {"", "0", "1", "On", "offx", "inlin"})
    EXPECT_EQ(settings(("HAKMEM_INT=" + std::string(value)).c_str()),
              "2 0hakmem: HAKMEM_INT='" + std::string(value) + "' is ignored: expected on, inline or off\n");
  for (const char *value : {"", "fast", "Speed", "memory ", "balance"})
    EXPECT_EQ(
        settings(("HAKMEM_PROFILE=" + std::string(value)).c_str()),
        "2 0hakmem: HAKMEM_PROFILE='" + std::string(value) + "' is ignored: expected speed, balanced or memory\n");
}

TEST(Config, BadValuesWarnOnceAndChangeNothing) {
  expect_warning("HAKMEM_STATS=yes", "hakmem: HAKMEM_STATS='yes' is ignored: expected 0, 1 or classes\n");
  expect_warning("HAKMEM_STATS=a\nb\033[31m\177",
                 "hakmem: HAKMEM_STATS='a?b?[31m?' is ignored: expected 0, 1 or classes\n");
  expect_warning("HAKMEM_STATS=", "hakmem: HAKMEM_STATS='' is ignored: expected 0, 1 or classes\n");
  expect_warning("HAKMEM_STATS=class", "hakmem: HAKMEM_STATS='class' is ignored: expected 0, 1 or classes\n");
  expect_warning("HAKMEM_STATS=10", "hakmem: HAKMEM_STATS='10' is ignored: expected 0, 1 or classes\n");
  expect_warning("HAKMEM_ABORT_ON_ERROR=2", "hakmem: HAKMEM_ABORT_ON_ERROR='2' is ignored: expected 0 or 1\n");
  expect_warning("HAKMEM_STATS_FILE=",
                 "hakmem: HAKMEM_STATS_FILE='' is ignored: expected a path of at most 4095 bytes\n");
}

TEST(Config, UnknownNamesWarnOnceAndChangeNothing) {
  expect_warning("HAKMEM_STAT=1", "hakmem: unknown environment variable HAKMEM_STAT is ignored\n");
  expect_warning("HAKMEM_STATSX=1", "hakmem: unknown environment variable HAKMEM_STATSX is ignored\n");
  expect_warning("HAKMEM_=1", "hakmem: unknown environment variable HAKMEM_ is ignored\n");
}

TEST(Config, AVeryLongValueIsCutInTheWarning) {
  std::string entry = "HAKMEM_STATS=" + std::string(100000, 'x');
  hak_test::Outcome outcome = read({entry.c_str()});
  EXPECT_EQ(outcome.out, "1 0 none");
  EXPECT_LT(outcome.err.size(), 500u);
  EXPECT_EQ(hak_test::lines_with(outcome.err, "HAKMEM_STATS='xxx"), 1u) << outcome.err;
  EXPECT_EQ(outcome.err.empty() ? '\0' : outcome.err.back(), '\n');
}
