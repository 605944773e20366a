/*
 * A thread of the library's own, on Linux. See own_thread.h for the contracts.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "own_thread.h"

#include "os.h"

#include <sched.h>

/* Ours are those of the process's first thread: the one that starts us may be bound to its own. */
static bool first_threads_processors(cpu_set_t *processors) {
  return sched_getaffinity((pid_t)os_process_id(), sizeof *processors, processors) == 0;
}

#if defined(__GLIBC__) /* others cannot say so beforehand */
static void choose_processors(pthread_attr_t *attributes) {
  cpu_set_t processors;
  if (first_threads_processors(&processors)) pthread_attr_setaffinity_np(attributes, sizeof processors, &processors);
}
static void take_processors(void) {}
#else
static void choose_processors(pthread_attr_t *attributes) { (void)attributes; }
static void take_processors(void) {
  cpu_set_t processors;
  if (os_is_unfiltered() && first_threads_processors(&processors)) sched_setaffinity(0, sizeof processors, &processors);
}
#endif

/* Whether the calling thread has a realtime priority, which ours had better not have. */
static bool is_realtime(void) {
  struct sched_param priority;
  int policy;
  return pthread_getschedparam(pthread_self(), &policy, &priority) == 0 && (policy == SCHED_FIFO || policy == SCHED_RR);
}

static void choose_schedule(pthread_attr_t *attributes) {
  static const struct sched_param no_priority = {0};
  if (!is_realtime()) return;
  pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(attributes, SCHED_OTHER);
  pthread_attr_setschedparam(attributes, &no_priority);
}

static void choose_stack(pthread_attr_t *attributes, size_t most) {
  size_t bytes;
  if (pthread_attr_getstacksize(attributes, &bytes) == 0 && bytes > most) pthread_attr_setstacksize(attributes, most);
}

static bool start(own_thread_create_fn *create, size_t stack_bytes, void *(*body)(void *), bool chosen) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (chosen) choose_stack(&attributes, stack_bytes);
  /* Under a filter without a call that the program's own threads do not take. */
  if (chosen && os_is_unfiltered()) choose_schedule(&attributes), choose_processors(&attributes);
  pthread_t thread;
  bool created = create(&thread, &attributes, body, NULL) == 0;
  pthread_attr_destroy(&attributes);
  return created;
}

bool own_thread_start(own_thread_create_fn *create, size_t stack_bytes, void *(*body)(void *)) {
  return start(create, stack_bytes, body, true) || start(create, stack_bytes, body, false);
}

void own_thread_begins(const char *name) {
  take_processors();
  os_name_thread(name);
}
