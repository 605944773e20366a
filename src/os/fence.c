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
#include <string.h>
#include <sys/stat.h>
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

/* Of the process that has looked whether /proc is its own. */
static struct {
  atomic32 process_id; /* 0: none has. Release: with what is below; acquire: before it is read */
  atomic64 device;
} own_proc;

void os_fences_after_fork(void) { atomic32_store_relaxed(&own_proc.process_id, 0); }

/* "NSpid:	17	3": the process's number in the namespace that /proc was mounted for, and in each below, down to its
 * own. One number: they are the same. */
static void count_numbers(const char *line, void *count) {
  if (strncmp(line, "NSpid:", 6) != 0) return;
  for (const char *next = line + 6; *next != '\0'; next++)
    *(int *)count += next[0] >= '0' && next[0] <= '9' && (next[-1] < '0' || next[-1] > '9');
}

/* Whether /proc numbers threads as this process does: it may have been mounted outside of its PID namespace. */
static bool proc_is_ours(void) {
  uint32_t here = os_process_id();
  if (atomic32_load_acquire(&own_proc.process_id) == here) return true;
  struct stat task;
  int numbers = 0;
  if (!linux_read_status(count_numbers, &numbers) || numbers != 1 ||
      syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &task, 0) != 0)
    return false;
  atomic64_store_relaxed(&own_proc.device, task.st_dev);
  atomic32_store_release(&own_proc.process_id, here);
  return true;
}

/* A program that closes descriptors which are not its own has closed ours by now, and that number may be another
 * file's. So what was read is not believed for its first letter, and by pread it is neither waited for nor taken from a
 * pipe; and what is no file of /proc stays open. */
static void close_ours(int fd) {
  struct stat file;
  if (syscall(SYS_fstat, fd, &file) == 0 && file.st_dev == atomic64_load_relaxed(&own_proc.device)) os_close(fd);
}

/* The beginning of a file of a thread, as text; "" if it may not be looked at. */
static void read_of_thread(uint32_t thread_id, const char *name, char *text, size_t bytes) {
  int saved_errno = errno;
  text[0] = '\0';
  if (!linux_fault_here() && linux_may_look_at_files() && proc_is_ours()) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%u/%s", thread_id, name);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      long length = syscall(SYS_pread64, fd, text, bytes - 1, (off_t)0);
      text[length > 0 ? length : 0] = '\0';
      close_ours(fd);
    }
  }
  errno = saved_errno;
}

/* The kernel answers "running", or with the call in which the thread waits and its arguments; "-1", if in none. For
 * that it has taken the locks, twice, under which a thread leaves its processor and is put back on one: what the thread
 * did before is seen behind the answer, and what was done before the question is seen by all that the thread goes on
 * to do (task_current_syscall and wait_task_inactive, Linux 2.6.28; proc_pid_syscall(5)). A thread that waits for
 * the child of a vfork is not gone: the child has its memory and its thread-local variables, and runs. */
static os_fenced_t look_at_thread(uint32_t thread_id) {
  enum { CLONE3 = 435 }; /* SYS_clone3, which older headers do not have */
  char text[24], *end;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  read_of_thread(thread_id, "syscall", text, sizeof text);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (strcmp(text, "running\n") == 0) return OS_FENCE_RUNS;
  long number = strtol(text, &end, 10);
  if (end == text || strncmp(end, " 0x", 3) != 0) return OS_FENCE_REFUSED;
  switch (number) {
#if defined(SYS_vfork)
    case SYS_vfork:
#endif
    case SYS_clone:
    case CLONE3: return OS_FENCE_RUNS;
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
  if (thread_id == os_thread_id()) return false;
  char text[64], *end; /* the time up to a tick of the clock, and two others; "0 0 0" where the kernel does not count */
  read_of_thread(thread_id, "schedstat", text, sizeof text);
  *ns = strtoull(text, &end, 10);
  return *ns != 0 && *end == ' ' && text[strspn(text, "0123456789 ")] == '\n';
}
