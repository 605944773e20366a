/*
 * See new_handler.h. The only C++ of the library. It needs the C++ run-time library
 * of the program. The shared library, which C programs load as well, gets no
 * dependency on that: weak references find it where it is when the library is loaded.
 * Where it is not, nobody comes here but for what the program has replaced: operators.c
 * asks the run-time library that a plug-in has brought since. In the static library this
 * is a member of the archive that only C++ programs are linked with; there the references
 * are strong, as weak ones take nothing out of the run-time library's own archive.
 *
 * SPDX-License-Identifier: MIT
 */
#include "new_handler.h"

#include <new>

extern "C" void *alloc_aligned(size_t alignment, size_t bytes);

namespace std {
[[noreturn]] void __throw_bad_alloc(); /* of libstdc++ and libc++ alike */
}
#if !defined(HAK_NEEDS_CXX_RUNTIME)
__asm__(".weak _ZSt15get_new_handlerv");
__asm__(".weak _ZSt17__throw_bad_allocv");
__asm__(".weak __gxx_personality_v0");
__asm__(".weak __cxa_begin_catch");
__asm__(".weak __cxa_end_catch");
__asm__(".weak _ZSt9terminatev");
#endif

static void *retry(size_t bytes, size_t alignment) {
  for (;;) {
    std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) return nullptr;
    handler();
    if (void *block = alloc_aligned(alignment, bytes)) return block;
  }
}

void *new_handler_retry(size_t bytes, size_t alignment) {
  void *block = retry(bytes, alignment);
  if (block != nullptr) return block;
  std::__throw_bad_alloc();
}

void *new_handler_retry_nothrow(size_t bytes, size_t alignment) {
  try {
    return retry(bytes, alignment);
  } catch (...) {
    return nullptr;
  }
}

void *new_handler_catch(void *(*form)(size_t), size_t bytes) {
  try {
    return form(bytes);
  } catch (...) {
    return nullptr;
  }
}

void *new_handler_catch_aligned(void *(*form)(size_t, size_t), size_t bytes, size_t alignment) {
  try {
    return form(bytes, alignment);
  } catch (...) {
    return nullptr;
  }
}
