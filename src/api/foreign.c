/* See foreign.h. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE 1
#include "foreign.h"

#include "../os/os.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>

/* Weak: in a static program there is no dynamic linker, and no next allocator. */
#pragma weak dlsym
#pragma weak dladdr

typedef void next_free_fn(void *block);
typedef size_t next_usable_size_fn(void *block);

/* Who is asked whether the next allocator has blocks. */
#if defined(__GLIBC__)
#define INFORMER "mallinfo2"
#else
#define INFORMER "getppid"
#endif

/* Functions, as addresses, or 0. Every thread that looks them up stores the same ones;
 * another may be calling them already. */
static struct {
  atomic32 is_looked_up; /* release: pairs with the acquire in look_up */
  atomic32 has_allocated;
  atomic64 free, usable_size, informer; /* relaxed */
} next;

/* No lock: dlsym may free, too. */
static void store_address(atomic64 *function, const char *name) {
  atomic64_store_relaxed(function, (uintptr_t)dlsym(RTLD_NEXT, name));
}

static bool look_up(void) {
  if (!atomic32_load_acquire(&next.is_looked_up)) {
    if (dlsym == NULL) return false;
    store_address(&next.free, "free");
    store_address(&next.usable_size, "malloc_usable_size");
    store_address(&next.informer, INFORMER);
    atomic32_store_release(&next.is_looked_up, 1);
  }
  return atomic64_load_relaxed(&next.free) != 0 && atomic64_load_relaxed(&next.usable_size) != 0;
}

void foreign_prepare(void) { look_up(); }

hak_gate_t foreign_gate;

#if defined(__GLIBC__)
typedef struct mallinfo2 next_mallinfo2_fn(void);

/* glibc's prepares its heap when it is asked first, and relies on the program having one
 * thread then, as it has at its own first malloc. */
static struct mallinfo2 ask(next_mallinfo2_fn *mallinfo2) {
  gate_enter(&foreign_gate);
  struct mallinfo2 info = mallinfo2();
  gate_leave(&foreign_gate);
  return info;
}

/* glibc's allocator sleeps as long as all of the program is served by us. An allocator that
 * does not tell counts as awake. */
static bool next_sleeps(void) {
  next_mallinfo2_fn *mallinfo2 = (next_mallinfo2_fn *)atomic64_load_relaxed(&next.informer);
  if (mallinfo2 == NULL) return false;
  /* glibc's first use of its heap asks for a random number, which is a cancellation
   * point; malloc's functions are none. */
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  struct mallinfo2 info = ask(mallinfo2);
  pthread_setcancelstate(cancel_state, NULL);
  return info.arena == 0 && info.hblkhd == 0;
}
#else
/* musl's allocator has no words for it, and does not survive to be asked about what is not its block. But whoever
 * is served by us gets none: what the C library takes for itself it keeps. So it sleeps, if it is musl's: if it lies
 * where another function of the C library does. */
static bool next_sleeps(void) {
  Dl_info allocator, library;
  return dladdr((void *)atomic64_load_relaxed(&next.free), &allocator) != 0 &&
         dladdr((void *)atomic64_load_relaxed(&next.informer), &library) != 0 &&
         allocator.dli_fbase == library.dli_fbase;
}
#endif

/* As long as the next allocator sleeps no address is its block, and what looks like one is a mistake. */
static bool next_has_allocated(void) {
  if (atomic32_load_relaxed(&next.has_allocated)) return true;
  if (next_sleeps()) return false;
  atomic32_store_relaxed(&next.has_allocated, 1);
  return true;
}

/* A block is aligned, and the word before it, where glibc keeps its size, can be
 * read. */
static bool can_be_a_block(const void *address) {
  return (uintptr_t)address % 16 == 0 && os_is_readable((const char *)address - 8);
}

bool foreign_free(void *block) {
  if (!look_up() || !next_has_allocated() || !can_be_a_block(block)) return false;
  ((next_free_fn *)atomic64_load_relaxed(&next.free))(block);
  return true;
}

bool foreign_usable_size(const void *block, size_t *bytes) {
  if (!look_up() || !next_has_allocated() || !can_be_a_block(block)) return false;
  *bytes = ((next_usable_size_fn *)atomic64_load_relaxed(&next.usable_size))((void *)block);
  return true;
}
