/*
 * A plug-in whose new-handler says that it was called. Its main() has the C++ library itself ask for memory when there
 * is none at all: exits with 0 if the exception comes here. With OWN_OPERATORS it has a form of new of its own, which
 * the preloaded library's comes before.
 *
 * SPDX-License-Identifier: MIT
 */
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <unistd.h>

namespace {

void say_once() {
  (void)!write(STDOUT_FILENO, "called\n", 7);
  std::set_new_handler(nullptr);
}
const std::new_handler before = std::set_new_handler(say_once);

/* Takes all that there is, down to the smallest block. */
void *take_all() {
  void *all = nullptr;
  for (std::size_t bytes = std::size_t{1} << 20; bytes >= sizeof all; bytes /= 2) {
    while (void *block = std::malloc(bytes)) {
      *static_cast<void **>(block) = all;
      all = block;
    }
  }
  return all;
}

/* The first exception of a thread takes memory that is no exception's. */
void throw_once() {
  try {
    throw 1;
  } catch (int) {}
}

}  // namespace

#if defined(OWN_OPERATORS)
void *operator new(std::size_t, const std::nothrow_t &) noexcept {
  static char own[16];
  return own;
}
#endif

int main() {
  throw_once();
  std::string text;
  void *all = take_all();
  bool caught = false;
  try {
    text.reserve(5000);
  } catch (const std::bad_alloc &) {
    caught = true;
  }
  while (all != nullptr) {
    void *next = *static_cast<void **>(all);
    std::free(all);
    all = next;
  }
  return caught ? 0 : 1;
}
