/*
 * launch REPORT-FD COMMAND [ARGUMENT...]
 *
 * Runs COMMAND with the environment as it is and writes one line to REPORT-FD:
 *   done <wait status> <wall ns> <user us> <system us> <peak KiB> <minor faults> <major faults>
 *   exec <errno>                  COMMAND could not be started
 *   failed <errno> <what>         the launcher itself failed
 *
 * Why a program of its own: the kernel carries the peak of the memory that a
 * process had before exec over into ru_maxrss (exec_mmap in fs/exec.c), for
 * vfork too. A child of `hak` would never show less than hak's own size. This
 * program is static and less than 1 MiB.
 *
 * Processes that outlive their parent become children of this one. It stays until
 * the tool ends it, so that the tool finds them and ends them too.
 *
 * SPDX-License-Identifier: MIT
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int report;

static int fail(const char *what) {
  dprintf(report, "failed %d %s\n", errno, what);
  return 1;
}

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long long microseconds(struct timeval t) { return (long long)t.tv_sec * 1000000 + t.tv_usec; }

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  report = atoi(argv[1]);
  if (fcntl(report, F_SETFD, FD_CLOEXEC) != 0) return 2;

  /* Whoever ends the tool ends what it started. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return fail("prctl");
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return fail("prctl");

  long long start = now_ns();
  pid_t child = fork();
  if (child < 0) return fail("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(argv[2], argv + 2);
    dprintf(report, "exec %d\n", errno);
    _exit(127);
  }

  int status;
  struct rusage usage;
  while (wait4(child, &status, 0, &usage) < 0)
    if (errno != EINTR) return fail("wait4");
  long long wall = now_ns() - start;

  /* After "exec", this line is a second one that nobody reads. */
  dprintf(report, "done %d %lld %lld %lld %ld %ld %ld\n", status, wall, microseconds(usage.ru_utime),
          microseconds(usage.ru_stime), usage.ru_maxrss, usage.ru_minflt, usage.ru_majflt);
  for (;;) pause();
}
