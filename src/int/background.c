/* See background.h. SPDX-License-Identifier: MIT */
#include "background.h"

#include "../arena/arena.h"
#include "../front/decay.h"
#include "../front/flush.h"
#include "../os/os.h"
#include "../slab/pool.h"
#include "../support/config.h"
#include "../support/error.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

enum {
  ROUND_MS = 500,
  WORK_MS = 10,             /* between steps while there is work, as purge_idle counts them */
  QUIET_ROUNDS = 10,        /* then it ends: what is idle is given back within three seconds or so */
  TRY_AGAIN_MS = 60 * 1000, /* after a refusal */
  STACK_BYTES = 256 * 1024,
};

/* B1 wanted = 1, B2 look at `runs`: start it if not. The thread: B3 runs = 0, B4 look at
 * `wanted`: go on if it is set. Sequentially consistent: one of the two sees the other. */
static struct {
  atomic32 runs, wanted;
  atomic64 not_before_ms; /* relaxed: an hour earlier or later does no harm */
} background;

/* ---- The thread ------------------------------------------------------------------*/

/* A visit to all owners and to the arena; what takes longer goes on next time. Returns
 * whether there was something to do. */
static bool visit_all(void) {
  enum { STEPS = 16 }; /* of one owner, some tenths of a millisecond each */
  bool worked = false;
  uint64_t now_ms = os_now_ms();
  for (uint32_t id = 1; id <= pool_owner_count(); id++)
    for (int step = 0; step < STEPS && pool_tidy_one(id, now_ms, flush_step); step++) worked = true;
  for (int step = 0; step < STEPS && arena_tick(now_ms) > 0; step++) worked = true;
  error_settle();
  return worked;
}

/* Whether it is to go on, though it has nothing to do. */
static bool is_wanted_still(void) {
  atomic32_store_seq(&background.runs, 0); /* B3 */
  uint32_t nobody = 0;
  return atomic32_load_seq(&background.wanted) != 0 && atomic32_cas_acq_rel(&background.runs, &nobody, 1); /* B4 */
}

static void *run(void *unused) {
  (void)unused;
  os_name_thread("hakmem-int");
  do {
    for (int quiet = 0; quiet < QUIET_ROUNDS && pool_attached_count() > 0;) {
      atomic32_store_seq(&background.wanted, 0);
      bool worked = visit_all();
      os_sleep(worked ? WORK_MS : ROUND_MS);
      quiet = worked || atomic32_load_relaxed(&background.wanted) != 0 ? 0 : quiet + 1;
    }
  } while (is_wanted_still());
  return NULL;
}

/* ---- Starting it -----------------------------------------------------------------*/

/* A thread of the lowest demands: whatever the calling one has of priorities, it has not. */
static bool create(size_t stack_bytes) {
  static const struct sched_param no_priority = {0};
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack_bytes != 0) pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  pthread_attr_setschedparam(&attributes, &no_priority);
  pthread_t thread;
  bool created = pthread_create(&thread, &attributes, run, NULL) == 0;
  pthread_attr_destroy(&attributes);
  return created;
}

static void start(void) {
  int saved_errno = errno;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);     /* it inherits them blocked */
  bool created = create(STACK_BYTES) || create(0); /* thread-local variables may take more */
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!created) {
    atomic64_store_relaxed(&background.not_before_ms, os_now_ms() + TRY_AGAIN_MS);
    atomic32_store_release(&background.runs, 0);
  }
  errno = saved_errno;
}

void background_want(void) {
  if (pool_attached_count() < 2) return;
  if (atomic32_load_relaxed(&background.wanted) == 0) atomic32_store_seq(&background.wanted, 1); /* B1 */
  uint32_t nobody = 0;
  if (atomic32_load_seq(&background.runs) != 0 || os_now_ms() < atomic64_load_relaxed(&background.not_before_ms) ||
      !os_is_unfiltered() || !atomic32_cas_acq_rel(&background.runs, &nobody, 1)) /* B2 */
    return;
  start();
}

void background_prepare(void) {
  if (config()->background) decay_hook = background_want;
}

void background_after_fork(void) {
  atomic32_store_relaxed(&background.runs, 0);
  atomic32_store_relaxed(&background.wanted, 0);
}
