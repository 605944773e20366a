/*
 * C++ that is linked statically and uses of exceptions only what operator new promises;
 * prints "ok". STATIC_CPP_CASE makes each case a program of its own, so that nothing else
 * brings code into it.
 *
 * SPDX-License-Identifier: MIT
 */
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

static volatile std::size_t too_much = ~std::size_t{0} / 2;

#if STATIC_CPP_CASE == 1 /* a failing new is caught */
int main() {
  try {
    void *p = ::operator new(too_much);
    std::printf("a block at %p\n", p);
  } catch (const std::bad_alloc &) {
    std::puts("ok");
  }
}
#elif STATIC_CPP_CASE == 2 /* a handler is asked, and gives up */
static int calls;
int main() {
  std::set_new_handler([] {
    if (++calls == 3) std::set_new_handler(nullptr);
  });
  try {
    void *p = ::operator new[](too_much);
    std::printf("a block at %p\n", p);
  } catch (const std::bad_alloc &) {
    std::puts(calls == 3 ? "ok" : "the handler was not asked three times");
  }
}
#elif STATIC_CPP_CASE == 3 /* nothrow, without any catch */
int main() { std::puts(::operator new(too_much, std::nothrow) == nullptr ? "ok" : "a block"); }
#elif STATIC_CPP_CASE == 4 /* nothrow, with a handler that throws */
int main() {
  std::set_new_handler([] { throw std::bad_alloc(); });
  std::puts(::operator new(too_much, std::nothrow) == nullptr ? "ok" : "a block");
}
#elif STATIC_CPP_CASE == 5 /* an alignment, and anything is caught */
int main() {
  try {
    void *p = ::operator new (too_much, std::align_val_t{4096});
    std::printf("a block at %p\n", p);
  } catch (...) {
    std::puts("ok");
  }
}
#elif STATIC_CPP_CASE == 6 /* nobody catches: the program ends as any C++ program would */
int main() {
  std::set_terminate([] {
    std::puts("ok");
    std::fflush(stdout);
    std::_Exit(0);
  });
  void *p = ::operator new(too_much);
  std::printf("a block at %p\n", p);
}
#elif STATIC_CPP_CASE == 7 /* a handler that is set and never needed */
int main() {
  std::set_new_handler([] { std::abort(); });
  delete[] new int[1000];
  std::puts(std::get_new_handler() != nullptr ? "ok" : "the handler is lost");
}
#endif
