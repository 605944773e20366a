/* See container.h. SPDX-License-Identifier: MIT */
#include "container.h"

#include "../os/cgroup.h"
#include "../os/os.h"
#include "../support/config.h"
#include "../support/limit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

static atomic32 is_looked_at; /* by a thread, just now; acquire and release: the readers' buffers */
static atomic32 is_known;     /* relaxed                                                          */

static bool may_look(void) { return config()->background && os_is_unfiltered(); }

static void look(void *looked) {
  cgroup_memory_t memory;
  bool found = cgroup_memory("", &memory);
  uint64_t near = found ? memory.limit - cgroup_reserve(memory.limit) : 0;
  limit_set_container(!found ? SIZE_MAX : near > memory.used ? near - memory.used : 0);
  limit_note_container(found ? memory.limit : 0);
  atomic32_store_relaxed(&is_known, found);
  *(bool *)looked = true;
}

static void look_if_alone(bool *looked) {
  if (os_thread_count() == 1) look(looked);
}

static void look_apart(bool *looked) { os_run_apart(look, looked); }

/* No handler runs meanwhile, and no other thread looks. */
static bool look_undisturbed(void (*way)(bool *looked)) {
  int saved_errno = errno;
  bool looked = false;
  uint32_t nobody = 0;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (may_look() && atomic32_cas_acquire(&is_looked_at, &nobody, 1)) {
    way(&looked);
    atomic32_store_release(&is_looked_at, 0);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = saved_errno;
  return looked;
}

bool container_look_alone(void) { return look_undisturbed(look_if_alone); }
bool container_look_apart(void) { return look_undisturbed(look_apart); }

bool container_is_known(void) { return atomic32_load_relaxed(&is_known) != 0; }

void container_after_fork(void) { atomic32_store_relaxed(&is_looked_at, 0); }
