// A thousand calls of each kind, each kind in a function of its own, once to warm up and once more: calls.py counts the
// instructions of the second. Prints the kinds, in their order, and which object serves malloc.
//
// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <malloc.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {
constexpr int kCalls = 1000;
void *volatile seen;          // so that no call is optimised away
volatile std::size_t length;  // so that no size is known

void *see(void *block) {
  seen = block;
  return seen;
}
}  // namespace

#define KIND(name, ...)                                     \
  extern "C" __attribute__((noinline)) void kind_##name() { \
    for (int i = 0; i < kCalls; i++) {                      \
      __VA_ARGS__;                                          \
    }                                                       \
  }
#define PAIR(bytes) KIND(malloc_##bytes, length = bytes; std::free(see(std::malloc(length))))
#define ZEROED(bytes) KIND(calloc_##bytes, length = bytes; std::free(see(std::calloc(1, length))))

KIND(nothing, length = 16; see(nullptr))
PAIR(16)
PAIR(1024)
PAIR(1025)
PAIR(1041)
PAIR(4096)
PAIR(16384)
PAIR(65536)
ZEROED(16)
ZEROED(64)
ZEROED(256)
ZEROED(1024)
KIND(aligned_alloc_32, length = 96; std::free(see(std::aligned_alloc(32, length))))
KIND(aligned_alloc_64, length = 192; std::free(see(std::aligned_alloc(64, length))))
KIND(sized_delete_48, length = 48; ::operator delete(see(::operator new(length)), length))
KIND(sized_delete_2048, length = 2048; ::operator delete(see(::operator new(length)), length))
KIND(usable_size_100, length = malloc_usable_size(seen))
KIND(realloc_in_place_100, length = 100 - i % 2; see(std::realloc(seen, length)))
KIND(realloc_in_place_2000, length = 2000 - i % 2; see(std::realloc(seen, length)))

namespace {
struct Kind {
  const char *name;
  void (*run)();
  std::size_t needs;  // a block of so many bytes in `seen`
};
#define ONE(name, needs) \
  { #name, kind_##name, needs }
constexpr Kind kKinds[] = {
    ONE(nothing, 0),
    ONE(malloc_16, 0),
    ONE(malloc_1024, 0),
    ONE(malloc_1025, 0),
    ONE(malloc_1041, 0),
    ONE(malloc_4096, 0),
    ONE(malloc_16384, 0),
    ONE(malloc_65536, 0),
    ONE(calloc_16, 0),
    ONE(calloc_64, 0),
    ONE(calloc_256, 0),
    ONE(calloc_1024, 0),
    ONE(aligned_alloc_32, 0),
    ONE(aligned_alloc_64, 0),
    ONE(sized_delete_48, 0),
    ONE(sized_delete_2048, 0),
    ONE(usable_size_100, 100),
    ONE(realloc_in_place_100, 100),
    ONE(realloc_in_place_2000, 2000),
};
}  // namespace

// Not a jump: calls.py looks for what this one calls.
extern "C" __attribute__((noinline)) void measured(void (*run)()) {
  run();
  length = 0;
}

int main() {
  for (const Kind &kind : kKinds) {
    if (kind.needs > 0) see(std::malloc(kind.needs));
    kind.run();
    measured(kind.run);
    if (kind.needs > 0) std::free(seen);
    std::puts(kind.name);
  }
  Dl_info info;
  std::printf("malloc_from=%s\n", dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) != 0 ? info.dli_fname : "?");
  return 0;
}
