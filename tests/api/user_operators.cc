/*
 * A program that replaces operator new(size) and operator delete(p), and leaves
 * the other forms to the library. [new.delete] wants the library's forms to
 * call the program's: an array, a nothrow and a sized form must end up in the
 * two functions below. Their blocks carry a header, so a library that releases
 * them itself frees an interior pointer.
 *
 * SPDX-License-Identifier: MIT
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <hakmem.h>
#include <new>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wsized-deallocation" /* that it leaves that form out is the point */
#endif

static int news, deletes;
static constexpr std::size_t kHeader = 32;
static constexpr std::uint64_t kMark = 0x6d792062006c6f63;

void *operator new(std::size_t bytes) {
  news++;
  auto *block = static_cast<std::uint64_t *>(std::malloc(bytes + kHeader));
  if (block == nullptr) throw std::bad_alloc();
  block[0] = kMark;
  return reinterpret_cast<char *>(block) + kHeader;
}

void operator delete(void *p) noexcept {
  if (p == nullptr) return;
  deletes++;
  auto *block = reinterpret_cast<std::uint64_t *>(static_cast<char *>(p) - kHeader);
  if (block[0] != kMark) {
    std::printf("operator delete(p) of the program was given a block of the library\n");
    std::_Exit(1);
  }
  std::free(block);
}

struct Thing {
  ~Thing() { value = 0; }
  volatile int value = 1;
};

int main() {
  auto check = [](const char *what) {
    if (news == 1 && deletes == 1) {
      news = deletes = 0;
      return;
    }
    std::printf("%s: %d calls of the program's operator new, %d of its operator delete, expected 1 and 1\n", what, news,
                deletes);
    std::exit(1);
  };
  std::printf("allocator: hakmem %s\n", hak_version());
  news = deletes = 0;
  operator delete(operator new(50));
  check("new and delete");
  operator delete (operator new(50), std::size_t{50});
  check("new and sized delete");
  operator delete[](operator new[](50));
  check("new[] and delete[]");
  operator delete[](operator new[](50), std::size_t{50});
  check("new[] and sized delete[]");
  operator delete(operator new(50, std::nothrow), std::nothrow);
  check("nothrow new and delete");
  operator delete[](operator new[](50, std::nothrow), std::nothrow);
  check("nothrow new[] and delete[]");
  delete new Thing;
  check("expressions");
  delete[] new Thing[9];
  check("array expressions");
  std::puts("ok");
  return 0;
}
