/*
 * A program that allocates whenever it can: before main, in constructors and
 * destructors of its own and of a library, in atexit handlers, and in threads
 * that still run at exit. It ends with status 0 and prints "ok" last, from a
 * destructor that runs after main. Built in every way that a program can come
 * to hakmem.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/payload.h"

#include <hakmem.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#ifdef EARLY_HAS_LIBRARY
extern "C" int early_library_blocks(void);
#endif

namespace {

[[noreturn]] void fail(const char *what) {
  (void)!write(2, what, std::strlen(what));
  (void)!write(2, "\n", 1);
  _exit(1);
}

/* Blocks of one stage of the process's life, which a later one checks and frees. */
struct Stage {
  static constexpr std::size_t kSizes[] = {0, 1, 24, 1000, 5000, 33000, 70000, 1 << 20, 5 << 20};
  void *blocks[sizeof kSizes / sizeof *kSizes];

  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) {
      blocks[i] = hak_test::opaque(malloc(kSizes[i]));
      if (blocks[i] == nullptr) fail("malloc failed");
      hak_test::stamp(blocks[i], kSizes[i], seed);
    }
  }
  void drop(std::uint64_t seed, const char *name) {
    for (std::size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) {
      if (!hak_test::stamped(blocks[i], kSizes[i], seed)) fail(name);
      free(blocks[i]);
    }
  }
};

Stage preinit, constructor, initialiser, in_main, in_atexit;

#ifdef EARLY_HAS_PREINIT
void before_everything(int, char **, char **) { preinit.fill(1); }
__attribute__((section(".preinit_array"), used)) void (*const preinit_entry)(int, char **, char **) = before_everything;
#else
__attribute__((constructor(101))) void before_everything() { preinit.fill(1); }
#endif

__attribute__((constructor(102))) void before_main() { constructor.fill(2); }

struct Global {
  std::map<std::string, std::vector<int>> contents;
  Global() {
    initialiser.fill(3);
    for (int i = 0; i < 500; i++)
      contents[std::string(40, 'k') + std::to_string(i)].resize(static_cast<std::size_t>(i));
  }
  ~Global() {
    in_atexit.drop(5, "what the atexit handler allocated was overwritten");
    initialiser.drop(3, "what a static constructor allocated was overwritten");
    if (contents.size() != 500) fail("a static object was overwritten");
    contents["one more, while the process ends"].resize(100000);
  }
} global;

/* Runs after every destructor above. */
__attribute__((destructor(101))) void after_everything() {
  constructor.drop(2, "what a constructor allocated was overwritten");
  preinit.drop(1, "what was allocated before every constructor was overwritten");
  for (int i = 0; i < 1000; i++) free(hak_test::opaque(malloc(static_cast<std::size_t>(i) * 50)));
  (void)!write(1, "ok\n", 3);
}

void at_exit() {
  in_main.drop(4, "what main allocated was overwritten");
  in_atexit.fill(5);
}

}  // namespace

int main(int argc, char **) {
#ifdef EARLY_LINKED
  if (!hak_owns(preinit.blocks[1]) || !hak_owns(global.contents.begin()->first.c_str()))
    fail("the blocks from before main are not hakmem's");
#endif
#ifdef EARLY_HAS_LIBRARY
  if (early_library_blocks() != 100) fail("the library's constructor did not run");
#endif
  in_main.fill(4);
  std::atexit(at_exit);
  /* Works on while the process ends around it. */
  if (argc > 1)
    std::thread([] {
      for (std::uint64_t i = 0;; i++) free(hak_test::opaque(malloc(i % 3000)));
    }).detach();
  for (int t = 0; t < 4; t++)
    std::thread([] {
      Stage own;
      own.fill(9);
      own.drop(9, "what a thread allocated was overwritten");
    }).join();
  return 0;
}
