/* See background.h. SPDX-License-Identifier: MIT */
#include "background.h"

#include "../arena/arena_look.h"
#include "../arena/arena_purge.h"
#include "../base/probe.h"
#include "../front/bell.h"
#include "../front/flush.h"
#include "../front/strip.h"
#include "../front/thread.h"
#include "../os/os.h"
#include "../os/own_thread.h"
#include "../slab/pool.h"
#include "../slab/tidy.h"
#include "../support/config.h"
#include "../support/error.h"

#include <errno.h>
#include <signal.h>

enum {
  ROUND_MS = 50,
  FAST_ROUNDS = 10, /* after one in which there was work; then */
  SLOW_ROUND_MS = 250,
  PART_STEPS = 64,   /* of a round, some tenths of a millisecond each */
  PURGE_STEPS = 16,  /* of these the first: many threads must not keep dirty memory waiting */
  PAUSE_MS = 1,      /* between some: whoever waits for a gate had better have it */
  PAUSE_US = 300,    /* of processor time at the most without a pause, but for a step: see rest_if_due */
  LAST_MS = 20,      /* between looks whether it is the last          */
  SLOW_ROUNDS = 6,   /* before it sleeps: what lies idle is given back after a second or two */
  ALONE_MS = 2000,   /* before it ends: programs that start threads do so again soon      */
  LOOK_MS = 10000,   /* asleep, it looks whether it is alone: not every end of a thread rings */
  REFUSED_MS = 1000, /* then it may be tried again to start it        */
  /* Of the last thread of a process, in which its exit handlers run; but programs that lock
   * their memory, or limit it, have all of it to pay. */
  STACK_BYTES = 2 * 1024 * 1024,
};

static struct {
  atomic32 runs;         /* from the decision to start it until it ends           */
  sigset_t program_mask; /* of the thread that started it; written before it runs */
  atomic64 refused_ms;   /* when it could not be started; relaxed                 */
  atomic32 process_id;   /* of the process that all this is about; 0: not known   */
  atomic32 has_news;     /* the program has started a thread since this was asked: see asks_for_news */
} background;

bool background_runs(void) { return atomic32_load_relaxed(&background.runs) != 0; }

/* ---- The thread ------------------------------------------------------------------*/

/* Returns how many steps there were, `most` at the most. */
static int purge_old(uint64_t now_ms, int most) {
  int steps = 0;
  for (; steps < most && arena_tick(now_ms) > 0; steps++) os_sleep(PAUSE_MS);
  return steps;
}

/* A thread that is woken gets a processor soon, and keeps it for a millisecond or more. Who loses it while it has
 * claimed an owner, or is behind a gate, keeps others waiting until all that are in line have had their turns; so
 * this one sleeps before it may. */
static void rest_if_due(bool is_awaited) {
  static uint64_t rested_ns; /* its processor time when it slept last; another such thread's: then it sleeps at once */
  uint64_t now_ns = 0;
  bool is_known = os_thread_time(os_thread_id(), &now_ns), is_due = !is_known || now_ns - rested_ns > PAUSE_US * 1000;
  if (!is_due && !is_awaited) return;
  os_sleep(PAUSE_MS);
  rested_ns = now_ns;
}

/* A part of a round: visits owners, and purges. Returns whether there was something to do. */
static bool visit(void) {
  uint64_t now_ms = os_now_ms();
  tidied_t tidied = TIDY_MORE;
  int worked = purge_old(now_ms, PURGE_STEPS), steps = worked;
  /* A filter that is installed just now had better find no gate held, see work. */
  for (; steps < PART_STEPS && tidied != TIDY_NOTHING && !os_has_confined_itself(); steps++) {
    tidied = tidy_some(now_ms, flush_step, strip_if_unused);
    if (tidied >= TIDY_MORE) worked++;
    if (tidied != TIDY_NOTHING) rest_if_due(tidied == TIDY_AWAITED);
  }
  int purged = purge_old(now_ms, PART_STEPS - steps);
  steps += purged, worked += purged;
  error_settle();
  HAK_PROBE(round, steps, worked);
  return worked > 0 || steps == PART_STEPS;
}

/* Beside this one there is one thread, or none: the first of a process counts until all have ended. Where the
 * system does not say how many there are, as under a filter that hides others, those count that have a heap: of
 * one that is to get its own later this one may be gone then, until the next thread is started. And if the
 * first one has ended it is better not to stay. */
static bool is_alone(void) {
  uint32_t count = os_thread_count();
  return count != 0 ? count <= 2 : thread_leader_has_ended() || pool_attached_count() <= 1;
}

/* Whether the program has started a thread since this was asked last: one that has come and gone between two
 * looks has been company, and may have left much. */
static bool asks_for_news(void) { return atomic32_exchange_seq(&background.has_news, 0) != 0; }

/* Whether more is to come: it was rung, a thread is not idle yet, or more is dirty than was at the last look.
 * What has become so goes after a second, and may be our own doing, or a refill's, for which nobody rings. Not
 * whether anything is dirty: the system may refuse to take it. */
static bool goes_on(bool was_rung, size_t *dirty) {
  size_t before = *dirty;
  *dirty = arena_usage().dirty;
  return was_rung || *dirty > before || tidy_is_to_come(os_now_ms());
}

/* Until there was nothing to do for some rounds. Returns whether it shall end: it is alone,
 * or the program has installed a filter of system calls. */
