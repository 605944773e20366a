/*
 * The functions of malloc.h beyond allocation: programs call them, and one that
 * is missing would wake the C library's own heap.
 *
 * SPDX-License-Identifier: MIT
 */
#include "api/surface.h"
#include "support/payload.h"
#include "support/process.h"

#include <hakmem.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

/* Many blocks of all ranges, 100 MB in sum, each touched. */
struct Load {
  static constexpr std::size_t kBytes = 100'000'000;
  std::vector<void *> blocks;
  Load() {
    hak_test::Random random(7);
    for (std::size_t sum = 0; sum < kBytes;) {
      std::size_t bytes = random.size_between(16, 6 << 20);
      if (bytes > kBytes - sum) bytes = kBytes - sum;
      blocks.push_back(hak_malloc(bytes));
      std::memset(blocks.back(), 1, bytes);
      sum += bytes;
    }
  }
  void drop() {
    for (void *block : blocks) hak_free(block);
    blocks.clear();
  }
  ~Load() { drop(); }
};

/* The stderr of the child that runs `body`. */
std::string stderr_of(void (*body)()) {
  hak_test::Outcome outcome = hak_test::in_child([=] {
    body();
    return 0;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
  return outcome.err;
}

}  // namespace

/* Each of them, so that none is answered by another allocator. */
TEST(Extras, AllComeFromThisLibrary) {
  for (const char *name : {"malloc",
                           "calloc",
                           "realloc",
                           "free",
                           "reallocarray",
                           "aligned_alloc",
                           "memalign",
                           "posix_memalign",
                           "valloc",
                           "pvalloc",
                           "malloc_usable_size",
                           "free_sized",
                           "free_aligned_sized",
                           "cfree",
                           "malloc_trim",
                           "mallinfo",
                           "mallinfo2",
                           "mallopt",
                           "malloc_stats",
                           "malloc_info",
                           "_Znwm",
                           "_ZdlPv",
                           "_ZdlPvm",
                           "_ZnamSt11align_val_t"}) {
    void *address = dlsym(RTLD_DEFAULT, name);
    Dl_info info;
    ASSERT_NE(address, nullptr) << name << " does not exist";
    ASSERT_NE(dladdr(address, &info), 0) << name;
    EXPECT_NE(std::strstr(info.dli_fname, "libhakmem"), nullptr) << name << " comes from " << info.dli_fname;
  }
}

TEST(Extras, CfreeFrees) {
  hak_thread_flush();
  hak_stats_t before, after;
  hak_stats(&before, sizeof before);
  for (std::size_t bytes : kSizes) cfree(malloc(bytes));
  cfree(nullptr);
  hak_thread_flush();
  hak_stats(&after, sizeof after);
  EXPECT_EQ(after.live, before.live);
}

TEST(Extras, Mallinfo2CountsWhatIsHeld) {
  struct mallinfo2 before = mallinfo2();
  Load load;
  struct mallinfo2 during = mallinfo2();
  const std::size_t grown = (during.uordblks + during.hblkhd) - (before.uordblks + before.hblkhd);
  EXPECT_GE(grown, Load::kBytes) << "uordblks + hblkhd while 100 MB are held";
  EXPECT_LE(grown, Load::kBytes / 4 * 5) << "uordblks + hblkhd while 100 MB are held";
  EXPECT_GE(during.arena + during.hblkhd, during.uordblks) << "more in use than there is";
  load.drop();
  hak_thread_flush();
  struct mallinfo2 after = mallinfo2();
  EXPECT_LE(after.uordblks + after.hblkhd, before.uordblks + before.hblkhd + (1 << 20)) << "all of it was freed";
}

TEST(Extras, MallinfoAgreesWithMallinfo2) {
  Load load;
  struct mallinfo2 wide = mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  EXPECT_EQ(static_cast<std::size_t>(narrow.uordblks), wide.uordblks);
  EXPECT_EQ(static_cast<std::size_t>(narrow.hblkhd), wide.hblkhd);
  EXPECT_EQ(static_cast<std::size_t>(narrow.arena), wide.arena);
  EXPECT_EQ(static_cast<std::size_t>(narrow.fordblks), wide.fordblks);
}

TEST(Extras, MalloptKnowsGlibcsParametersAndNoOthers) {
  for (int parameter : {M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX, M_ARENA_TEST,
                        M_CHECK_ACTION, M_PERTURB, M_MXFAST, M_NLBLKS, M_GRAIN, M_KEEP}) {
    EXPECT_EQ(mallopt(parameter, 65536), 1) << "mallopt(" << parameter << ")";
    for (std::size_t bytes : kSizes) {
      void *block = malloc(bytes);
      ASSERT_NE(block, nullptr) << "after mallopt(" << parameter << ")";
      free(block);
    }
  }
  for (int parameter : {0, 5, -9, -1000, 1000}) EXPECT_EQ(mallopt(parameter, 1), 0) << "mallopt(" << parameter << ")";
}

/* Of 128 MiB that are freed. The settings last: each is made in a child. */
TEST(Extras, TheTrimThresholdIsWhatStaysDirty) {
  constexpr std::size_t kMiB = 1 << 20;
  struct {
    int threshold;
    std::size_t least, most;
  } cases[] = {{48 << 20, 48 * kMiB, (48 + 4 + 8) * kMiB}, {-1, 128 * kMiB, 256 * kMiB}, {0, 0, (1 + 8) * kMiB}};
  for (const auto &each : cases) {
    hak_test::Outcome outcome = hak_test::in_child([&] {
      if (mallopt(M_TRIM_THRESHOLD, each.threshold) != 1) return 1;
      void *blocks[16];
      for (void *&block : blocks) block = hak_test::opaque(malloc(8 * kMiB));
      for (void *block : blocks) free(block);
      hak_stats_t now;
      hak_stats(&now, sizeof now);
      std::printf("%zu", now.dirty_free);
      std::fflush(stdout);
      malloc_trim(0);
      hak_stats(&now, sizeof now);
      return now.dirty_free == 0 ? 0 : 2;
    });
    EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
    const std::size_t dirty = std::strtoull(outcome.out.c_str(), nullptr, 10);
    EXPECT_GE(dirty, each.least) << each.threshold;
    EXPECT_LE(dirty, each.most) << each.threshold;
  }
}

/* What is not held counts as far as it is resident: a large block that was never touched, and free memory that has
 * gone back, are nowhere but in hblkhd and uordblks. */
TEST(Extras, Mallinfo2CountsOfTheRestWhatIsResident) {
  void *untouched = malloc(std::size_t{1} << 30);
  Load load;
  load.drop();
  malloc_trim(0);
  struct mallinfo2 info = mallinfo2();
  hak_account_t account;
  hak_account(&account, sizeof account);
  EXPECT_EQ(info.arena, info.uordblks + info.fordblks);
  EXPECT_EQ(info.fordblks, account.resident - account.resident_live);
  EXPECT_GE(info.hblkhd, std::size_t{1} << 30);
  EXPECT_LT(info.arena, std::size_t{16} << 20) << "100 MB were freed and trimmed";
  EXPECT_EQ(info.hblks, 1u);
  free(untouched);
}

TEST(Extras, MallocStatsWritesAReportToStandardError) {
  std::string text = stderr_of([] { malloc_stats(); });
  EXPECT_GE(hak_test::lines_with(text, ""), 2u) << text;
  EXPECT_NE(text.find_first_of("0123456789"), std::string::npos) << text;
}

TEST(Extras, MallocInfoWritesXml) {
  Load load;
  char *text = nullptr;
  std::size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  ASSERT_EQ(malloc_info(0, stream), 0);
  std::fclose(stream);
  std::string xml(text, length);
  free(text);
  EXPECT_EQ(xml.rfind("<malloc", 0), 0u) << xml;
  EXPECT_NE(xml.find("</malloc>"), std::string::npos) << xml;
  /* Every element is closed in order: the text is well-formed as far as names go. */
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    std::size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos) << xml.substr(at);
    bool closing = xml[at + 1] == '/', empty = xml[end - 1] == '/';
    std::size_t start = at + (closing ? 2 : 1);
    std::string name = xml.substr(start, xml.find_first_of(" />\n", start) - start);
    if (closing) {
      ASSERT_FALSE(open.empty()) << "</" << name << "> closes nothing\n" << xml;
      EXPECT_EQ(open.back(), name) << xml;
      open.pop_back();
    } else if (!empty) {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty()) << "<" << (open.empty() ? "" : open.back()) << "> is never closed\n" << xml;
  /* What is current is what is resident. */
  hak_account_t account;
  hak_account(&account, sizeof account);
  auto size_of = [&](const char *element) {
    std::size_t at = xml.rfind(element);
    return at == std::string::npos ? 0.0 : std::stod(xml.substr(xml.find("size=\"", at) + 6));
  };
  EXPECT_NEAR(size_of("<system type=\"current\""), static_cast<double>(account.resident), 1 << 20) << xml;
  EXPECT_EQ(size_of("<aspace type=\"total\""), static_cast<double>(account.mapped)) << xml;
  EXPECT_GE(size_of("<system type=\"max\""), size_of("<system type=\"current\"")) << xml;
}

TEST(Extras, MallocInfoRefusesOptions) {
  char *text = nullptr;
  std::size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  EXPECT_NE(malloc_info(1, stream), 0) << "no option is defined";
  std::fclose(stream);
  EXPECT_EQ(length, 0u);
  free(text);
}

TEST(Extras, MallocTrimGivesFreeMemoryBack) {
  malloc_trim(0);
  const std::size_t before = hak_test::resident_bytes();
  Load load;
  EXPECT_GE(hak_test::resident_bytes(), before + Load::kBytes) << "the load is not resident: the test is void";
  load.drop();
  malloc_trim(0);
  EXPECT_LE(hak_test::resident_bytes(), before + Load::kBytes / 10)
      << "bytes resident after 100 MB were freed and trimmed";
  EXPECT_EQ(malloc_trim(0), 0) << "there was nothing left to give back";
}
