/*
 * A program that does with its address space what the allocator could not know when it
 * started: address_space_program CASE prints "ok" or what went wrong.
 *
 * SPDX-License-Identifier: MIT
 */
#include <cerrno>
#include <cstdio>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;

[[noreturn]] void fail(const char *what, std::size_t number) {
  std::printf("%s: %zu, errno %d\n", what, number, errno);
  std::exit(1);
}

void set_limit(rlim_t bytes) {
  rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = bytes;
  if (setrlimit(RLIMIT_AS, &limit) != 0) fail("setrlimit", bytes);
}

/* MiB that can be had in blocks of that size, up to `most` MiB; nothing is touched. */
std::size_t grow(std::size_t block, std::size_t most_mib) {
  std::size_t sum = 0;
  for (; sum < most_mib * kMiB && malloc(block) != nullptr; sum += block) {}
  return sum / kMiB;
}

void expect_heap_grows(std::size_t mib) {
  for (std::size_t block : {100 * kMiB, kMiB}) {
    const std::size_t got = grow(block, mib);
    if (got < mib) fail("the heap ends at so many MiB", got);
  }
}

void *map_nothing(void *hint, std::size_t bytes, int flags) {
  return mmap(hint, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

void *allocating(void *) {
  void *block = malloc(1000);
  free(block);
  return block;
}

/* A mapping, a library, threads and a large block still go. */
void live_within_a_limit() {
  void *mapping = mmap(nullptr, kGiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) fail("the program cannot map a GiB", 0);
  if (dlopen("libm.so.6", RTLD_NOW) == nullptr) fail(dlerror(), 0);
  if (dlopen("libutil.so.1", RTLD_NOW) == nullptr) fail(dlerror(), 0);
  std::vector<pthread_t> threads(20);
  for (pthread_t &thread : threads)
    if (pthread_create(&thread, nullptr, allocating, nullptr) != 0) fail("pthread_create", 0);
  for (pthread_t thread : threads) {
    void *result;
    pthread_join(thread, &result);
    if (result == nullptr) fail("a thread cannot allocate", 0);
  }
  void *block = malloc(kGiB);
  if (block == nullptr) fail("malloc(1 GiB)", 0);
  free(block);
}

/* What is locked must not grow with what is only reserved. */
void lock_all(int flags) {
  if (mlockall(flags) != 0) fail("mlockall", static_cast<std::size_t>(flags));
  std::vector<void *> blocks;
  for (std::size_t i = 0; i < 3000; i++) {
    blocks.push_back(malloc(i * 3 + 1));
    if (blocks.back() == nullptr) fail("malloc", i);
    std::memset(blocks.back(), 1, i * 3 + 1);
  }
  for (void *block : blocks) free(block);
  char line[256];
  FILE *status = std::fopen("/proc/self/status", "r");
  std::size_t locked_kib = 0;
  while (std::fgets(line, sizeof line, status) != nullptr)
    if (std::strncmp(line, "VmLck:", 6) == 0) locked_kib = std::strtoul(line + 6, nullptr, 10);
  std::fclose(status);
  if (locked_kib > 600 * 1024) fail("KiB locked", locked_kib);
}

/* Something lies where the heap would grow to next. */
void obstacles(std::size_t distance, bool on_both_sides) {
  std::vector<char *> blocks;
  char *highest = nullptr, *lowest = nullptr;
  for (std::size_t bytes : {100, 10000, 300000, 5000000})
    for (int i = 0; i < 20; i++) {
      auto *block = static_cast<char *>(malloc(bytes));
      if (highest == nullptr || block > highest) highest = block;
      if (lowest == nullptr || block < lowest) lowest = block;
      blocks.push_back(block);
    }
  auto page = [](char *address) {
    return reinterpret_cast<char *>(reinterpret_cast<std::uintptr_t>(address) & ~std::uintptr_t{65535});
  };
  /* Where the allocator has reserved the place, the kernel refuses, and nothing is in the way. */
  for (char *block : blocks) map_nothing(page(block) + distance, 16 * kMiB, MAP_FIXED_NOREPLACE);
  map_nothing(page(highest) + distance, 16 * kMiB, MAP_FIXED_NOREPLACE);
  if (on_both_sides) map_nothing(page(lowest) - distance, 16 * kMiB, MAP_FIXED_NOREPLACE);
  expect_heap_grows(2048);
  for (char *block : blocks) free(block);
}

/* A page at every 64 MiB behind both ends of the heap. */
void many_obstacles() {
  char *small = static_cast<char *>(malloc(100)), *huge = static_cast<char *>(malloc(5000000));
  int placed = 0;
  for (char *block : {small, huge})
    for (std::size_t i = 1; i <= 50; i++) {
      char *page = reinterpret_cast<char *>(reinterpret_cast<std::uintptr_t>(block) & ~std::uintptr_t{65535});
      placed += map_nothing(page + i * 64 * kMiB, 4096, MAP_FIXED_NOREPLACE) != MAP_FAILED;
    }
  if (placed < 90) fail("obstacles", static_cast<std::size_t>(placed));
  /* What is larger than the gaps would leave them all behind. */
  const std::size_t got = grow(kMiB, 4096);
  if (got < 4096) fail("the heap ends at so many MiB", got);
  free(huge);
  free(small);
}

}  // namespace

int main(int argc, char **argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  free(malloc(1000));
  if (what == "raised") {
    /* Started under a soft limit, which the program takes away, to map 80 GiB itself. */
    rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    set_limit(limit.rlim_max);
    for (int i = 0; i < 80; i++)
      if (map_nothing(nullptr, kGiB, 0) == MAP_FAILED) fail("GiB of the program's own", static_cast<std::size_t>(i));
    expect_heap_grows(3 * 1024);
  } else if (what == "limited") {
    set_limit(4 * kGiB);
    live_within_a_limit();
  } else if (what == "limited-later") {
    grow(kMiB, 300);
    grow(1000, 20);
    set_limit(4 * kGiB);
    live_within_a_limit();
  } else if (what == "limited-and-lifted") {
    set_limit(4 * kGiB);
    live_within_a_limit();
    rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    set_limit(limit.rlim_max);
    expect_heap_grows(6 * 1024);
  } else if (what == "lock-current") {
    lock_all(MCL_CURRENT);
  } else if (what == "lock-future") {
    lock_all(MCL_CURRENT | MCL_FUTURE);
  } else if (what == "lock-small-limit") {
    const rlimit limit = {256 * kMiB, 256 * kMiB};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (geteuid() == 0 && setuid(65534) != 0)) return 77;
    lock_all(MCL_CURRENT | MCL_FUTURE);
  } else if (what == "many-obstacles") {
    many_obstacles();
  } else if (what == "obstacles" && argc == 3) {
    obstacles(std::strtoul(argv[2], nullptr, 10) * kMiB, true);
  } else {
    return 2;
  }
  std::puts("ok");
  return 0;
}
