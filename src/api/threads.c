/*
 * pthread_create(3), so that the background thread is started where the program starts its
 * own, and the container is looked at before. Only in the shared library and in Rust's crate:
 * a static program has no next pthread_create to find.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../front/thread.h"
#include "../int/background.h"
#include "../int/container.h"

#include <dlfcn.h>
#include <errno.h>

#define EXPORT __attribute__((visibility("default")))

/* The C library's, or that of another library which is asked before it: its address, or 0.
 * Relaxed: whoever looks it up stores the same. */
static atomic64 next_create;

/* Before any other library's constructor: later, another thread may hold the loader's lock, in
 * a constructor that waits for a thread which starts one. */
__attribute__((constructor(102))) static void find_next(void) {
  atomic64_store_relaxed(&next_create, (uintptr_t)dlsym(RTLD_NEXT, "pthread_create"));
}

EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*body)(void *),
                          void *restrict argument) {
  if (atomic64_load_relaxed(&next_create) == 0) find_next();
  background_create_fn *create = (background_create_fn *)atomic64_load_relaxed(&next_create);
  if (create == NULL) return EAGAIN;
  thread_watch();
  background_prepare();
  container_look();
  int error = create(thread, attributes, body, argument);
  if (error == 0) background_start(create);
  return error;
}
