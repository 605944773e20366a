/*
 * A small program that allocates in every range, links nothing of hakmem, and
 * prints "ok" when its memory was sound.
 *
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  enum { BLOCKS = 2000 };
  static unsigned char *blocks[BLOCKS];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      size_t bytes = i % 500 == 0 ? 5000000u : i % 50 == 0 ? 100000u : (size_t)i + 1;
      blocks[i] = malloc(bytes);
      if (blocks[i] == NULL) return puts("malloc failed"), 1;
      memset(blocks[i], i & 0xff, bytes);
    }
    for (int i = 0; i < BLOCKS; i++) {
      if (blocks[i][0] != (i & 0xff)) return puts("overwritten"), 1;
      free(blocks[i]);
    }
  }
  puts("ok");
  return 0;
}
