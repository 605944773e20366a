/*
 * Blocks that all threads of the soaked server share: what one thread puts on
 * the shelf another takes down, checks and frees.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_SOAK_SHELF_H
#define HAK_TESTS_SOAK_SHELF_H

#include "support/payload.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace soak {

/* A block that has lost what was written into it. */
struct Damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/* A block with a key that no other block of the process ever had. Its memory is
 * given back by release(), which checks it first. */
struct Held {
  void *block = nullptr;
  std::size_t bytes = 0;
  std::uint64_t key = 0;

  static Held mark(void *block, std::size_t bytes) {
    static std::atomic<std::uint64_t> next{1};
    if (block == nullptr) throw std::bad_alloc();
    Held held{block, bytes, hak_test::mix(next.fetch_add(1, std::memory_order_relaxed))};
    hak_test::stamp_as(block, bytes, held.key);
    return held;
  }
  void check(std::size_t first_bytes) const {
    if (!hak_test::stamped_as(block, std::min(first_bytes, bytes), key, bytes))
      throw Damaged("a block is not what its owner left in it");
  }
  void release() {
    if (block == nullptr) return;
    check(bytes);
    std::free(block);
    block = nullptr;
  }
};

/* Blocks of one owner, which are freed with it, also where memory ran out half-way. */
class Bundle {
 public:
  explicit Bundle(std::size_t capacity) { blocks_.reserve(capacity); }
  Bundle(const Bundle &) = delete;
  Bundle &operator=(const Bundle &) = delete;
  ~Bundle() {
    for (Held &held : blocks_) std::free(held.block);
  }
  void add(Held held) { blocks_.push_back(held); }
  void release() {
    for (Held &held : blocks_) held.release();
  }

 private:
  std::vector<Held> blocks_;
};

class Shelf {
 public:
  static constexpr std::size_t kPlaces = 1500;

  /* Puts `held` in a place and returns what was there. */
  Held swap(std::size_t place, Held held) {
    std::lock_guard<std::mutex> lock(locks_[place % locks_.size()]);
    std::swap(places_[place], held);
    return held;
  }
  void clear() {
    for (std::size_t i = 0; i < kPlaces; i++) swap(i, Held()).release();
  }

 private:
  std::array<std::mutex, 64> locks_;
  std::array<Held, kPlaces> places_{};
};

}  // namespace soak
#endif
