/*
 * The two sets of names under which the same functions are offered: those of
 * the C library and those of hakmem.h. A conformance test runs for both.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_API_SURFACE_H
#define HAK_TESTS_API_SURFACE_H

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <ostream>

struct Surface {
  const char *name;
  void *(*malloc)(std::size_t);
  void *(*calloc)(std::size_t, std::size_t);
  void *(*realloc)(void *, std::size_t);
  void *(*reallocarray)(void *, std::size_t, std::size_t);
  void *(*aligned_alloc)(std::size_t, std::size_t);
  int (*posix_memalign)(void **, std::size_t, std::size_t);
  void (*free)(void *);
  void (*free_sized)(void *, std::size_t);
  void (*free_aligned_sized)(void *, std::size_t, std::size_t);
  std::size_t (*usable)(const void *);
};
inline std::ostream &operator<<(std::ostream &out, const Surface *surface) { return out << surface->name; }

extern const Surface libc_surface, hak_surface;

class BothSurfaces : public testing::TestWithParam<const Surface *> {
 protected:
  const Surface &s = *GetParam();
};
#define FOR_BOTH_SURFACES(Suite)                                                    \
  INSTANTIATE_TEST_SUITE_P(as, Suite, testing::Values(&libc_surface, &hak_surface), \
                           [](const auto &info) { return std::string(info.param->name); })

/* qemu-user 7.2 takes no limit of memory from setrlimit, and loses pages that
 * mremap moves with MREMAP_DONTUNMAP, as realloc does with big blocks. */
#ifdef HAK_TEST_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif
inline constexpr std::size_t kLargestRealloc = kEmulated ? 40000 : SIZE_MAX;

inline bool aligned_to(const void *block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

/* Names that glibc 2.36 has, but declares no more, or has not yet; and two of glibc's that the library has under musl,
 * too, which declares them nowhere. */
extern "C" {
#if !defined(__GLIBC__)
void *pvalloc(std::size_t) noexcept;
int malloc_trim(std::size_t) noexcept;
#endif
void free_sized(void *, std::size_t) noexcept;
void free_aligned_sized(void *, std::size_t, std::size_t) noexcept;
void cfree(void *) noexcept;
}

/* One size in each range that is served in its own way, and the edges between. */
inline constexpr std::size_t kSizes[] = {
    0,     1,     8,     16,    17,     100,     128,     1000,    1024,          1025,     4096,    5000,
    32768, 32769, 65536, 65537, 100000, 1 << 20, 3 << 20, 4 << 20, (4 << 20) + 1, 10 << 20, 33 << 20};

#endif
