/*
 * Mistakes with free end the program with one line that names the address.
 *
 * SPDX-License-Identifier: MIT
 */
#include "death/mistakes.h"
#include "support/payload.h"
#include "support/worker.h"

#include <gtest/gtest.h>
#include <hakmem.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <regex>
#include <string>
#include <sys/mman.h>

extern "C" void free_sized(void *, std::size_t) noexcept;
extern "C" void free_aligned_sized(void *, std::size_t, std::size_t) noexcept;

using hak_test::Worker;

namespace {

using testing::KilledBySignal;

/* Tells the matcher below, by way of standard error, what the report must name. */
void announce(const void *address, std::size_t block_bytes) {
  std::fprintf(stderr, "victim %p of %zu bytes\n", address, block_bytes);
}

Victim make(std::size_t bytes) {
  void *before = malloc(bytes), *block = malloc(bytes), *after = malloc(bytes);
  (void)hak_test::opaque(before);
  (void)hak_test::opaque(after);
  return {static_cast<char *>(hak_test::opaque(block)), bytes, hak_usable_size(block)};
}

/* Matches standard error when exactly one line of it is a report of hakmem, and that
 * line names the announced address and what was wrong, and, if asked, the block's size. */
class Reports {
 public:
  using is_gtest_matcher = void;
  Reports(std::string what, bool with_size) : what_(std::move(what)), with_size_(with_size) {}

  bool MatchAndExplain(const std::string &text, testing::MatchResultListener *why) const {
    std::smatch announced;
    if (!std::regex_search(text, announced, std::regex("victim (0x[0-9a-f]+|\\(nil\\)) of ([0-9]+) bytes"))) {
      *why << "the program never got to its mistake";
      return false;
    }
    std::string report;
    int reports = 0;
    for (std::size_t at = 0; (at = text.find("hakmem: ", at)) != std::string::npos; at++) {
      report = text.substr(at, text.find('\n', at) - at);
      reports++;
    }
    if (reports != 1) {
      *why << reports << " lines are a report of hakmem";
      return false;
    }
    auto demand = [&](const std::string &pattern) {
      if (std::regex_search(report, std::regex(pattern, std::regex::icase))) return true;
      *why << "the report has nothing like \"" << pattern << "\"";
      return false;
    };
    return demand(announced[1].str() + "\\b") && demand(what_) &&
           (!with_size_ || demand("\\b" + announced[2].str() + "\\b"));
  }
  void DescribeTo(std::ostream *out) const { *out << "is one report like \"" << what_ << "\""; }
  void DescribeNegationTo(std::ostream *out) const { *out << "is no report like \"" << what_ << "\""; }

 private:
  std::string what_;
  bool with_size_;
};

const char *const kDoubleFree = "double free|already free";
const char *const kInvalid = "invalid|interior|wild";
const char *const kAnyFree = "double free|already free|invalid";
const char *const kSize = "size";

/* `statement` may only return if nothing was noticed. */
#define EXPECT_REPORT(statement, what, with_size) \
  EXPECT_EXIT({ statement; std::fputs("nobody noticed\n", stderr); }, KilledBySignal(SIGABRT), Reports(what, with_size))

class Misuse : public testing::TestWithParam<Range> {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
  const Range range = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Of, Misuse, testing::ValuesIn(kRanges), [](const auto &info) { return info.param.name; });

}  // namespace

/* ---- Free twice ------------------------------------------------------------*/

