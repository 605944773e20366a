/* See background.h. SPDX-License-Identifier: MIT */
#include "background.h"

#include "../arena/arena.h"
#include "../front/bell.h"
#include "../front/flush.h"
#include "../front/strip.h"
#include "../front/thread.h"
#include "../os/os.h"
#include "../slab/tidy.h"
#include "../support/config.h"
#include "../support/error.h"

#include <errno.h>
#include <signal.h>

enum {
  ROUND_MS = 500,
  WORK_MS = 20,             /* between parts of a round, while there is work */
  PART_STEPS = 64,          /* some tenths of a millisecond each             */
  QUIET_ROUNDS = 6,         /* before it sleeps: what lies idle is given back after some seconds */
  STACK_BYTES = 512 * 1024, /* the last thread of a process runs its exit handlers */
};

static struct {
  atomic32 runs;         /* from the decision to start it until it ends           */
  sigset_t program_mask; /* of the thread that started it; written before it runs */
} background;

bool background_runs(void) { return atomic32_load_relaxed(&background.runs) != 0; }

/* ---- The thread ------------------------------------------------------------------*/

/* A part of a round: visits owners, and purges. Returns whether there was something to do. */
static bool visit(void) {
  uint64_t now_ms = os_now_ms();
  tidied_t tidied = TIDY_MORE;
  int steps = 0, worked = 0;
  for (; steps < PART_STEPS && tidied != TIDY_NOTHING; steps++) {
    tidied = tidy_some(now_ms, flush_step, strip_if_unused);
    worked += tidied == TIDY_MORE;
  }
  for (; steps < PART_STEPS && arena_tick(now_ms) > 0; steps++) worked++;
  error_settle();
  return worked > 0 || steps == PART_STEPS;
}

/* Beside this one there is one thread, or none: the first of a process counts until all
 * have ended. Where nobody says how many there are it is better not to stay. */
static bool is_alone(void) { return os_thread_count() <= 2; }

/* Nobody else would end the process. */
static bool is_left_behind(void) { return thread_leader_has_ended() && is_alone(); }

/* Until there was nothing to do for some rounds. */
static void work(void) {
  for (int quiet = 0; quiet < QUIET_ROUNDS && !is_left_behind();) {
    bool was_rung = bell_listen(), worked = visit();
    quiet = worked || was_rung ? 0 : quiet + 1;
    os_sleep(worked ? WORK_MS : ROUND_MS);
  }
}

/* Whether it is over. The program may start a thread just now and find that we run. So we
 * count its threads once more when we have said that we do not: sequentially consistent, as
 * the look in background_start, which comes after the thread has been started. */
static bool ends(void) {
  bell_leave();
  atomic32_store_seq(&background.runs, 0);
  uint32_t nobody = 0;
  return is_alone() || !atomic32_cas_acq_rel(&background.runs, &nobody, 1);
}

static void *run(void *unused) {
  (void)unused;
  os_name_thread("hakmem-int");
  do {
    work();
    /* Nobody rings for a thread that ends without having used the allocator. */
    while (!is_alone() && !bell_sleep(thread_leader_has_ended() ? ROUND_MS : OS_FOR_EVER)) continue;
  } while (!is_alone() || !ends());
  /* If no other thread is left, the program's exit handlers run here. */
  if (thread_leader_has_ended()) pthread_sigmask(SIG_SETMASK, &background.program_mask, NULL);
  return NULL;
}

/* ---- Starting it -----------------------------------------------------------------*/

/* Without the priority of the thread that starts it, which may be a realtime one. */
static bool start_with(background_create_fn *create, size_t stack_bytes) {
  static const struct sched_param no_priority = {0};
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack_bytes != 0) pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  pthread_attr_setschedparam(&attributes, &no_priority);
  pthread_t thread;
  bool created = create(&thread, &attributes, run, NULL) == 0;
  pthread_attr_destroy(&attributes);
  return created;
}

/* Not under a filter: it would make calls when the program expects none. */
static bool may_start(void) { return config()->background && os_is_unfiltered(); }

void background_prepare(void) {
  if (config()->background && !background_runs()) os_fence_all_threads();
}

void background_start(background_create_fn *create) {
  uint32_t nobody = 0;
  int saved_errno = errno;
  if (atomic32_load_seq(&background.runs) == 0 && may_start()) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* it inherits them blocked; and no handler forks in between */
    if (atomic32_cas_acq_rel(&background.runs, &nobody, 1)) {
      background.program_mask = before;
      /* Thread-local variables may need a larger stack. */
      if (!start_with(create, STACK_BYTES) && !start_with(create, 0)) atomic32_store_seq(&background.runs, 0);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  errno = saved_errno;
}

void background_after_fork(void) {
  atomic32_store_relaxed(&background.runs, 0);
  bell_leave();
}
