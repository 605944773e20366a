/*
 * See work.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "work.h"

#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace soak {

using hak_test::mix;
using hak_test::Random;

namespace {

constexpr std::size_t kLargest = 256 << 10;
constexpr int kRefused = 3, kDamaged = 4; /* exit statuses of a child */

Held allocate(Random &random, std::size_t largest) {
  const std::size_t bytes = random.size_between(1, largest);
  switch (random.below(8)) {
    case 0: {
      auto *block = static_cast<unsigned char *>(std::calloc(1, bytes));
      for (std::size_t i = 0; block != nullptr && i < bytes; i += i < 4096 ? 1 : 509)
        if (block[i] != 0) throw Damaged("calloc gave memory that is not zero");
      return Held::mark(block, bytes);
    }
    case 1: {
      const std::size_t alignment = std::size_t{1} << random.between(4, 13);
      void *block = nullptr;
      if (posix_memalign(&block, alignment, bytes) != 0) throw std::bad_alloc();
      if (reinterpret_cast<std::uintptr_t>(block) % alignment != 0) throw Damaged("a block is not aligned");
      return Held::mark(block, bytes);
    }
    default: return Held::mark(std::malloc(bytes), bytes);
  }
}

Held reallocate(Held held, Random &random) {
  const std::size_t bytes = random.size_between(1, kLargest);
  void *moved = std::realloc(held.block, bytes);
  if (moved == nullptr) return held; /* still there, and as it was */
  held.block = moved;
  held.check(bytes);
  return Held::mark(moved, bytes);
}

std::string word_of(Random &random) {
  const std::size_t length = random.between(1, 60);
  return std::string(length, static_cast<char>('a' + random.below(26)));
}

}  // namespace

std::uint64_t containers(std::uint64_t seed, std::size_t rounds) {
  Random random(seed);
  std::uint64_t hash = seed;
  for (std::size_t round = 0; round < rounds; round++) {
    std::map<std::string, std::vector<std::uint64_t>> sorted;
    std::unordered_map<std::uint64_t, std::shared_ptr<std::string>> shared;
    std::deque<std::uint64_t> queue;
    std::list<std::string> list;
    std::set<std::uint64_t> set;
    for (std::size_t i = 0; i < 300; i++) {
      sorted[word_of(random)].push_back(random.next());
      shared[random.below(200)] = std::make_shared<std::string>(word_of(random));
      queue.push_back(random.next());
      if (random.below(3) == 0) queue.pop_front();
      list.push_front(word_of(random));
      if (random.below(2) == 0) list.pop_back();
      set.insert(random.below(400));
      if (random.below(3) == 0) set.erase(random.below(400));
    }
    for (const auto &[word, numbers] : sorted)
      for (std::uint64_t number : numbers) hash = mix(hash ^ number ^ word.size());
    /* An unordered container's order is not the seed's alone: its sum is. */
    std::uint64_t sum = 0;
    for (const auto &[number, word] : shared) sum += mix(number ^ word->size());
    for (std::uint64_t number : queue) hash = mix(hash ^ number);
    for (const std::string &word : list) hash = mix(hash ^ static_cast<std::uint64_t>(word[0]) ^ word.size() << 8);
    for (std::uint64_t number : set) hash = mix(hash ^ number);
    hash = mix(hash ^ sum);
  }
  return hash;
}

void churn(Shelf &shelf, Random &random, std::size_t operations) {
  for (std::size_t i = 0; i < operations; i++) {
    const std::size_t place = random.below(Shelf::kPlaces);
    Held held = random.below(4) == 0 ? shelf.swap(place, Held()) : Held();
    held = held.block == nullptr ? allocate(random, kLargest) : reallocate(held, random);
    shelf.swap(place, held).release();
  }
}

void helpers(Random &random) {
  constexpr std::size_t kThreads = 3, kBlocks = 60;
  std::mutex mutex;
  Bundle handed(kThreads * kBlocks);
  bool short_of_memory = false;
  std::string damage;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::size_t t = 0; t < kThreads; t++) {
    try {
      threads.emplace_back([&, seed = random.next()] {
        Random own(seed);
        try {
          for (std::size_t i = 0; i < kBlocks; i++) {
            Held held = allocate(own, kLargest / 4);
            std::lock_guard<std::mutex> lock(mutex);
            handed.add(held);
          }
          containers(seed, 1);
        } catch (const std::bad_alloc &) {
          std::lock_guard<std::mutex> lock(mutex);
          short_of_memory = true;
        } catch (const Damaged &found) {
          std::lock_guard<std::mutex> lock(mutex);
          damage = found.what();
        }
      });
    } catch (const std::exception &) {
      short_of_memory = true; /* no thread (system_error), or no memory for what it is told (bad_alloc) */
    }
  }
  for (std::thread &thread : threads) thread.join();
  handed.release();
  if (!damage.empty()) throw Damaged(damage);
  if (short_of_memory) throw std::bad_alloc();
}

int work_as_child(std::uint64_t seed) {
  try {
    Random random(seed);
    std::vector<Held> own;
    for (std::size_t i = 0; i < 200; i++) {
      own.push_back(allocate(random, kLargest / 8));
      if (own.size() > 50) {
        own[0].release();
        own[0] = own.back();
        own.pop_back();
      }
    }
    containers(seed, 2);
    for (Held &held : own) held.release();
    return 0;
  } catch (const std::bad_alloc &) {
    return kRefused;
  } catch (const Damaged &) {
    return kDamaged;
  }
}

void child(Random &random, bool execute) {
  const std::uint64_t seed = random.next();
  const std::string text = std::to_string(seed);
  constexpr std::size_t kBlocks = 40;
  Bundle inherited(kBlocks);
  for (std::size_t i = 0; i < kBlocks; i++) inherited.add(allocate(random, kLargest / 8));
  const pid_t pid = fork();
  if (pid == 0) {
    if (execute) {
      execl("/proc/self/exe", "soak_threads", "--child", text.c_str(), static_cast<char *>(nullptr));
      _exit(kRefused);
    }
    int status = kDamaged;
    try {
      inherited.release();
      status = work_as_child(seed);
    } catch (const Damaged &) {}
    _exit(status);
  }
  inherited.release();
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) throw std::bad_alloc();
  if (WIFSIGNALED(status))
    throw Damaged((execute ? "an executed" : "a forked") + std::string(" child was killed by signal ") +
                  std::to_string(WTERMSIG(status)));
  if (WEXITSTATUS(status) == kRefused) throw std::bad_alloc();
  if (WEXITSTATUS(status) != 0) throw Damaged("a child found damage");
}

}  // namespace soak
