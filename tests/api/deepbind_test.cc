/*
 * Plug-ins that are opened with RTLD_DEEPBIND: their blocks and the program's are of one allocator. And dlopen is
 * otherwise as it is without us.
 *
 * SPDX-License-Identifier: MIT
 */
#include <hakmem.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

namespace {

void *expect_opened(void *library) {
  EXPECT_NE(library, nullptr) << dlerror();
  return library;
}

template <class T> T *find(void *library, const char *symbol) { return reinterpret_cast<T *>(dlsym(library, symbol)); }

char *filled(std::size_t bytes) { return static_cast<char *>(std::memset(std::malloc(bytes), 1, bytes)); }

class Deepbind : public testing::TestWithParam<int> {
 protected:
  void TearDown() override {
    if (plugin_ != nullptr) dlclose(plugin_);
  }
  void open() { plugin_ = expect_opened(dlopen(HELPER_deep_plugin, GetParam() | RTLD_DEEPBIND)); }

  void *plugin_ = nullptr;
};

}  // namespace

TEST_P(Deepbind, ThePluginFreesBlocksOfTheProgram) {
  open();
  auto *plugin_free = find<void(void *)>(plugin_, "plugin_free");
  auto *plugin_realloc = find<void *(void *, std::size_t)>(plugin_, "plugin_realloc");
  for (std::size_t bytes = 1; bytes < 20000000; bytes = bytes * 3 + 1) {
    plugin_free(filled(bytes));
    auto *block = static_cast<char *>(plugin_realloc(filled(bytes), bytes * 2));
    ASSERT_TRUE(hak_owns(block));
    EXPECT_EQ(block[bytes - 1], 1);
    std::free(block);
  }
}
/* They have run before dlopen returns. */
TEST_P(Deepbind, AndSoDoItsConstructors) {
  open();
  void **block = find<void *>(plugin_, "plugin_block");
  ASSERT_TRUE(hak_owns(*block));
  EXPECT_STREQ(static_cast<char *>(*block), "kept");
  std::free(*block);
}
INSTANTIATE_TEST_SUITE_P(Modes, Deepbind, testing::Values(RTLD_NOW | RTLD_LOCAL, RTLD_LAZY | RTLD_GLOBAL),
                         [](auto &mode) { return mode.param == RTLD_NOW ? "Now" : "Lazy"; });

/* A name without a folder is looked for where the library says that calls. */
TEST(Dlopen, LooksWhereItsCallerSays) {
  const char *file = "libdeep_inner.so";
  void *opener = expect_opened(dlopen(HELPER_deep_opener, RTLD_NOW));
  auto *opener_open = find<void *(const char *, int)>(opener, "opener_open");
  for (int mode : {RTLD_NOW, RTLD_NOW | RTLD_DEEPBIND}) {
    EXPECT_EQ(dlopen(file, mode), nullptr) << "it lies where this program finds it, too";
    for (std::string name : {file, "$ORIGIN/inner/libdeep_inner.so"}) {
      void *inner = expect_opened(opener_open(name.c_str(), mode));
      ASSERT_NE(inner, nullptr);
      void **block = find<void *>(inner, "plugin_block");
      EXPECT_TRUE(hak_owns(*block));
      std::free(*block);
      dlclose(inner);
    }
  }
  dlclose(opener);
}
TEST(Dlopen, OfTheProgramItself) {
  void *program = expect_opened(dlopen(nullptr, RTLD_LAZY));
  EXPECT_EQ(dlopen(nullptr, RTLD_LAZY | RTLD_DEEPBIND), program);
  void *block = find<void *(std::size_t)>(program, "malloc")(100);
  EXPECT_TRUE(hak_owns(block));
  std::free(block);
}
TEST(Dlopen, OfWhatHasNotBeenOpened) {
  for (int mode : {RTLD_NOW, RTLD_NOW | RTLD_DEEPBIND}) {
    EXPECT_EQ(dlopen(HELPER_deep_plugin, mode | RTLD_NOLOAD), nullptr);
    void *plugin = expect_opened(dlopen(HELPER_deep_plugin, mode));
    EXPECT_EQ(dlopen(HELPER_deep_plugin, mode | RTLD_NOLOAD), plugin);
    std::free(*find<void *>(plugin, "plugin_block"));
    dlclose(plugin);
    dlclose(plugin);
  }
}
TEST(Dlopen, SaysWhatWentWrong) {
  for (int mode : {RTLD_NOW, RTLD_NOW | RTLD_DEEPBIND}) {
    EXPECT_EQ(dlopen("/nowhere/libnothing.so", mode), nullptr);
    const char *error = dlerror();
    ASSERT_NE(error, nullptr);
    EXPECT_NE(std::strstr(error, "/nowhere/libnothing.so"), nullptr) << error;
    EXPECT_EQ(dlerror(), nullptr);
  }
}
