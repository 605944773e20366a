/*
 * The system layer for Linux: time, the process and its threads, files, waiting. See os.h for the contracts.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "linux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

os_call_counts_t os_calls;

/* ---- Time, identity --------------------------------------------------------*/
uint64_t os_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint32_t os_process_id(void) { return (uint32_t)getpid(); }
uint32_t os_parent_id(void) { return (uint32_t)getppid(); }
bool os_was_loaded(void) { return getauxval(AT_BASE) != 0; }
bool os_is_privileged(void) { return getauxval(AT_SECURE) != 0; }
const char *os_program_name(void) { return program_invocation_short_name; }

/* "Name:    123 kB" */
static void read_kib(const char *line, const char *name, size_t *bytes) {
  size_t length = strlen(name);
  if (strncmp(line, name, length) != 0) return;
  size_t kib = 0;
  for (const char *next = line + length; *next != '\0'; next++)
    if (*next >= '0' && *next <= '9') kib = kib * 10 + (size_t)(*next - '0');
  *bytes = HAK_KIB(kib);
}

bool linux_read_status(linux_status_line_fn *on_line, void *context) {
  char text[256], line[64];
  size_t length = 0;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  for (long n; (n = syscall(SYS_read, fd, text, sizeof text)) > 0;) {
    for (long i = 0; i < n; i++) {
      if (text[i] != '\n') {
        if (length < sizeof line - 1) line[length++] = text[i];
        continue;
      }
      line[length] = '\0';
      length = 0;
      on_line(line, context);
    }
  }
  os_close(fd);
  return true;
}

typedef struct {
  size_t resident, peak;
} process_memory_t;
static void read_memory(const char *line, void *memory) {
  read_kib(line, "VmRSS:", &((process_memory_t *)memory)->resident);
  read_kib(line, "VmHWM:", &((process_memory_t *)memory)->peak);
}
bool os_process_memory(size_t *resident, size_t *peak) {
  process_memory_t memory = {0};
  bool is_read = !linux_fault_here() && os_is_unfiltered() && linux_read_status(read_memory, &memory);
  *resident = memory.resident, *peak = memory.peak;
  return is_read && *resident > 0 && *peak > 0;
}

uint32_t os_thread_id(void) { return (uint32_t)syscall(SYS_gettid); }
bool os_thread_exists(uint32_t thread_id) {
  if (!os_is_unfiltered()) return true;
  int saved_errno = errno;
  bool exists = syscall(SYS_tgkill, getpid(), thread_id, 0) == 0 || errno != ESRCH;
  errno = saved_errno;
  return exists;
}

/* The directory has a link for each thread beside its own two. Without opening it: the
 * program may be about to use the number that a descriptor of ours would have. */
uint32_t os_thread_count(void) {
  struct stat task;
  if (linux_fault_here() || !linux_may_look_at_files()) return 0;
  /* Not libc's stat, which other libraries interpose. */
  if (syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &task, 0) != 0 || task.st_nlink < 3) return 0;
  return (uint32_t)task.st_nlink - 2;
}

void os_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

/* ---- Files ---------------------------------------------------------------
 * By syscall(2): libc's write, open and close are cancellation points, and a
 * thread must not be cancelled inside free.                                 */
bool os_write_all(int fd, const char *text, size_t bytes) {
  while (bytes > 0) {
    long n = syscall(SYS_write, fd, text, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text += n;
    bytes -= (size_t)n;
  }
  return true;
}

static uint64_t signal_bit(int signal) { return (uint64_t)1 << (signal - 1); }
static uint64_t write_signals(void) { return signal_bit(SIGPIPE) | signal_bit(SIGXFSZ); }

os_hold_t os_hold_write_signals(void) {
  uint64_t held = write_signals();
  os_hold_t hold = {.is_on = os_is_unfiltered()};
  hold.is_on = hold.is_on && syscall(SYS_rt_sigprocmask, SIG_BLOCK, &held, &hold.before, sizeof held) == 0;
  if (hold.is_on) syscall(SYS_rt_sigpending, &hold.pending, sizeof hold.pending);
  return hold;
}

void os_let_write_signals_go(const os_hold_t *hold) {
  const struct timespec no_time = {0};
  uint64_t new = write_signals() & ~hold->pending;
  if (!hold->is_on) return;
  int saved_errno = errno;
  while (syscall(SYS_rt_sigtimedwait, &new, NULL, &no_time, sizeof new) > 0) continue;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &hold->before, NULL, sizeof hold->before);
  errno = saved_errno;
}

void os_write_stderr(const char *text, size_t bytes) { os_write_all(STDERR_FILENO, text, bytes); }
/* The number behind the name of a directory of descriptors, or -1. */
static int descriptor_in(const char *path, const char *directory) {
  size_t length = strlen(directory);
  if (strncmp(path, directory, length) != 0 || path[length] == '\0') return -1;
  int number = 0;
  for (const char *digit = path + length; *digit != '\0'; digit++) {
    if (*digit < '0' || *digit > '9' || number > 99999) return -1;
    number = number * 10 + (*digit - '0');
  }
  return number;
}
/* Which of the process's own descriptors a name means; -1: none. */
static int descriptor_named(const char *path) {
  if (strcmp(path, "/dev/stdin") == 0) return STDIN_FILENO; /* as somebody may mean it: what is read there stays */
  if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
  if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
  int number = descriptor_in(path, "/dev/fd/");
  return number >= 0 ? number : descriptor_in(path, "/proc/self/fd/");
}
int os_open_for_writing(const char *path) {
  int own = descriptor_named(path);
  if (own >= 0) return (int)syscall(SYS_fcntl, own, F_DUPFD_CLOEXEC, 0); /* with its place in the file */
  return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}
int os_open_for_reading(const char *path) {
  if (linux_fault_here()) return -1;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
  struct stat file;
  if (fd < 0 || (syscall(SYS_fstat, fd, &file) == 0 && S_ISREG(file.st_mode))) return fd;
  os_close(fd);
  return -1;
}
size_t os_read(int fd, char *to, size_t bytes) {
  long n;
  if (linux_fault_here()) return 0;
  do n = syscall(SYS_read, fd, to, bytes);
  while (n < 0 && errno == EINTR);
  return n > 0 ? (size_t)n : 0;
}
void os_close(int fd) { syscall(SYS_close, fd); }

/* ---- Waiting -------------------------------------------------------------*/
void os_futex_wait(atomic32 *word, uint32_t expected, int milliseconds) {
  struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
  syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, expected, milliseconds < 0 ? NULL : &time, NULL, 0);
}
void os_futex_wake(atomic32 *word, int sleepers) {
  syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, sleepers, NULL, NULL, 0);
}
/* Not nanosleep, which is a cancellation point. */
void os_sleep(int milliseconds) {
  atomic32 nothing = {0};
  os_futex_wait(&nothing, 0, milliseconds);
}
