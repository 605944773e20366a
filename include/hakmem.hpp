/*
 * hakmem for C++17: heaps that end with their scope, memory resources and allocators over them.
 *
 *   hakmem::heap queries{64 << 20};                      // 64 MiB at the most; gone at the end of the scope
 *   hakmem::heap_resource resource{queries};
 *   std::pmr::vector<int> rows{&resource};               // any container of std::pmr
 *   std::vector<int, hakmem::heap_allocator<int>> more{hakmem::heap_allocator<int>{queries}};
 *   std::vector<int, hakmem::allocator<int>> common;     // hakmem's own heap, whoever serves `new`
 *
 * Where there is no memory, or a heap is at its limit, std::bad_alloc is thrown, and in programs without
 * exceptions std::abort called. Resources and allocators do not own their heap: it has to live longer than what they
 * serve. All of them may be used by several threads at a time. hakmem.h says the rest.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAKMEM_HPP
#define HAKMEM_HPP

#include "hakmem.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace hakmem {

namespace detail {

[[noreturn]] inline void no_memory() {
#if defined(__cpp_exceptions)
  throw std::bad_alloc();
#else
  std::abort();
#endif
}
[[noreturn]] inline void no_such_length() {
#if defined(__cpp_exceptions)
  throw std::bad_array_new_length();
#else
  std::abort();
#endif
}

inline constexpr std::size_t common_alignment = 16; /* of every block */

inline void *allocate(hak_heap_t *heap, std::size_t bytes, std::size_t alignment) {
  void *block = alignment <= common_alignment ? hak_heap_malloc(heap, bytes)
                                              : hak_heap_aligned_alloc(heap, alignment, bytes);
  if (block == nullptr) no_memory();
  return block;
}
inline void *allocate(std::size_t bytes, std::size_t alignment) {
  void *block = alignment <= common_alignment ? hak_malloc(bytes) : hak_aligned_alloc(alignment, bytes);
  if (block == nullptr) no_memory();
  return block;
}

template <class T> std::size_t bytes_of(std::size_t count) {
  if (count > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T)) no_such_length();
  return count * sizeof(T);
}

}  // namespace detail

/* Owns a heap: it is destroyed with all its blocks, freed or not, when this is. Destructors of objects in
 * them are not called. Can be moved; one that was moved from has none. */
class heap {
 public:
  /* `limit_bytes`: as for hak_heap_new. */
  explicit heap(std::size_t limit_bytes = 0) : handle_(hak_heap_new(limit_bytes)) {
    if (handle_ == nullptr) detail::no_memory();
  }
  ~heap() { hak_heap_destroy(handle_); }
  heap(heap &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  heap &operator=(heap &&other) noexcept {
    if (this != &other) {
      hak_heap_destroy(handle_);
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  heap(const heap &) = delete;
  heap &operator=(const heap &) = delete;

  hak_heap_t *get() const noexcept { return handle_; }
  /* The caller destroys it from now on. */
  [[nodiscard]] hak_heap_t *release() noexcept { return std::exchange(handle_, nullptr); }
  void set_limit(std::size_t bytes) noexcept { hak_heap_set_limit(handle_, bytes); }
  bool owns(const void *address) const noexcept { return hak_heap_owns(handle_, address); }
  hak_heap_stats_t stats() const noexcept {
    hak_heap_stats_t now;
    hak_heap_stats(handle_, &now, sizeof now);
    return now;
  }

 private:
  hak_heap_t *handle_;
};

/* For std::pmr. Two are equal if they have the same heap; without RTTI, only if they are the same object. */
class heap_resource final : public std::pmr::memory_resource {
 public:
  explicit heap_resource(hak_heap_t *heap) noexcept : heap_(heap) {}
  explicit heap_resource(const hakmem::heap &heap) noexcept : heap_(heap.get()) {}
  hak_heap_t *get() const noexcept { return heap_; }

 private:
  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    return detail::allocate(heap_, bytes, alignment);
  }
  void do_deallocate(void *block, std::size_t, std::size_t) override { hak_heap_free(heap_, block); }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti)
    const auto *resource = dynamic_cast<const heap_resource *>(&other);
    return resource != nullptr && resource->heap_ == heap_;
#else
    return this == &other;
#endif
  }

  hak_heap_t *heap_;
};

/* For containers, from one heap. Goes with what is moved or swapped, not with what is copied into a container
 * that exists. */
template <class T> class heap_allocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  explicit heap_allocator(hak_heap_t *heap) noexcept : heap_(heap) {}
  explicit heap_allocator(const hakmem::heap &heap) noexcept : heap_(heap.get()) {}
  template <class U> heap_allocator(const heap_allocator<U> &other) noexcept : heap_(other.get()) {}

  [[nodiscard]] T *allocate(std::size_t count) {
    return static_cast<T *>(detail::allocate(heap_, detail::bytes_of<T>(count), alignof(T)));
  }
  void deallocate(T *block, std::size_t) noexcept { hak_heap_free(heap_, block); }
  hak_heap_t *get() const noexcept { return heap_; }

 private:
  hak_heap_t *heap_;
};
template <class T, class U> bool operator==(const heap_allocator<T> &a, const heap_allocator<U> &b) noexcept {
  return a.get() == b.get();
}
template <class T, class U> bool operator!=(const heap_allocator<T> &a, const heap_allocator<U> &b) noexcept {
  return !(a == b);
}

/* For containers, from hakmem's common heap, also where another allocator serves operator new. */
template <class T> class allocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using is_always_equal = std::true_type;

  allocator() noexcept = default;
  template <class U> allocator(const allocator<U> &) noexcept {}

  [[nodiscard]] T *allocate(std::size_t count) {
    return static_cast<T *>(detail::allocate(detail::bytes_of<T>(count), alignof(T)));
  }
  void deallocate(T *block, std::size_t) noexcept { hak_free(block); }
};
template <class T, class U> bool operator==(const allocator<T> &, const allocator<U> &) noexcept { return true; }
template <class T, class U> bool operator!=(const allocator<T> &, const allocator<U> &) noexcept { return false; }

}  // namespace hakmem

#endif
