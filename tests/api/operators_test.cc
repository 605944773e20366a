/*
 * operator new and delete: every replaceable form, and the new-handler.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/surface.h"
#include "support/payload.h"
#include "support/process.h"

#include <hakmem.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <sys/resource.h>
#include <vector>

using hak_test::opaque;
using std::align_val_t;
using std::nothrow;

namespace {

/* More than there is, but no more than PTRDIFF_MAX: the compiler lets it pass. */
std::size_t too_much() { return std::size_t{1} << 61; }

/* Restores "no handler" at the end of a test. */
struct Handler {
  explicit Handler(std::new_handler handler) { std::set_new_handler(handler); }
  ~Handler() { std::set_new_handler(nullptr); }
};

int calls;

struct MyBadAlloc : std::bad_alloc {
  const char *what() const noexcept override { return "mine"; }
};

/* Every form of new by name. The size is asked for as it is; alignment only where the form takes it. */
struct NewForm {
  const char *name;
  bool is_nothrow, is_aligned, is_array;
  void *(*allocate)(std::size_t, std::size_t alignment);
};
const NewForm kNewForms[] = {
    {"new(n)", false, false, false, [](std::size_t n, std::size_t) { return operator new(n); }},
    {"new[](n)", false, false, true, [](std::size_t n, std::size_t) { return operator new[](n); }},
    {"new(n, nothrow)", true, false, false, [](std::size_t n, std::size_t) { return operator new(n, nothrow); }},
    {"new[](n, nothrow)", true, false, true, [](std::size_t n, std::size_t) { return operator new[](n, nothrow); }},
    {"new(n, align)", false, true, false, [](std::size_t n, std::size_t a) { return operator new(n, align_val_t(a)); }},
    {"new[](n, align)", false, true, true,
     [](std::size_t n, std::size_t a) { return operator new[](n, align_val_t(a)); }},
    {"new(n, align, nothrow)", true, true, false,
     [](std::size_t n, std::size_t a) { return operator new(n, align_val_t(a), nothrow); }},
    {"new[](n, align, nothrow)", true, true, true,
     [](std::size_t n, std::size_t a) { return operator new[](n, align_val_t(a), nothrow); }},
};

struct DeleteForm {
  const char *name;
  bool is_aligned, is_array;
  void (*release)(void *, std::size_t n, std::size_t alignment);
};
const DeleteForm kDeleteForms[] = {
    {"delete(p)", false, false, [](void *p, std::size_t, std::size_t) { operator delete(p); }},
    {"delete[](p)", false, true, [](void *p, std::size_t, std::size_t) { operator delete[](p); }},
    {"delete(p, nothrow)", false, false, [](void *p, std::size_t, std::size_t) { operator delete(p, nothrow); }},
    {"delete[](p, nothrow)", false, true, [](void *p, std::size_t, std::size_t) { operator delete[](p, nothrow); }},
    {"delete(p, n)", false, false, [](void *p, std::size_t n, std::size_t) { operator delete(p, n); }},
    {"delete[](p, n)", false, true, [](void *p, std::size_t n, std::size_t) { operator delete[](p, n); }},
    {"delete(p, align)", true, false, [](void *p, std::size_t, std::size_t a) { operator delete(p, align_val_t(a)); }},
    {"delete[](p, align)", true, true,
     [](void *p, std::size_t, std::size_t a) { operator delete[](p, align_val_t(a)); }},
    {"delete(p, n, align)", true, false,
     [](void *p, std::size_t n, std::size_t a) { operator delete(p, n, align_val_t(a)); }},
    {"delete[](p, n, align)", true, true,
     [](void *p, std::size_t n, std::size_t a) { operator delete[](p, n, align_val_t(a)); }},
    {"delete(p, align, nothrow)", true, false,
     [](void *p, std::size_t, std::size_t a) { operator delete(p, align_val_t(a), nothrow); }},
    {"delete[](p, align, nothrow)", true, true,
     [](void *p, std::size_t, std::size_t a) { operator delete[](p, align_val_t(a), nothrow); }},
};

hak_stats_t stats() {
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  return now;
}

}  // namespace

TEST(Operators, EveryNewWithEveryMatchingDelete) {
  for (const NewForm &make : kNewForms) {
    for (const DeleteForm &drop : kDeleteForms) {
      if (make.is_aligned != drop.is_aligned || make.is_array != drop.is_array) continue;
      for (std::size_t bytes : kSizes) {
        for (std::size_t alignment : {std::size_t{8}, std::size_t{32}, std::size_t{4096}, std::size_t{1} << 20}) {
          SCOPED_TRACE(std::string(make.name) + " and " + drop.name + ", n = " + std::to_string(bytes) +
                       ", align = " + std::to_string(alignment));
          void *block = opaque(make.allocate(bytes, alignment));
          ASSERT_NE(block, nullptr);
          EXPECT_TRUE(hak_owns(block));
          EXPECT_TRUE(aligned_to(block, make.is_aligned ? std::max<std::size_t>(16, alignment) : 16));
          EXPECT_GE(hak_usable_size(block), bytes);
          if (bytes > 0) static_cast<char *>(block)[bytes - 1] = 1;
          drop.release(block, bytes, alignment);
          if (!make.is_aligned) break;
        }
      }
    }
  }
  hak_thread_flush();
  EXPECT_EQ(stats().errors, 0u) << "a correct delete was reported";
}

TEST(Operators, DeleteOfNullDoesNothing) {
  for (const DeleteForm &drop : kDeleteForms) drop.release(nullptr, 100, 64);
  hak_thread_flush();
  EXPECT_EQ(stats().errors, 0u);
}

