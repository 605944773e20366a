/*
 * Preloaded: when the program that OWN_TIME_OF names ends by exit, writes to the file that OWN_TIME names the processor
 * time that it has taken itself, in seconds, the most memory that was resident, in KiB, and the file that its allocator
 * is in. For profilers.py.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Not getrusage's, which begins at what the process had that has executed the program. */
static long resident_most_kib(void) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  long kib = 0;
  if (file == NULL) return 0;
  while (kib == 0 && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "VmHWM:", 6) == 0) kib = strtol(line + 6, NULL, 10);
  }
  fclose(file);
  return kib;
}

__attribute__((destructor)) static void tell(void) {
  const char *name = getenv("OWN_TIME"), *program = getenv("OWN_TIME_OF");
  bool is_meant = name != NULL && program != NULL && strcmp(program, program_invocation_short_name) == 0;
  FILE *file = is_meant ? fopen(name, "w") : NULL;
  struct rusage used;
  Dl_info where;
  if (file == NULL || getrusage(RUSAGE_SELF, &used) != 0) return;
  /* Not malloc, which may be in a program's own table of what it calls. */
  void *function = dlsym(RTLD_DEFAULT, "aligned_alloc");
  double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  fprintf(file, "%f %ld %s\n", seconds, resident_most_kib(), dladdr(function, &where) != 0 ? where.dli_fname : "?");
  fclose(file);
}
