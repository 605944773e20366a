/*
 * dlopen(3) and dlsym(3), so that the blocks of the program and those of what it opens or looks up are one allocator's.
 * Only in the shared library.
 *
 * What is opened with RTLD_DEEPBIND looks names up in the libraries that it needs before it does so in the program. One
 * of them is the C library: its malloc and free are found, and not those that the program has. But blocks pass from one
 * to the other, and free of the C library's ends the process when it is given one of ours. That cannot be mended
 * afterwards, as constructors of the plug-in run before dlopen returns. So the flag is left out.
 *
 * Interpreters' foreign functions ask the C library itself: Python's ctypes with CDLL("libc.so.6"), Ruby's Fiddle,
 * PHP's FFI. For malloc's functions the answer is the program's, as in a program without us.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "address.h"
#include "life.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

bool life_serves_malloc(void) { return dlsym(RTLD_DEFAULT, "malloc") == (void *)malloc; }

/* musl has no such flag. */
#if defined(RTLD_DEEPBIND) && (defined(__x86_64__) || defined(__aarch64__))

#include <gnu/libc-version.h>

/* ---- Jumps ------------------------------------------------------------------------*/

/* Where a call goes, and with which second argument; or, if it goes nowhere, `next` being 0, what it returns. Both come
 * in registers. */
typedef struct {
  uintptr_t next;
  intptr_t value;
} route_t;

/* A function of two arguments, whose way the other knows. The next one looks at its return address. So it is jumped to,
 * with the stack as it was. Compilers do so or not, as they are told to optimise. */
#if defined(__x86_64__)
#define JUMP_CODE(route)        \
  "endbr64\n"                   \
  "pushq %rdi\n"                \
  ".cfi_adjust_cfa_offset 8\n"  \
  "call " route                 \
  "\n"                          \
  "popq %rdi\n"                 \
  ".cfi_adjust_cfa_offset -8\n" \
  "testq %rax, %rax\n"          \
  "je 1f\n"                     \
  "movq %rdx, %rsi\n"           \
  "jmp *%rax\n"                 \
  "1: movq %rdx, %rax\n"        \
  "ret\n"
#else
#define JUMP_CODE(route)                                             \
  "hint #34\n" /* bti c */                                           \
  "stp x29, x30, [sp, #-32]!\n"                                      \
  ".cfi_def_cfa_offset 32\n"                                         \
  ".cfi_offset 29, -32\n"                                            \
  ".cfi_offset 30, -24\n"                                            \
  "mov x29, sp\n"                                                    \
  "str x0, [sp, #16]\n"                                              \
  "bl " route                                                        \
  "\n"                                                               \
  "mov x16, x0\n" /* from which a jump may go to where a call may */ \
  "ldr x0, [sp, #16]\n"                                              \
  "ldp x29, x30, [sp], #32\n"                                        \
  ".cfi_restore 29\n"                                                \
  ".cfi_restore 30\n"                                                \
  ".cfi_def_cfa_offset 0\n"                                          \
  "cbz x16, 1f\n"                                                    \
  "br x16\n"                                                         \
  "1: mov x0, x1\n"                                                  \
  "ret\n"
#endif
#define JUMP(name, route) \
  __asm__(".pushsection .text\n" \
          ".globl " name "\n"    \
          ".type " name ", %function\n" \
          ".p2align 4\n"         \
          name ":\n"             \
          ".cfi_startproc\n"     \
          JUMP_CODE(route)       \
          ".cfi_endproc\n"       \
          ".size " name ", . - " name "\n" \
          ".popsection\n")

/* ---- The next dlsym ---------------------------------------------------------------*/

/* The C library's versions of it, before it had libdl's functions. */
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

typedef void *find_fn(void *library, const char *name);

/* Written at each start: beside what is relocated anyway. This file's own variables would be a page apart. */
#define AT_START __attribute__((section(".data")))

/* The C library's, or that of another library which is asked before it: its address, or 0. Relaxed: whoever looks it up
 * stores the same. */
static atomic64 next_find AT_START;

/* By the versions under which it has been the C library's: without one it would be looked up by itself. */
static find_fn *find_next(void) {
  uintptr_t found = atomic64_load_relaxed(&next_find);
  if (HAK_LIKELY(found != 0)) return (find_fn *)found;
  found = (uintptr_t)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (found == 0) found = (uintptr_t)dlvsym(RTLD_NEXT, "dlsym", OLDEST);
  atomic64_store_relaxed(&next_find, found);
  return (find_fn *)found;
}