TEST(Operators, NewOfZeroBytesIsUnique) {
  for (const NewForm &make : kNewForms) {
    void *first = make.allocate(0, 64), *second = make.allocate(0, 64);
    EXPECT_NE(first, nullptr) << make.name;
    EXPECT_NE(first, second) << make.name;
    free(first);
    free(second);
  }
}

/* What compilers make of new and delete expressions. */
TEST(Operators, Expressions) {
  struct alignas(256) Wide {
    char bytes[300];
  };
  struct Counted {
    Counted() { calls++; }
    ~Counted() { calls--; }
    int value = 7;
  };
  hak_thread_flush();
  const std::size_t before = stats().live;
  calls = 0;
  for (int round = 0; round < 200; round++) {
    auto *one = opaque(new Counted);
    auto *many = opaque(new Counted[100]);
    auto *wide = opaque(new Wide);
    auto *wides = opaque(new Wide[3]);
    auto *perhaps = opaque(new (nothrow) Counted[10]);
    auto shared = std::make_shared<std::vector<std::string>>(50, std::string(100, 'x'));
    EXPECT_EQ(calls, 111);
    EXPECT_EQ(one->value + many[99].value, 14);
    EXPECT_TRUE(aligned_to(wide, 256));
    EXPECT_TRUE(aligned_to(wides, 256));
    delete one;
    delete[] many;
    delete wide;
    delete[] wides;
    delete[] perhaps;
    EXPECT_EQ(calls, 0);
  }
  hak_thread_flush();
  EXPECT_EQ(stats().live, before) << "something was not given back";
  EXPECT_EQ(stats().errors, 0u) << "a correct delete was reported";
}

TEST(NewHandler, NoneMeansBadAlloc) {
  for (const NewForm &make : kNewForms) {
    if (make.is_nothrow) EXPECT_EQ(make.allocate(too_much(), 64), nullptr) << make.name;
    else EXPECT_THROW((void)make.allocate(too_much(), 64), std::bad_alloc) << make.name;
  }
}

TEST(NewHandler, SizesThatWrapMeanBadAllocToo) {
  for (const NewForm &make : kNewForms) {
    for (std::size_t k : {0, 1, 15, 16, 63, 4095, 65535}) {
      std::size_t bytes = SIZE_MAX - k;
      if (make.is_nothrow) EXPECT_EQ(make.allocate(bytes, 4096), nullptr) << make.name << " SIZE_MAX - " << k;
      else EXPECT_THROW((void)make.allocate(bytes, 4096), std::bad_alloc) << make.name << " SIZE_MAX - " << k;
    }
  }
}

TEST(NewHandler, IsCalledUntilItGivesUp) {
  for (const NewForm &make : kNewForms) {
    calls = 0;
    Handler handler([] {
      if (++calls == 5) std::set_new_handler(nullptr);
    });
    if (make.is_nothrow) EXPECT_EQ(make.allocate(too_much(), 64), nullptr) << make.name;
    else EXPECT_THROW((void)make.allocate(too_much(), 64), std::bad_alloc) << make.name;
    EXPECT_EQ(calls, 5) << make.name << ": the handler is asked again until there is none";
  }
}

TEST(NewHandler, ItsExceptionReachesTheCaller) {
  for (const NewForm &make : kNewForms) {
    calls = 0;
    Handler handler([] {
      calls++;
      throw MyBadAlloc();
    });
    if (make.is_nothrow) {
      EXPECT_EQ(make.allocate(too_much(), 64), nullptr) << make.name << ": nothrow turns the exception into NULL";
    } else {
      try {
        (void)make.allocate(too_much(), 64);
        FAIL() << make.name << " returned";
      } catch (const std::bad_alloc &error) {
        EXPECT_STREQ(error.what(), "mine") << make.name;
      }
    }
    EXPECT_EQ(calls, 1) << make.name;
  }
}

TEST(NewHandler, IsNotCalledByMalloc) {
  calls = 0;
  Handler handler([] {
    calls++;
    std::set_new_handler(nullptr);
  });
  EXPECT_EQ(opaque(malloc(too_much())), nullptr);
  EXPECT_EQ(opaque(hak_malloc(too_much())), nullptr);
  EXPECT_EQ(opaque(aligned_alloc(4096, too_much())), nullptr);
  EXPECT_EQ(calls, 0);
}

/* The use that handlers are made for: memory is short, the handler releases a
 * reserve, and the request that had failed succeeds. */
TEST(NewHandler, MayFreeMemorySoThatTheRequestSucceeds) {
  if (kEmulated) GTEST_SKIP() << "the emulator does not limit memory";
  for (const NewForm &make : kNewForms) {
    hak_test::Outcome outcome = hak_test::in_child([&] {
      constexpr std::size_t kMiB = 1 << 20;
      static void *reserve;
      reserve = opaque(malloc(400 * kMiB));
      rlimit limit = {(hak_test::status_kib("VmData:") << 10) + 100 * kMiB, RLIM_INFINITY};
      limit.rlim_max = limit.rlim_cur;
      if (reserve == nullptr || setrlimit(RLIMIT_DATA, &limit) != 0) return 3;
      calls = 0;
      std::set_new_handler([] {
        calls++;
        free(reserve);
        reserve = nullptr;
        hak_trim(0);
        if (calls > 3) std::set_new_handler(nullptr);
      });
      void *block = nullptr;
      try {
        block = make.allocate(300 * kMiB, 64);
      } catch (const std::bad_alloc &) {
        return 4;
      }
      if (block == nullptr) return 5;
      static_cast<char *>(block)[300 * kMiB - 1] = 1;
      return calls == 1 ? 0 : 6;
    });
    EXPECT_TRUE(outcome.exited_with(0)) << make.name
                                        << " (4: bad_alloc, 5: NULL, 6: not exactly one call): " << outcome.describe();
  }
}
