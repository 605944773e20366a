/*
 * The library in the life of a process: start, fork, exit.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../arena/arena.h"
#include "../arena/arena_purge.h"
#include "../arena/metadata.h"
#include "../front/reclaim.h"
#include "../front/sample.h"
#include "../front/thread.h"
#include "../int/background.h"
#include "../int/container.h"
#include "../observe/report.h"
#include "../os/os.h"
#include "../region/registry.h"
#include "../slab/pool.h"
#include "../support/config.h"
#include "../support/error.h"
#include "foreign.h"
#include "life.h"

#include <pthread.h>
#include <unistd.h>

/* Every gate, outermost first. Who holds the arena's or the metadata's enters no other.
 * The arena's is the last, because a fork that began in a signal handler may miss all
 * but the last. */
#define REGION(n) &region_gates[n]
static hak_gate_t *const gates[] = {
    &foreign_gate,  &pool_gate, &registry_gate,                                                              //
    REGION(0),      REGION(1),  REGION(2),      REGION(3),  REGION(4),  REGION(5),  REGION(6),  REGION(7),   //
    REGION(8),      REGION(9),  REGION(10),     REGION(11), REGION(12), REGION(13), REGION(14), REGION(15),  //
    &metadata_gate, &arena_gate};
#undef REGION
enum { GATES = sizeof gates / sizeof *gates, LEAVES = 2 };
static_assert((int)GATES == 5 + (int)REGION_GATES, "all of them");

void life_before_fork(void) {
  if (background_runs())
    arena_purge_fallen(); /* in the child nobody attends, and its page tables would be copied, too */
  gates_close(gates, GATES, LEAVES);
  thread_before_fork();
}
void life_after_fork_in_parent(void) { gates_open(gates, GATES); }
void life_after_fork_in_child(void) {
  background_after_fork();
  record_after_fork();
  thread_after_fork();
  reclaim_after_fork();
  registry_after_fork();
  arena_after_fork();
  error_after_fork();
  gates_open_in_child(gates, GATES);
}

/* A static program's libc may have allocated before, and the thread have a heap that knows nothing of samples. */
static void sample_from_now_on(uint64_t mean_bytes) {
  record_start(mean_bytes);
  heap_t *heap = thread_enter_if_any();
  if (heap == NULL) return;
  sample_notice(heap);
  thread_leave(heap);
}

/* Runs before any other library's constructor (-z initfirst), so our fork
 * handlers are the last before the fork and the first after it. In a static
 * program, and under another library that wants to be first, they may not be:
 * then the gates let the forking thread through. */
#if defined(__GLIBC__) /* which has not set `environ` yet, but gives us this: */
__attribute__((constructor(101))) static void start(int argc, char **argv, char **environment) {
  (void)argc, (void)argv;
#else
__attribute__((constructor(101))) static void start(void) {
  char **environment = environ;
#endif
  config_read(environment);
  bool is_meant = config()->sample_parent == 0 || config()->sample_parent == os_parent_id();
  if (config()->sample_bytes != 0 && is_meant) sample_from_now_on(config()->sample_bytes);
  thread_prepare();
  os_note_filter();
  container_look_at_start();
  os_prepare_fences(); /* for claims, while there is one thread */
  pthread_atfork(life_before_fork, life_after_fork_in_parent, life_after_fork_in_child);
}

/* Last of all destructors. Blocks that were freed twice and still wait in this thread's magazines or in the depot are
 * found here, unless they are other threads' and wait for these afterwards. */
__attribute__((destructor(101))) static void finish(void) {
  thread_flush();
  record_finish();
  /* A second copy of the library, behind one that serves the program, has nothing to tell. */
  if (report_is_wanted() && (arena_is_ready() || life_serves_malloc == NULL || life_serves_malloc())) report_at_exit();
}
