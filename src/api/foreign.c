/* See foreign.h. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE 1
#include "foreign.h"

#include "../os/os.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>

/* Weak: in a static program there is no dynamic linker, and no next allocator. */
#pragma weak dlsym

typedef struct mallinfo2 next_mallinfo2_fn(void);

/* Every thread stores the same values; relaxed order would do, release is free. */
static struct {
  atomic32 is_looked_up; /* release: pairs with the acquire in look_up */
  atomic32 has_allocated;
  void (*free)(void *);
  size_t (*usable_size)(void *);
  next_mallinfo2_fn *mallinfo2;
} next;

static bool look_up(void) {
  if (!atomic32_load_acquire(&next.is_looked_up)) {
    if (dlsym == NULL) return false;
    /* POSIX wants the detour through void * (dlsym, rationale). */
    *(void **)&next.free = dlsym(RTLD_NEXT, "free");
    *(void **)&next.usable_size = dlsym(RTLD_NEXT, "malloc_usable_size");
    *(void **)&next.mallinfo2 = dlsym(RTLD_NEXT, "mallinfo2");
    atomic32_store_release(&next.is_looked_up, 1);
  }
  return next.free != NULL && next.usable_size != NULL;
}

/* glibc's allocator sleeps as long as all of the program is served by us: then
 * no address is its block, and what looks like one is a mistake. An allocator
 * that does not tell counts as awake. */
static bool next_has_allocated(void) {
  if (atomic32_load_relaxed(&next.has_allocated)) return true;
  if (next.mallinfo2 != NULL) {
    /* glibc's first use of its heap asks for a random number, which is a cancellation
     * point; malloc's functions are none. */
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    struct mallinfo2 info = next.mallinfo2();
    pthread_setcancelstate(cancel_state, NULL);
    if (info.arena == 0 && info.hblkhd == 0) return false;
  }
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
  next.free(block);
  return true;
}

bool foreign_usable_size(const void *block, size_t *bytes) {
  if (!look_up() || !next_has_allocated() || !can_be_a_block(block)) return false;
  *bytes = next.usable_size((void *)block);
  return true;
}
