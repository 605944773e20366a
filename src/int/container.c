/* See container.h. SPDX-License-Identifier: MIT */
#include "container.h"

#include "../os/cgroup.h"
#include "../os/os.h"
#include "../support/config.h"
#include "../support/limit.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>

static atomic32 is_looked_at;  /* by a thread, just now; acquire and release: the reader's buffers   */
static atomic32 is_known;      /* relaxed                                                            */
static atomic32 is_impossible; /* to look apart: the system is too old; relaxed                     */

static bool may_look(void) { return config()->background && os_is_unfiltered(); }

static bool look(void) {
  uint32_t nobody = 0;
  if (!atomic32_cas_acquire(&is_looked_at, &nobody, 1)) return false;
  cgroup_memory_t memory;
  bool found = cgroup_memory("", &memory);
  uint64_t near = found ? memory.limit - cgroup_reserve(memory.limit) : 0;
  limit_set_container(!found ? SIZE_MAX : near > memory.used ? near - memory.used : 0);
  atomic32_store_relaxed(&is_known, found);
  atomic32_store_release(&is_looked_at, 0);
  return true;
}

bool container_look_alone(void) {
  int saved_errno = errno;
  bool looked = false;
  if (may_look()) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    looked = os_thread_count() == 1 && look();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  errno = saved_errno;
  return looked;
}

static void *look_apart(void *looked) {
  if (os_take_no_part_in_descriptors()) *(bool *)looked = look();
  else atomic32_store_relaxed(&is_impossible, 1);
  return NULL;
}

bool container_look_apart(thread_create_fn *create) {
  enum { STACK_BYTES = 256 * 1024 };
  if (!may_look() || atomic32_load_relaxed(&is_impossible) != 0) return false;
  int saved_errno = errno;
  pthread_attr_t attributes;
  pthread_t thread;
  bool looked = false;
  if (pthread_attr_init(&attributes) == 0) {
    if (PTHREAD_STACK_MIN < STACK_BYTES) pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (create(&thread, &attributes, look_apart, &looked) == 0) pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
  }
  errno = saved_errno;
  return looked;
}

bool container_is_known(void) { return atomic32_load_relaxed(&is_known) != 0; }

void container_after_fork(void) { atomic32_store_relaxed(&is_looked_at, 0); }
