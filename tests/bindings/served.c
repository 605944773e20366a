/*
 * Says which version of hakmem serves the program, or that none does: for machines that no Python is here for.
 *
 * SPDX-License-Identifier: MIT
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "hak_version");
  bool (*owns)(const void *) = (bool (*)(const void *))dlsym(RTLD_DEFAULT, "hak_owns");
  if (version == NULL || owns == NULL) return puts("nobody") < 0;
  for (size_t bytes = 1; bytes < (size_t)64 << 20; bytes *= 2) {
    char *block = malloc(bytes);
    if (block == NULL || !owns(block)) return 1;
    memset(block, 1, bytes);
    block = realloc(block, 2 * bytes);
    if (block == NULL || !owns(block) || block[bytes - 1] != 1) return 1;
    free(block);
  }
  puts(version());
  return 0;
}
