/*
 * dlopen(3), so that the blocks of the program and those of its plug-ins are one allocator's. Only in the shared
 * library.
 *
 * What is opened with RTLD_DEEPBIND looks names up in the libraries that it needs before it does so in the program. One
 * of them is the C library: its malloc and free are found, and not those that the program has. But blocks pass from one
 * to the other, and free of the C library's ends the process when it is given one of ours. That cannot be mended
 * afterwards, as constructors of the plug-in run before dlopen returns. So the flag is left out.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "deepbind.h"

#include "address.h"
#include "life.h"

#include <dlfcn.h>
#include <stdlib.h>

/* musl has no such flag. */
#if defined(RTLD_DEEPBIND) && (defined(__x86_64__) || defined(__aarch64__))

bool life_serves_malloc(void) { return dlsym(RTLD_DEFAULT, "malloc") == (void *)malloc; }

typedef void *open_fn(const char *file, int mode);

/* The C library's, or that of another library which is asked before it: its address, or 0. Looked up by the first call,
 * which takes the loader's lock anyway. Relaxed: whoever looks it up stores the same. */
static atomic64 next_open;

static uintptr_t look_up(void) {
  void *found = dlsym(RTLD_NEXT, "dlopen");
  /* Behind the C library there is none. A plug-in that is linked with us may find ours nevertheless. */
  if (found == NULL) found = dlsym(RTLD_DEFAULT, "dlopen");
  return found != (void *)dlopen ? (uintptr_t)found : 0;
}

static uintptr_t next(void) {
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
  bool is_ours = address_is_owned(block);
  release(block);
  return is_ours;
}

void *deepbind_served_program(void) {
  open_fn *open = (open_fn *)next();
  void *program = open != NULL ? open(NULL, RTLD_LAZY) : NULL;
  if (program == NULL || gives_ours(program)) return program;
  dlclose(program);
  return NULL;
}

/* Where a call of dlopen goes, and with which mode. 0: nowhere. Both come in registers. */
typedef struct {
  uintptr_t next;
  intptr_t mode;
} route_t;

route_t deepbind_route(int mode) __attribute__((used, visibility("hidden")));
route_t deepbind_route(int mode) {
  void *program = (mode & RTLD_DEEPBIND) != 0 ? deepbind_served_program() : NULL;
  if (program != NULL) {
    mode &= ~RTLD_DEEPBIND;
    dlclose(program);
  }
  return (route_t){next(), mode};
}

/* The next dlopen looks at its return address: where the caller lies decides about RUNPATH, $ORIGIN and the namespace.
 * So it is jumped to, with the stack as it was. Compilers do so or not, as they are told to optimise. */
__asm__(
    ".pushsection .text\n"
    ".globl dlopen\n"
    ".type dlopen, %function\n"
    ".p2align 4\n"
    "dlopen:\n"
    ".cfi_startproc\n"
#if defined(__x86_64__)
    "endbr64\n"
    "pushq %rdi\n"
    ".cfi_adjust_cfa_offset 8\n"
    "movl %esi, %edi\n"
    "call deepbind_route\n"
    "popq %rdi\n"
    ".cfi_adjust_cfa_offset -8\n"
    "movl %edx, %esi\n"
    "testq %rax, %rax\n"
    "je 1f\n"
    "jmp *%rax\n"
    "1: ret\n"
#else
    "hint #34\n" /* bti c */
    "stp x29, x30, [sp, #-32]!\n"
    ".cfi_def_cfa_offset 32\n"
    ".cfi_offset 29, -32\n"
    ".cfi_offset 30, -24\n"
    "mov x29, sp\n"
    "str x0, [sp, #16]\n"
    "mov w0, w1\n"
    "bl deepbind_route\n"
    "mov x16, x0\n" /* from which a jump may go to where a call may */
    "ldr x0, [sp, #16]\n"
    "ldp x29, x30, [sp], #32\n"
    ".cfi_restore 29\n"
    ".cfi_restore 30\n"
    ".cfi_def_cfa_offset 0\n"
    "cbz x16, 1f\n"
    "br x16\n"
    "1: mov x0, xzr\n"
    "ret\n"
#endif
    ".cfi_endproc\n"
    ".size dlopen, . - dlopen\n"
    ".popsection\n");

#endif
