/*
 * pthread_create(3), so that the background thread is started where the program starts its
 * own. Only in the shared library: a static program has no next pthread_create to find.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../int/background.h"

#include <dlfcn.h>
#include <errno.h>

#define EXPORT __attribute__((visibility("default")))

/* The C library's, or that of another library which is asked before it. */
static background_create_fn *next_create;

/* Before any other library's constructor: later, another thread may hold the loader's lock, in
 * a constructor that waits for a thread which starts one. */
__attribute__((constructor(102))) static void find_next(void) {
  *(void **)&next_create = dlsym(RTLD_NEXT, "pthread_create");
}

EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*body)(void *),
                          void *restrict argument) {
  if (next_create == NULL) find_next();
  if (next_create == NULL) return EAGAIN;
  background_prepare();
  int error = next_create(thread, attributes, body, argument);
  if (error == 0) background_start(next_create);
  return error;
}
