/* See container.h. SPDX-License-Identifier: MIT */
#include "container.h"

#include "../base/probe.h"
#include "../os/cgroup.h"
#include "../os/os.h"
#include "../support/config.h"
#include "../support/limit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

/* Somebody has looked, or cannot any more. Relaxed: it changes while there is one thread. */
static atomic32 is_done;

static HAK_COLD void look(bool may_look) {
  int saved_errno = errno;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  atomic32_store_relaxed(&is_done, 1);
  uint64_t limit;
  if (may_look && cgroup_memory_limit("", &limit)) {
    limit_set_container(limit);
    HAK_PROBE(container, limit);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = saved_errno;
}

static bool is_wanted(void) { return atomic32_load_relaxed(&is_done) == 0 && config()->over_time == OVER_TIME_ON; }

void container_look(void) {
  if (is_wanted()) look(os_thread_count() == 1); /* nobody says so where to open files may be forbidden */
}

void container_look_at_start(void) {
  if (os_hides_filters() && is_wanted()) look(os_was_loaded());
}
