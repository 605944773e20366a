/*
 * Threads that allocate and free without pause until they are told to stop.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_LIFE_BUSY_THREADS_H
#define HAK_TESTS_LIFE_BUSY_THREADS_H

#include "support/payload.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

struct Held {
  void *block;
  std::size_t bytes;
  std::uint64_t key;

  static Held make(std::size_t bytes, std::uint64_t key) {
    Held held = {malloc(bytes), bytes, key};
    if (held.block == nullptr) std::abort();
    hak_test::stamp_as(held.block, bytes, key);
    return held;
  }
  bool intact() const { return hak_test::stamped_as(block, bytes, key, bytes); }
};

/* Small ones mostly, now and then one of the other ranges. */
inline std::size_t some_size(hak_test::Random &random) {
  std::size_t dice = random.below(200);
  return dice == 0   ? random.size_between(4 << 20, 6 << 20)
         : dice < 10 ? random.size_between(1025, 400000)
                     : random.between(1, 1024);
}

class BusyThreads {
 public:
  explicit BusyThreads(unsigned count) {
    for (unsigned t = 0; t < count; t++) threads_.emplace_back([this, t] { work(t); });
    while (started_.load() < count) std::this_thread::yield();
  }
  ~BusyThreads() {
    stop_ = true;
    for (std::thread &thread : threads_) thread.join();
    for (const Held &held : published) free(held.block);
  }
  /* Blocks that the threads allocated and nobody frees but who holds the mutex. */
  std::mutex mutex;
  std::vector<Held> published;

 private:
  void work(unsigned t) {
    hak_test::Random random(t);
    std::vector<Held> own;
    bool first = true;
    for (std::uint64_t serial = std::uint64_t{t} << 40; !stop_; serial++) {
      own.push_back(Held::make(some_size(random), serial));
      if (own.size() >= 100) {
        std::lock_guard<std::mutex> lock(mutex);
        for (int i = 0; i < 10 && published.size() < 300; i++) {
          published.push_back(own.back());
          own.pop_back();
        }
        while (published.size() > 250) {
          free(published.front().block);
          published.erase(published.begin());
        }
      }
      if (own.size() >= 100) {
        std::swap(own[random.below(own.size())], own.back());
        if (!own.back().intact()) std::abort();
        free(own.back().block);
        own.pop_back();
      }
      if (first && own.size() > 50) {
        first = false;
        started_++;
      }
    }
    for (const Held &held : own) free(held.block);
  }
  std::atomic<bool> stop_{false};
  std::atomic<unsigned> started_{0};
  std::vector<std::thread> threads_;
};

#endif
