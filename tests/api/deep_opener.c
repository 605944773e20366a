/* A library that opens others, where it finds them: its RUNPATH is its own. SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stddef.h>

void *opener_open(const char *file, int mode);

/* Returns here, whatever the compiler makes of it. */
void *opener_open(const char *file, int mode) {
  void *volatile library = dlopen(file, mode);
  return library;
}
