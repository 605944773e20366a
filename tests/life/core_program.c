/*
 * core_program [abort]: has 120 MB in blocks of many sizes, some small ones freed again, says
 * "ready", and waits to be looked at or killed; with `abort`, it dumps its core itself.
 *
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 200000 };

int main(int argc, char **argv) {
  static char *blocks[BLOCKS];
  size_t sum = 0;
  int count = 0;
  for (; count < BLOCKS && sum < 120000000; count++) {
    size_t bytes = count % 1000 == 0 ? 6000000 : count % 100 == 0 ? 150000 : 16 + (size_t)count * 37 % 3000;
    blocks[count] = malloc(bytes);
    if (blocks[count] == NULL) return 1;
    memset(blocks[count], count, bytes);
    sum += bytes;
  }
  for (int i = 0; i < count; i += 7)
    if (i % 100 != 0) free(blocks[i]);
  if (argc > 1 && strcmp(argv[1], "abort") == 0) abort();
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}
