/*
 * What tests write into blocks, so that they notice when a block is not theirs
 * alone: a pattern that depends on the block's address and on a seed. Two
 * blocks that overlap cannot both keep it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_SUPPORT_PAYLOAD_H
#define HAK_TESTS_SUPPORT_PAYLOAD_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace hak_test {

/* Keeps the compiler from knowing anything about p. */
template <class T> inline T *opaque(T *p) {
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

inline std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  return x ^ x >> 32;
}

/* A small generator of equal quality everywhere: the sequence is the seed's alone. */
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  /* 0 .. bound - 1 */
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }
  /* from .. to */
  std::size_t between(std::size_t from, std::size_t to) { return from + below(to - from + 1); }
  /* from .. to, each doubling equally likely */
  std::size_t size_between(std::size_t from, std::size_t to) {
    std::size_t top = between(log2(from), log2(to));
    std::size_t n = (std::size_t{1} << top) + below(std::size_t{1} << top);
    return n < from ? from : n > to ? to : n;
  }
  template <typename Sequence> void shuffle(Sequence &sequence) {
    for (std::size_t i = sequence.size(); i > 1; i--) std::swap(sequence[i - 1], sequence[below(i)]);
  }

 private:
  static std::size_t log2(std::size_t n) { return n == 0 ? 0 : 63 - static_cast<std::size_t>(__builtin_clzll(n)); }
  std::uint64_t state_;
};

/* A block of more than 64 KiB is marked in 16 bytes of every page and at its end: other blocks begin and end at
 * multiples of 64 KiB there, and nothing less than a page is taken from it. All of it is in use then. */
constexpr std::size_t kDenseBytes = 64 << 10, kPage = 4 << 10;

namespace detail {
/* Calls visit(offset, bytes) for each piece of the block that carries the pattern.
 * Every offset is a multiple of 8, so that pieces that overlap agree. */
template <class Visit> inline bool pieces(std::size_t bytes, Visit visit) {
  if (bytes <= kDenseBytes) return visit(std::size_t{0}, bytes);
  for (std::size_t at = 0; at + 16 <= bytes; at += kPage)
    if (!visit(at, std::size_t{16})) return false;
  const std::size_t end = (bytes - 16) & ~std::size_t{7};
  return visit(end, bytes - end);
}
inline std::uint64_t word(std::uint64_t key, std::size_t offset) { return mix(key + offset); }

/* Built in, which -fno-builtin makes nothing that has not this name: a call for each eight bytes would
 * take more time than all else that tests do. */
inline void put(unsigned char *to, std::uint64_t w) { __builtin_memcpy(to, &w, 8); }
inline std::uint64_t get(const unsigned char *from) {
  std::uint64_t w;
  __builtin_memcpy(&w, from, 8);
  return w;
}
}  // namespace detail

/* Marks `bytes` bytes with the pattern of `key`. */
inline void stamp_as(void *block, std::size_t bytes, std::uint64_t key) {
  auto *to = static_cast<unsigned char *>(block);
  detail::pieces(bytes, [&](std::size_t at, std::size_t n) {
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) detail::put(to + at + i, detail::word(key, at + i));
    if (i == n) return true;
    std::uint64_t w = detail::word(key, at + i);
    std::memcpy(to + at + i, &w, n - i);
    return true;
  });
}

/* Whether the first `bytes` bytes still have the pattern that stamp_as gave a
 * block of `stamped_bytes`. */
inline bool stamped_as(const void *block, std::size_t bytes, std::uint64_t key, std::size_t stamped_bytes) {
  auto *from = static_cast<const unsigned char *>(block);
  return detail::pieces(stamped_bytes, [&](std::size_t at, std::size_t n) {
    if (at >= bytes) return true;
    if (at + n > bytes) n = bytes - at;
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8)
      if (detail::get(from + at + i) != detail::word(key, at + i)) return false;
    if (i == n) return true;
    std::uint64_t w = detail::word(key, at + i);
    return std::memcmp(from + at + i, &w, n - i) == 0;
  });
}

inline std::uint64_t key_of(const void *block, std::uint64_t seed) {
  return mix(reinterpret_cast<std::uintptr_t>(block) ^ mix(seed));
}
inline void stamp(void *block, std::size_t bytes, std::uint64_t seed) { stamp_as(block, bytes, key_of(block, seed)); }
inline bool stamped(const void *block, std::size_t bytes, std::uint64_t seed) {
  return stamped_as(block, bytes, key_of(block, seed), bytes);
}

}  // namespace hak_test
#endif