static void *dlsym_next(void *library, const char *name) {
  find_fn *find = find_next();
  return find != NULL ? find(library, name) : NULL;
}

/* ---- dlopen -----------------------------------------------------------------------*/

typedef void *open_fn(const char *file, int mode);

/* The C library's, or that of another library which is asked before it: its address, or 0. Looked up by the first call,
 * which takes the loader's lock anyway. Relaxed: whoever looks it up stores the same. */
static atomic64 next_open AT_START;

static uintptr_t look_up(void) {
  void *found = dlsym(RTLD_NEXT, "dlopen");
  /* Behind the C library there is none. A plug-in that is linked with us may find ours nevertheless. */
  if (found == NULL) found = dlsym(RTLD_DEFAULT, "dlopen");
  return found != (void *)dlopen ? (uintptr_t)found : 0;
}

static uintptr_t open_next(void) {
  uintptr_t found = atomic64_load_relaxed(&next_open);
  if (found != 0) return found;
  found = look_up();
  atomic64_store_relaxed(&next_open, found);
  return found;
}

/* It is tried, as the address of the program's malloc does not say whose it is where a program has an entry of its own
 * for it, or another library comes between. */
static bool gives_ours(void *program) {
  void *(*allocate)(size_t) = (void *(*)(size_t))dlsym_next(program, "malloc");
  void (*release)(void *) = (void (*)(void *))dlsym_next(program, "free");
  if (allocate == NULL || release == NULL) return false;
  void *block = allocate(1);
  if (block == NULL) return allocate == malloc; /* at the end of memory */
  bool is_ours = address_is_owned(block);
  release(block);
  return is_ours;
}

/* A handle of the program, if its malloc is ours: not where that came with a plug-in. The caller closes it. */
static void *served_program(void) {
  open_fn *open = (open_fn *)open_next();
  void *program = open != NULL ? open(NULL, RTLD_LAZY) : NULL;
  if (program == NULL || gives_ours(program)) return program;
  dlclose(program);
  return NULL;
}

route_t dlopen_route(const char *file, int mode) __attribute__((used, visibility("hidden")));
route_t dlopen_route(const char *file, int mode) {
  (void)file;
  void *program = (mode & RTLD_DEEPBIND) != 0 ? served_program() : NULL;
  if (program != NULL) {
    mode &= ~RTLD_DEEPBIND;
    dlclose(program);
  }
  uintptr_t next = open_next();
  return (route_t){next, next != 0 ? mode : 0};
}

/* Where the caller lies decides about RUNPATH, $ORIGIN and the namespace. */
JUMP("dlopen", "dlopen_route");

/* ---- dlsym ------------------------------------------------------------------------*/

/* Whether blocks pass through it, or it gives memory back. Not what tells figures: who asks the C library for these may
 * want to know whether anybody uses its heap. One after the other, as pointers would have to be relocated at every
 * start. */
static bool is_of_malloc(const char *name) {
  static const char names[] =
      "malloc\0calloc\0realloc\0free\0reallocarray\0aligned_alloc\0memalign\0posix_memalign\0valloc\0pvalloc\0"
      "free_sized\0free_aligned_sized\0cfree\0malloc_usable_size\0malloc_trim\0";
  for (const char *one = names; *one != '\0'; one += strlen(one) + 1)
    if (strcmp(name, one) == 0) return true;
  return false;
}

/* The C library that the program has: not one of a namespace of its own (dlmopen), which has its own heap. */
static bool is_of_the_c_library(const void *address) {
  Dl_info its, ours;
  return dladdr(address, &its) != 0 && dladdr((void *)gnu_get_libc_version, &ours) != 0 &&
         its.dli_fbase == ours.dli_fbase;
}

route_t dlsym_route(void *library, const char *name) __attribute__((used, visibility("hidden")));
route_t dlsym_route(void *library, const char *name) {
  find_fn *find = find_next();
  route_t passed_on = {(uintptr_t)find, find != NULL ? (intptr_t)name : 0};
  if (find == NULL || library == RTLD_DEFAULT || library == RTLD_NEXT || !is_of_malloc(name)) return passed_on;
  void *found = find(library, name);
  if (found == NULL || !is_of_the_c_library(found)) return passed_on;
  void *program = served_program();
  if (program == NULL) return passed_on;
  void *programs = find(program, name);
  dlclose(program);
  return programs != NULL ? (route_t){0, (intptr_t)programs} : passed_on;
}

/* Where it lies decides what RTLD_NEXT and RTLD_DEFAULT find. */
JUMP("dlsym", "dlsym_route");

#endif
