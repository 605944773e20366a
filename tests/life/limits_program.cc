/*
 * Lives through the end of memory, with several threads: every allocation that
 * fails gives NULL and ENOMEM, what is held stays whole, and when half of it is
 * freed, allocation works again. Run under a limit that its caller sets; prints
 * "ok" when all was well.
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/payload.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using hak_test::Random;

struct Held {
  void *block;
  std::size_t bytes;
  std::uint64_t key;
};

[[noreturn]] void fail(const char *what) {
  char line[300];
  int n = std::snprintf(line, sizeof line, "%s\n", what);
  (void)!write(1, line, static_cast<std::size_t>(n));
  _exit(1);
}

constexpr int kThreads = 3;
/* Room for what is held, not taken from the heap. Kept so full that memory ends first. */
constexpr std::size_t kMost = 400000;
Held *tables[kThreads];
std::atomic<int> exhausted;
/* While others allocate, what one thread frees may be taken before it asks again. */
bool alone = true;

void *one(Random &random, std::size_t bytes) {
  errno = 0;
  void *block;
  switch (random.below(4)) {
    case 0: block = calloc(1, bytes); break;
    case 1: block = aligned_alloc(256, bytes); break;
    case 2: block = realloc(nullptr, bytes); break;
    default: block = malloc(bytes);
  }
  if (block == nullptr && errno != ENOMEM) fail("NULL without ENOMEM");
  return block;
}

std::size_t a_size(Random &random, std::size_t ceiling) {
  return random.below(4) == 0 ? random.size_between(16, ceiling) : random.between(200, 4000) % ceiling + 1;
}

/* Allocates until nothing of up to `ceiling` bytes is left. */
std::size_t fill(Held *held, std::size_t count, Random &random, std::size_t ceiling, std::uint64_t stream) {
  int refused = 0;
  while (count < kMost && refused < 50) {
    std::size_t bytes = a_size(random, ceiling);
    void *block = one(random, bytes);
    if (block == nullptr) {
      refused++;
      exhausted++;
      continue;
    }
    std::uint64_t key = hak_test::mix(stream + count);
    hak_test::stamp_as(block, bytes, key);
    held[count++] = {block, bytes, key};
  }
  return count;
}

/* Opens when memory is about to end for the threads, which exist since it was plentiful. */
pthread_barrier_t start, releasing;

void *live(void *argument) {
  const auto t = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(argument));
  Random random(t);
  Held *held = tables[t];
  std::size_t count = 0;
  for (std::uint64_t round = 0; round < 4; round++) {
    count = fill(held, count, random, round % 2 == 0 ? 1 << 20 : 2000, (t << 8 | round) << 32);
    for (std::size_t i = 0; i < count; i++) {
      if (!hak_test::stamped_as(held[i].block, held[i].bytes, held[i].key, held[i].bytes))
        fail("a block was overwritten at the end of memory");
    }
    /* A realloc that fails leaves the block as it was. */
    for (std::size_t i = 0; i < count; i += 97) {
      void *bigger = realloc(held[i].block, held[i].bytes + (std::size_t{1} << 40));
      if (bigger != nullptr) fail("a block of a TiB under a limit");
      if (!hak_test::stamped_as(held[i].block, held[i].bytes, held[i].key, held[i].bytes))
        fail("a realloc that failed changed the block");
    }
    /* Free three in four: memory is back. */
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; i++) {
      if (i % 4 == 0) held[kept++] = held[i];
      else free(held[i].block);
    }
    count = kept;
    for (int i = 0; i < 100; i++) {
      std::size_t bytes = random.between(1, 2000);
      void *block = one(random, bytes);
      if (block != nullptr) std::memset(block, 1, bytes);
      else if (alone) fail("three quarters of the memory were freed, and a small allocation still fails");
      free(block);
    }
  }
  for (std::size_t i = 0; i < count; i++) free(held[i].block);
  return nullptr;
}

void *live_with_others(void *argument) {
  pthread_barrier_wait(&start);
  return live(argument);
}

/* Does nothing but free what others allocated: needs no memory for it. */
void *release_all(void *) {
  pthread_barrier_wait(&releasing);
  for (const Held *held = tables[0]; held->block != nullptr; held++) free(held->block);
  void *block = malloc(100);
  if (block == nullptr) fail("everything was freed, and malloc(100) fails");
  free(block);
  return nullptr;
}

}  // namespace

int main() {
  for (Held *&table : tables) {
    void *memory = mmap(nullptr, kMost * sizeof(Held), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("the limit is too low for this program");
    table = static_cast<Held *>(memory);
  }
  pthread_attr_t small_stack;
  pthread_attr_init(&small_stack);
  pthread_attr_setstacksize(&small_stack, 128 << 10);

  pthread_barrier_init(&start, nullptr, kThreads + 1);
  pthread_barrier_init(&releasing, nullptr, 2);
  pthread_t threads[kThreads], releaser;
  for (std::uintptr_t t = 0; t < kThreads; t++)
    if (pthread_create(&threads[t], &small_stack, live_with_others, reinterpret_cast<void *>(t)) != 0)
      fail("pthread_create failed");
  if (pthread_create(&releaser, &small_stack, release_all, nullptr) != 0) fail("pthread_create failed");

  live(nullptr);
  if (exhausted == 0) fail("memory never ended: the test is void");
  alone = false;
  pthread_barrier_wait(&start);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);

  /* A thread that has never allocated, with nothing left, frees it all. */
  Random random(7);
  std::size_t count = fill(tables[0], 0, random, 1 << 20, 99);
  tables[0][count < kMost ? count : kMost - 1].block = nullptr;
  pthread_barrier_wait(&releasing);
  pthread_join(releaser, nullptr);
  std::puts("ok");
  return 0;
}