TEST_P(Misuse, DoubleFree) {
  auto mistake = [&] {
    Victim v = make(range.bytes);
    announce(v.block, v.usable);
    free(v.block);
    free(v.block);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(Misuse, DoubleFreeUnderTheOwnName) {
  auto mistake = [&] {
    Victim v = make(range.bytes);
    announce(v.block, v.usable);
    hak_free(v.block);
    hak_free(v.block);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(Misuse, DoubleFreeWithOthersBetween) {
  auto mistake = [&] {
    Victim v = make(range.bytes), other = make(range.bytes);
    announce(v.block, v.usable);
    free(v.block);
    free(other.block);
    free(v.block);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(Misuse, DoubleFreeAfterTheFirstWasFlushed) {
  auto mistake = [&] {
    Victim v = make(range.bytes);
    announce(v.block, v.usable);
    free(v.block);
    hak_thread_flush();
    free(v.block);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

/* Nothing else lives beside it: its slab is gone when it is freed again. */
TEST_P(Misuse, DoubleFreeAfterEverythingWasFreed) {
  auto mistake = [&] {
    void *block = hak_test::opaque(malloc(range.bytes));
    announce(block, hak_usable_size(block));
    free(block);
    hak_trim(0);
    free(block);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(), kAnyFree, false);
}

/* Without any call of ours: the magazine overflows, and the flush finds it. */
TEST_P(Misuse, DoubleFreeIsFoundByOrdinaryTraffic) {
  auto mistake = [&] {
    const std::size_t count = 2000000 / range.bytes + 300;
    std::vector<void *> others(count);
    for (void *&other : others) other = hak_test::opaque(malloc(range.bytes));
    Victim v = make(range.bytes);
    announce(v.block, v.usable);
    free(v.block);
    free(v.block);
    for (void *other : others) free(other);
    for (int rounds = 0; rounds < 3; rounds++) {
      for (void *&other : others) other = hak_test::opaque(malloc(range.bytes));
      for (void *other : others) free(other);
    }
  };
  /* The blocks of the last flush are found at the end of the process. */
  EXPECT_REPORT((mistake(), std::exit(0)), kDoubleFree, range.has_class);
}

TEST_P(Misuse, DoubleFreePendingAtTheEndOfTheProcess) {
  auto mistake = [&] {
    Victim v = make(range.bytes);
    announce(v.block, v.usable);
    free(v.block);
    free(v.block);
    std::exit(0);
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(Misuse, DoubleFreePendingAtTheEndOfAThread) {
  auto mistake = [&] {
    std::thread([&] {
      Victim v = make(range.bytes);
      announce(v.block, v.usable);
      free(v.block);
      free(v.block);
    }).join();
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

/* ---- Free twice, with another thread in the game -------------------------------*/

TEST_P(Misuse, DoubleFreeByAnotherThread) {
  auto mistake = [&] {
    Worker owner;
    Victim v;
    owner.run([&] { v = make(range.bytes); });
    announce(v.block, v.usable);
    free(v.block);
    free(v.block);
    hak_thread_flush();
    owner.run([] { hak_thread_flush(); });
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(Misuse, DoubleFreeByAnotherThreadInTwoBatches) {
  auto mistake = [&] {
    Worker owner;
    Victim v;
    owner.run([&] { v = make(range.bytes); });
    announce(v.block, v.usable);
    for (int i = 0; i < 2; i++) {
      free(v.block);
      hak_thread_flush();
    }
    owner.run([] { hak_thread_flush(); });
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(Misuse, FreeByAnotherThreadAndThenByTheOwner) {
  auto mistake = [&] {
    Worker owner;
    Victim v;
    owner.run([&] { v = make(range.bytes); });
    announce(v.block, v.usable);
    free(v.block);
    hak_thread_flush();
    owner.run([&] {
      free(v.block);
      hak_thread_flush();
    });
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(Misuse, FreeByTheOwnerAndThenByAnotherThread) {
  auto mistake = [&] {
    Worker owner;
    Victim v;
    owner.run([&] {
      v = make(range.bytes);
      announce(v.block, v.usable);
      free(v.block);
      hak_thread_flush();
    });
    free(v.block);
    hak_thread_flush();
    owner.run([] { hak_thread_flush(); });
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

/* Both frees wait in the two threads' caches before either is flushed. */
TEST_P(Misuse, FreeByTheOwnerAndByAnotherThreadAtOnce) {
  auto mistake = [&] {
    Worker owner;
    Victim v;
    owner.run([&] {
      v = make(range.bytes);
      announce(v.block, v.usable);
      free(v.block);
    });
    free(v.block);
    hak_thread_flush();
    owner.run([] { hak_thread_flush(); });
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(Misuse, FreeByTwoOtherThreads) {
  auto mistake = [&] {
    Worker owner, first, second;
    Victim v;
    owner.run([&] { v = make(range.bytes); });
    announce(v.block, v.usable);
    first.run([&] { free(v.block); });
    second.run([&] { free(v.block); });
    first.run([] { hak_thread_flush(); });
    second.run([] { hak_thread_flush(); });
    owner.run([] { hak_thread_flush(); });
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(Misuse, DoubleFreeOfWhatAnEndedThreadAllocated) {
  auto mistake = [&] {
    Victim v;
    std::thread([&] { v = make(range.bytes); }).join();
    announce(v.block, v.usable);
    free(v.block);
    free(v.block);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

TEST_P(Misuse, DoubleFreeOfWhatAnEndedThreadFreed) {
  auto mistake = [&] {
    Victim v = make(range.bytes);
    announce(v.block, v.usable);
    std::thread([&] { free(v.block); }).join();
    free(v.block);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}

/* ---- Free what is no block ---------------------------------------------------*/

TEST_P(Misuse, FreeOfAnInteriorPointer) {
  for (std::size_t offset : {std::size_t{1}, std::size_t{8}, std::size_t{16}, std::size_t{32}, range.bytes / 2, range.bytes - 1}) {
    auto mistake = [&] {
      Victim v = make(range.bytes);
      announce(v.block + offset, v.usable);
      free(v.block + offset);
      hak_thread_flush();
    };
    SCOPED_TRACE(offset);
    EXPECT_REPORT(mistake(), kInvalid, range.has_class);
  }
}

TEST_P(Misuse, FreeOfAnInteriorPointerByAnotherThread) {
  for (std::size_t offset : {std::size_t{16}, range.bytes - 1}) {
    auto mistake = [&] {
      Worker owner;
      Victim v;
      owner.run([&] { v = make(range.bytes); });
      announce(v.block + offset, v.usable);
      free(v.block + offset);
      hak_thread_flush();
      owner.run([] { hak_thread_flush(); });
    };
    SCOPED_TRACE(offset);
    EXPECT_REPORT(mistake(), kInvalid, range.has_class);
  }
}

TEST_P(Misuse, ReallocOfAnInteriorPointer) {
  auto mistake = [&] {
    Victim v = make(range.bytes);
    announce(v.block + 16, v.usable);
    (void)!hak_test::opaque(realloc(v.block + 16, range.bytes * 3));
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(), kInvalid, false);
}

TEST_P(Misuse, FreeOfAnAddressBesideTheBlocks) {
  for (std::size_t distance : {std::size_t{256} << 20, std::size_t{1} << 30, std::size_t{64} << 30}) {
    auto mistake = [&] {
      Victim v = make(range.bytes);
      announce(v.block + distance, 0);
      free(v.block + distance);
      hak_thread_flush();
    };
    SCOPED_TRACE(distance);
    EXPECT_REPORT(mistake(), kInvalid, false);
  }
}

class WildPointer : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
  static void release(const void *address) {
    announce(address, 0);
    free(const_cast<void *>(hak_test::opaque(address)));
    hak_thread_flush();
  }
};

TEST_F(WildPointer, ToTheStack) {
  struct alignas(64) Local {
    char bytes[256];
  };
  auto mistake = [] {
    Local local = {};
    release(local.bytes + 64);
  };
  EXPECT_REPORT(mistake(), kInvalid, false);
}

TEST_F(WildPointer, ToTheStackOfAnotherThread) {
  auto mistake = [] {
    Worker other;
    alignas(64) char *local = nullptr;
    other.run([&] {
      alignas(64) char bytes[256] = {};
      local = bytes + 64;
    });
    release(local);
  };
  EXPECT_REPORT(mistake(), kInvalid, false);
}

TEST_F(WildPointer, ToStaticData) {
  alignas(64) static char data[256] = {1};
  alignas(64) static char zeros[8192];
  EXPECT_REPORT(release(data + 64), kInvalid, false);
  EXPECT_REPORT(release(zeros + 4096), kInvalid, false);
}

TEST_F(WildPointer, ToConstantsAndCode) {
  alignas(16) static const char constant[64] = "text";
  EXPECT_REPORT(release(constant + 16), kInvalid, false);
  EXPECT_REPORT(release(reinterpret_cast<const void *>(reinterpret_cast<std::uintptr_t>(&hak_version) & ~15ul)), kInvalid,
                false);
}

TEST_F(WildPointer, ToTheProgramsOwnMapping) {
  auto mistake = [] {
    auto *mapping = static_cast<char *>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    release(mapping);
  };
  EXPECT_REPORT(mistake(), kInvalid, false);
}

TEST_F(WildPointer, SmallIntegers) {
  for (std::uintptr_t address : {1, 8, 16, 64, 4095, 4096, 65536})
    EXPECT_REPORT(release(reinterpret_cast<const void *>(address)), kInvalid, false);
}

TEST_F(WildPointer, NonCanonicalAddresses) {
  for (std::uintptr_t address : {0x8000'0000'0000'0000u, 0xdead'beef'dead'bee0u, 0x0000'8000'0000'0000u,
                                 0xffff'8000'0000'0000u, 0xffff'ffff'ffff'fff0u, 0x4141'4141'4141'4141u})
    EXPECT_REPORT(release(reinterpret_cast<const void *>(address)), kInvalid, false);
}

/* ---- A size that is not the block's --------------------------------------------*/

namespace {
const std::size_t kWrongSizes[] = {100, 480, 5000, 50000, 200000, 2 << 20, 6 << 20, 50 << 20, SIZE_MAX};

/* Whether `claimed` is a size that no block of the range can have been asked for with. */
bool is_wrong(const Range &range, std::size_t claimed) { return claimed < range.bytes / 2 || claimed > 2 * range.bytes + 64; }
}  // namespace

TEST_P(Misuse, SizedFreeWithAnotherSize) {
  for (std::size_t claimed : kWrongSizes) {
    if (!is_wrong(range, claimed)) continue;
    auto mistake = [&] {
      Victim v = make(range.bytes);
      announce(v.block, v.usable);
      free_sized(v.block, claimed);
      hak_thread_flush();
    };
    SCOPED_TRACE(claimed);
    EXPECT_REPORT(mistake(), kSize, true);
  }
}

TEST_P(Misuse, SizedDeleteWithAnotherSize) {
  for (std::size_t claimed : {std::size_t{160}, std::size_t{20000}, std::size_t{1} << 20, std::size_t{30} << 20}) {
    if (!is_wrong(range, claimed)) continue;
    auto mistake = [&](bool array) {
      make(range.bytes);
      void *block = hak_test::opaque(array ? operator new[](range.bytes) : operator new(range.bytes));
      announce(block, hak_usable_size(block));
      array ? operator delete[](block, claimed) : operator delete(block, claimed);
      hak_thread_flush();
    };
    SCOPED_TRACE(claimed);
    EXPECT_REPORT(mistake(false), kSize, true);
    EXPECT_REPORT(mistake(true), kSize, true);
  }
}

TEST_P(Misuse, AlignedSizedFreeWithAnotherSize) {
  const std::size_t claimed = range.bytes * 10;
  auto mistake = [&](bool cpp) {
    void *block = hak_test::opaque(aligned_alloc(64, range.bytes));
    announce(block, hak_usable_size(block));
    if (cpp) operator delete(block, claimed, std::align_val_t(64));
    else free_aligned_sized(block, 64, claimed);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(false), kSize, true);
  EXPECT_REPORT(mistake(true), kSize, true);
}

TEST_P(Misuse, SizedFreeWithAnotherSizeByAnotherThread) {
  for (std::size_t claimed : {range.bytes * 10, range.bytes / 10}) {
    auto mistake = [&] {
      Worker owner;
      Victim v;
      owner.run([&] { v = make(range.bytes); });
      announce(v.block, v.usable);
      free_sized(v.block, claimed);
      hak_thread_flush();
      owner.run([] { hak_thread_flush(); });
    };
    SCOPED_TRACE(claimed);
    EXPECT_REPORT(mistake(), kSize, true);
  }
}

/* The same function on a block that is already free: either mistake may be named. */
TEST_P(Misuse, SizedDoubleFree) {
  auto mistake = [&] {
    Victim v = make(range.bytes);
    announce(v.block, v.usable);
    free_sized(v.block, range.bytes);
    free_sized(v.block, range.bytes);
    hak_thread_flush();
  };
  EXPECT_REPORT(mistake(), kDoubleFree, range.has_class);
}
