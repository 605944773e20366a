/*
 * launch REPORT-FD PRELOAD COMMAND [ARGUMENT...]
 *
 * Runs COMMAND with LD_PRELOAD set to PRELOAD (unset when that is empty), and
 * writes what it cost to REPORT-FD:
 *   status=<exit code, or 128 + signal> seconds= user_s= system_s= peak_kib= minor_faults= major_faults=
 *
 * Why not wait4 from the script: Linux carries the peak of the memory that a
 * process had before exec over into ru_maxrss, so a child of a Python process
 * never shows less than Python's own size. This program is small (and linked
 * statically where that is possible), so what it starts can be smaller than
 * 1 MiB and still be seen.
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

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

int main(int argc, char **argv) {
  if (argc < 4) {
    dprintf(STDERR_FILENO, "usage: launch REPORT-FD PRELOAD COMMAND [ARGUMENT...]\n");
    return 2;
  }
  int report = atoi(argv[1]);
  if (fcntl(report, F_SETFD, FD_CLOEXEC) != 0) {
    dprintf(STDERR_FILENO, "launch: '%s' is not an open file descriptor\n", argv[1]);
    return 2;
  }

  double start = now();
  pid_t child = fork();
  if (child < 0) {
    dprintf(STDERR_FILENO, "launch: fork: %s\n", strerror(errno));
    return 1;
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever stops the launcher stops the workload */
    if (argv[2][0])
      setenv("LD_PRELOAD", argv[2], 1);
    else
      unsetenv("LD_PRELOAD");
    execvp(argv[3], argv + 3);
    dprintf(STDERR_FILENO, "launch: %s: %s\n", argv[3], strerror(errno));
    _exit(127);
  }

  int status;
  struct rusage usage;
  while (wait4(child, &status, 0, &usage) < 0)
    if (errno != EINTR) return 1;
  double wall = now() - start;

  int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  dprintf(report, "status=%d seconds=%.6f user_s=%.6f system_s=%.6f peak_kib=%ld minor_faults=%ld major_faults=%ld\n",
          code, wall, seconds(usage.ru_utime), seconds(usage.ru_stime), usage.ru_maxrss, usage.ru_minflt,
          usage.ru_majflt);
  return 0;
}
