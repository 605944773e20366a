/*
 * pthread_create(3) and thrd_create(3), so that the background thread is started where the program starts its
 * own, and the container is looked at before; and _Fork(3), which runs no fork handlers, as a child may use the
 * heap all the same: a program that has joined its threads does not know of ours. Only in the shared library
 * and in Rust's crate: a static program has no next pthread_create to find.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../front/thread.h"
#include "../int/background.h"
#include "../int/container.h"
#include "foreign.h"
#include "life.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/types.h>
#include <threads.h>

#define EXPORT __attribute__((visibility("default")))

typedef int thrd_create_fn(thrd_t *thread, thrd_start_t body, void *argument);
typedef pid_t fork_fn(void);

/* The C library's, or those of another library which is asked before it: their addresses, or 0.
 * Relaxed: whoever looks them up stores the same. */
static atomic64 next_create, next_thrd_create, next_fork;

/* Before any other library's constructor: later, another thread may hold the loader's lock, in
 * a constructor that waits for a thread which starts one; and _Fork may be called in a signal handler. */
__attribute__((constructor(102))) static void find_next(void) {
  atomic64_store_relaxed(&next_create, (uintptr_t)dlsym(RTLD_NEXT, "pthread_create"));
  atomic64_store_relaxed(&next_thrd_create, (uintptr_t)dlsym(RTLD_NEXT, "thrd_create"));
  atomic64_store_relaxed(&next_fork, (uintptr_t)dlsym(RTLD_NEXT, "_Fork"));
}

static own_thread_create_fn *find_create(void) {
  if (atomic64_load_relaxed(&next_create) == 0) find_next();
  return (own_thread_create_fn *)atomic64_load_relaxed(&next_create);
}

static void before_start(void) {
  foreign_prepare();
  thread_watch();
  background_prepare();
  container_look();
}

EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*body)(void *),
                          void *restrict argument) {
  own_thread_create_fn *create = find_create();
  if (create == NULL) return EAGAIN;
  before_start();
  int error = create(thread, attributes, body, argument);
  if (error == 0) background_start(create);
  return error;
}

/* C11. The C library's makes its thread without the call above; ours is one of POSIX in any case. */
EXPORT int thrd_create(thrd_t *thread, thrd_start_t body, void *argument) {
  own_thread_create_fn *create = find_create();
  thrd_create_fn *next = (thrd_create_fn *)atomic64_load_relaxed(&next_thrd_create);
  if (create == NULL || next == NULL) return thrd_error;
  before_start();
  int result = next(thread, body, argument);
  if (result == thrd_success) background_start(create);
  return result;
}

/* fork(2) of the C library does not come by here. Its _Fork is newer than the library may be (glibc 2.34, musl
 * 1.2.3). */
EXPORT pid_t _Fork(void);
EXPORT pid_t _Fork(void) {
  if (atomic64_load_relaxed(&next_create) == 0) find_next();
  fork_fn *next = (fork_fn *)atomic64_load_relaxed(&next_fork);
  if (next == NULL) {
    errno = ENOSYS;
    return -1;
  }
  life_before_fork();
  pid_t child = next();
  int saved_errno = errno;
  if (child == 0) life_after_fork_in_child();
  else life_after_fork_in_parent();
  errno = saved_errno;
  return child;
}
