/*
 * main() of the tests that are about the allocator that serves the process: it
 * refuses to pass on any other. A preload that failed silently would otherwise
 * make the C library answer, and every test pass.
 *
 * SPDX-License-Identifier: MIT
 */
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace {

const char *file_of(const char *symbol) {
  static char none[] = "no library";
  void *address = dlsym(RTLD_DEFAULT, symbol);
  Dl_info info;
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fname : none;
}

}  // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  /* ctest asks for the names of the cases without the test's environment. */
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  for (const char *symbol : {"malloc", "free", "calloc", "realloc", "hak_malloc"}) {
    if (std::strstr(file_of(symbol), "libhakmem") == nullptr) {
      std::printf("[  FAILED  ] %s comes from %s, not from libhakmem: nothing was tested\n", symbol, file_of(symbol));
      return EXIT_FAILURE;
    }
  }
  return RUN_ALL_TESTS();
}