static bool work(void) {
  int quiet = 0, alone_ms = 0, most = FAST_ROUNDS + (int)max_size(profile_wait(SLOW_ROUNDS), 2);
  size_t dirty = 0;
  while (quiet < most) {
    if (os_has_confined_itself()) return true; /* asked first, while no gate is held: it may end this thread */
    bool was_rung = bell_listen(), worked = visit(), is_more = goes_on(was_rung, &dirty);
    quiet = worked ? 0 : is_more && quiet >= FAST_ROUNDS ? FAST_ROUNDS : quiet + 1;
    int round_ms = quiet < FAST_ROUNDS ? ROUND_MS : SLOW_ROUND_MS;
    /* If the first thread has ended, nobody but the last one ends the process: us, at once. */
    bool may_be_last = thread_leader_has_ended();
    if (asks_for_news() && !may_be_last) alone_ms = 0;
    else if (!worked || may_be_last) alone_ms = is_alone() ? alone_ms + round_ms : 0;
    if (alone_ms >= (may_be_last ? 1 : ALONE_MS)) return true;
    if (worked) continue;
    if (may_be_last) os_sleep(LAST_MS), bell_sleep(SLOW_ROUND_MS);
    else thread_await_leaders_end(round_ms);
  }
  return false;
}

/* Whether there is something to look for. The bell is asked also, and last, where this is alone by now: who has ended
 * meanwhile has freed all it had before, and nobody else may ever come by. */
static bool sleep_until_rung(void) {
  while (!os_has_confined_itself() && !is_alone())
    if (bell_sleep(thread_leader_has_ended() ? SLOW_ROUND_MS : LOOK_MS)) return true;
  return !os_has_confined_itself() && bell_is_rung();
}

/* Nobody comes by any more, and who is left may never call: what has fallen lately does not wait for it. */
static void attend_no_more(void) {
  arena_attend(false);
  if (!os_has_confined_itself() && !thread_leader_has_ended()) arena_purge_fallen();
}

/* Whether it is over. The program may start a thread just now and find that we run. So we count its threads
 * once more when we have said that we do not, and then ask whether there was one that has ended already:
 * sequentially consistent, as the look in background_start, which comes after the thread has been started. */
static bool ends(void) {
  bell_leave();
  attend_no_more();
  atomic32_store_seq(&background.runs, 0);
  uint32_t nobody = 0;
  if (os_has_confined_itself()) return true; /* whoever is there: it is not started again either */
  bool is_left = is_alone() && (!asks_for_news() || thread_leader_has_ended());
  return is_left || !atomic32_cas_acq_rel(&background.runs, &nobody, 1);
}

static void *run(void *unused) {
  (void)unused;
  own_thread_begins("hakmem-int");
  do {
    arena_attend(true);
    while (!work() && sleep_until_rung()) continue;
  } while (!ends());
  /* If no other thread is left, the program's exit handlers run here. */
  if (thread_leader_has_ended()) pthread_sigmask(SIG_SETMASK, &background.program_mask, NULL);
  return NULL;
}

/* ---- Starting it -----------------------------------------------------------------*/

static bool was_refused_lately(void) {
  uint64_t refused_ms = atomic64_load_relaxed(&background.refused_ms);
  return refused_ms != 0 && os_now_ms() - refused_ms < REFUSED_MS; /* not if the clock has gone back */
}

/* A child that a bare clone(2) has made has what its parent knew, and no thread but its own. The one that puts
 * its number in forgets it, once; until then it seems to run, so nobody starts one that would be forgotten. */
static void notice_bare_child(void) {
  uint32_t here = os_process_id(), known = atomic32_load_relaxed(&background.process_id);
  if (known != here && atomic32_cas_acq_rel(&background.process_id, &known, here) && known != 0) {
    bell_leave();
    arena_attend(false);
    atomic32_store_seq(&background.runs, 0);
  }
}

/* Not where nobody has allocated, as in a second copy of the library behind one that serves the program. Nor where the
 * program has confined itself: it would make calls when the program expects none. Whose filter was there
 * before the program, as a container's, lets it start threads and give memory back, or there would be none just now. */
static bool may_start(void) {
  if (config()->over_time != OVER_TIME_ON || !arena_is_ready() || os_has_confined_itself()) return false;
  notice_bare_child();
  return atomic32_load_seq(&background.runs) == 0 && !was_refused_lately();
}

/* Where it seems to run, background_start asks alone: each start of a thread would take the calls twice. */
void background_prepare(void) {
  if (!background_runs() && may_start() && os_is_unfiltered()) os_fence_all_threads();
}

void background_start(own_thread_create_fn *create) {
  uint32_t nobody = 0;
  int saved_errno = errno;
  atomic32_store_seq(&background.has_news, 1); /* first: see ends */
  if (may_start()) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* it inherits them blocked; and no handler forks in between */
    if (atomic32_cas_acq_rel(&background.runs, &nobody, 1)) {
      background.program_mask = before;
      error_put_off(true); /* a handler of SIGABRT that jumps away would leave `runs` as it is */
      bool is_started = own_thread_start(create, STACK_BYTES, run);
      error_put_off(false);
      if (!is_started) {
        atomic64_add_relaxed(&os_calls.refused_threads, 1);
        atomic64_store_relaxed(&background.refused_ms, os_now_ms());
        atomic32_store_seq(&background.runs, 0);
      }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  errno = saved_errno;
  error_settle();
}

void background_after_fork(void) {
  os_fences_after_fork();
  atomic32_store_relaxed(&background.process_id, 0);
  atomic32_store_relaxed(&background.runs, 0);
  arena_attend(false);
  bell_leave();
}
