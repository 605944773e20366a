/*
 * dlsym(3), so that whoever asks the C library itself for malloc's functions gets the program's. Only in the shared
 * library.
 *
 * Foreign functions of interpreters do so: Python's ctypes with CDLL("libc.so.6"), Ruby's Fiddle, PHP's FFI. The C
 * library's free would then be given blocks that the program's malloc made, and ends the process. In a program without
 * us these are the same functions.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "deepbind.h"

#include <dlfcn.h>
#include <string.h>

#if defined(RTLD_DEEPBIND) && (defined(__x86_64__) || defined(__aarch64__))

#include <gnu/libc-version.h>

/* The C library's versions of it, before it had libdl's functions. */
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

typedef void *find_fn(void *library, const char *name);

/* The C library's, or that of another library which is asked before it: its address, or 0. Relaxed: whoever looks it up
 * stores the same. */
static atomic64 next_find;

/* By the versions under which it has been the C library's: without one it would be looked up by itself. */
static find_fn *next(void) {
  uintptr_t found = atomic64_load_relaxed(&next_find);
  if (HAK_LIKELY(found != 0)) return (find_fn *)found;
  found = (uintptr_t)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (found == 0) found = (uintptr_t)dlvsym(RTLD_NEXT, "dlsym", OLDEST);
  atomic64_store_relaxed(&next_find, found);
  return (find_fn *)found;
}

void *dlsym_next(void *library, const char *name) {
  find_fn *find = next();
  return find != NULL ? find(library, name) : NULL;
}

/* One after the other, as pointers to each would have to be relocated at every start. */
static bool is_of_malloc(const char *name) {
  static const char names[] =
      "malloc\0calloc\0realloc\0free\0reallocarray\0aligned_alloc\0memalign\0posix_memalign\0valloc\0pvalloc\0"
      "free_sized\0free_aligned_sized\0cfree\0malloc_usable_size\0malloc_trim\0malloc_stats\0malloc_info\0"
      "mallinfo\0mallinfo2\0mallopt\0";
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

/* Where a call goes; 0: nowhere, the answer is there. Both come in registers. */
typedef struct {
  uintptr_t next;
  void *answer;
} find_route_t;

find_route_t dlsym_route(void *library, const char *name) __attribute__((used, visibility("hidden")));
find_route_t dlsym_route(void *library, const char *name) {
  find_fn *find = next();
  find_route_t passed_on = {(uintptr_t)find, NULL};
  if (find == NULL || library == RTLD_DEFAULT || library == RTLD_NEXT || !is_of_malloc(name)) return passed_on;
  void *found = find(library, name);
  if (found == NULL || !is_of_the_c_library(found)) return passed_on;
  void *program = deepbind_served_program();
  if (program == NULL) return passed_on;
  void *programs = find(program, name);
  dlclose(program);
  return programs != NULL ? (find_route_t){0, programs} : passed_on;
}

/* As dlopen (deepbind.c): for RTLD_NEXT and RTLD_DEFAULT the next dlsym looks at its return address. */
__asm__(
    ".pushsection .text\n"
    ".globl dlsym\n"
    ".type dlsym, %function\n"
    ".p2align 4\n"
    "dlsym:\n"
    ".cfi_startproc\n"
#if defined(__x86_64__)
    "endbr64\n"
    "pushq %rdi\n"
    ".cfi_adjust_cfa_offset 8\n"
    "pushq %rsi\n"
    ".cfi_adjust_cfa_offset 8\n"
    "subq $8, %rsp\n"
    ".cfi_adjust_cfa_offset 8\n"
    "call dlsym_route\n"
    "addq $8, %rsp\n"
    ".cfi_adjust_cfa_offset -8\n"
    "popq %rsi\n"
    ".cfi_adjust_cfa_offset -8\n"
    "popq %rdi\n"
    ".cfi_adjust_cfa_offset -8\n"
    "testq %rax, %rax\n"
    "je 1f\n"
    "jmp *%rax\n"
    "1: movq %rdx, %rax\n"
    "ret\n"
#else
    "hint #34\n" /* bti c */
    "stp x29, x30, [sp, #-32]!\n"
    ".cfi_def_cfa_offset 32\n"
    ".cfi_offset 29, -32\n"
    ".cfi_offset 30, -24\n"
    "mov x29, sp\n"
    "stp x0, x1, [sp, #16]\n"
    "bl dlsym_route\n"
    "mov x16, x0\n" /* from which a jump may go to where a call may */
    "mov x9, x1\n"
    "ldp x0, x1, [sp, #16]\n"
    "ldp x29, x30, [sp], #32\n"
    ".cfi_restore 29\n"
    ".cfi_restore 30\n"
    ".cfi_def_cfa_offset 0\n"
    "cbz x16, 1f\n"
    "br x16\n"
    "1: mov x0, x9\n"
    "ret\n"
#endif
    ".cfi_endproc\n"
    ".size dlsym, . - dlsym\n"
    ".popsection\n");

#endif
