/*
 * The system layer for Linux: fences in other threads, and what else can be seen of them. See os.h for the contracts.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "linux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- All threads -----------------------------------------------------------------*/

/* The process has to register once; whether a child inherits that is not documented. */
static bool register_for_fences(void) {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static bool fence(void) {
  if (linux_fault_here() || !os_is_unfiltered()) return false;
  int saved_errno = errno;
  bool fenced = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
  if (!fenced && errno == EPERM)
    fenced = register_for_fences() && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
  errno = saved_errno;
  return fenced;
}

void os_prepare_fences(void) {
  int saved_errno = errno;
  if (linux_was_unfiltered()) register_for_fences();
  errno = saved_errno;
}

bool os_fence_all_threads(void) {
  atomic64_add_relaxed(&os_calls.membarrier, 1);
  return fence();
}

/* ---- One thread, by its files in /proc -------------------------------------------*/

/* The beginning of a file, as text. false: there is none, or it may not be looked at. */
static bool read_beginning(const char *path, char *text, size_t bytes) {
  if (linux_fault_here() || !linux_may_look_at_files()) return false;
  int saved_errno = errno;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  if (fd >= 0) {
    length = os_read(fd, text, bytes - 1);
    os_close(fd);
  }
  text[length] = '\0';
  errno = saved_errno;
  return length > 0;
}

/* Whether /proc numbers threads as this process does: it may have been mounted outside of its PID namespace. */
static bool proc_is_ours(void) {
  static atomic32 known; /* the process that has seen it so; a forked child looks anew */
  uint32_t here = os_process_id();
  char text[24];
  if (atomic32_load_relaxed(&known) == here) return true;
  bool is_ours = read_beginning("/proc/self/stat", text, sizeof text) && strtoul(text, NULL, 10) == here;
  if (is_ours) atomic32_store_relaxed(&known, here);
  return is_ours;
}

static bool read_of_thread(uint32_t thread_id, const char *name, char *text, size_t bytes) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%u/%s", thread_id, name);
  return proc_is_ours() && read_beginning(path, text, bytes);
}

/* The kernel answers "running", or with the call, or the address, in which the thread waits. For that it has taken the
 * lock of the processor's queue from which the thread went, and under which it will be put back: what the thread did
 * before is seen behind the answer, and what was done before the question is seen by all that the thread goes on to do
 * (task_current_syscall and wait_task_inactive, Linux 2.6.28; proc_pid_syscall(5)). A thread that waits for
 * the child of a vfork is not gone: the child has its memory and its thread-local variables, and runs. */
static os_fenced_t look_at_thread(uint32_t thread_id) {
  char text[16];
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (!read_of_thread(thread_id, "syscall", text, sizeof text)) return OS_FENCE_REFUSED;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (text[0] == 'r') return OS_FENCE_RUNS;
  switch (strtol(text, NULL, 10)) {
#if defined(SYS_vfork)
    case SYS_vfork:
#endif
    case SYS_clone:
    case SYS_clone3: return OS_FENCE_RUNS;
    default: return OS_FENCED;
  }
}

os_fenced_t os_fence_thread(uint32_t thread_id) {
  if (os_fence_all_threads()) return OS_FENCED;
  os_fenced_t fenced = look_at_thread(thread_id);
  linux_counted(fenced != OS_FENCE_REFUSED, &os_calls.refused_membarriers);
  return fenced;
}

bool os_thread_time(uint32_t thread_id, uint64_t *ns) {
  enum { PER_THREAD = 4, SCHEDULED = 2 }; /* the kernel's numbers for clocks of threads */
  if (os_is_unfiltered()) {
    struct timespec time;
    clockid_t clock = (clockid_t)(~thread_id << 3 | PER_THREAD | SCHEDULED);
    if (linux_fault_here() || syscall(SYS_clock_gettime, clock, &time) != 0) return false;
    *ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    return true;
  }
  char text[32]; /* the time up to a tick of the clock, and others; "0 0 0" where the kernel does not count */
  if (thread_id == os_thread_id() || !read_of_thread(thread_id, "schedstat", text, sizeof text)) return false;
  *ns = strtoull(text, NULL, 10);
  return *ns != 0;
}
