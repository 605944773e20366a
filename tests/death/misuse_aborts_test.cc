/*
 * Mistakes with free end the program with one line that names the address.
 *
 * SPDX-License-Identifier: MIT
 */
#include "death/mistakes.h"
#include "death/reports.h"
#include "support/payload.h"
#include "support/worker.h"

#include <gtest/gtest.h>
#include <hakmem.h>

#include <cstdlib>
#include <string>
#include <sys/mman.h>

using hak_test::Worker;

namespace {

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
  for (std::size_t offset :
       {std::size_t{1}, std::size_t{8}, std::size_t{16}, std::size_t{32}, range.bytes / 2, range.bytes - 1}) {
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
  EXPECT_REPORT(release(reinterpret_cast<const void *>(reinterpret_cast<std::uintptr_t>(&hak_version) & ~15ul)),
                kInvalid, false);
}

TEST_F(WildPointer, ToTheProgramsOwnMapping) {
  auto mistake = [] {
    auto *mapping = static_cast<char *>(
        mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
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
