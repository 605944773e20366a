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

/* Interpreters' foreign functions ask the C library itself. */
TEST(Dlsym, OfTheCLibraryFindsTheProgramsMalloc) {
  void *library = expect_opened(dlopen("libc.so.6", RTLD_LAZY));
  for (const char *name :
       {"malloc", "free", "calloc", "realloc", "posix_memalign", "malloc_usable_size", "malloc_trim"})
    EXPECT_EQ(dlsym(library, name), dlsym(RTLD_DEFAULT, name)) << name;
  auto *library_strdup = find<char *(const char *)>(library, "strdup");
  find<void(void *)>(library, "free")(library_strdup("a block of the program's"));
  void *block = find<void *(std::size_t)>(library, "malloc")(100);
  EXPECT_TRUE(hak_owns(block));
  std::free(block);
  dlclose(library);
}
TEST(Dlsym, IsOtherwiseAsItIs) {
  void *library = expect_opened(dlopen("libc.so.6", RTLD_LAZY));
  EXPECT_EQ(dlsym(library, "getenv"), dlsym(RTLD_DEFAULT, "getenv"));
  EXPECT_NE(dlsym(library, "mallinfo2"), dlsym(RTLD_DEFAULT, "mallinfo2")) << "figures of that heap are its own";
  (void)dlerror();
  EXPECT_EQ(dlsym(library, "no_such_function"), nullptr);
  const char *error = dlerror();
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::strstr(error, "no_such_function"), nullptr) << error;
  EXPECT_EQ(dlerror(), nullptr);
  dlclose(library);
  /* That of a namespace of its own has a heap of its own. */
  void *apart = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_LAZY);
  if (apart == nullptr) GTEST_SKIP() << dlerror();
  void *block = find<void *(std::size_t)>(apart, "malloc")(100);
  EXPECT_FALSE(hak_owns(block));
  find<void(void *)>(apart, "free")(block);
  dlclose(apart);
}
/* What comes next depends on who asks: behind this program it is the library's, behind the library the C library's. */
TEST(Dlsym, SeesItsCaller) {
  for (const char *name : {"malloc", "dlopen", "dlsym"}) {
    void *next = dlsym(RTLD_NEXT, name);
    EXPECT_NE(next, nullptr);
    EXPECT_EQ(next, dlsym(RTLD_DEFAULT, name)) << name;
  }
}

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
