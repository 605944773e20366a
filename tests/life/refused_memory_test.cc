/*
 * A request that the system refuses costs nothing: what could be had before it can be
 * had after it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/payload.h"
#include "support/process.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

using hak_test::opaque;
using hak_test::Outcome;

namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

/* How much can be had in blocks of that size; all of it is given back. Nothing of it is
 * touched, and the list of the blocks is in the blocks. */
std::size_t available(std::size_t bytes) {
  void **last = nullptr;
  std::size_t sum = 0;
  while (void *block = opaque(malloc(bytes))) {
    *static_cast<void **>(block) = last;
    last = static_cast<void **>(block);
    sum += bytes;
  }
  while (last != nullptr) {
    void **before = static_cast<void **>(*last);
    free(last);
    last = before;
  }
  return sum;
}

struct Request {
  const char *name;
  void *(*make)(std::size_t bytes);
};
void *old_huge, *old_small;
const Request kRequests[] = {
    {"malloc", [](std::size_t bytes) { return malloc(bytes); }},
    {"calloc", [](std::size_t bytes) { return calloc(1, bytes); }},
    {"realloc", [](std::size_t bytes) { return realloc(old_small, bytes); }},
    {"reallocOfAHugeBlock", [](std::size_t bytes) { return realloc(old_huge, bytes); }},
    {"alignedAlloc", [](std::size_t bytes) { return aligned_alloc(kMiB, bytes); }},
    {"hugeAlignment", [](std::size_t bytes) { return aligned_alloc(bytes, bytes); }},
};
std::ostream &operator<<(std::ostream &out, const Request &request) { return out << request.name; }

bool limit(int resource, const char *field, std::size_t bytes) {
  rlimit now = {(hak_test::status_kib(field) << 10) + bytes, RLIM_INFINITY};
  now.rlim_max = now.rlim_cur;
  return setrlimit(static_cast<__rlimit_resource>(resource), &now) == 0;
}

class Refused : public testing::TestWithParam<Request> {};
INSTANTIATE_TEST_SUITE_P(Request, Refused, testing::ValuesIn(kRequests),
                         [](const auto &info) { return std::string(info.param.name); });

constexpr int kNotRefused = 3;

/* Prints how many MiB can be had in blocks of that size, by a process that has asked for
 * too much before, or has not. Not both in one: what was in use once stays mapped. */
int measure(const Request &request, std::size_t block, bool refused_before) {
  old_small = malloc(100);
  old_huge = malloc(20 * kMiB);
  if (refused_before)
    for (std::size_t asked : {kGiB, 4 * kGiB, 16 * kGiB})
      for (int again = 0; again < 3; again++)
        if (opaque(request.make(asked)) != nullptr) return kNotRefused;
  std::printf("%zu", available(block) / kMiB);
  std::fflush(stdout);
  return 0;
}

/* `run` runs measure in a process of its own, under a limit. */
template <class Run> void expect_nothing_lost(const Run &run) {
  for (std::size_t block : {8 * kMiB, kMiB, 8 * kKiB}) {
    const Outcome before = run(block, false), after = run(block, true);
    ASSERT_TRUE(before.exited_with(0)) << before.describe();
    ASSERT_TRUE(after.exited_with(0)) << kNotRefused << ": it was not refused; " << after.describe();
    const int mib_before = std::atoi(before.out.c_str()), mib_after = std::atoi(after.out.c_str());
    EXPECT_GT(mib_before, 200) << "there is little to begin with";
    EXPECT_GT(mib_after, mib_before - mib_before / 8)
        << "MiB in blocks of " << block / kKiB << " KiB after refused requests, against " << mib_before << " without";
  }
}

}  // namespace

TEST_P(Refused, UnderALimitOfDataCostsNothing) {
  expect_nothing_lost([](std::size_t block, bool refused_before) {
    return hak_test::in_child([&] {
      if (!limit(RLIMIT_DATA, "VmData:", 400 * kMiB)) return 2;
      return measure(GetParam(), block, refused_before);
    });
  });
}

/* The process starts under the limit, and so reserves little. */
TEST_P(Refused, UnderALimitOfAddressSpaceCostsNothing) {
  char self[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  expect_nothing_lost([&](std::size_t block, bool refused_before) {
    return hak_test::run({"sh", "-c", "ulimit -v 600000 && exec \"$@\"", "sh", self, "measure", GetParam().name,
                          std::to_string(block), refused_before ? "1" : "0"});
  });
}

int main(int argc, char **argv) {
  if (argc == 5 && std::string(argv[1]) == "measure") {
    for (const Request &request : kRequests)
      if (request.name == std::string(argv[2]))
        return measure(request, std::strtoul(argv[3], nullptr, 10), argv[4][0] == '1');
    return 6;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
