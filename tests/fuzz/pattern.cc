/* See pattern.h. SPDX-License-Identifier: MIT */
#include "pattern.h"

#include "support/payload.h"

#include <cstring>

namespace hak_fuzz {
namespace {

constexpr std::size_t kWhole = 4096, kPage = 4096, kEveryPage = std::size_t{1} << 20, kFar = 65536, kEnd = 64;

/* Calls visit(offset, bytes) for the pieces that carry the pattern until it says
 * false. Offsets are multiples of 8, so pieces that overlap agree. */
template <class Visit> bool pieces(std::size_t bytes, Visit visit) {
  if (bytes <= kWhole) return visit(std::size_t{0}, bytes);
  if (!visit(std::size_t{0}, std::size_t{256})) return false;
  for (std::size_t at = kPage; at + 16 <= bytes; at += at < kEveryPage ? kPage : kFar)
    if (!visit(at, std::size_t{16})) return false;
  std::size_t end = (bytes - kEnd) & ~std::size_t{7};
  return visit(end, bytes - end);
}

std::uint64_t word(std::uint64_t key, std::size_t offset) { return hak_test::mix(key + offset); }

}  // namespace

void write_pattern(void *block, std::size_t bytes, std::uint64_t key) {
  auto *to = static_cast<unsigned char *>(block);
  pieces(bytes, [&](std::size_t at, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 8) {
      std::uint64_t w = word(key, at + i);
      if (n - i < 8) std::memcpy(to + at + i, &w, n - i);
      else hak_test::detail::put(to + at + i, w);
    }
    return true;
  });
}

std::size_t pattern_differs(const void *block, std::size_t kept, std::size_t bytes, std::uint64_t key) {
  auto *from = static_cast<const unsigned char *>(block);
  std::size_t where = SIZE_MAX;
  pieces(bytes, [&](std::size_t at, std::size_t n) {
    if (at >= kept) return true;
    if (n > kept - at) n = kept - at;
    for (std::size_t i = 0; i < n; i += 8) {
      std::uint64_t w = word(key, at + i);
      if (n - i < 8 ? std::memcmp(from + at + i, &w, n - i) == 0 : hak_test::detail::get(from + at + i) == w) continue;
      where = at + i;
      return false;
    }
    return true;
  });
  return where;
}

std::size_t first_not_zero(const void *block, std::size_t bytes) {
  constexpr std::size_t kEveryByte = std::size_t{8} << 20;
  auto *from = static_cast<const unsigned char *>(block);
  for (std::size_t i = 0; i < bytes;) {
    std::size_t n = bytes - i < 8 ? bytes - i : 8;
    std::uint64_t w = 0;
    if (n < 8) std::memcpy(&w, from + i, n);
    else w = hak_test::detail::get(from + i);
    if (w != 0) {
      while (from[i] == 0) i++;
      return i;
    }
    i += n;
    if (i >= kEveryByte && i % kPage == 64) i += kPage - 64;
  }
  return SIZE_MAX;
}

}  // namespace hak_fuzz
